#!/usr/bin/env python3
"""Bit identity: an item has the same bytes alone and in any batch, order, company, route, worker count.

run.py [--items N] [--seed S] [--workers 1,2,4]
Each item's bytes are computed alone on a server with one worker; every other reply is compared with them.
Items differ, so a reply that went to the wrong client or item shows as well.
"""

import argparse
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import lamina
import report
import wire

CLIENTS = 16
# Beyond what any batch takes on a busy machine: this suite is about bits, not about time.
DEADLINE_MS = "600000"


def alone(client, item, statistics="none"):
    body = {"tokens": [item], "encoding_format": "base64"}
    if statistics != "none":
        body["statistics"] = statistics
    reply = client.ask("POST", "/v1/encode", body)
    if reply.status != 200:
        raise wire.WireError(f"alone: {reply!r}")
    return reply.json()["embeddings"][0]


def openai_alone(client, item, model):
    reply = client.ask("POST", "/v1/embeddings", {"model": model, "input": item, "encoding_format": "base64"})
    if reply.status != 200:
        raise wire.WireError(f"alone: {reply!r}")
    return reply.json()["data"][0]["embedding"]


def batches_of(rng, count):
    """All items in random order, cut into batches of 1 to 32."""
    order = list(range(count))
    rng.shuffle(order)
    at = 0
    while at < count:
        n = rng.choice((1, 1, 2, 3, 5, 8, 13, 32))
        yield order[at:at + n]
        at += n


class Work:
    """Batches that the clients share out, and what they found."""

    def __init__(self, items, known, openai_known, model, seed):
        self.items, self.known, self.openai_known, self.model = items, known, openai_known, model
        self.batches = list(batches_of(random.Random(seed), len(items)))
        self.lock = threading.Lock()
        self.differing = self.swapped = self.compared = self.refused = 0
        self.errors = []

    def next(self):
        with self.lock:
            return self.batches.pop() if self.batches else None

    def judge(self, batch, got, known):
        for index, vector in zip(batch, got):
            self.compared += 1
            if vector == known[index]:
                continue
            if vector in known:
                self.swapped += 1
            else:
                self.differing += 1

    def ask(self, client, batch, number):
        tokens = [self.items[i] for i in batch]
        if number % 3 == 2:
            body = {"model": self.model, "input": tokens, "encoding_format": "base64"}
            reply = client.ask("POST", "/v1/embeddings", body)
            return reply, [d["embedding"] for d in reply.json()["data"]] if reply.status == 200 else None
        body = {"tokens": tokens, "encoding_format": "base64"}
        if number % 3 == 1:
            body["statistics"] = "summary" if number % 2 else "full"
        reply = client.ask("POST", "/v1/encode", body)
        return reply, reply.json()["embeddings"] if reply.status == 200 else None

    def run(self, port, number):
        client = wire.Client(port, int(DEADLINE_MS) / 1000)
        batch = self.next()
        while batch is not None:
            number += 1
            try:
                reply, got = self.ask(client, batch, number)
            except (OSError, wire.WireError, wire.Closed) as e:
                with self.lock:
                    self.errors.append(repr(e))
                return
            if reply.status == 429:
                with self.lock:
                    self.refused += 1
                time.sleep(0.01)
                number -= 1
                continue
            with self.lock:
                if got is None or len(got) != len(batch):
                    self.errors.append(f"{reply!r}")
                else:
                    self.judge(batch, got, self.openai_known if number % 3 == 2 else self.known)
            batch = self.next()
        client.close()


def reference(server, items, out):
    """Each item alone, on both routes, with statistics off and (every eighth) on."""
    client, known, openai_known = wire.Client(server.port, 60 * lamina.SLOWER), [], []
    model = server.ask("GET", "/v1/models").json()["data"][0]["id"]
    with_statistics = 0
    for i, item in enumerate(items):
        known.append(alone(client, item))
        openai_known.append(openai_alone(client, item, model) if i % 8 == 0 else None)
        if i % 8 == 0:
            with_statistics += alone(client, item, "summary") != known[i]
            with_statistics += alone(client, item, "full") != known[i]
    client.close()
    same = all(o is None or o == k for o, k in zip(openai_known, known))
    scaled = same or all(o is None or o != k for o, k in zip(openai_known, known))
    out.check(with_statistics == 0, "statistics on and off", f"{with_statistics} items differ")
    out.check(scaled, "both routes", "some items differ between the routes, others do not")
    return known, known if same else None, model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--items", type=int, default=int(150 / lamina.SLOWER))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", default="1,2,4")
    options = parser.parse_args()
    out = report.Report("identity")
    items = known = openai_known = None
    total = 0
    for workers in options.workers.split(","):
        with lamina.Server("--workers", workers, "--default-deadline-ms", DEADLINE_MS) as server:
            if items is None:
                facts = lamina.Facts(server)
                items = facts.items(options.seed, options.items)
                items[:4] = [facts.item(random.Random(n), n) for n in (1, 2, facts.positions - 1, facts.positions)]
                known, openai_known, model = reference(server, items, out)
                if not out.check(openai_known is not None, "routes agree", "the routes scale differently"):
                    openai_known = [None] * len(items)
            work = Work(items, known, openai_known, model, f"{options.seed}/{workers}")
            began = time.monotonic()
            threads = [threading.Thread(target=work.run, args=(server.port, i)) for i in range(CLIENTS)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            label = f"{workers} workers, {CLIENTS} clients, random batches"
            out.check(not work.errors, label, f"{work.errors[:3]}")
            out.check(work.differing == 0, label, f"{work.differing} of {work.compared} items differ")
            out.check(work.swapped == 0, label, f"{work.swapped} of {work.compared} items swapped")
            out.check(work.compared == len(items), label, f"{work.compared} of {len(items)} items came back")
            total += work.compared
            out.note(f"{label}: {work.compared} items, {work.differing} differ, {work.swapped} swapped, "
                     f"{work.refused} refusals, {time.monotonic() - began:.1f} s")
            left = server.stop()
            out.check(left == 0, label + ": exit status", str(left))
            out.check(not server.reports(), label + ": sanitizer", server.reports())
    out.note(f"{len(items)} items of 1 to {max(map(len, items))} tokens, {total} comparisons")
    out.finish()


if __name__ == "__main__":
    main()
