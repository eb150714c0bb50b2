#!/usr/bin/env python3
"""Load tests over HTTP with wrk: a table and JSON, client-side and server-side times side by side.

run.py [--seconds S] [--kinds a,b,...] [--connections 1,8,64] [--json FILE] [--checks]

--checks also measures what HTTP adds to a short request at concurrency 1 (against `lamina bench`), the share
of the engine's own throughput that 64 connections reach, the cost of statistics, the time from start to
ready and the resident memory. LAMINA_BIN and LAMINA_MODEL choose program and model.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "lib"))

import lamina
import wire

KINDS = ("short-tokens", "mid-tokens", "long-tokens", "mixed-tokens", "batch-tokens", "short-texts", "mixed-texts",
         "batch-texts", "short-tokens-stats", "mid-tokens-stats", "batch-tokens-stats", "short-tokens-base64",
         "openai-short")
TIMES = {"queue": "lamina_queue_duration_seconds", "compute": "lamina_compute_duration_seconds",
         "total": "lamina_request_duration_seconds"}


def server_times(before, after):
    """Mean times in ms that the server measured between two scrapes."""
    means = {}
    for name, metric in TIMES.items():
        count = lamina.metric_sum(after, metric + "_count") - lamina.metric_sum(before, metric + "_count")
        total = lamina.metric_sum(after, metric + "_sum") - lamina.metric_sum(before, metric + "_sum")
        means[name] = total / count * 1000 if count else None
    return means


def wait_idle(server, seconds=20):
    """What the last run left in the queue (its clients are gone) must not burden the next."""
    end = time.monotonic() + seconds
    while lamina.metric_sum(server.metrics(), "lamina_inflight_requests") > 1 and time.monotonic() < end:
        time.sleep(0.02)


def wrk(server, facts, kind, connections, seconds):
    wait_idle(server)
    environment = {**os.environ, "LAMINA_POSITIONS": str(facts.positions), "LAMINA_VOCAB": str(facts.vocab),
                   "LAMINA_MODEL": facts.name}
    before = server.metrics()
    done = subprocess.run(["wrk", "-t", "1", "-c", str(connections), "-d", f"{seconds}s", "--latency", "-s",
                           os.path.join(HERE, "encode.lua"), f"http://127.0.0.1:{server.port}", "--", kind],
                          env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    line = [l for l in done.stdout.splitlines() if l.startswith("json ")]
    if done.returncode or not line:
        raise SystemExit(f"wrk failed: {done.stdout}")
    result = json.loads(line[0][5:])
    result.update(kind=kind, connections=connections, per_second=result["requests"] / result["seconds"],
                  server_ms=server_times(before, server.metrics()))
    return result


def show(results):
    print(f"{'kind':20} {'conn':>4} {'req/s':>9} {'p50 ms':>8} {'p99 ms':>8} {'mean ms':>8} | server: "
          f"{'queue':>7} {'compute':>8} {'total':>8} {'not 200':>8}")
    for r in results:
        inside = [f"{v:8.3f}" if v is not None else "       -" for v in r["server_ms"].values()]
        print(f"{r['kind']:20} {r['connections']:4} {r['per_second']:9.1f} {r['p50_ms']:8.3f} {r['p99_ms']:8.3f} "
              f"{r['mean_ms']:8.3f} |         {' '.join(inside)} {r['not_200']:8}")


def engine_ms(shape, copies=1):
    """Milliseconds of each round of the engine alone, from `lamina bench`; one list for each of the copies that
    run at once, as the server's workers do."""
    command = [lamina.BINARY, "bench", lamina.default_model(), "--shape", shape, "--rounds", "21", "--json"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(copies)]
    return [json.loads(p.communicate()[0])[0]["ms"]["all"] for p in running]


