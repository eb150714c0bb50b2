#!/usr/bin/env python3
"""Overload: ten times the clients that reach peak throughput, and ten times the requests that can be served.
Only 200 and 429, goodput and probes hold, memory stays under the bound printed at start, and afterwards
everything is as before.

run.py [--seconds S] [--peak-clients N] [--factor K] [--rounds R]
Clients are closed loops in a process of their own. After a 429 each waits so long that all together offer K
times the peak. Peak and overload take turns, and medians are compared: the machine may be busy with others.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LIB = os.path.join(HERE, "..", "lib")
sys.path.insert(0, LIB)

import lamina
import report


def start_load(port, clients, seconds, body, pause_ms=0):
    command = [sys.executable, os.path.join(LIB, "load.py"), str(port), "--clients", str(clients),
               "--seconds", str(seconds), "--body", json.dumps(body), "--pause-ms", str(pause_ms)]
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


def measure(server, body, options):
    """Rounds of peak and overload: ([peak], [overload], [probes])."""
    peaks, overs, probes = [], [], []
    seconds = options.seconds / options.rounds
    many = options.peak_clients * options.factor
    for _ in range(options.rounds):
        peaks.append(result(start_load(server.port, options.peak_clients, max(1.0, seconds / 2), body)))
        rate = statistics.median(p["good_per_second"] for p in peaks)
        load = start_load(server.port, many, seconds, body, 1000 * many / (options.factor * rate))
        time.sleep(0.3)
        probe = start_probe(server.port, seconds - 0.6)
        overs.append(result(load))
        probes.append(result(probe))
    return peaks, overs, probes


def seconds_to_recover(server, body, limit):
    """Until a lone request is served again: what the load left in the queue may still be there."""
    began = time.monotonic()
    while server.encode(body).status != 200:
        if time.monotonic() - began > limit:
            return None
        time.sleep(0.02)
    return time.monotonic() - began


def statuses_of(results):
    total = {}
    for r in results:
        for status, count in r["statuses"].items():
            total[status] = total.get(status, 0) + count
    return total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=9, help="of overload, all rounds together")
    parser.add_argument("--rounds", type=int, default=3)
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
        peaks, overs, probes = measure(server, body, options)
        recovered = seconds_to_recover(server, body, 2 * slower)
        out.check(set(statuses_of(peaks)) == {"200"}, "peak", f"{statuses_of(peaks)}")
        seen = statuses_of(overs)
        out.check(set(seen) <= {"200", "429"}, "only 200 and 429", f"{seen}")
        out.check("429" in seen, "the load is an overload", f"{seen}")
        out.check(sum(o["lost"] for o in overs) == 0, "no lost connection", f"{[o['lost'] for o in overs]}")
        peak = statistics.median(p["good_per_second"] for p in peaks)
        over = statistics.median(o["good_per_second"] for o in overs)
        share = over / peak
        out.check(share >= 0.9 or slower > 1, "goodput of 90 % of peak", f"{share:.3f}")
        out.check(all(p["wrong"] == 0 for p in probes), "probes", f"{probes}")
        p99 = statistics.median(p["p99_ms"] for p in probes)
        out.check(p99 < 20 * slower, "/livez p99 below 20 ms", f"{probes}")
        used = server.peak_bytes()
        out.check(bound is None or slower > 1 or used <= bound, "memory within the bound", f"{used} of {bound} bytes")
        out.check(recovered is not None, "recovers within 2 s", "no 200 after the load")
        after = result(start_load(server.port, options.peak_clients, 1, body))
        out.check(set(after["statuses"]) == {"200"}, "as before afterwards", f"{after['statuses']}")
        left = server.stop()
        out.check(left == 0, "exit status", str(left))
        out.check(not server.reports(), "sanitizer", server.reports())
        out.note(f"peak {peak:.0f}/s with {options.peak_clients} clients; with "
                 f"{options.peak_clients * options.factor} clients: {over:.0f}/s ({share:.2f} of peak), {seen}, p99 of "
                 f"the served {statistics.median(o['p99_ms'] for o in overs):.0f} ms; /livez p50 "
                 f"{statistics.median(p['p50_ms'] for p in probes):.2f} p99 {p99:.2f} ms; memory {used / 1e6:.1f} of "
                 f"{(bound or 0) / 1e6:.1f} MB; recovered after {recovered or -1:.2f} s")
    out.finish()


if __name__ == "__main__":
    main()
