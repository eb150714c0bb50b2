#!/usr/bin/env python3
"""`lamina sweep`: its numbers against a forward pass in plain Python, its figure, and what is refused.

Runs the program in LAMINA_BIN (build/lamina). Ends with `N passed, N failed`.
"""
import csv
import io
import json
import math
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "lib"))
import report  # noqa: E402
import small_bert  # noqa: E402

BIN = os.environ.get("LAMINA_BIN", str(ROOT / "build" / "lamina"))
NORMS = ROOT / "tests/data/norms"
SIZES = [1, 3, 8, 22]
COLUMNS = ["statistics", "batch_size", "batches", "items", "tokens", "error_mean", "error_max", "cosine_mean",
           "cosine_min", "mean_tid", "variance_tid", "second_moment_tid"]

REPORT = report.Report("sweep")
check = REPORT.check


def near(got, want, tolerance, what):
    check(got != "" and abs(float(got) - want) <= tolerance * max(1.0, abs(want)), what, (got, want))


def inputs(count=23, shortest=2):
    draw = random.Random(7)
    return [[draw.randrange(97) for _ in range(draw.randint(shortest, 9))] for _ in range(count)]


def run(folder, model, *args, items=None, text=None):
    path = pathlib.Path(folder) / "lines.txt"
    path.write_text(text if text is not None else "".join(f"{json.dumps(ids)}\n" for ids in items))
    clean = {k: v for k, v in os.environ.items() if not k.startswith("LAM_")}
    done = subprocess.run([BIN, "sweep", str(model), "--texts", str(path), *args], capture_output=True, check=False,
                          timeout=120, env=clean)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def table(text):
    rows = list(csv.DictReader(io.StringIO(text)))
    check(bool(rows) and list(rows[0]) == COLUMNS, "the columns", text[:200])
    return rows


def tids(model, eps):
    """Of every norm in the last run: mean over channels of both discrepancies."""
    out = []
    for path, rows in model.seen.items():
        means, variances = small_bert.moments(rows)
        stored = zip(model.tensors[path + ".running_mean"], model.tensors[path + ".running_var"])
        a = b = 0.0
        for m, v, (sm, sv) in zip(means, variances, stored):
            a += abs(sm - m) / math.sqrt(v + eps)
            b += abs(math.sqrt(sv + eps) / math.sqrt(v + eps) - 1.0)
        out.append((a / len(means), b / len(means)))
    return out


def expected(model, items, size, source):
    eps = model.key["norm"]["eps"]
    errors, cosines, discrepancies, tokens = [], [], [], 0
    batches = len(items) // size
    for b in range(batches):
        group = items[b * size:(b + 1) * size]
        tokens += sum(len(ids) for ids in group)
        want = small_bert.pooled(model.run(group, "running")[-1], group)
        got = small_bert.pooled(model.run(group, source)[-1], group)
        discrepancies += tids(model, eps)
        errors += [small_bert.distance(x, y) for x, y in zip(want, got)]
        cosines += [small_bert.cosine(x, y) for x, y in zip(want, got)]
    return {"batches": batches, "items": len(errors), "tokens": tokens, "error_mean": sum(errors) / len(errors),
            "error_max": max(errors), "cosine_mean": sum(cosines) / len(cosines), "cosine_min": min(cosines),
            "mean_tid": sum(a for a, _ in discrepancies) / len(discrepancies),
            "variance_tid": sum(b for _, b in discrepancies) / len(discrepancies)}


def test_numbers(folder):
    items = inputs()
    for name in ("batch-running-post", "batch-running-pre"):
        model = small_bert.Model(NORMS / name)
        code, out, err = run(folder, NORMS / name, "--quiet", "--batch-sizes", ",".join(map(str, SIZES)), items=items)
        check(code == 0 and err == "", f"{name}: ran", (code, err))
        rows = table(out)
        check([(r["statistics"], int(r["batch_size"])) for r in rows] ==
              [(s, n) for n in SIZES for s in ("batch", "running")], f"{name}: the rows", out)
        for row in rows:
            want = expected(model, items, int(row["batch_size"]), row["statistics"])
            for key, value in want.items():
                what = f"{name}: {row['statistics']} {row['batch_size']}: {key}"
                if isinstance(value, int):
                    check(int(row[key]) == value, what, (row[key], value))
                else:
                    near(row[key], value, 2e-4, what)
            check(row["second_moment_tid"] == "", f"{name}: no second moment", row)
            if row["statistics"] == "running":
                check(row["error_mean"] == row["error_max"] == "0", f"{name}: running statistics know no batch", row)
        batch = [r for r in rows if r["statistics"] == "batch"]
        check(all(float(r["error_mean"]) > 1e-3 for r in batch), f"{name}: batch statistics differ", batch)


