#!/usr/bin/env python3
"""Engine time beside ONNX Runtime on the same weights: token ids in, pooled unit vectors out, one thread,
interleaved rounds in one run, medians.

    python3 bench/peers/compare.py [--model DIR] [--rounds 9] [--shapes 1x16 1x128 ...] [--json FILE]

ONNX Runtime gets its fused graph (EmbedLayerNormalization, Attention, SkipLayerNormalization, BiasGelu: what
its own optimizer makes of an exported BERT), written here from the safetensors file, and for mixed
lengths the fastest of its batchings (each alone, sorted batches of 8 or 32). Both programs run pinned to
one core. The first run installs its packages into build/peers."""
import argparse
import json
import os
import random
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HOME = os.path.join(ROOT, "build", "peers")
PACKAGES = ["onnxruntime", "onnx", "numpy", "safetensors"]
SHAPES = ["1x16", "1x128", "1x512", "32x16", "32x128", "mixed64"]


def inside_environment():
    """Starts this script again inside its own virtual environment, made on first use."""
    python = os.path.join(HOME, "venv", "bin", "python")
    if sys.executable == python:
        return
    if not os.path.exists(python):
        print("installing", " ".join(PACKAGES), "into build/peers", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", os.path.join(HOME, "venv")], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q"] + PACKAGES, check=True)
    env = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    os.execve(python, [python] + sys.argv, env)


