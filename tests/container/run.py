#!/usr/bin/env python3
"""Runs the built image as production would: read-only, non-root, without capabilities, and asks it.

Skipped, with a word, where the image was not built (`make image`) or no engine runs containers.
"""
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODEL = ROOT / "models" / "all-MiniLM-L6-v2"
IMAGE = os.environ.get("IMAGE", "lamina")
MAX_BYTES = 25_000_000
HARDENED = ["--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--network=host", "--memory=1g"]

# How containers are run, in order of trial: crun, the default of podman, refuses some cgroup layouts.
ENGINES = [
    ["docker"],
    ["podman"],
    ["podman", "--runtime=runc"],
    ["podman", "--runtime=runc", "--cgroup-manager=cgroupfs"],
]
# Where limits cannot be raised, and no systemd keeps podman's timers.
SMALL_MACHINE = ["--ulimit=nofile=1024:1024", "--ulimit=nproc=1000:1000", "--no-healthcheck"]

passed = failed = 0


def check(ok, what):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    print(("ok   " if ok else "FAIL ") + what, flush=True)


def output(command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, (done.stdout + done.stderr).strip()


def ask(port, path, body=None):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body,
                                     {"Content-Type": "application/json"} if body else {})
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except OSError:
        return 0, b""


def find_engine():
    """(command that runs a container, why not)"""
    why = "neither docker nor podman is installed"
    for engine in ENGINES:
        if not shutil.which(engine[0]):
            continue
        code, said = output([engine[0], "image", "inspect", IMAGE])
        if code:
            why = f"{engine[0]} has no image {IMAGE}: run `make image`"
            continue
        for limits in ([], SMALL_MACHINE):
            run = [*engine, "run", "--rm", *HARDENED, *limits]
            code, said = output([*run, IMAGE, "version"])
            if code == 0:
                return run, ""
            why = f"{engine[0]} cannot run a container here: {said.splitlines()[-1] if said else code}"
    return None, why


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def check_serving(run):
    port = free_port()
    name = f"lamina-test-{os.getpid()}"
    command = [*run, f"--name={name}", "-v", f"{MODEL}:/model:ro", "-e", f"LAM_PORT={port}", "-e", "LAM_DRAIN_DELAY_MS=200",
               "-e", "LAM_HOST=127.0.0.1", IMAGE, "serve", "all-MiniLM-L6-v2=/model"]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        until = time.monotonic() + 30
        while ask(port, "/readyz")[0] != 200 and time.monotonic() < until and server.poll() is None:
            time.sleep(0.05)
        check(ask(port, "/readyz")[0] == 200, "becomes ready with a read-only root")
        status, body = ask(port, "/v1/encode", b'{"texts": ["a cat sat on the mat"]}')
        vector = json.loads(body)["embeddings"][0] if status == 200 else []
        check(len(vector) == 384, f"embeds a text (status {status}, {len(vector)} numbers)")
        _, top = output([run[0], "top", name, "user"])
        check("root" not in top and "65532" in top or "lamina" in top, f"runs as user 65532: {top!r}")
        code, said = output([run[0], "exec", name, "/usr/bin/lamina", "healthcheck", f"http://127.0.0.1:{port}"])
        check(code == 0, f"is healthy by its own healthcheck: {code} {said}")
        code, _ = output([run[0], "exec", name, "/bin/sh", "-c", "true"])
        check(code != 0, "has no shell")
        output([run[0], "kill", "--signal=TERM", name])
        try:
            code = server.wait(20)
        except subprocess.TimeoutExpired:
            code = None
        check(code == 0, f"ends on SIGTERM with status 0: {code}")
    finally:
        if server.poll() is None:
            output([run[0], "rm", "-f", name])
            server.kill()
        if failed:
            print(server.stdout.read())


def main():
    run, why = find_engine()
    if not run or not MODEL.is_dir():
        print(f"skipped: {why or 'no model'}")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    engine = run[0]
    _, size = output([engine, "image", "inspect", "--format", "{{.Size}}", IMAGE])
    check(0 < int(size) <= MAX_BYTES, f"the image has {size} bytes, at most {MAX_BYTES}")
    code, said = output([*run, IMAGE, "serve", "/model"])
    check(code == 2 and "config.json" in said, f"without a model: exit 2 and a sentence: {code} {said[-200:]}")
    check_serving(run)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
