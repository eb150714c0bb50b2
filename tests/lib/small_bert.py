"""The forward pass of a small encoder in plain Python and float64: kinds `layer` and `batch`, placements post and
pre. It shares nothing with the program and is slow: for models of a few thousand numbers."""

import json
import math
import pathlib
import struct


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    head = json.loads(data[8:8 + size])
    out = {}
    for name, about in head.items():
        if name == "__metadata__" or about["dtype"] != "F32":
            continue
        begin, end = about["data_offsets"]
        values = struct.unpack(f"<{(end - begin) // 4}f", data[8 + size + begin:8 + size + end])
        shape = [n for n in about["shape"] if n != 1] or [1]
        if len(shape) == 2:
            values = [values[r * shape[1]:(r + 1) * shape[1]] for r in range(shape[0])]
        out[name.removeprefix("bert.")] = values
    return out


def dot(a, b):
    return math.fsum(x * y for x, y in zip(a, b))


def add(rows, other, scale=1.0):
    return [[x + scale * z for x, z in zip(row, more)] for row, more in zip(rows, other)]


def gelu(x):
    return 0.5 * x * (1.0 + math.erf(x / math.sqrt(2.0)))


class Model:
    def __init__(self, folder):
        folder = pathlib.Path(folder)
        self.config = json.loads((folder / "config.json").read_text())
        self.tensors = read_safetensors(folder / "model.safetensors")
        self.key = self.config["lamina"]
        self.heads = self.config["num_attention_heads"]
        self.layers = self.config["num_hidden_layers"]
        assert self.key["placement"] in ("post", "pre") and self.config["hidden_act"] == "gelu"
        self.seen = {}  # site's path: what its norm read in the last run

    def linear(self, rows, name):
        weight, bias = self.tensors[name + ".weight"], self.tensors[name + ".bias"]
        return [[dot(row, w) + c for w, c in zip(weight, bias)] for row in rows]

    def norm(self, rows, path, spec, source):
        """All rows of the request at once."""
        self.seen[path] = rows
        gain, bias = self.tensors[path + ".weight"], self.tensors[path + ".bias"]
        eps = spec["eps"]
        assert set(spec) <= {"kind", "eps", "eps_mode", "statistics"} and spec.get("eps_mode", "variance") == "variance"
        if spec["kind"] == "layer":
            out = []
            for row in rows:
                mean = math.fsum(row) / len(row)
                spread = math.sqrt(math.fsum((x - mean) ** 2 for x in row) / len(row) + eps)
                out.append([g * (x - mean) / spread + b for x, g, b in zip(row, gain, bias)])
            return out
        assert spec["kind"] == "batch"
        if (source or spec.get("statistics", "running")) == "running":
            means, variances = self.tensors[path + ".running_mean"], self.tensors[path + ".running_var"]
        else:
            means, variances = moments(rows)
        return [[g * (x - m) / math.sqrt(v + eps) + b for x, m, v, g, b in zip(row, means, variances, gain, bias)]
                for row in rows]

    def attention(self, rows, lengths, path):
        q, k, v = (self.linear(rows, f"{path}.self.{name}") for name in ("query", "key", "value"))
        width = len(rows[0]) // self.heads
        out, first = [], 0
        for n in lengths:
            for t in range(first, first + n):
                context = []
                for h in range(self.heads):
                    part = slice(h * width, (h + 1) * width)
                    scores = [dot(q[t][part], k[j][part]) / math.sqrt(width) for j in range(first, first + n)]
                    top = max(scores)
                    weights = [math.exp(s - top) for s in scores]
                    total = math.fsum(weights)
                    context += [math.fsum(w * v[first + j][h * width + c] for j, w in enumerate(weights)) / total
                                for c in range(width)]
                out.append(context)
            first += n
        return self.linear(out, f"{path}.output.dense")

    def run(self, items, source=None, norm=None):
        """Hidden states [layers + 1][rows][width] of items that are one request. `source` is that of all norms or a
        function of a norm's path; `norm` changes fields of every norm."""
        spec = {**self.key["norm"], **(norm or {})}
        post, t = self.key["placement"] == "post", self.tensors
        lengths = [len(ids) for ids in items]
        word, position, kind = (t[f"embeddings.{n}_embeddings.weight"] for n in ("word", "position", "token_type"))
        x = [[a + b + c for a, b, c in zip(word[i], position[at], kind[0])] for ids in items
             for at, i in enumerate(ids)]

        def apply(rows, path, own=None):
            return self.norm(rows, path, own or spec, source(path) if callable(source) else source)

        own = self.key.get("embedding_norm")
        if own or post:
            x = apply(x, "embeddings.LayerNorm", own)
        states = [x]
        for i in range(self.layers):
            layer = f"encoder.layer.{i}"
            first, second = f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"
            a = self.attention(x if post else apply(x, first), lengths, f"{layer}.attention")
            u = add(a, x)
            u = apply(u, first) if post else u
            wide = self.linear(u if post else apply(u, second), f"{layer}.intermediate.dense")
            f = self.linear([[gelu(v) for v in row] for row in wide], f"{layer}.output.dense")
            x = add(f, u)
            x = apply(x, second) if post else x
            states.append(x)
        if self.key.get("final_norm", None if post else spec):
            states[-1] = x = apply(x, "encoder.FinalNorm")
        return states


def moments(rows):
    """Mean and population variance of each channel."""
    n = len(rows)
    means = [math.fsum(column) / n for column in zip(*rows)]
    return means, [math.fsum((x - m) ** 2 for x in column) / n for column, m in zip(zip(*rows), means)]


def pooled(state, items):
    """Mean over each item's rows."""
    out, first = [], 0
    for ids in items:
        out.append([math.fsum(column) / len(ids) for column in zip(*state[first:first + len(ids)])])
        first += len(ids)
    return out


def length(v):
    return math.sqrt(math.fsum(x * x for x in v))


def cosine(a, b):
    return dot(a, b) / (length(a) * length(b))


def distance(a, b):
    """||b - a|| / ||a||."""
    return length([y - x for x, y in zip(a, b)]) / length(a)