def round_trips(port, data, count):
    """One request after another on a kept connection: milliseconds of each, and those that the reply says the
    engine took (0 where it says nothing)."""
    times, inside, conn = [], [], wire.Conn(port)
    for _ in range(count):
        began = time.perf_counter()
        conn.send(data)
        reply = conn.sock.recv(1 << 16)
        times.append((time.perf_counter() - began) * 1000)
        _, found, rest = reply.partition(b'"compute_ms":')
        inside.append(float(rest.split(b",", 1)[0]) if found else 0.0)
    conn.close()
    return times, inside


def http_adds(server, length):
    """Microseconds that a request takes at its client beyond the engine's own time, as told in the same reply."""
    body = wire.as_body({"tokens": [[1 + i % 9 for i in range(length)]], "encoding_format": "base64"})
    data = wire.build("POST", "/v1/encode", body, (), f"127.0.0.1:{server.port}")
    probe = wire.build("GET", "/livez", None, (), f"127.0.0.1:{server.port}")
    times, inside = round_trips(server.port, data, 1000)
    nothing, _ = round_trips(server.port, probe, 300)
    added = sorted((t - i) * 1000 for t, i in zip(times, inside))
    return {"http_adds_us": statistics.median(added), "http_adds_us_p5": added[len(added) // 20],
            "engine_us": statistics.median(inside) * 1000, "client_us": statistics.median(times) * 1000,
            "bench_us": statistics.median(engine_ms(f"1x{length}")[0]) * 1000,
            "livez_us": statistics.median(nothing) * 1000}


def checks(server, facts, seconds):
    """Ratios, each from runs that alternate: noise of the machine meets both sides."""
    share, cost = [], {}
    workers = facts.info.get("workers") or 1
    length = min(128, facts.positions)
    items = max(1, facts.limits["max_batch_tokens"] // length)
    for _ in range(3):
        engine = sum(1000 * items / statistics.median(ms) for ms in engine_ms(f"{items}x{length}", workers))
        share.append(wrk(server, facts, "mid-tokens", 64, seconds)["per_second"] / engine)
    for kind in ("short-tokens", "mid-tokens", "batch-tokens"):
        ratios = []
        for _ in range(5):
            plain = wrk(server, facts, kind, 4, seconds)["per_second"]
            counted = wrk(server, facts, kind + "-stats", 4, seconds)["per_second"]
            if counted:
                ratios.append(plain / counted - 1)
        cost[kind] = statistics.median(ratios) if ratios else None
    ready, resident = [], []
    for _ in range(5):
        with lamina.Server() as s:
            ready.append(s.ready_seconds * 1000)
            s.encode({"tokens": [[1] * facts.positions]})
            resident.append(s.rss_bytes() / 1e6)
            s.stop()
    weights = os.path.getsize(os.path.join(os.path.realpath(server.model), "model.safetensors")) / 1e6
    return {**http_adds(server, min(16, facts.positions)), "workers": workers,
            "share_of_engine_at_64": statistics.median(share), "statistics_cost": cost,
            "start_to_ready_ms": statistics.median(ready), "resident_mb": statistics.median(resident),
            "weights_file_mb": weights}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--connections", default="1,8,64")
    parser.add_argument("--json")
    parser.add_argument("--checks", action="store_true")
    options = parser.parse_args()
    results, found = [], None
    with lamina.Server() as server:
        facts = lamina.Facts(server)
        for kind in [k for k in options.kinds.split(",") if k]:
            if "texts" in kind and not facts.has_texts:
                continue
            for connections in options.connections.split(","):
                results.append(wrk(server, facts, kind, int(connections), options.seconds))
        show(results)
        if options.checks:
            found = checks(server, facts, options.seconds)
            print(json.dumps(found, indent=1))
        server.stop()
    if options.json:
        with open(options.json, "w") as f:
            json.dump({"model": facts.name, "results": results, "checks": found}, f, indent=1)
    wrong = sum(r["not_200"] for r in results if r["connections"] <= 64)
    if wrong:
        raise SystemExit(f"{wrong} replies were not 200")


if __name__ == "__main__":
    main()
