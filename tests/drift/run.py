#!/usr/bin/env python3
"""Drift in /metrics: gauges against a float64 computation over all that was sent, whichever worker ran it; what is left
out of them; alert rules by promtool."""

import concurrent.futures
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "lib"))

import lamina  # noqa: E402
import report  # noqa: E402
from norm_reference import Model, read_safetensors  # noqa: E402

NORMS = ROOT / "tests/data/norms"


def make_ids(seed, count, longest=14):
    rng = random.Random(seed)
    return [[rng.randrange(97) for _ in range(rng.randint(2, longest))] for _ in range(count)]


def gauges(server, name):
    values = lamina.parse_metrics(server.ask("GET", "/metrics").body.decode())
    return {k: v for k, v in values.items() if k.split("{")[0] == name}


def label(model, norm, statistic):
    """The labels of a norm's gauge, from its place in the network."""
    parts = norm.path.split(".")
    site = {"embeddings.LayerNorm": "embedding", "encoder.FinalNorm": "final"}.get(norm.path)
    if site:
        return f'{{model="{model}",site="{site}",statistic="{statistic}"}}'
    site = {"InnerNorm": "ffn_inner_norm"}.get(parts[-1]) or ("attention_norm" if "attention" in parts else "ffn_norm")
    return f'{{model="{model}",layer="{parts[2]}",site="{site}",statistic="{statistic}"}}'


def check_gauges(out, what, server, name, norms, met, stored):
    tid, distance = gauges(server, "lamina_norm_tid"), gauges(server, "lamina_norm_distance")
    wanted = 0
    for norm in norms:
        for key, value in norm.distances(*stored[norm.path], *met[norm.path]).items():
            statistic, kind = key.rsplit("_", 1)
            family = tid if kind == "tid" else distance
            got = family.get(f"lamina_norm_{kind}" + label(name, norm, statistic))
            wanted += 1
            out.check(got is not None and abs(got - value) <= 1e-5 * max(value, 1e-2), f"{what}: {norm.path} {key}",
                      f"{got}, wanted {value}")
    out.check(len(tid) + len(distance) == wanted, f"{what}: no other gauges", f"{len(tid) + len(distance)}, wanted {wanted}")


def check_full(out, what, server, texts, norms, met, stored):
    """One request with the same texts tells the same at level full."""
    told = server.encode({"tokens": texts, "statistics": "full"}).json()
    for norm in norms:
        _, _, labels = label("", norm, "").partition("{")
        fields = dict(part.split("=") for part in labels.rstrip("}").replace('"', "").split(","))
        sites = told["layers"][int(fields["layer"])]["sites"] if "layer" in fields else told["sites"]
        got = sites[fields["site"]].get("population") or {}
        want = norm.distances(*stored[norm.path], *met[norm.path])
        out.check(set(got) == set(want) and all(abs(got[k] - v) <= 1e-5 * max(v, 1e-2) for k, v in want.items()),
                  f"{what}: {norm.path}: population of a request", f"{got}, wanted {want}")


