#!/usr/bin/env python3
"""lamina calibrate: statistics against a float64 computation of their own, the same bytes for any number of workers
and after an interruption, reports and refusals.

Runs the program in LAMINA_BIN (build/lamina) on small models of tests/data. Ends with `N passed, N failed`.
"""
import json
import math
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import report  # noqa: E402
from norm_reference import Model, read_safetensors  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = os.environ.get("LAMINA_BIN", str(ROOT / "build" / "lamina"))
NORMS = ROOT / "tests/data/norms"
TEXT_MODEL = ROOT / "tests/data/models/families/st-mean-prompts-new"

# Statistics equal a float64 computation to this, a mean relative to its channel's rms.
TOLERANCE = 1e-6
CASES = [  # model, order, texts of a batch
    ("batch-running-post", "site", 0),
    ("batch-running-post", "one-pass", 0),
    ("batch-running-post", "site", 7),
    ("batch-running-pre", "one-pass", 7),
    ("batch-inner-after", "site", 0),
    ("batch-inner-before", "one-pass", 0),
    ("batch-group-scaled", "site", 0),
    ("batch-of-request-bare", "site", 0),
    ("rbn-post", "site", 0),
    ("repbn-post", "site", 0),
    ("power-post", "site", 0),
    ("power-pre", "one-pass", 5),
    ("power-v-pre", "site", 0),
    ("mabn-post", "site", 0),
    ("unified-pre", "site", 0),
    ("mixed-power-batch", "site", 0),
    ("layer-post", "site", 0),
    ("layer-pre", "site", 9),
]

REPORT = report.Report("calibrate")
check = REPORT.check
worst = 0.0


def command(model, texts, out, *args):
    return [BIN, "calibrate", str(model), "--texts", str(texts), "-o", str(out), "--quiet", *map(str, args)]


def run(argv, stdin=b""):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("LAM_")}
    done = subprocess.run(argv, input=stdin, capture_output=True, check=False, timeout=300, env=clean)
    return done.returncode, done.stdout, done.stderr.decode("utf-8", "replace")


def make_ids(seed, count, longest, vocab=97):
    rng = random.Random(seed)
    return [[rng.randrange(vocab) for _ in range(rng.randint(2, longest))] for _ in range(count)]


def write_lines(path, lists):
    path.write_text("".join(json.dumps(ids) + "\n" for ids in lists))
    return path


