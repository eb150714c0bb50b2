#!/usr/bin/env python3
"""Checks how the program was built and what is installed: hardening, libraries, `make install` and its reverse."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = os.environ.get("LAMINA_BIN", str(ROOT / "build" / "lamina"))
LIBRARIES = r"lib(c|m|microhttpd|uv|jansson|pthread)\.so|ld-linux"

passed = failed = 0


def check(ok, what, seen=""):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    print(("ok   " if ok else "FAIL ") + what + ("" if ok else f": {seen}"))


def readelf(option):
    return subprocess.run(["readelf", "-W", option, BINARY], check=True, capture_output=True, text=True).stdout


def check_hardening():
    header, segments, dynamic = readelf("-h"), readelf("-l"), readelf("-d")
    # Dynamic symbols only: debugging information may name anything.
    imported = set(re.findall(r"UND (\w+)", readelf("--dyn-syms")))
    check("DYN" in header, "position-independent")
    check("GNU_RELRO" in segments, "read-only relocations")
    check(re.search(r"BIND_NOW|FLAGS_1.*NOW", dynamic), "bound at start (full RELRO)")
    stack = re.search(r"GNU_STACK.*", segments)
    check(stack and "RWE" not in stack.group(0), "stack is not executable", stack)
    check(not re.search(r"LOAD.*\bRWE\b", segments), "no segment is writable and executable")
    check("__stack_chk_fail" in imported, "stack protector")
    check(any(name.endswith("_chk") for name in imported - {"__stack_chk_fail"}), "fortified calls")
    check(not re.search(r"RPATH|RUNPATH", dynamic), "no search path for libraries")
    if "X86-64" in header:
        # The loader honours it where libc was built with it too; what is ours is endbr64 at every function.
        landings = pathlib.Path(BINARY).read_bytes().count(b"\xf3\x0f\x1e\xfa")
        check(landings > 200, "control-flow protection", f"{landings} endbr64")
    needed = re.findall(r"NEEDED.*\[(.*)\]", dynamic)
    check(all(re.match(LIBRARIES, name) for name in needed), "no library but those named", needed)


def installed(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def check_unit(folder):
    """The unit's own command, in the unit's own environment, with a model that exists."""
    unit = (folder / "usr/lib/systemd/system/lamina.service").read_text()
    environment = dict(line.split("=", 1)[1].split("=", 1) for line in unit.splitlines() if line.startswith("Environment="))
    environment = {name: str(ROOT / "tests/data/norms/layer-post") if name == "MODEL" else v for name, v in environment.items()}
    command = re.search(r"^ExecStart=(.*)$", unit, re.M).group(1)
    command = re.sub(r"\$\{(\w+)\}", lambda m: environment[m.group(1)], command).split()
    command[0] = str(folder) + command[0]
    told = subprocess.run(command + ["--check-config"], env=environment, capture_output=True, text=True, check=False)
    check(told.returncode == 0, "the unit's command takes the unit's environment", told)


def check_install():
    folder = ROOT / "build" / "test-install"
    shutil.rmtree(folder, ignore_errors=True)
    for target, wanted in (("install", ["usr/bin/lamina", "usr/lib/systemd/system/lamina.service",
                                        "usr/share/bash-completion/completions/lamina", "usr/share/man/man1/lamina.1"]),
                           ("uninstall", [])):
        make = subprocess.run(["make", target, f"DESTDIR={folder}", "PREFIX=/usr"], cwd=ROOT, capture_output=True, text=True,
                              check=False, env={k: v for k, v in os.environ.items() if not k.startswith("MAKE")})
        check(make.returncode == 0, f"make {target}", make.stderr)
        check(installed(folder) == wanted, f"make {target} leaves what it should", installed(folder))
        if target == "install":
            version = subprocess.run([folder / "usr/bin/lamina", "version"], capture_output=True, text=True, check=False)
            check(version.returncode == 0 and version.stdout.strip(), "the installed program says its version", version)
            check_unit(folder)


def main():
    check_hardening()
    check_install()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
