#!/usr/bin/env python3
"""`lamina compare` and POST /v1/compare: their numbers against a forward pass in plain Python, and what is refused.

Runs the program in LAMINA_BIN (build/lamina). Ends with `N passed, N failed`.
"""
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "lib"))
import lamina  # noqa: E402
import report  # noqa: E402
import small_bert  # noqa: E402

BIN = os.environ.get("LAMINA_BIN", str(ROOT / "build" / "lamina"))
NORMS = ROOT / "tests/data/norms"
ITEMS = [[5, 17, 3, 88, 41], [9, 60], [1, 2, 3, 4, 5, 6, 7, 8], [90]]

REPORT = report.Report("compare")
check = REPORT.check


def near(got, want, tolerance, what):
    check(got is not None and abs(got - want) <= tolerance, what, (got, want))


def run(*args, items=ITEMS, stdin=None):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("LAM_")}
    text = stdin if stdin is not None else "".join(f"{json.dumps(ids)}\n" for ids in items).encode()
    done = subprocess.run([BIN, "compare", *args, "--quiet"], input=text, capture_output=True, check=False, timeout=120,
                          env=clean)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def flat(rows):
    return [x for row in rows for x in row]


def judge(name, told, a, b):
    """Against states of the reference, [layers + 1][rows][width] of both sides."""
    check([layer["output_layer"] for layer in told["layers"]] == list(range(len(a))), f"{name}: the layers", told)
    for i, layer in enumerate(told["layers"]):
        cosines = [small_bert.cosine(x, y) for x, y in zip(a[i], b[i])]
        near(layer["cosine"], sum(cosines) / len(cosines), 2e-5, f"{name}: cosine of layer {i}")
        near(layer["least_cosine"], min(cosines), 1e-4, f"{name}: least cosine of layer {i}")
        want = small_bert.distance(flat(a[i]), flat(b[i]))
        near(layer["distance"], want, 1e-4 * max(1.0, want), f"{name}: distance of layer {i}")
        far = max(abs(y - x) for x, y in zip(flat(a[i]), flat(b[i])))
        near(layer["difference"], far, 1e-4 * max(1.0, far), f"{name}: difference of layer {i}")
    va, vb = small_bert.pooled(a[-1], ITEMS), small_bert.pooled(b[-1], ITEMS)
    check([(i["index"], i["tokens"]) for i in told["items"]] == [(i, len(x)) for i, x in enumerate(ITEMS)],
          f"{name}: the items", told["items"])
    for item, x, y in zip(told["items"], va, vb):
        near(item["cosine"], small_bert.cosine(x, y), 2e-5, f"{name}: cosine of item {item['index']}")
        near(item["distance"], small_bert.distance(x, y), 1e-4, f"{name}: distance of item {item['index']}")


def test_statistics():
    for name in ("batch-running-post", "batch-running-pre"):
        model = small_bert.Model(NORMS / name)
        running, batch = model.run(ITEMS, "running"), model.run(ITEMS, "batch")
        code, out, err = run(str(NORMS / name), "--json", "--with", '{"norm": {"statistics": "batch"}}')
        check(code == 0 and err == "", f"{name}: ran", (code, err))
        told = json.loads(out)
        judge(name, told, running, batch)
        check(told["batch_dependent"] == [False, True], f"{name}: batch_dependent", told["batch_dependent"])
        departs = {"first": 0, "beyond_tolerance": 0, "tolerance": 1e-5}
        check(told["departs"] == departs, f"{name}: departs", told["departs"])
    # Opened as another model: the same numbers where it is the same; and the embeddings keep a norm of their own.
    for name in ("batch-running-post", "batch-running-pre"):
        model = small_bert.Model(NORMS / name)
        first = int(name.endswith("pre"))
        code, out, err = run(str(NORMS / name), "--json", "--with",
                             json.dumps({"norm": {**model.key["norm"], "statistics": "batch"}}))
        check(code == 0 and err == "", f"{name}: as a model of its own", (code, err))
        told = json.loads(out)
        judge(f"{name}, as a model of its own", told, model.run(ITEMS, "running"),
              model.run(ITEMS, lambda path: "running" if first and path.startswith("embeddings") else "batch"))
        check(told["departs"]["first"] == first and told["layers"][0]["identical"] == bool(first),
              f"{name}: departs after the embeddings", told["departs"])


