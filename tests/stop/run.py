#!/usr/bin/env python3
"""The end of the process: rows 149 to 155 of the fault catalogue.

run.py [--runs N]   N: stops at full load
"""

import argparse
import os
import random
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import lamina
import report
import wire

S = lamina.SLOWER


def body_of(facts, items=4, length=64):
    return wire.as_body({"tokens": [[1 + i % 9 for i in range(min(facts.positions, length))]] * items})


def idle(out):
    with lamina.Server() as server:
        began = time.monotonic()
        left = server.stop()
        out.check(left == 0, "row 149, SIGTERM idle", f"exit {left}: {server.log_text()[-500:]}")
        out.check(time.monotonic() - began < 1.0 * S, "row 149, SIGTERM idle", f"{time.monotonic() - began:.2f} s")
        out.check(not server.reports(), "row 149, sanitizer", server.reports())
    with lamina.Server() as server:
        left = server.stop(signal.SIGINT)
        out.check(left == 0, "row 149, SIGINT idle", f"exit {left}")
    with lamina.Server() as server, wire.Conn(server.port) as kept, wire.Conn(server.port) as half:
        kept.send(wire.build("GET", "/livez"))
        kept.reply()
        half.send(b"POST /v1/encode HTTP/1.1\r\nHos")
        time.sleep(0.05)
        left = server.stop(seconds=5)
        out.check(left == 0, "row 149, SIGTERM with open connections", f"exit {left}")


class Load:
    """Clients that ask until the server refuses connections. What was admitted must be answered."""

    def __init__(self, port, body, clients):
        self.port, self.body = port, body
        self.statuses, self.broken, self.refused = {}, [], 0
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.run, daemon=True) for _ in range(clients)]
        for t in self.threads:
            t.start()

    def run(self):
        while True:
            try:
                conn = wire.Conn(self.port, 30 * S)
            except OSError:
                self.refused += 1
                return
            try:
                while True:
                    conn.send(wire.build("POST", "/v1/encode", self.body, (), f"127.0.0.1:{self.port}"))
                    reply = conn.reply()
                    with self.lock:
                        self.statuses[reply.status] = self.statuses.get(reply.status, 0) + 1
                    if (reply.get("connection") or "").lower() == "close":
                        break
            except wire.Closed:
                pass  # an idle connection may be ended before it is used again: nothing was admitted
            except (wire.WireError, OSError) as e:
                with self.lock:
                    self.broken.append(repr(e))
            finally:
                conn.close()

    def join(self):
        for t in self.threads:
            t.join(30 * S)
        return not any(t.is_alive() for t in self.threads)


def full_load(out, runs):
    rng = random.Random(150)
    answered = 0
    for run in range(runs):
        label = f"row 150, SIGTERM at full load, run {run}"
        with lamina.Server("--workers", 1 + run % 2) as server:
            facts = lamina.Facts(server)
            load = Load(server.port, body_of(facts), 12)
            time.sleep(0.05 + rng.random() * 0.2)
            began = time.monotonic()
            left = server.stop(seconds=15)
            took = time.monotonic() - began
            ended = load.join()
            out.check(left == 0, label, f"exit {left} after {took:.1f} s: {server.log_text()[-600:]}")
            out.check(ended and not load.broken, label, f"replies cut off: {load.broken[:3]}")
            out.check(set(load.statuses) <= {200, 429}, label, f"{load.statuses}")
            out.check(took < 5 * S, label, f"took {took:.1f} s")
            out.check(not server.reports(), label, server.reports())
            answered += sum(load.statuses.values())
    out.note(f"{runs} stops at full load, {answered} replies, each 200 or 429")


def drain_delay(out):
    with lamina.Server("--drain-delay-ms", int(800 * S)) as server:
        server.send_signal(signal.SIGTERM)
        time.sleep(0.1 * S)
        ready = wire.ask(server.port, "GET", "/readyz").status
        live = wire.ask(server.port, "GET", "/livez").status
        work = server.encode({"tokens": [[1, 2, 3]]}).status
        out.check((ready, live, work) == (503, 200, 200), "row 150, drain delay",
                  f"/readyz {ready} (503), /livez {live} (200), /v1/encode {work} (200)")
        began = time.monotonic()
        left = server.wait(10)
        out.check(left == 0, "row 150, drain delay", f"exit {left}")
        out.check(time.monotonic() - began > 0.3 * S, "row 150, drain delay is kept", "ended too early")


def second_signal(out):
    for number, status in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        with lamina.Server("--drain-delay-ms", 60000) as server:
            server.send_signal(signal.SIGTERM)
            time.sleep(0.1 * S)
            out.check(server.alive(), "row 151, drains", "ended during the drain delay")
            began = time.monotonic()
            left = server.stop(number, 5)
            out.check(left in (status, -number), f"row 151, second signal {number}", f"exit {left}, wanted {status}")
            out.check(time.monotonic() - began < 1.0 * S, f"row 151, second signal {number}", "not at once")


