#!/usr/bin/env python3
"""`lamina check`: its verdicts on every model of tests/data/norms, from what their config.json says, and on the
default model where it is there.

Runs the program in LAMINA_BIN (build/lamina). Ends with `N passed, N failed`.
"""
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "lib"))
import report  # noqa: E402

BIN = os.environ.get("LAMINA_BIN", str(ROOT / "build" / "lamina"))
NORMS = ROOT / "tests/data/norms"
REAL = os.environ.get("LAMINA_MODEL", str(ROOT / "models/all-MiniLM-L6-v2"))
TESTS = ["alone", "batch", "padding_behind", "padding_front", "padding_inside", "workers"]

# By definition: the source of a kind that names none, and what rows on a source depend on.
CHOICE = {"batch", "rbn", "repbn", "power", "power_v", "mabn", "unified"}
NO_SOURCE = {"none", "dyt", "derf"}
VERDICT = {"token": "independent", "none": "independent", "running": "independent", "sequence": "length",
           "batch": "batch"}
WORSE = ["independent", "length", "batch"]

REPORT = report.Report("check")
check = REPORT.check


def source_of(norm, asked):
    kind = norm["kind"]
    if kind in NO_SOURCE:
        return "none"
    if kind in CHOICE:
        return asked or norm.get("statistics", "running")
    if kind == "instance":
        stated = norm.get("statistics", "sequence")
        return asked if asked == "running" else stated
    return norm.get("statistics", "token")


def expected(config, asked=None):
    """{(layer, site): (kind, source)} of the configuration."""
    key = config["lamina"]
    place, layers = key["placement"], config["num_hidden_layers"]
    post = place in ("post", "deepnorm")
    norm = key.get("norm")
    per_layer = {}
    if place != "none":
        attention, ffn = key.get("attention_norm", norm), key.get("ffn_norm", norm)
        per_layer = {"attention_norm": attention, "ffn_norm": ffn}
        if place in ("sandwich", "peri"):
            per_layer |= {"attention_branch_norm": attention, "ffn_branch_norm": ffn}
        if place == "sub":
            per_layer |= {"attention_sub_norm": attention, "ffn_sub_norm": ffn}
    if key.get("inner_norm"):
        per_layer["ffn_inner_norm"] = key["inner_norm"]
    alone = {"embedding": key.get("embedding_norm", norm if post or place == "peri" else None),
             "final": key.get("final_norm", None if post or place == "none" else norm)}
    sites = {(None, site): n for site, n in alone.items() if n}
    sites |= {(i, site): n for i in range(layers) for site, n in per_layer.items()}
    return {at: (n["kind"], source_of(n, asked)) for at, n in sites.items()}


def run(*args):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("LAM_")}
    done = subprocess.run([BIN, "check", *args], capture_output=True, check=False, timeout=300, env=clean)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def judge(name, told, code, want):
    """What check told against what is expected of the sites."""
    got = {(n.get("layer"), n["site"]): (n["kind"], n["source"]) for n in told["norms"]}
    check(got == want, f"{name}: the norms are those of config.json", (got, want))
    check(len(got) == len(told["norms"]), f"{name}: each norm once")
    for n in told["norms"]:
        at = (name, n.get("layer"), n["site"])
        verdict = VERDICT[n["source"]]
        check(n["verdict"] == verdict, f"{at}: verdict", n)
        check(n["measured"] == verdict, f"{at}: measured", n)
        check((n["batch_difference"] > 0) == (verdict == "batch"), f"{at}: changed by the batch", n)
        check((n["length_difference"] > 0) == (verdict != "independent"), f"{at}: changed by length", n)
    worst = max((VERDICT[source] for _, source in want.values()), key=WORSE.index, default="independent")
    check(told["verdict"] == worst, f"{name}: verdict {worst}", told["verdict"])
    check(told["independent"] == (worst == "independent"), f"{name}: independent")
    check(told["as_defined"] and not told["padding_matters"], f"{name}: as defined, no padding", told)
    check(code == (0 if worst == "independent" else 1), f"{name}: exit status", code)
    isas = {r["isa"] for r in told["measured"]}
    check("ref" in isas and set(told["distance_to_ref"]) == isas, f"{name}: instruction sets", isas)
    check(len(told["measured"]) == len(isas) * len(TESTS), f"{name}: every test on every set")
    for r in told["measured"]:
        at = f"{name}: {r['isa']} {r['test']}"
        broken = worst == "batch" and r["test"] == "batch"
        check(r["identical"] == (not broken), f"{at}: identical", r)
        check(r["runs"] > 0 and r["rows"] > 0, f"{at}: something ran", r)
        if broken:
            first = (r["first"].get("layer"), r["first"]["site"])
            check(r["first"]["difference"] > 1e-6 and r["vector_distance"] > 1e-6, f"{at}: a size", r)
            check(want.get(first, (None, None))[1] == "batch", f"{at}: the first is a norm of the batch", first)


def test_models():
    for folder in sorted(NORMS.iterdir()):
        config = json.loads((folder / "config.json").read_text())
        code, out, err = run(str(folder), "--json", "--quiet")
        check(code in (0, 1) and err == "", f"{folder.name}: ran", (code, err))
        if code in (0, 1):
            judge(folder.name, json.loads(out), code, expected(config))


def test_override():
    for name, asked in (("batch-running-post", "batch"), ("mixed-power-batch", "batch"),
                        ("batch-of-request-post", "running"), ("instance-running", "running")):
        config = json.loads((NORMS / name / "config.json").read_text())
        code, out, err = run(str(NORMS / name), "--json", "--quiet", "--statistics", asked)
        check(code in (0, 1), f"{name} {asked}: ran", (code, err))
        if code in (0, 1):
            judge(f"{name} {asked}", json.loads(out), code, expected(config, asked))
    code, out, err = run(str(NORMS / "layer-post"), "--quiet", "--statistics", "batch")
    check(code == 2 and "norm.statistics" in err and out == "", "layer has no batch statistics", (code, err))


def test_text():
    code, out, err = run(str(NORMS / "batch-of-request-post"), "--quiet")
    check(code == 1 and "\nanswer      no: batch, measured as defined\n" in out, "text: the answer", out)
    check(out.count("differs: first at embedding by ") >= 1, "text: what breaks it", out)
    code, out, err = run(str(NORMS / "layer-post"), "--quiet", "--cpu", "ref")
    check(code == 0 and "\nanswer      yes: independent, measured as defined\n" in out, "text: yes", out)
    check("avx" not in out, "text: no set above --cpu", out)


def test_real():
    if not (pathlib.Path(REAL) / "config.json").exists():
        print("the default model is not there: skipped")
        return
    config = json.loads((pathlib.Path(REAL) / "config.json").read_text())
    config["lamina"] = {"placement": "post", "norm": {"kind": "layer"}}
    code, out, err = run(REAL, "--json", "--quiet")
    check(code == 0 and err == "", "the default model: ran", (code, err))
    if code == 0:
        judge("the default model", json.loads(out), code, expected(config))


def main():
    for test in (test_models, test_override, test_text, test_real):
        test()
    REPORT.finish()


if __name__ == "__main__":
    main()
