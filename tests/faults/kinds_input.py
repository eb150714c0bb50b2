"""Faults of bodies, tokens and texts that are a procedure and not one run of bytes."""

import base64
import json
import os
import random
import shutil
import struct
import tempfile
import time

import lamina
import table
import wire
from common import S, data_files, post

def unpack_corpus():
    """The files of JSONTestSuite.pack (tools/pack-json-corpus): a line "NAME SIZE", the bytes, a line end."""
    for path in data_files("JSONTestSuite.pack"):
        with open(path, "rb") as f:
            while head := f.readline():
                name, size = head.decode().split()
                yield name, f.read(int(size))
                f.readline()


def corpus(bench, case):
    """Each file as a body of our own route (any answer but 2xx and 5xx), and as the value of a field that
    the OpenAI route ignores: there the answer is only about JSON."""
    files = [f for f in unpack_corpus() if f[0].startswith(case["prefix"])]
    if not files:
        return "no corpus under tests/data"
    loose = {"y_object_duplicated_key.json", "y_object_duplicated_key_and_value.json",
             "y_string_null_escape.json", "y_object_escaped_null_in_key.json"}
    client, wrong = wire.Client(bench.server.port, 30 * S), []
    for name, data in files:
        own = client.ask("POST", "/v1/encode", data)
        framed = b'{"model":"%s","input":[1,2],"x":' % bench.facts.name.encode() + data + b"}"
        openai = client.ask("POST", "/v1/embeddings", framed)
        allowed = {"n_": (400,), "y_": (200, 400) if name in loose else (200,), "i_": (200, 400)}[case["prefix"]]
        if own.status != 400 or openai.status not in allowed:
            wrong.append(f"{name}: {own!r} {openai!r}")
    client.close()
    return f"{len(wrong)} of {len(files)}: {wrong[:3]}" if wrong else ""


def many_values(bench, case):
    names = dict(bench.names)
    body = table.expand(case["it"], names).encode()
    body = body[:bench.names["max_body"]]
    bench.server.reset_peak()
    before = bench.server.rss_bytes()
    reply = post(bench, body)
    grown = bench.server.peak_bytes() - before
    if reply.status not in (400, 413) or reply.code() not in case["code"] + ["body_too_large"]:
        return f"{reply!r}"
    if grown > 4 * len(body) + (16 << 20) and not lamina.SANITIZER:
        return f"{grown >> 20} MiB for a body of {len(body) >> 20} MiB"
    return ""


def truncated(bench, case):
    body = b'{"tokens":[[1,2],[3]],"normalize":true,"encoding_format":"base64","user":"\\u00e4\xc3\xa4"}'
    client = wire.Client(bench.server.port, 30 * S)
    if client.ask("POST", "/v1/encode", body).status != 200:
        return "the whole body is refused"
    for at in range(len(body)):
        reply = client.ask("POST", "/v1/encode", body[:at])
        if reply.status != 400:
            return f"cut at {at}: {reply!r}"
    client.close()
    return ""


def echo(bench, case):
    reply = post(bench, case["it"].encode("latin-1"))
    if reply.status not in (400, 404):
        return f"{reply!r}"
    return f"echoed: {reply!r}" if b"mark" in reply.body else ""


# ---- schema, tokens, text --------------------------------------------------------------------------

def vectors(reply):
    return reply.json()["embeddings"]


def same(bench, case):
    rng = random.Random(104)
    items = bench.facts.items(104, 6, 60)
    body = {"tokens": items, "encoding_format": "base64"}
    client = wire.Client(bench.server.port, 60 * S)
    reference = vectors(client.ask("POST", "/v1/encode", body))
    for _ in range(case["count"]):
        order = list(range(len(items)))
        rng.shuffle(order)
        got = vectors(client.ask("POST", "/v1/encode", {**body, "tokens": [items[i] for i in order]}))
        if got != [reference[i] for i in order]:
            return f"different bytes in order {order}"
    client.close()
    return ""


def time_of(bench, body):
    began = time.monotonic()
    reply = post(bench, body)
    return time.monotonic() - began, reply