def tree(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


# ---- Numbers ----------------------------------------------------------------------------------------

def relative_error(norm, found, mean, square):
    """Largest error of a mean in units of the channel's rms, of a variance in units of itself."""
    global worst
    largest = 0.0
    for m, q, rm, rq in zip(mean or found[0], square, *found):
        rms = math.sqrt(rq + rm * rm)
        if rms > 0:
            largest = max(largest, abs(m - rm) / rms)
        # A channel that never moves has no variance to be relative to.
        if rq > 1e-9 * rms * rms:
            largest = max(largest, abs(q - rq) / rq)
    worst = max(worst, largest)
    return largest


def written(norm, tensors, prefix, profile):
    if not norm.running:
        return profile[f"{norm.path}.mean"][1], profile[f"{norm.path}.variance"][1]
    mean = tensors.get(f"{prefix}{norm.path}.{norm.names['mean']}")
    return mean and mean[1], tensors[f"{prefix}{norm.path}.{norm.names['square']}"][1]


def near(a, b, scale):
    return a is not None and abs(a - b) <= 2e-6 * max(abs(b), scale)


def check_report(what, model, norms, report, old, new, stored):
    rows = report["norms"]
    check(len(rows) == len(norms), f"{what}: a row for each norm", (len(rows), len(norms)))
    for norm, row in zip(norms, rows):
        check(row["kind"] == norm.kind and row["width"] == len(new[norm.path][1]), f"{what}: {norm.path}", row)
        if norm.running and norm.stored_square is not None:
            want = norm.distances(norm.stored_mean, norm.stored_square, *old[norm.path])
            check(set(want) == set(row["old"]) and all(near(row["old"][k], v, 1e-3) for k, v in want.items()),
                  f"{what}: {norm.path}: old distances", (row["old"], want))
        want = norm.distances(*stored[norm.path], *new[norm.path])
        # Both are rounding: next to nothing beside the channels' own size.
        size = max(1.0, *stored[norm.path][1])
        check(set(want) == set(row["new"]) and all(near(row["new"][k], v, size) for k, v in want.items()),
              f"{what}: {norm.path}: new distances", (row["new"], want))


def test_case(folder, name, order, batch):
    what = f"{name} {order}" + (f" batches of {batch}" if batch else "")
    model, texts = Model(NORMS / name), make_ids(len(name) + batch, 41, 14)
    out = folder / "out"
    args = ["--order", order, "--json", "--workers", 2]
    if batch:
        args += ["--estimator", "batches", "--batch-size", batch]
    code, stdout, err = run(command(NORMS / name, write_lines(folder / "ids", texts), out, *args))
    check(code == 0 and err == "", f"{what}: runs", (code, err))
    if code != 0:
        return
    report = json.loads(stdout)
    norms, found = model.run(texts, "site" if order == "site" else "stored", batch)
    running = any(n.running for n in norms)
    profile = read_safetensors(out / "lamina_profile.safetensors") if not all(n.running for n in norms) else {}
    tensors = read_safetensors(out / "model.safetensors") if running else {}
    stored = {}
    for norm in norms:
        mean, square = written(norm, tensors, model.prefix, profile)
        stored[norm.path] = mean, square
        error = relative_error(norm, found[norm.path], mean, square)
        check(error <= TOLERANCE, f"{what}: {norm.path} equals the reference", error)
    check(report["texts"] == len(texts) and report["tokens"] == sum(map(len, texts)), f"{what}: counts", report)
    old = model.run(texts, "stored")[1] if running else {}
    given = {n.path: (stored[n.path][0] or [0.0] * len(stored[n.path][1]), stored[n.path][1]) for n in norms if n.running}
    new = model.run(texts, "stored", 0 if running else batch, given)[1]
    check_report(what, model, norms, report, old, new, stored)
    check((report["embedding"] is not None) == (running and all(n.stored_square for n in norms if n.running)),
          f"{what}: embeddings are compared where there are two", report["embedding"])


def vectors(model, texts):
    body = json.dumps({"tokens": texts, **({"norm": {"statistics": "running"}} if "of-request" in str(model) else {})})
    code, out, err = run([BIN, "encode", str(model), "--format", "requests", "--quiet"], (body + "\n").encode())
    check(code == 0, f"encode {model}", err)
    return [item if isinstance(item, list) else item["embedding"] for item in json.loads(out)["embeddings"]]


def test_embeddings(folder):
    """The shift is that of the vectors which both models give to `lamina encode`."""
    texts = make_ids(3, 60, 20)
    out = folder / "out"
    code, stdout, err = run(command(NORMS / "power-pre", write_lines(folder / "ids", texts), out, "--json"))
    check(code == 0, "embeddings: runs", err)
    told = json.loads(stdout)["embedding"]
    cosines, largest = [], 0.0
    for a, b in zip(vectors(NORMS / "power-pre", texts), vectors(out, texts)):
        size = math.sqrt(sum(x * x for x in a) * sum(x * x for x in b))
        cosines.append(sum(x * y for x, y in zip(a, b)) / size)
        largest = max(largest, max(abs(x - y) for x, y in zip(a, b)))
    check(abs(told["mean_cosine"] - sum(cosines) / len(cosines)) < 1e-7, "mean cosine", (told, sum(cosines) / len(cosines)))
    check(abs(told["least_cosine"] - min(cosines)) < 1e-7, "least cosine", (told, min(cosines)))
    check(abs(told["largest_difference"] - largest) < 1e-4, "largest difference", (told, largest))
    check(told["texts"] == 60 and told["failed"] == 0, "embeddings: counts", told)


# ---- Bytes ------------------------------------------------------------------------------------------

def test_workers(folder):
    texts = make_ids(11, 700, 30)
    path = write_lines(folder / "ids", texts)
    for name, *more in (("batch-running-post",), ("power-post", "--order", "one-pass"), ("layer-post",),
                        ("batch-running-pre", "--estimator", "batches", "--batch-size", "16")):
        seen = []
        for workers in (1, 2, 3):
            out = folder / f"{name}-{workers}"
            batch = 512 if workers < 3 else 64
            code, _, err = run(command(NORMS / name, path, out, "--workers", workers, "--max-batch-tokens", batch, *more))
            check(code == 0, f"{name}: {workers} workers", err)
            seen.append(tree(out))
        check(seen[0] and seen[0] == seen[1] == seen[2], f"{name} {more}: the same bytes for 1, 2 and 3 workers")


def interrupt(argv, state, chunks_wanted):
    """Kills the command once its state file has been written a few times; False if it was too fast."""
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        changes, last = 0, None
        while process.poll() is None and changes < chunks_wanted:
            try:
                now = os.stat(state).st_ino, os.stat(state).st_mtime_ns
            except FileNotFoundError:
                now = last
            changes += now != last
            last = now
            time.sleep(0.0005)
        process.send_signal(signal.SIGKILL)
        process.wait()
        return process.returncode == -signal.SIGKILL


def test_resume(folder):
    path = write_lines(folder / "ids", make_ids(12, 3000, 30))
    for name, more in (("batch-running-post", []), ("layer-post", []), ("batch-running-pre", ["--estimator", "batches"])):
        whole, out = folder / f"{name}-whole", folder / f"{name}-parts"
        state = pathlib.Path(f"{out}.calibrating")
        code, report, err = run(command(NORMS / name, path, whole, "--json", *more))
        check(code == 0 and not pathlib.Path(f"{whole}.calibrating").exists(), f"resume {name}: the whole run", err)
        cuts = 0
        for workers in (2, 1, 2):
            argv = command(NORMS / name, path, out, "--workers", workers, "--checkpoint-seconds", 0, *more)
            cuts += interrupt(argv, state, 6)
        check(cuts >= 1, f"resume {name}: was interrupted")
        check(state.exists() and not out.exists() or cuts < 3, f"resume {name}: no output before the end")
        code, again, err = run(command(NORMS / name, path, out, "--workers", 2, "--json", *more))
        check(code == 0 and tree(out) == tree(whole), f"resume {name}: the same bytes", (code, err))
        check(not state.exists(), f"resume {name}: the state file is gone")
        a, b = json.loads(report), json.loads(again)
        for key in ("norms", "embedding", "texts", "tokens", "tokens_run", "passes"):
            check(a[key] == b[key], f"resume {name}: report: {key}", (a[key], b[key]))


def test_state_of_another_run(folder):
    path = write_lines(folder / "ids", make_ids(13, 3000, 30))
    out = folder / "out"
    state = pathlib.Path(f"{out}.calibrating")
    check(interrupt(command(NORMS / "batch-running-post", path, out, "--checkpoint-seconds", 0), state, 3), "state: interrupted")
    for what, argv in (("another order", command(NORMS / "batch-running-post", path, out, "--order", "one-pass")),
                       ("another model", command(NORMS / "batch-running-pre", path, out)),
                       ("other texts", command(NORMS / "batch-running-post", write_lines(folder / "b", make_ids(1, 9, 9)), out))):
        refused(f"state of {what}", argv, str(state))
    state.write_bytes(state.read_bytes()[:200])
    refused("state cut short", command(NORMS / "batch-running-post", path, out), str(state))
    state.write_bytes(b"something else")
    refused("no state", command(NORMS / "batch-running-post", path, out), str(state))


# ---- Output -----------------------------------------------------------------------------------------

def test_output(folder):
    """A copy is the model but for its statistics: other tensors, other files; no other weights, no hidden files."""
    source = folder / "source"
    shutil.copytree(NORMS / "batch-running-post", source)
    (source / "pytorch_model.bin").write_bytes(b"old")
    (source / ".hidden").write_bytes(b"x")
    (source / "1_Other").mkdir()
    (source / "1_Other" / "note.txt").write_bytes(b"kept")
    out = folder / "out"
    path = write_lines(folder / "ids", make_ids(5, 50, 12))
    code, text, err = run(command(source, path, out))
    check(code == 0, "output: runs", err)
    old, new = read_safetensors(source / "model.safetensors"), read_safetensors(out / "model.safetensors")
    check(set(old) == set(new), "output: the same tensors", set(old) ^ set(new))
    changed = {n for n in old if old[n] != new[n]}
    check(changed == {n for n in old if "running_" in n}, "output: only running statistics change", changed)
    check(all(old[n][0] == new[n][0] for n in old), "output: shapes stay")
    names = set(tree(out))
    check("config.json" in names and "1_Other/note.txt" in names, "output: other files are copied", names)
    check(not names & {"pytorch_model.bin", ".hidden"}, "output: no stale weights", names)
    check((out / "config.json").read_bytes() == (source / "config.json").read_bytes(), "output: config.json as it was")
    lines = text.decode().splitlines()
    check(any(line.startswith("0 attention_norm") for line in lines) and "mean cosine" in text.decode(), "output: readable report", lines)
    # Once more over its own result: nothing is left to move.
    code, stdout, err = run(command(out, path, folder / "again", "--json"))
    told = json.loads(stdout)
    check(told["embedding"]["mean_cosine"] > 1 - 1e-9, "output: calibrating the result changes nothing", told["embedding"])
    check(all(n["old"]["variance_tid"] < 1e-6 for n in told["norms"]), "output: the result meets what it holds", told["norms"])


def test_added(folder):
    """Running tensors that the file lacks are added; the model then runs on them when asked."""
    out = folder / "out"
    texts = make_ids(6, 40, 12)
    code, _, err = run(command(NORMS / "batch-of-request-bare", write_lines(folder / "ids", texts), out))
    old, new = read_safetensors(NORMS / "batch-of-request-bare/model.safetensors"), read_safetensors(out / "model.safetensors")
    added = set(new) - set(old)
    check(code == 0 and added and all("running_" in n for n in added), "added: running tensors", (err, added))
    check(len(vectors(out, texts)) == 40, "added: the model runs on them")


def test_profile(folder):
    """A profile may go into the model's own directory, is read with it and told to be another model's."""
    model = folder / "model"
    shutil.copytree(NORMS / "layer-post", model)
    path = write_lines(folder / "ids", make_ids(7, 50, 12))
    code, _, err = run(command(model, path, model))
    check(code == 0 and (model / "lamina_profile.safetensors").is_file(), "profile: beside the model", err)
    code, stdout, err = run(command(model, path, folder / "other", "--json"))
    rows = json.loads(stdout)["norms"]
    check(code == 0 and all(r["statistics"] == "profile" and r["old"]["variance_tid"] < 1e-6 for r in rows),
          "profile: is the old statistics of the next run", rows)
    refused("profile: not overwritten", command(model, path, model), "lamina_profile.safetensors")
    shutil.copy(model / "lamina_profile.safetensors", folder / "profile")
    for other in ("layer-pre", "layer-offset-post"):
        target = folder / other
        shutil.copytree(NORMS / other, target)
        shutil.copy(folder / "profile", target / "lamina_profile.safetensors")
        code, _, err = run([BIN, "inspect", str(target), "--quiet"])
        check((code == 0) == (other == "layer-offset-post"), f"profile: {other}", (code, err))
    check("lamina_profile.safetensors" in run([BIN, "inspect", str(folder / "layer-pre")])[2], "profile: names the file")


def test_texts(folder):
    """Lines of text go through the model's tokenizer and prompt; long ones are cut, empty ones left out."""
    path = folder / "texts"
    path.write_text("a b c\n\nb a\n   \n" + "a " * 4000 + "\nlast line without end")
    code, stdout, err = run(command(TEXT_MODEL, path, folder / "out", "--json"))
    told = json.loads(stdout) if code == 0 else {}
    check(code == 0 and told["input"] == "text", "texts: runs", (code, err))
    check((told.get("texts"), told.get("truncated"), told.get("empty_lines")) == (4, 1, 2), "texts: counts", told)
    # The same ids by hand.
    code, _, err = run(command(TEXT_MODEL, path, folder / "out2", "--format", "text", "--workers", 1))
    check(tree(folder / "out") == tree(folder / "out2"), "texts: auto is text")


# ---- Refusals ---------------------------------------------------------------------------------------

def refused(what, argv, named):
    code, out, err = run(argv)
    lines = err.splitlines()
    check(code == 2 and out == b"" and len(lines) == 1 and named in err, f"{what}: refused, naming {named}", (code, out, err))


def test_refusals(folder):
    model, ids = NORMS / "batch-running-post", write_lines(folder / "ids", [[1, 2, 3], [4, 5]])
    out = folder / "out"
    refused("no texts", [BIN, "calibrate", str(model), "-o", str(out)], "--texts")
    refused("no output", [BIN, "calibrate", str(model), "--texts", str(ids)], "--output")
    refused("missing texts", command(model, folder / "none", out), str(folder / "none"))
    refused("texts is a folder", command(model, folder, out), str(folder))
    refused("no tokenizer", command(model, ids, out, "--format", "text"), str(ids))
    for name, lines, line in (("no list", "[1,2]\nnonsense\n", 2), ("id out of range", "[1,2]\n\n[3,97]\n", 3),
                              ("negative id", "[-1]\n", 1), ("float", "[1]\n[1.5]\n", 2), ("empty list", "[1]\n[]\n", 2),
                              ("too many tokens", "[1]\n" + json.dumps([1] * 41) + "\n", 2)):
        path = folder / name.replace(" ", "-")
        path.write_text(lines)
        refused(name, command(model, path, out, "--format", "tokens"), f"{path}: line {line}")
    (folder / "empty").write_text("\n \n")
    refused("nothing in it", command(model, folder / "empty", out, "--format", "tokens"), str(folder / "empty"))
    (folder / "full").mkdir()
    (folder / "full" / "x").write_text("x")
    refused("output exists", command(model, ids, folder / "full"), str(folder / "full"))
    refused("output is a file", command(model, ids, ids), str(ids))
    refused("one pass without stored statistics", command(NORMS / "batch-of-request-bare", ids, out, "--order", "one-pass"), "--order")
    refused("unknown estimator", command(model, ids, out, "--estimator", "median"), "--estimator")
    for state in folder.glob("*.calibrating*"):
        check(state.name == "out.calibrating", "no state is left but that of a run that began", state.name)


def main():
    for name, order, batch in CASES:
        with tempfile.TemporaryDirectory() as path:
            test_case(pathlib.Path(path), name, order, batch)
    for test in (test_embeddings, test_workers, test_resume, test_state_of_another_run, test_output, test_added,
                 test_profile, test_texts, test_refusals):
        with tempfile.TemporaryDirectory() as path:
            test(pathlib.Path(path))
    print(f"largest error against float64: {worst:.2e} (limit {TOLERANCE:.0e})")
    REPORT.finish()


if __name__ == "__main__":
    main()
