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
# Of these, what tells a family apart: rows, unit vectors, states of two requests, statistics of whole requests; in float32.
SLIM = ["roberta", "xlm-roberta", "camembert", "roberta-prelayernorm", "distilbert", "electra", "albert", "albert-groups", "mpnet", "t5-encoder"]
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


def narrow(entry, body):
    """F64 -> F32"""
    if entry["dtype"] != "F64":
        return entry, body
    values = struct.unpack(f"<{len(body) // 8}d", body)
    return dict(entry, dtype="F32"), struct.pack(f"<{len(values)}f", *values)


def slim_expected(source, target):
    entries, data = load(source)
    kept, out = {}, b""
    for name in sorted(entries):
        request, what = name.split("/")
        if request == "long" or not (what in ("last", "normalized") or what.startswith("hidden.") and request in ("short", "one")):
            continue
        begin, end = entries[name]["data_offsets"]
        entry, body = narrow(entries[name], data[begin:end])
        kept[name] = dict(entry, data_offsets=[len(out), len(out) + len(body)])
        out += body
    save(target, kept, out)


def rounded(v):
    """Ten digits: the tolerances of statistics are 2e-6 and wider."""
    if isinstance(v, dict):
        return {k: rounded(x) for k, x in v.items()}
    if isinstance(v, list):
        return [rounded(x) for x in v]
    return float(f"{v:.10g}") if isinstance(v, float) else v


def slim_cases(source, target):
    with open(source) as f:
        cases = json.load(f)
    cases["requests"] = [r for r in cases["requests"] if r["name"] != "long"]
    for r in cases["requests"]:
        r.pop("statistics_per_item", None)
    with open(target, "w") as f:
        json.dump(rounded(cases), f, separators=(",", ":"))
        f.write("\n")


def pack_slim(goldens, out, name):
    source, target = os.path.join(goldens, "families", name), os.path.join(out, "families", name)
    os.makedirs(target, exist_ok=True)
    copy(os.path.join(source, "config.json"), os.path.join(target, "config.json"))
    copy(os.path.join(source, "model.safetensors"), os.path.join(target, "model.safetensors"))
    slim_cases(os.path.join(source, "cases.json"), os.path.join(target, "cases.json"))
    slim_expected(os.path.join(source, "expected.safetensors"), os.path.join(target, "expected.safetensors"))


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
    with open(os.path.join(goldens, "families", "buckets.json")) as f:
        buckets = json.load(f)
    with open(os.path.join(out, "buckets.json"), "w") as f:
        json.dump({k: buckets[k] for k in ("first_distance", "mpnet", "t5_32_128", "t5_8_20")}, f, separators=(",", ":"))
        f.write("\n")
    for name in SLIM:
        pack_slim(goldens, out, name)
    source, target = os.path.join(goldens, "real", "all-MiniLM-L6-v2"), os.path.join(out, "all-MiniLM-L6-v2")
    os.makedirs(target, exist_ok=True)
    pack_cases(os.path.join(source, "cases.json"), os.path.join(target, "cases.json"))
    pack_expected(os.path.join(source, "expected.safetensors"), os.path.join(target, "expected.safetensors"),
                  lambda what: what == "normalized" or what.startswith("hidden."))
    shutil.copytree(os.path.join(goldens, "bad-weights"), os.path.join(out, "bad-weights"), dirs_exist_ok=True)


if __name__ == "__main__":
    main(sys.argv[1], os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "models"))