def median(values):
    s = sorted(values)
    return (s[len(s) // 2] + s[(len(s) - 1) // 2]) / 2


def shape_ids(shape, vocab):
    """Seeded ids; the lengths of mixed64 are uniform over 8..512, as those of `lamina bench` are."""
    r = random.Random(20261129)
    if shape == "mixed64":
        lengths = [r.randint(8, 512) for _ in range(64)]
    else:
        count, tokens = (int(x) for x in shape.split("x"))
        lengths = [tokens] * count
    return [[r.randrange(1000, vocab) for _ in range(n)] for n in lengths]


def write_graph(model, path):
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from safetensors.numpy import load_file
    import numpy as np
    config = json.load(open(os.path.join(model, "config.json")))
    tensors = load_file(os.path.join(model, "model.safetensors"))
    nodes, weights = [], []

    def weight(name, array):
        weights.append(numpy_helper.from_array(np.ascontiguousarray(array, np.float32), name))
        return name

    def plain(name):
        return weight(name, tensors[name])

    def node(op, inputs, output, domain="", **attributes):
        nodes.append(helper.make_node(op, inputs, output if isinstance(output, list) else [output],
                                      domain=domain, **attributes))
        return output[0] if isinstance(output, list) else output

    eps, ms = config["layer_norm_eps"], "com.microsoft"
    e = "embeddings."
    x = node("EmbedLayerNormalization",
             ["input_ids", "segment_ids", plain(e + "word_embeddings.weight"),
              plain(e + "position_embeddings.weight"), plain(e + "token_type_embeddings.weight"),
              plain(e + "LayerNorm.weight"), plain(e + "LayerNorm.bias"), "mask"],
             ["x0", "mask_index"], ms, epsilon=eps)
    for i in range(config["num_hidden_layers"]):
        p = f"encoder.layer.{i}."
        parts = [p + f"attention.self.{k}." for k in ("query", "key", "value")]
        qkv = weight(p + "qkv.w", np.concatenate([tensors[k + "weight"].T for k in parts], 1))
        qkv_bias = weight(p + "qkv.b", np.concatenate([tensors[k + "bias"] for k in parts]))
        a = node("Attention", [x, qkv, qkv_bias, "mask_index"], p + "a", ms,
                 num_heads=config["num_attention_heads"])
        o = node("MatMul", [a, weight(p + "o", tensors[p + "attention.output.dense.weight"].T)], p + "om")
        x = node("SkipLayerNormalization",
                 [o, x, plain(p + "attention.output.LayerNorm.weight"),
                  plain(p + "attention.output.LayerNorm.bias"), plain(p + "attention.output.dense.bias")],
                 p + "n1", ms, epsilon=eps)
        f = node("MatMul", [x, weight(p + "f1", tensors[p + "intermediate.dense.weight"].T)], p + "f1m")
        f = node("BiasGelu", [f, plain(p + "intermediate.dense.bias")], p + "g", ms)
        f = node("MatMul", [f, weight(p + "f2", tensors[p + "output.dense.weight"].T)], p + "f2m")
        x = node("SkipLayerNormalization",
                 [f, x, plain(p + "output.LayerNorm.weight"), plain(p + "output.LayerNorm.bias"),
                  plain(p + "output.dense.bias")], p + "n2", ms, epsilon=eps)
    shape = ["batch", "tokens"]
    inputs = [helper.make_tensor_value_info(n, TensorProto.INT32, shape)
              for n in ("input_ids", "segment_ids", "mask")]
    out = helper.make_tensor_value_info(x, TensorProto.FLOAT, shape + [config["hidden_size"]])
    graph = helper.make_graph(nodes, "bert", inputs, [out], weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(ms, 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


class OnnxRuntime:
    name = "onnxruntime f32 fused"

    def __init__(self, model):
        import onnxruntime
        path = os.path.join(HOME, "bert.onnx")
        if not os.path.exists(path):
            write_graph(model, path)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.version = onnxruntime.__version__
        self.session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])

    def batch(self, items):
        import numpy as np
        longest = max(map(len, items))
        ids = np.zeros((len(items), longest), np.int32)
        mask = np.zeros_like(ids)
        for i, item in enumerate(items):
            ids[i, :len(item)] = item
            mask[i, :len(item)] = 1
        rows = self.session.run(None, {"input_ids": ids, "segment_ids": np.zeros_like(ids), "mask": mask})[0]
        out = []
        for i, item in enumerate(items):
            v = rows[i, :len(item)].mean(0)
            out.append(v / np.sqrt((v * v).sum()))
        return out

    def once(self, items, size):
        order = sorted(range(len(items)), key=lambda i: len(items[i]))
        start = time.perf_counter()
        vectors = [None] * len(items)
        for first in range(0, len(items), size):
            chunk = order[first:first + size]
            for i, v in zip(chunk, self.batch([items[i] for i in chunk])):
                vectors[i] = v
        return (time.perf_counter() - start) * 1e3, vectors

    def best_size(self, items):
        """Timed twice each, so that a first touch does not choose."""
        sizes = {1, 8, 32, len(items)} if len({len(i) for i in items}) == 1 else {1, 8, 32}
        sizes = [s for s in sorted(sizes) if s <= len(items)]
        return min(sizes, key=lambda s: min(self.once(items, s)[0] for _ in range(2)))


class Lamina:
    name = "lamina f32"

    def __init__(self, binary, model):
        self.binary, self.model = binary, model

    def round(self, shape, calls, tokens):
        """The time of `tokens` tokens, from `calls` timings of one process after its warm-up."""
        out = subprocess.run([self.binary, "bench", self.model, "--shape", shape, "--threads", "1",
                              "--rounds", str(calls), "--json"],
                             capture_output=True, text=True, check=True).stdout
        result = json.loads(out)[0]
        self.isa = result["isa"]
        milliseconds = median(result["ms"]["all"])
        # Its own seed gives mixed lengths another sum: what counts is the time a token takes.
        return milliseconds * tokens / (result["tokens_per_second"] * milliseconds / 1e3)

    def vectors(self, items):
        body = json.dumps({"tokens": items, "pooling": "mean", "normalize": True})
        out = subprocess.run([self.binary, "encode", self.model, "--format", "requests", "--quiet"],
                             input=body + "\n", capture_output=True, text=True, check=True).stdout
        return json.loads(out)["embeddings"]


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--model", default=os.path.join(ROOT, "models", "all-MiniLM-L6-v2"))
    a.add_argument("--binary", default=os.path.join(ROOT, "build", "lamina"))
    a.add_argument("--rounds", type=int, default=9)
    a.add_argument("--shapes", nargs="+", default=SHAPES)
    a.add_argument("--json", help="also write the figures here")
    args = a.parse_args()
    inside_environment()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    peer, ours = OnnxRuntime(args.model), Lamina(args.binary, args.model)
    figures = {}
    for shape in args.shapes:
        items = shape_ids(shape, 30000)
        size = peer.best_size(items)
        first, theirs = peer.once(items, size)
        distance = max(abs(float(x) - y) for u, v in zip(theirs, ours.vectors(items)) for x, y in zip(u, v))
        calls = max(1, min(40, int(300 / first)))
        rows = {peer.name: [], ours.name: []}
        for _ in range(args.rounds):
            rows[peer.name].append(median([peer.once(items, size)[0] for _ in range(calls)]))
            rows[ours.name].append(ours.round(shape, calls, sum(map(len, items))))
        figures[shape] = {"peer_batch": size, "max_abs_difference": distance,
                          **{k: {"median": median(v), "min": min(v), "max": max(v)} for k, v in rows.items()}}
        p, o = (figures[shape][k] for k in (peer.name, ours.name))
        print(f"{shape:8} onnxruntime {peer.version} {p['median']:8.2f} ms ({p['min']:.2f}..{p['max']:.2f}, "
              f"batch {size})  lamina {ours.isa} {o['median']:8.2f} ms ({o['min']:.2f}..{o['max']:.2f})  "
              f"ratio {p['median'] / o['median']:.2f}  vectors differ by {distance:.1e}", flush=True)
    if args.json:
        with open(args.json, "w") as f:
            json.dump(figures, f, indent=1)


if __name__ == "__main__":
    main()
