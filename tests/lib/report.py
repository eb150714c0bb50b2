"""Counts cases and ends a suite with the line that tests/run reads."""

import os
import sys


class Report:
    def __init__(self, suite):
        self.suite = suite
        self.passed = 0
        self.failed = 0

    def check(self, ok, name, why=""):
        if ok:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAIL {self.suite}: {name}: {why}"[:1500], flush=True)
        return bool(ok)

    def fail(self, name, why):
        return self.check(False, name, why)

    def note(self, text):
        print(f"{self.suite}: {text}", flush=True)

    def finish(self):
        print(f"{self.passed} passed, {self.failed} failed", flush=True)
        sys.stdout.flush()
        # Daemon threads of a failed case must not keep the suite from ending.
        os._exit(1 if self.failed else 0)
