#!/usr/bin/env python3
"""Checks that the committed Unicode tables are what tools/unicode/generate.py makes."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
code = subprocess.run([sys.executable, str(ROOT / "tools" / "unicode" / "generate.py"), "--check"]).returncode
print(f"{int(code == 0)} passed, {int(code != 0)} failed")
sys.exit(code)
