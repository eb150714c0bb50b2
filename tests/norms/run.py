#!/usr/bin/env python3
"""Requests whose norms run on batch statistics: declared, refused where they cannot be, and never mixed with another request.

run.py [--requests N] [--seed S] [--workers 1,4]
Every body's bytes are first asked for with nobody else there; then many clients send the bodies in random order.
"""

import argparse
import json
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import lamina
import report
import wire

CLIENTS = 12
DATA = os.path.join(lamina.ROOT, "tests", "data")
# Model, and the overrides it takes.
MODELS = [("batch-of-request-post", [None, "batch", "running"]), ("batch-running-pre", [None, "batch", "running"]),
          ("power-of-request", [None, "batch"]), ("instance-running", [None, "running"]), ("layer-post", [None])]


def bodies_of(rng, overrides, count):
    """Requests of one to six items, most with the override changed from one to the next."""
    bodies = []
    for i in range(count):
        body = {"tokens": [[rng.randrange(97) for _ in range(rng.randint(1, 39))] for _ in range(rng.randint(1, 6))],
                "encoding_format": "base64"}
        override = overrides[i % len(overrides)]
        if override:
            body["norm"] = {"statistics": override}
        if i % 4 == 3:
            body["statistics"] = "summary"
        bodies.append(body)
    return bodies


def send(client, body):
    reply = client.ask("POST", "/v1/encode", body)
    if reply.status == 429:
        time.sleep(0.01)
        return send(client, body)
    if reply.status != 200:
        raise wire.WireError(f"{reply!r}")
    value = reply.json()
    return value["embeddings"], value["batch_dependent"], value.get("sites")


class Load:
    """Clients that send bodies in random order and compare with what each gave alone."""

    def __init__(self, port, bodies, known, seed):
        self.port, self.bodies, self.known = port, bodies, known
        self.order = list(range(len(bodies))) * 3
        random.Random(seed).shuffle(self.order)
        self.lock = threading.Lock()
        self.compared, self.differing, self.errors = 0, [], []

    def next(self):
        with self.lock:
            return self.order.pop() if self.order else None

    def client(self):
        client = wire.Client(self.port, 120 * lamina.SLOWER)
        at = self.next()
        while at is not None:
            try:
                got = send(client, self.bodies[at])
            except (OSError, wire.WireError, wire.Closed) as e:
                with self.lock:
                    self.errors.append(repr(e))
                return
            with self.lock:
                self.compared += 1
                if got != self.known[at]:
                    self.differing.append(at)
            at = self.next()
        client.close()

    def run(self):
        threads = [threading.Thread(target=self.client) for _ in range(CLIENTS)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()


def check_model(out, name, overrides, options):
    bodies = bodies_of(random.Random(options.seed), overrides, options.requests)
    known = None
    for workers in options.workers.split(","):
        with lamina.Server("--workers", workers, model=os.path.join(DATA, "norms", name)) as server:
            if known is None:
                client = wire.Client(server.port, 60 * lamina.SLOWER)
                known = [send(client, b) for b in bodies]
                check_flags(out, name, server, bodies, known)
                client.close()
            load = Load(server.port, bodies, known, f"{options.seed}/{workers}")
            load.run()
            label = f"{name}, {workers} workers, {CLIENTS} clients"
            out.check(not load.errors, label, f"{load.errors[:3]}")
            out.check(not load.differing, label, f"requests {load.differing[:5]} were touched by others")
            out.check(load.compared == 3 * len(bodies), label, f"only {load.compared} came back")
            out.note(f"{label}: {load.compared} requests, {len(load.differing)} differ")
            out.check(server.stop() == 0, label + ": exit status")
            out.check(not server.reports(), label + ": sanitizer", server.reports())


def check_flags(out, name, server, bodies, known):
    """The flag says what the model and the override imply; and where it is set, company within the request matters."""
    info = server.info()
    own = any(site["source"] == "batch" for site in info["norms"])
    for body, got in zip(bodies, known):
        override = body.get("norm", {}).get("statistics")
        want = override == "batch" or (own and override is None)
        out.check(got[1] == want, f"{name}, override {override}: batch_dependent", f"{got[1]}")
    body = next(b for b in bodies if len(b["tokens"]) > 1)
    client = wire.Client(server.port, 60 * lamina.SLOWER)
    whole, flag, _ = send(client, body)
    alone, _, _ = send(client, dict(body, tokens=body["tokens"][:1]))
    client.close()
    out.check((whole[0] == alone[0]) != flag, f"{name}: first item alone and in its request", f"flag {flag}")


def check_refusals(out):
    """What a model cannot do is an error of the request that names the field."""
    with open(os.path.join(DATA, "bad-config", "requests.jsonl")) as f:
        cases = [json.loads(line) for line in f]
    for case in cases:
        model = os.path.normpath(os.path.join(DATA, "bad-config", case["model"]))
        with lamina.Server("--workers", "1", model=model) as server:
            reply = server.encode(case["request"])
            param = "/" + case["key"].replace(".", "/")
            error = reply.json().get("error", {})
            out.check(reply.status == 400 and error.get("param") == param, case["name"], f"{reply.status} {error}")
            server.stop()
    with lamina.Server("--max-batch-tokens", "64", model=os.path.join(DATA, "norms", "batch-running-pre")) as server:
        many = {"tokens": [[5] * 40] * 2}
        reply = server.encode(dict(many, norm={"statistics": "batch"}))
        error = reply.json().get("error", {})
        out.check(reply.status == 400 and error.get("param") == "/tokens" and error.get("limit") == 64,
                  "a request larger than a batch", f"{reply.status} {error}")
        out.check(server.encode(many).status == 200, "the same on running statistics")
        server.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=max(12, int(60 / lamina.SLOWER)))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", default="1,4")
    options = parser.parse_args()
    out = report.Report("norms")
    for name, overrides in MODELS:
        check_model(out, name, overrides, options)
    check_refusals(out)
    out.finish()


if __name__ == "__main__":
    main()
