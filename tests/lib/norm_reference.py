"""Population statistics of a small BERT in float64, from the definitions: the whole corpus goes through the
network side by side, and each norm is measured where its input stands."""
import json
import math
import operator
import pathlib
import struct


def read_safetensors(path):
    """name -> (shape, flat list)"""
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header, body = json.loads(data[8:8 + size]), data[8 + size:]
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        form = {"F32": "f", "I64": "q"}[entry["dtype"]]
        tensors[name] = entry["shape"], list(struct.unpack(f"<{(end - begin) // struct.calcsize(form)}{form}", body[begin:end]))
    return tensors


def dot(a, b):
    return sum(map(operator.mul, a, b))


def gelu(x):
    return 0.5 * x * (1.0 + math.erf(x / math.sqrt(2.0)))


class Norm:
    """One site: what is stored for it, and what it normalizes."""

    def __init__(self, model, path, spec):
        self.path, self.spec, self.kind = path, spec, spec["kind"]
        nested = "bn." if self.kind == "repbn" else ""
        get = model.vector
        self.running = self.kind in ("batch", "rbn", "repbn", "power", "power_v", "mabn", "unified")
        self.second_moment = self.kind in ("power", "power_v", "mabn", "unified")
        self.names = {"square": {"power": "running_phi", "power_v": "running_phi"}.get(self.kind, nested + "running_var"),
                      "mean": nested + "running_mean"}
        self.gain = get(f"{path}.{nested}weight") or get(f"{path}.{nested}gamma")
        self.bias = get(f"{path}.{nested}bias") or get(f"{path}.{nested}beta")
        self.alpha = (get(f"{path}.alpha") or [0.0])[0] if self.kind == "repbn" else 0.0
        self.stored_mean = get(f"{path}.{self.names['mean']}")
        self.stored_square = get(f"{path}.{self.names['square']}")

    def d(self, v):
        eps, mode = self.spec.get("eps", 1e-5), self.spec.get("eps_mode", "floor_variance" if self.kind == "rbn" else "variance")
        if mode == "variance":
            return math.sqrt(v + eps)
        return math.sqrt(v) + eps if mode == "std" else math.sqrt(max(v, eps))

    def measured(self, row):
        """What the stored tensors are of."""
        groups = self.spec.get("groups", 0)
        if self.kind not in ("power", "batch") or groups == 0:
            return row
        width, out = len(row) // groups, []
        for g in range(groups):
            part = row[g * width:(g + 1) * width]
            scale = math.sqrt(sum(x * x for x in part) / width + self.spec.get("group_eps", 1e-5))
            out += [x / scale for x in part]
        return out

    def moments(self, rows):
        """Per channel: mean (0 for a second moment) and mean square around it."""
        n, columns = len(rows), list(zip(*rows))
        mean = [0.0 if self.second_moment else math.fsum(c) / n for c in columns]
        return mean, [math.fsum((x - m) ** 2 for x in c) / n for c, m in zip(columns, mean)]

    def apply(self, row, mean, square):
        width = len(row)
        gain, bias = self.gain or [1.0] * width, self.bias or [0.0] * width
        if self.kind == "layer":
            m = math.fsum(row) / width
            mean, square = [m] * width, [math.fsum((x - m) ** 2 for x in row) / width] * width
        x = self.measured(row)
        return [gain[i] * (x[i] - mean[i]) / self.d(square[i]) + bias[i] + self.alpha * row[i] for i in range(width)]

    def distances(self, mean, square, met_mean, met_square):
        """config: stored against met."""
        width = len(square)
        name = "second_moment" if self.second_moment else "variance"
        out = {f"{name}_distance": math.sqrt(sum((a - b) ** 2 for a, b in zip(square, met_square))) / width,
               f"{name}_tid": sum(abs(self.d(a) / self.d(b) - 1) for a, b in zip(square, met_square)) / width}
        if not self.second_moment:
            out["mean_distance"] = math.sqrt(sum((a - b) ** 2 for a, b in zip(mean, met_mean))) / width
            out["mean_tid"] = sum(abs(a - b) / self.d(v) for a, b, v in zip(mean, met_mean, met_square)) / width
        return out


