"""Faults of the process and its surroundings."""

import json
import os
import resource
import subprocess
import threading
import time

import lamina
import table
import wire
from common import REQUEST, S

def start(args, model=None, env=None, before=None, port="0", **streams):
    command = [lamina.BINARY, "serve", model or lamina.default_model(), "--port", port]
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    return subprocess.Popen(command + list(args), env={**os.environ, **(env or {})}, preexec_fn=before, **options)


def wait_served(process, port, seconds=20):
    deadline = time.monotonic() + seconds * S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if wire.ask(port, "GET", "/readyz", timeout=2).status == 200:
                return True
        except (OSError, wire.Closed, wire.WireError):
            pass
        time.sleep(0.01)
    return False


def start_fails(bench, case):
    args = [table.expand(a, bench.names) for a in case.get("args", [])]
    process = start(args, case.get("model"), case.get("env"))
    try:
        stdout, stderr = process.communicate(timeout=15 * S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return f"{args} {case.get('env')}: started"
    text = stderr.decode("utf-8", "replace")
    if process.returncode != 2:
        return f"{args} {case.get('env')}: exit {process.returncode}: {text[-300:]}"
    names = [table.expand(n, bench.names) for n in case["names"]]
    if not any(n in text or n.replace("-", "_") in text for n in names):
        return f"{args}: message names none of {names}: {text[-300:]}"
    if len(text.strip().splitlines()) > 3 or stdout:
        return f"{args}: not one sentence on stderr: {text[-600:]!r} {stdout[-100:]!r}"
    return ""


def refused_or_running(args, before, what):
    """A start under a tight limit either works or ends with a sentence; never a signal, never half a server."""
    port = lamina.free_port()
    process = start(args, before=before, port=str(port), stdout=subprocess.DEVNULL)
    try:
        if wait_served(process, port, 5):
            reply = wire.ask(port, "POST", "/v1/encode", REQUEST, timeout=10 * S)
            if reply.status not in (200, 429, 503):
                return f"{what}: {reply!r}"
            process.terminate()
        stderr = process.communicate(timeout=15 * S)[1].decode("utf-8", "replace")
    except subprocess.TimeoutExpired:
        return f"{what}: does not end"
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if process.returncode < 0:
        return f"{what}: killed by signal {-process.returncode}: {stderr[-400:]}"
    if process.returncode and not stderr.strip():
        return f"{what}: exit {process.returncode} without a word"
    return ""


def as_user_with(limit):
    def before():
        resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(65532)
            os.setuid(65532)
    return before


def no_threads(bench, case):
    if lamina.SANITIZER == "tsan":
        return ""
    return refused_or_running(["--workers", "8"], as_user_with(2), "two processes at most")


def small_limits(bench, case):
    if lamina.SANITIZER:
        return ""  # a sanitizer's own needs are far above these limits

    def limited(kind, value):
        return lambda: resource.setrlimit(kind, (value, value))
    for kind, value, what in ((resource.RLIMIT_NOFILE, 8, "8 descriptors"), (resource.RLIMIT_NOFILE, 16, "16 descriptors"),
                              (resource.RLIMIT_STACK, 128 << 10, "128 KiB of stack"),
                              (resource.RLIMIT_AS, 48 << 20, "48 MiB of address space"),
                              (resource.RLIMIT_AS, 256 << 20, "256 MiB of address space"),
                              (resource.RLIMIT_FSIZE, 0, "no file size")):
        error = refused_or_running([], limited(kind, value), what)
        if error:
            return error
    return ""


def log_lost(bench, case):
    """Its log's reader is gone, never reads, or the disk is full: requests are served as before."""
    for what in ("gone", "blocked", "full"):
        port = lamina.free_port()
        read_end, write_end = os.pipe()
        with open("/dev/full", "wb") as full:
            stderr = full if what == "full" else write_end
            process = start(["--log-format", "json"], port=str(port), stdout=subprocess.DEVNULL, stderr=stderr)
        os.close(write_end)
        if what == "gone":
            os.close(read_end)
        try:
            if not wait_served(process, port):
                return f"{what}: not served"
            client = wire.Client(port, 10 * S)
            for _ in range(1500 if what == "blocked" else 50):
                if client.ask("GET", "/nowhere").status != 404:
                    return f"{what}: wrong answer"
            if client.ask("POST", "/v1/encode", REQUEST).status != 200:
                return f"{what}: wrong answer"
            client.close()
            process.terminate()
            if process.wait(15 * S) != 0:
                return f"{what}: exit {process.returncode}"
        except (TimeoutError, subprocess.TimeoutExpired):
            return f"{what}: hangs"
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            if what != "gone":
                os.close(read_end)
    return ""


def closed_streams(bench, case):
    for which in ((1,), (2,), (0, 1, 2)):
        def before(which=which):
            for fd in which:
                os.close(fd)
        port = lamina.free_port()
        process = start([], before=before, port=str(port), stdout=None, stderr=subprocess.DEVNULL)
        try:
            if not wait_served(process, port):
                return f"closed {which}: not served"
            client = wire.Client(port, 10 * S)
            for _ in range(20):
                if client.ask("POST", "/v1/encode", REQUEST).status != 200:
                    return f"closed {which}: wrong answer"
            client.close()
            process.terminate()
            if process.wait(15 * S) != 0:
                return f"closed {which}: exit {process.returncode}"
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    return ""


def load(port, seconds, clients=16, body=None):
    """A process that keeps `clients` busy; prints its counts as JSON at the end."""
    script = os.path.join(os.path.dirname(lamina.__file__), "load.py")
    command = ["python3", script, str(port), "--seconds", str(seconds), "--clients", str(clients)]
    return subprocess.Popen(command + ["--body", (body or REQUEST).decode()], stdout=subprocess.PIPE)


def stolen_cpu(bench, case):
    thieves = [subprocess.Popen(["python3", "-c", "while True: pass"]) for _ in range(8)]
    try:
        end = time.monotonic() + 10
        while time.monotonic() < end:
            if bench.server.encode({"tokens": [[1, 2, 3]]}).status != 200:
                return "not served"
            if bench.server.ask("GET", "/livez").status != 200:
                return "not live"
    finally:
        for t in thieves:
            t.kill()
            t.wait()
    return ""


def retrying(bench, case):
    """More clients than the queue holds, each honouring retry-after: all are served in the end."""
    with lamina.Server("--max-queue-items", 8, "--workers", 1) as server:
        # Enough work that requests overlap, on a small model as on a large one.
        items = 4 if bench.facts.width >= 128 or lamina.SANITIZER else 256
        body = wire.as_body({"tokens": [[1] * min(bench.facts.positions, 64)] * items})
        refused, wrong, lock = [0], [], threading.Lock()

        def client():
            for _ in range(2):
                for _ in range(40):
                    reply = wire.ask(server.port, "POST", "/v1/encode", body, timeout=30 * S)
                    if reply.status == 200:
                        break
                    wait = reply.get("retry-after") or ""
                    with lock:
                        refused[0] += 1
                        if reply.status != 429 or not wait.isdigit() or reply.code() != "overloaded":
                            wrong.append(f"{reply!r} retry-after {wait!r}")
                            return
                    time.sleep(min(float(reply.get("retry-after-ms") or int(wait) * 1000) / 1000, 0.2))
                else:
                    wrong.append("never served")
        threads = [threading.Thread(target=client, daemon=True) for _ in range(case["count"])]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60 * S)
        if any(t.is_alive() for t in threads):
            return "some clients hang"
        if server.stop() != 0:
            return "exit status"
        return f"{wrong[:2]}" if wrong else ("" if refused[0] else "nothing was ever refused: the row tests nothing")


def probes_under_load(bench, case):
    body = wire.as_body({"tokens": [[1] * min(bench.facts.positions, 128)] * 2})
    loader = load(bench.server.port, 3, 16, body)
    time.sleep(0.5)
    times, client = [], wire.Client(bench.server.port)
    end = time.monotonic() + 2
    while time.monotonic() < end:
        for path in ("/livez", "/metrics"):
            began = time.monotonic()
            if client.ask("GET", path).status != 200:
                return f"{path} fails"
            times.append((time.monotonic() - began) * 1000)
        time.sleep(0.005)
    client.close()
    counts = json.loads(loader.communicate()[0])
    if set(counts["statuses"]) - {"200", "429"}:
        return f"load saw {counts['statuses']}"
    p99 = sorted(times)[int(len(times) * 0.99)]
    return f"p99 of probes {p99:.1f} ms" if p99 > 100 * S else ""
