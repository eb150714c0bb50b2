#!/usr/bin/env python3
"""Real clients, unmodified: the OpenAI SDKs for Python and Node, curl and wrk.

The SDKs are installed once into build/clients at the versions below, from the usual package registries.
Where a registry cannot be reached, that client is skipped, and the output says so.
"""

import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))

import lamina
import report

PYTHON_SDK = "openai==3.57.0"
NODE_SDK = "openai@6.49.0"
BUILD = os.path.join(lamina.ROOT, "build", "clients")


def quiet(command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, **options)


def install_python(out):
    home = os.path.join(BUILD, "python")
    python = os.path.join(home, "bin", "python")
    if quiet([python, "-c", "import openai"]).returncode if os.path.exists(python) else True:
        made = quiet([sys.executable, "-m", "venv", home])
        if made.returncode:
            out.note(f"openai for Python skipped: no virtual environment ({made.stdout.strip()[-200:]})")
            return None
        got = quiet([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", PYTHON_SDK])
        if got.returncode:
            out.note(f"openai for Python skipped: not installable ({got.stdout.strip()[-200:]})")
            return None
    return python


def install_node(out):
    if not shutil.which("npm") or not shutil.which("node"):
        out.note("openai for Node skipped: node and npm are not installed")
        return None
    home = os.path.join(BUILD, "node")
    if not os.path.exists(os.path.join(home, "node_modules", "openai", "package.json")):
        os.makedirs(home, exist_ok=True)
        got = quiet(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", home, NODE_SDK])
        if got.returncode:
            out.note(f"openai for Node skipped: not installable ({got.stdout.strip()[-200:]})")
            return None
    return home


def take_results(out, name, done):
    """A client script prints `ok NAME` or `FAIL NAME: why` a line and ends with the line `end`."""
    lines = done.stdout.strip().splitlines()
    for line in lines:
        if line.startswith("ok "):
            out.check(True, line)
        elif line.startswith("FAIL "):
            out.fail(name, line[5:])
    finished = done.returncode == 0 and lines and lines[-1] == "end"
    out.check(finished, f"{name} ran to its end", f"exit {done.returncode}: {done.stdout[-1500:]}")


def sdk_environment(server, busy, facts):
    body = {"tokens": [[1] * min(facts.positions, 64)] * 2}
    return {**os.environ, "LAMINA_URL": f"http://127.0.0.1:{server.port}", "LAMINA_BUSY": f"http://127.0.0.1:{busy.port}",
            "LAMINA_FACTS": json.dumps({"model": facts.name, "width": facts.width, "vocab": facts.vocab,
                                        "positions": facts.positions, "texts": facts.has_texts, "body": body}),
            "NODE_PATH": os.path.join(BUILD, "node", "node_modules")}


def check_curl(out, server):
    url = f"http://127.0.0.1:{server.port}"
    rows = [
        (["--data-binary", '{"tokens":[[1,2,3]]}'], "200"),
        (["--http1.0", "--data-binary", '{"tokens":[[1,2,3]]}'], "200"),
        (["-H", "Expect: 100-continue", "--data-binary", '{"tokens":[[1,2,3]]}'], "200"),
        (["-H", "Transfer-Encoding: chunked", "--data-binary", '{"tokens":[[1,2,3]]}'], "200"),
        (["--http2", "--data-binary", '{"tokens":[[1,2,3]]}'], "200"),
        (["--data-binary", "{"], "400"),
    ]
    for options, status in rows:
        done = quiet(["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-H", "Content-Type: application/json",
                      *options, url + "/v1/encode"])
        out.check(done.stdout == status, f"curl {options[:2]}", f"{done.stdout}, wanted {status}")
    large = os.path.join(BUILD, "large.json")
    with open(large, "w") as f:
        f.write(" " * 20_000_000)
    done = quiet(["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-H", "Content-Type: application/json",
                  "--data-binary", "@" + large, url + "/v1/encode"])
    out.check(done.stdout.endswith("413"), "curl with a body of 20 MB", done.stdout)
    os.remove(large)


def check_wrk(out, server):
    if not shutil.which("wrk"):
        out.note("wrk skipped: not installed")
        return
    script = os.path.join(lamina.ROOT, "bench", "http", "encode.lua")
    done = quiet(["wrk", "-t", "1", "-c", "8", "-d", "2s", "-s", script, f"http://127.0.0.1:{server.port}",
                  "--", "short-tokens"])
    bad = [l for l in done.stdout.splitlines() if "Non-2xx" in l or "Socket errors" in l]
    out.check(done.returncode == 0 and not bad and "Requests/sec" in done.stdout, "wrk", done.stdout[-600:])


def main():
    out = report.Report("clients")
    os.makedirs(BUILD, exist_ok=True)
    python, node = install_python(out), install_node(out)
    with lamina.Server("--alias", "text-embedding-3-small") as server, \
            lamina.Server("--max-queue-items", 1, "--workers", 1) as busy:
        facts = lamina.Facts(server)
        environment = sdk_environment(server, busy, facts)
        if python:
            take_results(out, PYTHON_SDK, quiet([python, os.path.join(HERE, "openai_python.py")], env=environment))
        if node:
            take_results(out, NODE_SDK, quiet(["node", os.path.join(HERE, "openai_node.js")], env=environment))
        check_curl(out, server)
        check_wrk(out, server)
        for s in (server, busy):
            out.check(s.stop() == 0, "exit status", f"{s.process.returncode}")
    out.finish()


if __name__ == "__main__":
    main()