class Model:
    def __init__(self, folder):
        folder = pathlib.Path(folder)
        self.config = json.loads((folder / "config.json").read_text())
        self.tensors = read_safetensors(folder / "model.safetensors")
        self.prefix = "bert." if any(n.startswith("bert.") for n in self.tensors) else ""
        self.lamina = self.config["lamina"]
        self.post = self.lamina["placement"] == "post"

    def vector(self, name):
        found = self.tensors.get(self.prefix + name)
        return found[1] if found else None

    def matrix(self, name):
        (rows, columns), flat = self.tensors[self.prefix + name]
        return [flat[i * columns:(i + 1) * columns] for i in range(rows)]

    def linear(self, name, rows):
        weight, bias = self.matrix(name + ".weight"), self.vector(name + ".bias")
        return [[dot(w, x) + b for w, b in zip(weight, bias)] for x in rows]

    def spec(self, key):
        if key in self.lamina:
            return self.lamina[key]
        # Inside a post-norm model there is no final norm unless one is named; every pre-norm model has one.
        return None if key == "inner_norm" or (key == "final_norm" and self.post) else self.lamina["norm"]

    def norm(self, path, key, rows, state):
        spec = self.spec(key)
        if spec is None:
            return rows
        norm = Norm(self, path, spec)
        seen = [norm.measured(r) for r in rows]
        parts = [seen]
        if state["batch"]:
            ends = state["ends"]
            starts = [0] + [ends[i] for i in range(state["batch"] - 1, len(ends) - 1, state["batch"])]
            parts = [seen[a:b] for a, b in zip(starts, starts[1:] + [len(seen)])]
        moments = [norm.moments(p) for p in parts]
        average = [[math.fsum(c) / len(moments) for c in zip(*(m[k] for m in moments))] for k in (0, 1)]
        given = state["given"].get(path)
        if given:
            mean, square = given
        elif state["order"] == "site" or norm.stored_square is None:
            mean, square = average
        else:
            mean, square = norm.stored_mean or [0.0] * len(rows[0]), norm.stored_square
        state["norms"].append(norm)
        state["found"][path] = average
        return [norm.apply(r, mean, square) for r in rows]

    def attention(self, i, x, ends):
        base, heads = f"encoder.layer.{i}.attention.self.", self.config["num_attention_heads"]
        q, k, v = (self.linear(base + n, x) for n in ("query", "key", "value"))
        d, out, start = len(x[0]) // heads, [], 0
        for end in ends:
            for t in range(start, end):
                row = []
                for h in range(heads):
                    cut = slice(h * d, h * d + d)
                    scores = [dot(q[t][cut], k[j][cut]) / math.sqrt(d) for j in range(start, end)]
                    top = max(scores)
                    weights = [math.exp(s - top) for s in scores]
                    total = math.fsum(weights)
                    row += [dot(weights, [v[j][c] for j in range(start, end)]) / total for c in range(h * d, h * d + d)]
                out.append(row)
            start = end
        return out

    def layer(self, i, x, state):
        def n1(rows):
            return self.norm(f"encoder.layer.{i}.attention.output.LayerNorm", "attention_norm", rows, state)

        def n2(rows):
            return self.norm(f"encoder.layer.{i}.output.LayerNorm", "ffn_norm", rows, state)

        def attend(rows):
            return self.linear(f"encoder.layer.{i}.attention.output.dense", self.attention(i, rows, state["ends"]))

        def feed(rows):
            rows = self.linear(f"encoder.layer.{i}.intermediate.dense", rows)
            inner = self.spec("inner_norm")
            path = f"encoder.layer.{i}.intermediate.InnerNorm"
            if inner and inner["position"] == "before_activation":
                rows = self.norm(path, "inner_norm", rows, state)
            rows = [[gelu(a) for a in r] for r in rows]
            if inner and inner["position"] == "after_activation":
                rows = self.norm(path, "inner_norm", rows, state)
            return self.linear(f"encoder.layer.{i}.output.dense", rows)

        def add(a, b):
            return [[p + q for p, q in zip(r, s)] for r, s in zip(a, b)]

        if self.post:
            u = n1(add(x, attend(x)))
            return n2(add(u, feed(u)))
        u = add(x, attend(n1(x)))
        return add(u, feed(n2(u)))

    def run(self, texts, order, batch=0, given=None):
        """Statistics of every norm over the texts: {path: (mean, square)}, and the norms in order. `order` site:
        each norm runs on what was found for it; stored: on what the file holds. `given` overrides both."""
        state = {"order": order, "batch": batch, "given": given or {}, "norms": [], "found": {}, "ends": []}
        word, position, kind = (self.matrix(f"embeddings.{n}_embeddings.weight") for n in ("word", "position", "token_type"))
        x = []
        for ids in texts:
            x += [[a + b + c for a, b, c in zip(word[t], position[p], kind[0])] for p, t in enumerate(ids)]
            state["ends"].append(len(x))
        x = self.norm("embeddings.LayerNorm", "embedding_norm", x, state)
        for i in range(self.config["num_hidden_layers"]):
            x = self.layer(i, x, state)
        self.norm("encoder.FinalNorm", "final_norm", x, state)
        return state["norms"], state["found"]