def test_fields():
    name = "layer-post"
    model = small_bert.Model(NORMS / name)
    code, out, err = run(str(NORMS / name), "--json", "--with", '{"norm":{"eps":0.01}}')
    check(code == 0, "eps: ran", (code, err))
    judge("eps", json.loads(out), model.run(ITEMS), model.run(ITEMS, norm={"eps": 0.01}))
    code, out, err = run(str(NORMS / name), "--json", "--with", json.dumps({"norm": model.key["norm"]}))
    told = json.loads(out)
    check(code == 0 and told["departs"]["first"] is None and told["departs"]["beyond_tolerance"] is None,
          "nothing else: departs nowhere", told["departs"])
    check(all(x["identical"] and x["distance"] == 0 for x in told["layers"] + told["items"]), "nothing else: identical")
    # One sub-layer alone: the layer's attention norm keeps, its ffn norm changes.
    code, out, err = run(str(NORMS / name), "--json", "--with", '{"ffn_norm":{"eps":5}}')
    told = json.loads(out)
    check(told["departs"]["first"] == 1 and told["layers"][0]["identical"], "ffn_norm: departs in layer 0", told)
    code, out, err = run(str(NORMS / name), "--json", "--digits", "1", "--with", '{"norm":{"eps":0.49}}')
    told = json.loads(out)
    check(told["departs"] == {"first": 0, "beyond_tolerance": None, "tolerance": 0.1}, "digits", told["departs"])


REFUSED = [
    # model, more arguments, status, what the sentence must hold
    ("layer-post", ["--with", '{"norm":{"kind":"dyt"}}'], ["dyt", "training", "max |y|", "tanh ends at 1", "layer"]),
    ("layer-post", ["--with", '{"norm":{"kind":"dyt","alpha":0.5}}'], ["dyt", "training", "max |y|"]),
    ("layer-post", ["--with", '{"ffn_norm":{"kind":"derf","alpha":1,"shift":0}}'], ["derf", "max |y|", "ffn_norm"]),
    ("layer-post", ["--with", '{"norm":{"kind":"ada","c":1,"k":0.2}}'], ["ada", "max |y|", "1/(2k) = 2.5"]),
    ("layer-post", ["--with", '{"norm":{"kind":"batch","eps":1e-5}}'], ["running_mean"]),
    ("layer-post", ["--with", '{"norm":{"kind":"rms","eps":1e-5,"eps_mode":"variance"}}'], ["bias"]),
    ("layer-post", ["--with", '{"norm":{"statistics":"batch"}}'], ["norm.statistics"]),
    ("layer-post", ["--with", '{"norm":{"epsilon":1}}'], ["with", "lamina.norm.epsilon"]),
    ("layer-post", ["--with", '{"norms":{}}'], ["with", "lamina.norms"]),
    ("layer-post", ["--with", "[1]"], ["with", "object"]),
    ("layer-post", ["--with", "{"], ["with"]),
    ("layer-post", [], ["--with", "missing"]),
    ("layer-post", ["--with", "{}", "--text", "a"], ["--text", "tokenizer"]),
    ("layer-post", ["--with", "{}", "--input", "/nonexistent/x"], ["/nonexistent/x"]),
    ("nowhere", ["--with", "{}"], ["nowhere"]),
]


def test_refusals():
    for name, args, words in REFUSED:
        code, out, err = run(str(NORMS / name), *args)
        ok = code == 2 and out == "" and err.startswith("lamina: ") and err.count("\n") == 1
        check(ok and all(w in err for w in words), f"{name} {args}: refused", (code, out, err))
    # The value told is the one measured: below its 1/(2k), ada is let through.
    code, _, err = run(str(NORMS / "layer-post"), "--with", '{"norm":{"kind":"ada","c":1}}')
    top = float(err.split("is ")[1].split(" ")[0])
    for k, fine in ((0.499 / top, True), (0.501 / top, False)):
        code, out, err = run(str(NORMS / "layer-post"), "--with", json.dumps({"norm": {"kind": "ada", "c": 1, "k": k}}))
        check((code == 0) == fine, f"ada with k = {k} where max |y| is {top}", (code, err))
    code, out, err = run(str(NORMS / "layer-post"), "--with", "{}", stdin=b"[1,2]\n\n[3,999]\n")
    check(code == 2 and "line 3" in err, "an id outside the vocabulary: its line", err)
    code, out, err = run(str(NORMS / "layer-post"), "--with", "{}", stdin=b"\n")
    check(code == 2 and "no line" in err, "no input", err)


