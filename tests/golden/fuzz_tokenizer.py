#!/usr/bin/env python3
"""Feeds random Unicode to check_tokenizer --stdin and to the reference, and compares ids and offsets.

    pip install tokenizers==0.23.3
    tests/golden/fuzz_tokenizer.py [--count 200000] [--seed 1] [--program FILE] MODEL...

MODEL is a tokenizer.json or a folder with one. Offsets are compared in bytes of the UTF-8 text.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

from tokenizers import Tokenizer

# Where characters are taken from; the first rows more often.
RANGES = ((0x20, 0x7E), (0x61, 0x7A), (0x00, 0x7F), (0x80, 0x24F), (0x300, 0x36F), (0x370, 0x52F),
          (0x590, 0x6FF), (0x900, 0xDFF), (0xE00, 0x10FF), (0x1100, 0x11FF), (0x1AB0, 0x1DFF), (0x1E00, 0x206F),
          (0x20D0, 0x2FFF), (0x3000, 0x30FF), (0x3400, 0x9FFF), (0xA000, 0xABFF), (0xAC00, 0xD7A3),
          (0xE000, 0xFAFF), (0xFB00, 0xFFFF), (0x10000, 0x12FFF), (0x16000, 0x1FFFF), (0x20000, 0x323AF),
          (0xE0000, 0xE01EF), (0, 0x10FFFF))
# Marks of many classes, to be put in order.
MARKS = [0x301, 0x316, 0x327, 0x345, 0x302E, 0x1D165, 0x93C, 0x94D, 0xF72, 0xF71, 0xF73, 0x344, 0x1B44, 0x5B0, 0x64B,
         0x1DF6, 0x8D3, 0x20D2, 0x3099, 0xA953]


def character(rng):
    if rng.random() < 0.1:
        return chr(rng.choice(MARKS))
    low, high = rng.choice(RANGES[:rng.choice((3, 8, len(RANGES)))])
    cp = rng.randint(low, high)
    return "x" if 0xD800 <= cp <= 0xDFFF else chr(cp)


def text(rng, words):
    out = []
    for _ in range(rng.choice((1, 2, 3, 5, 8, 13))):
        if words and rng.random() < 0.5:
            out.append(rng.choice(words))
        else:
            out.extend(character(rng) for _ in range(rng.choice((1, 2, 4, 7))))
        if rng.random() < 0.3:
            out.append(rng.choice((" ", "  ", "\t", "\n", "\u00a0", "\u200b", ".", "-")))
    if rng.random() < 0.02:
        out.extend(chr(rng.choice(MARKS)) for _ in range(rng.randint(10, 60)))
    if rng.random() < 0.01:
        out.append(character(rng) * rng.randint(90, 110))
    return "".join(out)


def byte_offsets(string, offsets):
    if string.isascii():
        return [list(o) for o in offsets]
    at = [0]
    for c in string:
        at.append(at[-1] + len(c.encode("utf-8")))
    return [[at[a], at[b]] for a, b in offsets]


def vocabulary(reference):
    words = [w.removeprefix("##") for w in reference.get_vocab()]
    return [w for w in words if w] + [w.upper() for w in words[:500] if w]


def compare(program, model, count, seed):
    path = os.path.join(model, "tokenizer.json") if os.path.isdir(model) else model
    reference = Tokenizer.from_file(path)
    reference.no_truncation()
    reference.no_padding()
    rng = random.Random(seed)
    words = vocabulary(reference)
    texts = [text(rng, words) for _ in range(count)]
    with tempfile.TemporaryFile("w+", encoding="ascii") as lines:
        for t in texts:
            lines.write(json.dumps(t) + "\n")
        lines.seek(0)
        done = subprocess.run([program, "--stdin", model], stdin=lines, capture_output=True, text=True, check=True)
    answers = done.stdout.split("\n")
    different = 0
    for t, line in zip(texts, answers, strict=False):
        ours = json.loads(line)
        e = reference.encode(t)
        if ours.get("ids") == e.ids and ours["offsets"] == byte_offsets(t, e.offsets):
            continue
        different += 1
        if different <= 10:
            print(f"{model}: {json.dumps(t)}\n  reference {e.ids} {byte_offsets(t, e.offsets)}\n  ours      {line}")
    print(f"{model}: {count} texts, {different} different")
    return different


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--count", type=int, default=200000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--program", default="build/tests/check_tokenizer")
    options.add_argument("model", nargs="+")
    args = options.parse_args()
    return 1 if sum(compare(args.program, m, args.count, args.seed) for m in args.model) else 0


sys.exit(main())
