#!/usr/bin/env python3
"""Copies the expected values for the supported tokenizers from the goldens to tests/data/tokenizers.

    tests/golden/pack_tokenizers.py GOLDENS/tokenizers

Left out: the vocabulary of all-MiniLM-L6-v2 (tests use the fetched model), decoding, and what needs a
piece with U+0000 in it, which the JSON reader does not take as a key.
"""
import json
import pathlib
import re
import sys

FOLDERS = ("bert-uncased-real", "bert-cased", "bert-flags/*", "added/bert", "trunc/*")
OUT = pathlib.Path(__file__).resolve().parent.parent / "data" / "tokenizers"


def pack(source, target):
    target.mkdir(parents=True, exist_ok=True)
    model = (source / "tokenizer.json").read_text(encoding="utf-8")
    keeps_nul = '"clean_text":false' in model
    if not (source / "source.json").exists():
        model = re.sub(r'"(##)?\\u0000":\d+,?', "", model)
        (target / "tokenizer.json").write_text(model, encoding="utf-8")
    for name in ("cases.jsonl", "fuzz.jsonl", "long.jsonl"):
        if not (source / name).exists():
            continue
        with open(source / name, encoding="utf-8", newline="\n") as f:
            lines = f.read().split("\n")
        lines = [x for x in lines if x and not (keeps_nul and "\0" in json.loads(x).get("text", ""))]
        (target / name).write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


def main():
    goldens = pathlib.Path(sys.argv[1])
    for pattern in FOLDERS:
        for source in sorted(goldens.glob(pattern)):
            pack(source, OUT / source.relative_to(goldens))
    (OUT / "invalid.jsonl").write_bytes((goldens / "invalid.jsonl").read_bytes())


main()
