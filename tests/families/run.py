#!/usr/bin/env python3
"""Files of each family as others save them: a prefix on all names, old names of norms, F16 and BF16, tensors too few and too many.

Run:  LAMINA_BIN=build/lamina python3 tests/families/run.py
"""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAMINA = os.path.abspath(os.environ.get("LAMINA_BIN", ROOT / "build" / "lamina"))
FAMILIES = ROOT / "tests" / "data" / "models" / "families"
PREFIX = {"bert": "bert.", "roberta": "roberta.", "camembert": "roberta.", "xlm-roberta": "roberta.", "electra": "electra.",
          "roberta-prelayernorm": "roberta_prelayernorm.", "distilbert": "distilbert.", "albert": "albert.",
          "albert-groups": "albert.", "mpnet": "mpnet.", "t5-encoder": ""}
BODY = json.dumps({"tokens": [[2, 17, 9, 44, 3], [5, 6]], "pooling": "none"}) + "\n"
passed = failed = 0


def check(ok, what):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print("FAILED", what)


def load(path):
    data = path.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    header.pop("__metadata__", None)
    return {k: (v["dtype"], v["shape"], data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]]) for k, v in header.items()}


def save(path, tensors):
    header, body = {}, b""
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def narrowed(tensors, as_half):
    """The same values twice: in two bytes, and widened again."""
    small, wide = {}, {}
    for name, (dtype, shape, data) in tensors.items():
        count = len(data) // 4
        if as_half:
            two = struct.pack(f"<{count}e", *struct.unpack(f"<{count}f", data))
            back = struct.pack(f"<{count}f", *struct.unpack(f"<{count}e", two))
        else:
            two = b"".join(data[i + 2:i + 4] for i in range(0, len(data), 4))
            back = b"".join(b"\0\0" + two[i:i + 2] for i in range(0, len(two), 2))
        small[name] = ("F16" if as_half else "BF16", shape, two)
        wide[name] = (dtype, shape, back)
    return small, wide


def old_name(name):
    if "norm" not in name.lower():
        return name
    return name.replace(".weight", ".gamma").replace(".bias", ".beta")


def encode(directory):
    """(exit status, vectors, stderr)"""
    r = subprocess.run([LAMINA, "encode", str(directory), "--format", "requests"], input=BODY, capture_output=True, text=True, timeout=60)
    vectors = json.loads(r.stdout)["embeddings"] if r.returncode == 0 else None
    return r.returncode, vectors, r.stderr


def with_tensors(directory, tensors):
    save(directory / "model.safetensors", tensors)
    return encode(directory)


def check_names(name, directory, tensors, right):
    prefix = PREFIX[name]
    named = {prefix + k: v for k, v in tensors.items()}
    check(with_tensors(directory, named)[1] == right, f"{name}: prefix")
    if not prefix:
        return
    last = sorted(k for k in tensors if not k.startswith("pooler"))[-1]
    mixed = {(k if k == last else prefix + k): v for k, v in tensors.items()}
    status, _, text = with_tensors(directory, mixed)
    check(status == 2 and last.rsplit(".", 1)[0] in text, f"{name}: prefix on all names but one: {text}")
    check(with_tensors(directory, {old_name(k): v for k, v in tensors.items()})[1] == right, f"{name}: gamma and beta")


def check_family(name, directory):
    shutil.copyfile(FAMILIES / name / "config.json", directory / "config.json")
    tensors = load(FAMILIES / name / "model.safetensors")
    _, right, _ = with_tensors(directory, tensors)
    check(right is not None, f"{name}: as it is")
    check_names(name, directory, tensors, right)
    for as_half in (True, False):
        small, wide = narrowed(tensors, as_half)
        check(with_tensors(directory, small)[1] == with_tensors(directory, wide)[1] != right, f"{name}: two bytes, F16 {as_half}")
    status, vectors, text = with_tensors(directory, dict(tensors, **{"zz.extra": ("F32", [1], b"\0\0\0\0")}))
    check(status == 0 and vectors == right and "zz.extra" in text, f"{name}: one tensor too many: {text}")
    for lost in tensors:
        status, vectors, text = with_tensors(directory, {k: v for k, v in tensors.items() if k != lost})
        if lost.startswith("pooler"):
            check(vectors == right, f"{name}: without {lost}")
        else:
            check(status == 2 and lost in text and "missing" in text, f"{name}: without {lost}: {text}")


def main():
    for name in PREFIX:
        with tempfile.TemporaryDirectory() as folder:
            check_family(name, pathlib.Path(folder))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