def send(server, texts, **more):
    """Small requests at the same time, so that several workers have a part."""
    parts = [texts[i:i + 3] for i in range(0, len(texts), 3)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        return all(r.status == 200 for r in pool.map(lambda p: server.encode({"tokens": p, **more}), parts))


def vectors(server, texts):
    return [server.encode({"tokens": [t], "encoding_format": "base64"}).json()["embeddings"] for t in texts]


def test_running(out, name):
    texts = make_ids(1, 60)
    model = Model(NORMS / name)
    norms, met = model.run(texts, "stored")
    stored = {n.path: (n.stored_mean, n.stored_square) for n in norms}
    with lamina.Server("--workers", 4, "--drift-sample", 1, "--drift-window-s", 600, model=str(NORMS / name)) as server:
        out.check(not gauges(server, "lamina_norm_tid"), f"{name}: no gauges before traffic", "some")
        out.check(send(server, texts), f"{name}: requests", "refused")
        check_gauges(out, name, server, name, norms, met, stored)
        tokens = gauges(server, "lamina_norm_tokens")
        out.check(list(tokens.values()) == [sum(map(len, texts))], f"{name}: tokens", f"{tokens}")
        check_full(out, name, server, texts, norms, met, stored)
        tokens = gauges(server, "lamina_norm_tokens")
        # A source of statistics of a request's own is another network.
        out.check(send(server, texts[:9], norm={"statistics": "batch"}), f"{name}: override", "refused")
        out.check(gauges(server, "lamina_norm_tokens") == tokens, f"{name}: overrides do not count", "they do")
        # Nor do requests that stop at an early layer make a norm behind it blind.
        out.check(send(server, texts[:9], output_layer=0), f"{name}: early layer", "refused")
        page = server.ask("GET", "/metrics").body.decode()
        lint = subprocess.run(["promtool", "check", "metrics"], input=page, text=True, capture_output=True)
        out.check(lint.returncode == 0, f"{name}: promtool check metrics", lint.stdout + lint.stderr)
        measured = vectors(server, texts[:20])
        out.check(server.stop() == 0, f"{name}: exit status", "not 0")
    with lamina.Server("--workers", 1, "--drift-sample", 0, model=str(NORMS / name)) as server:
        out.check(vectors(server, texts[:20]) == measured, f"{name}: the same bits without", "others")
        out.check("lamina_norm" not in server.ask("GET", "/metrics").body.decode(), f"{name}: off", "gauges")


def test_profile(out):
    texts = make_ids(2, 60)
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "profiled"
        shutil.copytree(NORMS / "layer-post", model)
        ids = pathlib.Path(folder) / "ids"
        ids.write_text("".join(f"{t}\n" for t in make_ids(3, 60)))
        done = subprocess.run([lamina.BINARY, "calibrate", str(model), "--texts", str(ids), "-o", str(model), "--quiet"],
                              capture_output=True, check=False)
        out.check(done.returncode == 0, "profile: calibrate", done.stderr)
        profile = read_safetensors(model / "lamina_profile.safetensors")
        norms, met = Model(model).run(texts, "stored")
        stored = {n.path: (profile[f"{n.path}.mean"][1], profile[f"{n.path}.variance"][1]) for n in norms}
        with lamina.Server("--workers", 2, "--drift-sample", 1, model=str(model)) as server:
            out.check(send(server, texts), "profile: requests", "refused")
            check_gauges(out, "profile", server, "profiled", norms, met, stored)
            check_full(out, "profile", server, texts, norms, met, stored)
    with lamina.Server("--drift-sample", 1, model=str(NORMS / "layer-post")) as server:
        server.encode({"tokens": texts})
        out.check("lamina_norm" not in server.ask("GET", "/metrics").body.decode(), "no statistics: no gauges", "gauges")


def test_window(out):
    texts = make_ids(4, 9)
    with lamina.Server("--workers", 2, "--drift-sample", 1, "--drift-window-s", 1, model=str(NORMS / "power-post")) as server:
        send(server, texts)
        out.check(gauges(server, "lamina_norm_tid"), "window: gauges", "none")
        time.sleep(2.5)
        out.check(list(gauges(server, "lamina_norm_tokens").values()) == [0], "window: what is old is forgotten", "kept")
        out.check(not gauges(server, "lamina_norm_tid"), "window: no distance of nothing", "some")


def test_sample(out):
    with lamina.Server("--workers", 1, "--drift-sample", 4, model=str(NORMS / "power-post")) as server:
        for _ in range(8):
            server.encode({"tokens": [[1, 2, 3, 4, 5]]})
        tokens = gauges(server, "lamina_norm_tokens")
        out.check(list(tokens.values()) == [10], "sample: every fourth batch", f"{tokens}")


def test_rules(out):
    if not shutil.which("promtool"):
        out.note("promtool is not installed: the alert rules are not checked")
        return
    for args in (["check", "rules", str(ROOT / "docker/lamina.rules.yml")], ["test", "rules", str(HERE / "rules_test.yml")]):
        done = subprocess.run(["promtool", *args], text=True, capture_output=True, check=False)
        out.check(done.returncode == 0, "promtool " + " ".join(args[:2]), done.stdout + done.stderr)


def main():
    out = report.Report("drift")
    for name in ("batch-running-post", "power-pre", "batch-inner-after"):
        test_running(out, name)
    test_profile(out)
    test_window(out)
    test_sample(out)
    test_rules(out)
    out.finish()


if __name__ == "__main__":
    os.environ.pop("LAMINA_MODEL", None)
    main()