def test_kinds(folder):
    code, out, _ = run(folder, NORMS / "power-post", "--quiet", "--batch-sizes", "4", items=inputs())
    rows = table(out)
    check(code == 0 and all(r["mean_tid"] == r["variance_tid"] == "" and float(r["second_moment_tid"]) > 0
                            for r in rows), "power has a second moment alone", rows)


def test_workers(folder):
    outs = {run(folder, NORMS / "batch-running-post", "--quiet", "--workers", str(n), "--batch-sizes", "1,2,5",
                items=inputs(60))[1] for n in (1, 2, 3)}
    check(len(outs) == 1 and len(outs.pop().splitlines()) == 7, "the same bytes for any number of workers")


def test_files(folder):
    out_path, figure = pathlib.Path(folder) / "sweep.csv", pathlib.Path(folder) / "sweep.svg"
    code, out, err = run(folder, NORMS / "batch-running-post", "--csv", str(out_path), items=inputs())
    check(code == 0 and out == "" and len(table(out_path.read_text())) == 10, "--csv", (code, out, err))
    check("no batch of 32 items: there are 23" in err, "sizes that no batch fills are told", err)
    if not shutil.which("gnuplot"):
        check(False, "gnuplot is there (tools/deps test)")
        return
    code, out, err = run(folder, NORMS / "batch-running-post", "--quiet", "--plot", str(figure), items=inputs())
    check(code == 0 and err == "" and len(table(out)) == 10, "--plot", (code, err))
    drawn = xml.etree.ElementTree.fromstring(figure.read_text())
    text = " ".join(drawn.itertext())
    check(drawn.tag.endswith("svg") and "TID of the variance" in text and "running" in text, "the figure", text[:300])
    # A line for each source in each panel: through the five sizes, and its sample in the key.
    svg = "{http://www.w3.org/2000/svg}"
    lines = [g for g in drawn.iter(svg + "g") if g.get("id", "").startswith("gnuplot_plot_")]
    longest = [max((p.get("d", "").count("L") for p in g.iter(svg + "path")), default=0) for g in lines]
    check(len(lines) == 6 and all(n == 5 for n in longest), "the figure has lines", longest)
    code, out, err = run(folder, NORMS / "batch-running-post", "--quiet", "--plot", "/nonexistent/x.svg", items=inputs())
    check(code == 2 and "/nonexistent/x.svg" in err, "a figure that cannot be written", err)
    check(sorted(p.name for p in pathlib.Path(folder).glob("*.part")) == [], "nothing half done is left")


REFUSED = [
    ("layer-post", [], "[1,2]\n", ["norm.statistics"]),
    ("batch-of-request-bare", [], "[1,2]\n", ["running"]),
    ("batch-running-post", ["--batch-sizes", "0"], "[1]\n", ["--batch-sizes", "\"0\""]),
    ("batch-running-post", ["--batch-sizes", "x"], "[1]\n", ["--batch-sizes", "\"x\""]),
    ("batch-running-post", ["--batch-sizes", "2"], "[1]\n", ["fills no batch"]),
    ("batch-running-post", [], "[1]\n[97]\n", ["line 2"]),
    ("batch-running-post", [], "a text\n", ["tokenizer"]),
    ("batch-running-post", [], "[1]\na text\n", ["line 2", "list"]),
    ("batch-running-post", [], "", ["no line"]),
    ("batch-running-post", ["--csv", "/nonexistent/x"], "[1]\n", ["/nonexistent/x"]),
]


def test_refusals(folder):
    for name, args, text, words in REFUSED:
        code, out, err = run(folder, NORMS / name, "--quiet", *args, text=text)
        ok = code == 2 and out == "" and err.startswith("lamina: ") and err.count("\n") == 1
        check(ok and all(w in err for w in words), f"{name} {args} {text!r}: refused", (code, out, err))


def main():
    with tempfile.TemporaryDirectory() as folder:
        for test in (test_numbers, test_kinds, test_workers, test_files, test_refusals):
            test(folder)
    REPORT.finish()


if __name__ == "__main__":
    main()