def best_seconds(bench, unit, size):
    """The quickest of three runs of a text of that many bytes, and what is wrong with its answer."""
    text = (unit * (size // len(unit.encode()) + 1)).encode()[:size].decode("utf-8", "ignore")
    body = json.dumps({"texts": [text], "truncate": True}, ensure_ascii=False).encode()
    runs = [time_of(bench, body) for _ in range(3)]
    wrong = [repr(reply) for _, reply in runs if reply.status not in (200, 400)]
    return min(seconds for seconds, _ in runs), "".join(wrong[:1])


def long_text(bench, case):
    """One MiB within its budget, and twice half of it: judged again where the machine was busy meanwhile."""
    if not bench.facts.has_texts:
        return ""
    for name, unit in (("a", "a"), ("_", "_"), ("CJK", "\u4e2d"), ("marks", "e\u0301\u0302"), ("joiners", "\u200d"),
                       ("words", "word "), ("hash", "##")):
        for attempt in range(4):
            (half, wrong), (whole, also) = (best_seconds(bench, unit, size) for size in (1 << 19, 1 << 20))
            if wrong or also:
                return f"{name}: {wrong or also}"
            if whole <= 0.3 * S and whole <= 3 * half + 0.02 * S:
                break
        else:
            return f"{name}: half a MiB takes {half * 1000:.1f} ms, one {whole * 1000:.1f} ms"
    return ""


def special_texts(bench, case):
    if not bench.facts.has_texts:
        return ""
    for text in ("[CLS]", "[SEP]", "[MASK]", "[PAD]", "[UNK]", "</s>", "<s>", "<0x-1>", "<|endoftext|>", "[unused0]"):
        counts = []
        for special in (True, False):
            reply = bench.server.encode({"texts": [text], "special_tokens": special})
            if reply.status != 200:
                return f"{text} special_tokens {special}: {reply!r}"
            counts.append(reply.json()["items"][0]["tokens"])
        if text == "[SEP]" and bench.facts.name.startswith("all-MiniLM") and (counts[0] != 3 or counts[1] <= 3):
            return f"[SEP] gives {counts} tokens"
    return ""


def naughty(bench, case):
    if not bench.facts.has_texts:
        return ""
    files = data_files("blns.json")
    if not files:
        return "blns.json is not under tests/data"
    with open(files[0], encoding="utf-8") as f:
        texts = [t for t in json.load(f) if t and "\0" not in t]
    options = {"encoding_format": "base64", "truncate": True}
    together = bench.server.encode({"texts": texts, **options})
    if together.status != 200:
        return f"as a batch: {together!r}"
    client = wire.Client(bench.server.port, 60 * S)
    for text, vector in zip(texts, vectors(together)):
        reply = client.ask("POST", "/v1/encode", {"texts": [text], **options})
        if reply.status != 200 or vectors(reply) != [vector]:
            return f"{text!r}: {reply!r}"
        values = struct.unpack(f"<{bench.facts.width}f", base64.b64decode(vector))
        if not all(abs(v) < 1e9 for v in values):
            return f"{text!r}: not finite"
    client.close()
    return ""


def edit_tensors(source, target, change):
    """Copies a model; `change(name)` gives the constant to fill that F32 tensor with, or None."""
    shutil.copytree(source, target, dirs_exist_ok=True)
    path = os.path.join(target, "model.safetensors")
    with open(path, "rb") as f:
        data = bytearray(f.read())
    header_bytes = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + header_bytes])
    changed = 0
    for name, tensor in header.items():
        value = change(name) if name != "__metadata__" else None
        if value is not None and tensor["dtype"] == "F32":
            start, end = (8 + header_bytes + o for o in tensor["data_offsets"])
            data[start:end] = struct.pack("<f", value) * ((end - start) // 4)
            changed += 1
    os.chmod(target, 0o755)
    os.chmod(path, 0o644)
    with open(path, "wb") as f:
        f.write(data)
    return changed


def broken_model(bench, case):
    tiny = [m for m in lamina.tiny_models() if os.path.basename(m) == "bert"] or lamina.tiny_models()
    if not tiny:
        return "no small model under tests/data"
    with open(os.path.join(tiny[0], "config.json")) as f:
        last = json.load(f)["num_hidden_layers"] - 1
    for code, weight, bias in (("zero_norm", 0.0, 0.0), ("non_finite", 3e38, 3e38)):
        with tempfile.TemporaryDirectory() as d:
            def change(name):
                if f"layer.{last}.output.LayerNorm." not in name:
                    return None
                return weight if name.endswith(("weight", "gamma")) else bias
            if edit_tensors(tiny[0], os.path.join(d, "model"), change) != 2:
                return "no last norm in the model"
            with lamina.Server(model=os.path.join(d, "model")) as server:
                error = broken_model_answers(server, code)
                if error:
                    return f"{code}: {error}"
                if server.stop() != 0:
                    return f"{code}: exit status"
    return ""


def broken_model_answers(server, code):
    body = {"tokens": [[1, 2, 3], [4]], "normalize": True}
    reply = server.encode(body)
    if reply.status != 500 or reply.code() != code or reply.json()["error"].get("index") != 0:
        return f"{reply!r}"
    if code == "non_finite" and "final" not in reply.json()["error"]["message"]:
        if "layer" not in reply.json()["error"]["message"]:
            return f"no layer and site: {reply!r}"
    reply = server.encode({**body, "on_error": "item"})
    answer = reply.json()
    if reply.status != 200 or answer["embeddings"] != [None, None]:
        return f"on_error item: {reply!r}"
    if any(item["error"]["code"] != code for item in answer["items"]):
        return f"on_error item: {reply!r}"
    reply = server.ask("POST", "/v1/embeddings", {"model": server.ask("GET", "/v1/models").json()["data"][0]["id"],
                                                  "input": [[1, 2, 3]]})
    # The OpenAI route scales as the model's modules say: without scaling, zeros are a result.
    return "" if reply.status in (500, 200) and (code == "zero_norm" or reply.status == 500) else f"{reply!r}"