def while_loading(out):
    for pause in (0.0, 0.002, 0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3):
        with lamina.Server(wait=False) as server:
            time.sleep(pause * S)
            left = server.stop(seconds=10)
            # Before `serve` begins, the signal's own action ends the process.
            early = pause < 0.1
            out.check(left == 0 or early and left == -signal.SIGTERM, f"row 152, SIGTERM {pause} s after the start",
                      f"exit {left}: {server.log_text()[-500:]}")


def suspended(out):
    """Many requests wait in the queue, some clients have left, then the stop."""
    with lamina.Server("--workers", 1, "--stop-timeout-ms", int(8000 * S)) as server:
        facts = lamina.Facts(server)
        body = body_of(facts, 4, 64)
        conns = []
        for i in range(30):
            c = wire.Conn(server.port, 30 * S)
            c.send(wire.build("POST", "/v1/encode", body, (), f"127.0.0.1:{server.port}"))
            conns.append(c)
        time.sleep(0.03)
        for c in conns[20:]:
            c.close()
        server.send_signal(signal.SIGTERM)
        wrong = []
        for c in conns[:20]:
            try:
                reply = c.reply()
                if reply.status not in (200, 429):
                    wrong.append(repr(reply))
            except (wire.Closed, wire.WireError, TimeoutError) as e:
                wrong.append(repr(e))
        left = server.wait(15)
        out.check(not wrong, "row 152, admitted requests are answered", f"{len(wrong)}: {wrong[:3]}")
        out.check(left == 0, "row 152, stop with suspended requests", f"exit {left}: {server.log_text()[-500:]}")
        out.check(not server.reports(), "row 152, sanitizer", server.reports())


def stop_timeout(out):
    """More work than the stop may take: it ends in time all the same, and each client hears of it."""
    with lamina.Server("--workers", 1, "--stop-timeout-ms", int(300 * S), "--max-queue-items", 100000) as server:
        facts = lamina.Facts(server)
        body = wire.as_body({"tokens": [[1] * facts.positions] * min(200, facts.limits["max_items"])})
        conns = [wire.Conn(server.port, 30 * S) for _ in range(8)]
        for c in conns:
            c.send(wire.build("POST", "/v1/encode", body, (), f"127.0.0.1:{server.port}"))
        time.sleep(0.1)
        began = time.monotonic()
        server.send_signal(signal.SIGTERM)
        statuses = []
        for c in conns:
            try:
                statuses.append(c.reply().status)
            except (wire.Closed, wire.WireError, TimeoutError) as e:
                statuses.append(repr(e))
        left = server.wait(10)
        took = time.monotonic() - began
        out.check(left == 0 and took < 4 * S, "stop timeout", f"exit {left} after {took:.1f} s")
        out.check(set(statuses) <= {200, 429, 503, 504}, "stop timeout", f"{statuses}")


def killed(out):
    port = lamina.free_port()
    with lamina.Server(port=port) as server:
        facts = lamina.Facts(server)
        load = Load(port, body_of(facts), 4)
        time.sleep(0.1)
        server.send_signal(signal.SIGKILL)
        server.wait(5)
        began = time.monotonic()
        with lamina.Server(port=port) as again:
            took = time.monotonic() - began
            out.check(again.encode({"tokens": [[1]]}).status == 200, "row 153, start after SIGKILL", "not served")
            out.check(took < 1 + again.ready_seconds + 0.5 * S, "row 153, start after SIGKILL", f"{took:.2f} s")
            left = again.stop(seconds=10)
            out.check(left == 0, "row 153, start after SIGKILL", f"exit {left}")
        load.join()


def other_signals(out):
    with lamina.Server("--default-deadline-ms", int(1000 * S)) as server:
        for number in (signal.SIGPIPE, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
            server.send_signal(number)
            time.sleep(0.05)
            out.check(server.alive() and server.encode({"tokens": [[1]]}).status == 200,
                      f"row 155, {number.name}", "does not survive")
        facts = lamina.Facts(server)
        with wire.Conn(server.port, 30 * S) as c:
            server.send_signal(signal.SIGSTOP)
            c.send(wire.build("POST", "/v1/encode", body_of(facts), (), f"127.0.0.1:{server.port}"))
            time.sleep(1.5 * S)
            server.send_signal(signal.SIGCONT)
            status = c.reply().status
            out.check(status in (200, 504, 408), "row 155, SIGSTOP and SIGCONT", f"{status}")
        out.check(server.encode({"tokens": [[1]]}).status == 200, "row 155, after SIGCONT", "not served")
        left = server.stop()
        out.check(left == 0, "row 155, exit status", str(left))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=10 if S == 1 else 4)
    options = parser.parse_args()
    out = report.Report("stop")
    idle(out)
    full_load(out, options.runs)
    for part in (drain_delay, second_signal, while_loading, suspended, stop_timeout, killed, other_signals):
        try:
            part(out)
        except (OSError, wire.Closed, wire.WireError, lamina.StartFailed) as e:
            out.fail(part.__name__, repr(e))
    out.finish()


if __name__ == "__main__":
    main()
