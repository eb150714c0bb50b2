"""Copies the references of every norm and of bad configurations into tests/data, expectations rounded to float32.

Run:  python3 tests/golden/pack_norms.py GOLDENS     (a directory with norms/ and bad-config/)
"""
import array
import json
import os
import shutil
import struct
import sys


def load(path):
    with open(path, "rb") as f:
        data = f.read()
    n = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:8 + n]), data[8 + n:]


def pack_expected(source, target):
    entries, data = load(source)
    header, body = {}, b""
    for name, entry in sorted(entries.items()):
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        wide = array.array("d")
        wide.frombytes(data[begin:end])
        narrow = array.array("f", wide).tobytes()
        header[name] = {"dtype": "F32", "shape": entry["shape"], "data_offsets": [len(body), len(body) + len(narrow)]}
        body += narrow
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(target, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + body)


def main(goldens):
    out = "tests/data/norms"
    shutil.rmtree(out, ignore_errors=True)
    names = sorted(n for n in os.listdir(f"{goldens}/norms") if os.path.isdir(f"{goldens}/norms/{n}"))
    for name in names:
        source, target = f"{goldens}/norms/{name}", f"{out}/{name}"
        os.makedirs(target)
        for file in ("config.json", "model.safetensors"):
            shutil.copyfile(f"{source}/{file}", f"{target}/{file}")
        with open(f"{source}/cases.json") as f:
            cases = json.load(f)
        with open(f"{target}/cases.json", "w") as f:
            json.dump(cases, f, separators=(",", ":"))
            f.write("\n")
        pack_expected(f"{source}/cases.safetensors", f"{target}/expected.safetensors")
    os.makedirs("tests/data/bad-config", exist_ok=True)
    for file in ("cases.jsonl", "requests.jsonl"):
        shutil.copyfile(f"{goldens}/bad-config/{file}", f"tests/data/bad-config/{file}")
    print(f"{len(names)} norms")


main(sys.argv[1])