def test_text():
    code, out, err = run(str(NORMS / "batch-running-pre"), "--with", '{"norm":{"kind":"batch","eps":1,"statistics":"batch"}}')
    check(code == 0 and "\ndeparts at 1\n" in out and "  bit-identical\n" in out, "text", out)
    tiny = ROOT / "tests/data/models/families/st-mean-prompts-new"
    code, out, err = run(str(tiny), "--text", "a b", "--json", "--with", '{"norm":{"eps":1e-3}}')
    check(code == 0 and len(json.loads(out)["items"]) == 1, "a text on a model without `lamina`", (out, err))


HTTP_REFUSED = [
    ({"with": {"norm": {"kind": "rms"}}}, "unsupported", "/with/norm/kind"),
    ({"with": {"norm": {"eps": 1e-5}}}, "unsupported", "/with/norm/eps"),
    ({"with": {"placement": "pre"}}, "unsupported", "/with/placement"),
    ({"with": {"norm": {"whatever": 1}}}, "unknown_field", "/with/norm"),
    ({"with": {"norm": {"statistics": "token"}}}, "invalid_value", "/with/norm/statistics"),
    ({"with": {}}, "missing_field", "/with/norm"),
    ({"with": None}, "wrong_type", "/with"),
    ({}, "missing_field", "/with"),
    ({"with": {"norm": {"statistics": "batch"}}, "digits": 0}, "out_of_range", "/digits"),
    ({"with": {"norm": {"statistics": "batch"}}, "normalize": True}, "unknown_field", "/normalize"),
    ({"with": {"norm": {"statistics": "batch"}}, "tokens": [[1] * 30] * 20}, "limit", ""),
]


def test_http():
    name = "batch-running-post"
    body = {"tokens": ITEMS, "with": {"norm": {"statistics": "batch"}}}
    _, out, _ = run(str(NORMS / name), "--json", "--with", json.dumps(body["with"]))
    want = json.loads(out)
    with lamina.Server("--max-batch-tokens", "512", "--workers", "2", model=str(NORMS / name)) as s:
        reply = s.ask("POST", "/v1/compare", body)
        told = reply.json()
        check(reply.status == 200 and set(told.pop("timing")) == {"queue_ms", "compute_ms", "total_ms"}, "http", told)
        check(told == want, "http: the same as the command line", (told, want))
        back = s.ask("POST", "/v1/compare", {"tokens": ITEMS, "norm": {"statistics": "batch"},
                                             "with": {"norm": {"statistics": "running"}}}).json()
        check(back["batch_dependent"] == [True, False], "http: the other way round", back)
        check(back["departs"] == told["departs"], "http: departs at the same place", back["departs"])
        check(all(abs(x["difference"] - y["difference"]) == 0 for x, y in zip(back["layers"], told["layers"])),
              "http: the same differences", back)
        same = s.ask("POST", "/v1/compare", {**body, "norm": {"statistics": "batch"}}).json()
        check(same["departs"]["first"] is None and same["batch_dependent"] == [True, True], "http: the same twice", same)
        for change, code, param in HTTP_REFUSED:
            reply = s.ask("POST", "/v1/compare", {"tokens": ITEMS, **change})
            error = reply.json()["error"]
            if code == "limit":
                check(reply.status == 400 and error["limit"] == 256 and error["actual"] == 600, f"http {change}", error)
                continue
            check(reply.status == 400 and error["code"] == code and error["param"] == param, f"http {change}", error)
        hint = s.ask("POST", "/v1/compare", {"tokens": ITEMS, "with": {"norm": {"kind": "rms"}}}).json()["error"]
        check("lamina compare" in hint["message"], "http: a hint to the command line", hint)
        encoded = s.ask("POST", "/v1/encode", {"tokens": ITEMS}).json()
        check(len(encoded["embeddings"]) == len(ITEMS), "http: /v1/encode as ever", encoded)
    with lamina.Server(model=str(NORMS / "layer-post")) as s:
        error = s.ask("POST", "/v1/compare", body).json()["error"]
        check(error["code"] == "unsupported" and error["param"] == "/with/norm/statistics", "http: layer", error)


def main():
    for test in (test_statistics, test_fields, test_refusals, test_text, test_http):
        test()
    REPORT.finish()


if __name__ == "__main__":
    main()
