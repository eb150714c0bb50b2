#!/usr/bin/env python3
"""Overload: ten times the clients that reach peak throughput. Only 200 and 429, goodput and probes hold,
memory stays under the bound printed at start, and afterwards everything is as before.

run.py [--seconds S] [--peak-clients N] [--factor K]
Clients are closed loops in processes of their own; a 429 is answered at once by the next try, which is the
hardest kind of client.
"""

import argparse
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LIB = os.path.join(HERE, "..", "lib")
sys.path.insert(0, LIB)

import lamina
import report


def start_load(port, clients, seconds, body):
    command = [sys.executable, os.path.join(LIB, "load.py"), str(port), "--clients", str(clients),
               "--seconds", str(seconds), "--body", json.dumps(body)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def start_probe(port, seconds):
    return subprocess.Popen([sys.executable, os.path.join(LIB, "probe.py"), str(port), "--seconds", str(seconds)],
                            stdout=subprocess.PIPE)


def result(process):
    return json.loads(process.communicate()[0])


def memory_bound(server):
    for line in server.log_lines():
        if line.get("msg") == "memory":
            return line["bound_bytes"]
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--peak-clients", type=int, default=8)
    parser.add_argument("--factor", type=int, default=10)
    options = parser.parse_args()
    out = report.Report("overload")
    slower = lamina.SLOWER
    with lamina.Server("--max-queue-items", 64) as server:
        facts = lamina.Facts(server)
        body = {"tokens": [[1 + i % 9 for i in range(min(facts.positions, 48))]] * 2}
        bound = memory_bound(server)
        out.check(bound, "start prints its memory bound", "no line with msg memory and bound_bytes")
        result(start_load(server.port, options.peak_clients, 1, body))
        peak = result(start_load(server.port, options.peak_clients, options.seconds / 2, body))
        out.check(set(peak["statuses"]) == {"200"}, "peak", f"{peak['statuses']}")
        load = start_load(server.port, options.peak_clients * options.factor, options.seconds, body)
        time.sleep(0.3)
        probe = start_probe(server.port, options.seconds - 0.8)
        over, probes = result(load), result(probe)
        statuses = set(over["statuses"])
        out.check(statuses <= {"200", "429"}, "only 200 and 429", f"{over['statuses']}")
        out.check("429" in statuses, "the load is an overload", f"{over['statuses']}")
        out.check(over["lost"] == 0, "no lost connection", f"{over['lost']}")
        share = over["good_per_second"] / peak["good_per_second"]
        out.check(share >= 0.9 or slower > 1, "goodput of 90 % of peak", f"{share:.3f}")
        out.check(probes["wrong"] == 0, "probes", f"{probes}")
        out.check(probes["p99_ms"] < 20 * slower, "/livez p99 below 20 ms", f"{probes}")
        used = server.peak_bytes()
        out.check(bound is None or slower > 1 or used <= bound, "memory within the bound", f"{used} of {bound} bytes")
        began = time.monotonic()
        out.check(server.encode(body).status == 200, "recovers", "no 200 after the load")
        out.check(time.monotonic() - began < 2 * slower, "recovers at once", f"{time.monotonic() - began:.1f} s")
        after = result(start_load(server.port, options.peak_clients, 1, body))
        out.check(set(after["statuses"]) == {"200"}, "as before afterwards", f"{after['statuses']}")
        left = server.stop()
        out.check(left == 0, "exit status", str(left))
        out.check(not server.reports(), "sanitizer", server.reports())
        out.note(f"peak {peak['good_per_second']:.0f}/s with {options.peak_clients} clients; with "
                 f"{options.peak_clients * options.factor}: {over['good_per_second']:.0f}/s ({share:.2f} of peak), "
                 f"{over['statuses']}, p99 of the served {over['p99_ms']:.0f} ms; /livez p50 {probes['p50_ms']:.2f} "
                 f"p99 {probes['p99_ms']:.2f} max {probes['max_ms']:.2f} ms of {probes['count']}; "
                 f"memory {used / 1e6:.1f} of {(bound or 0) / 1e6:.1f} MB")
    out.finish()


if __name__ == "__main__":
    main()
