"""Copies reference models and expectations into tests/data/models, without what no test reads.

Run:  python3 tests/golden/pack_models.py GOLDENS     (a directory with families/, real/ and bad-weights/)
"""
import json
import os
import shutil
import struct
import sys

FAMILIES = ["bert", "bert-gelu-new", "bert-relu", "bert-silu", "bert-gelu-tanh", "bert-f16", "bert-bf16", "bert-sharded", "bert-v4",
            "st-mean-prompts-new", "st-mean-prompts-old", "st-lasttoken-new", "st-lasttoken-old"]
REFUSED = ["st-cls-dense-new", "st-noprompt-pool-old"]


def load(path):
    with open(path, "rb") as f:
        data = f.read()
    n = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:8 + n]), data[8 + n:]


def save(path, entries, data):
    header, body = {}, b""
    for name in sorted(entries, key=lambda k: (entries[k]["dtype"] != "F64", k)):
        begin, end = entries[name]["data_offsets"]
        header[name] = dict(entries[name], data_offsets=[len(body), len(body) + end - begin])
        body += data[begin:end]
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + body)


def pack_expected(source, target, wanted):
    entries, data = load(source)
    save(target, {k: v for k, v in entries.items() if wanted(k.split("/")[1])}, data)


def pack_cases(source, target):
    with open(source) as f:
        cases = json.load(f)
    for r in cases["requests"]:
        r.pop("texts", None)
    with open(target, "w") as f:
        json.dump(cases, f, separators=(",", ":"))
        f.write("\n")


def copy(source, target):
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copyfile(source, target)


def main(goldens, out):
    for name in FAMILIES + REFUSED:
        source, target = os.path.join(goldens, "families", name), os.path.join(out, "families", name)
        for folder, _, files in os.walk(source):
            for file in files:
                if file not in ("cases.json", "expected.safetensors"):
                    path = os.path.join(folder, file)
                    copy(path, os.path.join(target, os.path.relpath(path, source)))
        if name in FAMILIES:
            pack_cases(os.path.join(source, "cases.json"), os.path.join(target, "cases.json"))
            pack_expected(os.path.join(source, "expected.safetensors"), os.path.join(target, "expected.safetensors"),
                          lambda what: not what.startswith(("attention_probabilities", "site.", "sparse")))
    source, target = os.path.join(goldens, "real", "all-MiniLM-L6-v2"), os.path.join(out, "all-MiniLM-L6-v2")
    os.makedirs(target, exist_ok=True)
    pack_cases(os.path.join(source, "cases.json"), os.path.join(target, "cases.json"))
    pack_expected(os.path.join(source, "expected.safetensors"), os.path.join(target, "expected.safetensors"),
                  lambda what: what == "normalized" or what.startswith("hidden."))
    shutil.copytree(os.path.join(goldens, "bad-weights"), os.path.join(out, "bad-weights"), dirs_exist_ok=True)


if __name__ == "__main__":
    main(sys.argv[1], os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "models"))
