#!/usr/bin/env python3
"""Asks a probe route again and again, and prints its times as JSON. probe.py PORT [--seconds S] [--path P]"""

import argparse
import json
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import wire


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--path", default="/livez")
    parser.add_argument("--pause", type=float, default=0.005)
    options = parser.parse_args()
    client, times, wrong = wire.Client(options.port, 10), [], 0
    end = time.monotonic() + options.seconds
    while time.monotonic() < end:
        began = time.monotonic()
        try:
            wrong += client.ask("GET", options.path).status != 200
        except (OSError, wire.Closed, wire.WireError):
            wrong += 1
        times.append((time.monotonic() - began) * 1000)
        time.sleep(options.pause)
    times.sort()
    print(json.dumps({"count": len(times), "wrong": wrong, "p50_ms": times[len(times) // 2],
                      "p99_ms": times[int(len(times) * 0.99)], "max_ms": times[-1]}))


if __name__ == "__main__":
    main()
