#!/usr/bin/env python3
"""Replays every row of the fault catalogue and checks the invariants after each.

run.py [--slow] [--row N]... [--list]
"""

import argparse
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "lib")]

import common
import judge
import kinds
# Faults are about the server: a small model keeps the table quick.
os.environ["LAMINA_MODEL"] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "models",
                                          "families", "st-mean-prompts-new")
import lamina
import report
import table
import wire
from canary import Canary

S = lamina.SLOWER


def ms(value):
    return str(int(value * S))


SERVERS = {
    "plain": [],
    "quick": ["--header-timeout-ms", ms(500), "--body-timeout-ms", ms(600), "--write-timeout-ms", ms(1500),
              "--idle-timeout-ms", ms(1000)],
    "small": ["--max-body-bytes", "65536", "--max-reply-bytes", "65536"],
    "many": ["--max-connections", "12000"],
}


class Bench:
    """One running server with its canary, and what it must be like between two cases."""

    def __init__(self, args, out):
        self.out = out
        self.server = lamina.Server(*args)
        self.facts = lamina.Facts(self.server)
        self.names = names_of(self.server, self.facts)
        self.canary = Canary(self.server.port, {"tokens": [[1, 2, 3], [4]]})
        time.sleep(0.1)
        self.fds = self.settle(self.server.fds)
        self.threads = self.server.threads()
        self.gaps = []

    @staticmethod
    def settle(count):
        """A count that has stood still for a while (connections of the start are gone)."""
        last, since = count(), time.monotonic()
        while time.monotonic() - since < 0.15:
            now = count()
            if now != last:
                last, since = now, time.monotonic()
            time.sleep(0.01)
        return last

    def livez_ms(self):
        began = time.monotonic()
        status = wire.ask(self.server.port, "GET", "/livez").status
        return (time.monotonic() - began) * 1000 if status == 200 else 1e9

    def broken_invariant(self):
        """What is not as it was; "" where all is well."""
        if not self.server.alive():
            return f"server ended: {self.server.process.returncode} {self.server.log_text()[-1500:]}"
        if min(self.livez_ms() for _ in range(1)) > 100 * S and min(self.livez_ms(), self.livez_ms()) > 100 * S:
            return "/livez took longer than 100 ms three times"
        deadline = time.monotonic() + 3 * S
        while self.server.fds() > self.fds or self.server.threads() != self.threads:
            if time.monotonic() > deadline:
                return (f"fds {self.server.fds()} (was {self.fds}), "
                        f"threads {self.server.threads()} (was {self.threads})")
            time.sleep(0.005)
        wrong = self.canary.take_wrong()
        return f"canary: {wrong[:3]}" if wrong else ""

    def run_case(self, case, label):
        if case.get("texts") and not self.facts.has_texts:
            return
        try:
            if "kind" in case:
                error, gap = kinds.KINDS[case["kind"]](self, case) or "", False
            else:
                error, gap = judge.run(case, self.names, self.server.port)
        except (OSError, wire.WireError, wire.Closed, lamina.StartFailed, KeyError, ValueError) as e:
            error, gap = f"{type(e).__name__} {e}", False
        if gap:
            self.gaps.append(f"row {case['row']}: {case['name']}: {case['gap']['why']}")
        if error:
            self.canary.take_wrong()
        self.out.check(not error, label, error or "")
        broken = self.broken_invariant()
        if broken:
            self.out.fail(label + ": afterwards", broken)
            self.fds = self.settle(self.server.fds)

    def end(self, label):
        """Counters add up, the log is one object a line without input, the stop is clean."""
        self.canary.stop()
        if self.server.alive():
            self.out.check(not common.lost_requests(self.server), label + ": counters", common.lost_requests(self.server))
            left = self.server.stop()
            self.out.check(left == 0, label + ": exit status after SIGTERM", str(left))
        text = self.server.log_text()
        self.out.check("<script>" not in text, label + ": log holds no input", "<script> found")
        odd = [l for l in text.splitlines() if l and not l.startswith("{")]
        if not lamina.SANITIZER:
            self.out.check(not odd, label + ": log is one JSON object a line", repr(odd[:2]))
        self.out.check(not self.server.reports(), label + ": sanitizer", self.server.reports())


def names_of(server, facts):
    return {
        "host": f"127.0.0.1:{server.port}", "port": server.port, "model": facts.name,
        "vocab": facts.vocab, "positions": facts.positions, "max_input": facts.max_input,
        "width": facts.width, "layers": facts.layers, "max_items": facts.limits["max_items"],
        "max_body": facts.limits["max_body_bytes"], "req": '{"tokens":[[1,2,3]]}',
    }


def label_of(case):
    text = f"row {case['row']}, {case['name']}"
    if "it" in case:
        text += f" [{case['it'][:60]!r}]"
    return text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--slow", action="store_true", help="also the rows that take minutes")
    parser.add_argument("--row", type=int, action="append", help="only this row")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    rows = [r for r in table.read() if not options.row or r["row"] in options.row]
    if options.list:
        for r in rows:
            print(r["row"], r["name"], r.get("suite") or r.get("owner") or ("slow" if r.get("slow") else ""))
        return
    out = report.Report("faults")
    here = [r for r in rows if "owner" not in r and "suite" not in r and (options.slow or not r.get("slow"))]
    gaps = []
    for server, args in SERVERS.items():
        mine = [r for r in here if r.get("server", "plain") == server]
        if not mine:
            continue
        bench = Bench(args, out)
        for row in mine:
            began = time.monotonic()
            for case in table.cases(row):
                bench.run_case(case, label_of(case))
                if not bench.server.alive():
                    bench = Bench(args, out)
            if time.monotonic() - began > 5:
                out.note(f"row {row['row']}, {row['name']}: {time.monotonic() - began:.1f} s")
        bench.end(f"server {server}")
        gaps += bench.gaps
    for gap in sorted(set(gaps), key=lambda g: int(g.split()[1].rstrip(":"))):
        out.note(f"known gap, {gap}")
    if not options.row:
        out.note(f"{sum('suite' in r for r in rows)} rows run in other suites, "
                 f"{sum('owner' in r for r in rows)} belong to later work (--list)")
    out.finish()


if __name__ == "__main__":
    main()
