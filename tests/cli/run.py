#!/usr/bin/env python3
"""The command line: exit statuses, what goes to which stream, one sentence for each refusal, and outputs.

Runs the program in LAMINA_BIN (build/lamina) on a tiny model of tests/data. Ends with `N passed, N failed`.
"""
import contextlib
import json
import math
import os
import pathlib
import pty
import socket
import struct
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = os.environ.get("LAMINA_BIN", str(ROOT / "build" / "lamina"))
MODEL = str(ROOT / "tests/data/models/families/st-mean-prompts-new")
WIDTH = 32
COMMANDS = ["serve", "encode", "tokenize", "inspect", "compile", "check", "calibrate", "compare", "sweep", "bench", "healthcheck", "version"]

passed = failed = 0


def check(ok, what, shown=""):
    global passed, failed
    if ok:
        passed += 1
        return
    failed += 1
    print(f"FAIL {what}" + (f": {shown!r}"[:600] if shown != "" else ""), flush=True)


def run(*args, stdin=b"", env=None, stdout=subprocess.PIPE, **more):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("LAM_")}
    done = subprocess.run([BIN, *args], input=stdin, stdout=stdout, stderr=subprocess.PIPE, check=False,
                          timeout=60, env={**clean, **(env or {})}, **more)
    return done.returncode, done.stdout or b"", done.stderr.decode("utf-8", "replace")


def lines(data):
    return [json.loads(line) for line in data.splitlines()]


@contextlib.contextmanager
def folder():
    with tempfile.TemporaryDirectory() as path:
        yield pathlib.Path(path)


# ---- Help and versions ------------------------------------------------------------------------------

def test_help():
    code, out, err = run("--help")
    text = out.decode()
    check(code == 0 and err == "", "--help: status 0, nothing on standard error", (code, err))
    for name in COMMANDS:
        check(f"\n  {name} " in text, f"--help lists {name}")
    for name in COMMANDS:
        code, out, err = run(name, "--help")
        text = out.decode()
        check(code == 0 and err == "", f"{name} --help: status 0, nothing on standard error", (code, err))
        check(text.startswith(f"Usage: lamina {name}") and "\nExamples:\n" in text, f"{name} --help has examples")
        check(all(len(line) <= 90 for line in text.splitlines()), f"{name} --help is not wide")
        check("\n\n\n" not in text, f"{name} --help has no empty paragraphs")
    code, out, err = run("--version")
    check(code == 0 and out.startswith(b"lamina "), "--version", out)
    code, out, err = run("version", "--json")
    told = json.loads(out)
    check(code == 0 and {"version", "compiler", "isa", "libraries"} <= set(told), "version --json", told)
    check({"libmicrohttpd", "libuv", "jansson"} == set(told["libraries"]), "version --json: libraries", told)


def test_generated():
    for args, path in ((("serve", "--print-config-docs"), "docs/CONFIG.md"),
                       (("--print-manual",), "docs/lamina.1.scd")):
        code, out, err = run(*args)
        check(code == 0 and out == (ROOT / path).read_bytes(), f"{path} is what lamina {' '.join(args)} prints")


# ---- Refusals ---------------------------------------------------------------------------------------

REFUSED = [
    # arguments, environment, what the one sentence must hold
    ([], {}, ["command"]),
    (["encrypt"], {}, ["encrypt"]),
    (["--foo"], {}, ["--foo"]),
    (["encode"], {}, ["MODEL"]),
    (["encode", MODEL, "b"], {}, ["\"b\""]),
    (["encode", MODEL, "--inputs", "x"], {}, ["--inputs", "encode"]),
    (["encode", MODEL, "--inp", "x"], {}, ["--inp"]),
    (["encode", MODEL, "--input"], {}, ["--input", "missing"]),
    (["encode", MODEL, "--input="], {}, ["--input", "empty"]),
    (["encode", MODEL, "-i"], {}, ["-i"]),
    (["encode", MODEL, "--quiet=yes"], {}, ["--quiet"]),
    (["encode", MODEL, "--input", "/nonexistent/x"], {}, ["/nonexistent/x"]),
    (["encode", MODEL, "--input", "/"], {}, ["/: Is a directory"]),
    (["encode", MODEL, "--output", "/nonexistent/x"], {}, ["/nonexistent/x"]),
    (["encode", MODEL, "--format", "json"], {}, ["--format", "\"json\"", "text|requests"]),
    (["encode", MODEL, "--output-format", "csv"], {}, ["--output-format", "jsonl|npy"]),
    (["encode", MODEL, "--statistics", "all"], {}, ["--statistics", "\"all\""]),
    (["encode", MODEL, "--precision", "bf16"], {}, ["--precision", "\"bf16\"", "f32"]),
    (["encode", MODEL, "--cpu", "sse"], {}, ["--cpu", "\"sse\""]),
    (["encode", MODEL, "--fold", "reader,everything"], {}, ["--fold", "\"everything\"", "centre"]),
    (["encode", MODEL, "--fold", "reader,,writer"], {}, ["--fold", "empty"]),
    (["encode", MODEL], {"LAM_FOLD": "some"}, ["LAM_FOLD", "\"some\""]),
    (["compile", MODEL, "-o", "x.lam"], {}, ["--output", "not written yet"]),
    (["compile", MODEL, "--texts", "/nonexistent/x"], {}, ["/nonexistent/x"]),
    (["compile", MODEL, "--texts", "/dev/null"], {}, ["/dev/null", "no line"]),
    (["compile", MODEL, "--report", "/nonexistent/x"], {}, ["/nonexistent/x"]),
    (["compile", str(ROOT / "tests/data/norms/batch-running-pre"), "--quiet", "--texts", __file__], {},
     ["tokenizer"]),
    (["encode", MODEL, "--workers", "-1"], {}, ["--workers", "\"-1\"", "0 to 1024"]),
    (["encode", MODEL, "--workers", "1.5"], {}, ["--workers", "\"1.5\""]),
    (["encode", MODEL, "--threads", "2"], {}, ["--threads", "\"2\""]),
    (["encode", MODEL, "--dimensions", "33"], {}, ["--dimensions", "32"]),
    (["encode", MODEL, "--prompt-name", "x"], {}, ["--prompt-name", "query"]),
    (["encode", MODEL, "--resume"], {}, ["--resume", "--output"]),
    (["encode", MODEL, "--resume", "--output-format", "npy", "--output", "x"], {}, ["--resume", "jsonl"]),
    (["encode", MODEL, "--output-format", "npy", "--pooling", "none"], {}, ["--output-format", "none"]),
    (["encode", MODEL, "--format", "requests", "--pooling", "cls"], {}, ["--pooling", "text"]),
    (["encode", MODEL], {"LAM_CPU": "fast"}, ["LAM_CPU", "\"fast\""]),
    (["encode", MODEL], {"LAM_WORKERS": ""}, ["LAM_WORKERS", "empty"]),
    (["encode", "/nonexistent/model"], {}, ["/nonexistent/model"]),
    (["encode", str(ROOT / "tests/data/models/bad-weights/no-config")], {}, ["config.json"]),
    (["tokenize"], {}, ["MODEL"]),
    (["tokenize", "/nonexistent/model"], {}, ["/nonexistent/model"]),
    (["inspect", MODEL, "--jsn"], {}, ["--jsn", "inspect"]),
    (["inspect", str(ROOT / "tests/data/models/bad-weights/config-missing-size")], {}, ["hidden_size"]),
    (["bench", MODEL, "--shape", "1x"], {}, ["--shape", "\"1x\""]),
    (["bench", MODEL, "--shape", "0x4"], {}, ["--shape", "\"0x4\""]),
    (["bench", MODEL, "--shape", "1x65"], {}, ["--shape", "\"1x65\"", "64"]),
    (["bench", MODEL, "--shape", "4x4,,1x1"], {}, ["--shape", "empty"]),
    (["bench", MODEL, "--rounds", "0"], {}, ["--rounds", "\"0\""]),
    (["healthcheck", "https://127.0.0.1/"], {}, ["https://127.0.0.1/", "http://"]),
    (["healthcheck", "http://"], {}, ["host"]),
    (["healthcheck", "http://a:70000/"], {}, ["port"]),
    (["healthcheck", "--timeout-ms", "5s"], {}, ["--timeout-ms", "\"5s\""]),
    (["healthcheck"], {"LAM_PORT": "80x"}, ["LAM_PORT", "\"80x\" is not a number from 0 to 65535"]),
    (["version", "x"], {}, ["\"x\""]),
    (["serve"], {}, ["MODEL"]),
    (["serve", MODEL, "--prot", "1"], {}, ["--prot", "serve"]),
    (["serve", MODEL, "--max_items", "1"], {}, ["--max_items"]),
    (["serve", "a=/x", "a=/y"], {}, ["a: two models"]),
    (["serve", "=/x"], {}, ["=/x", "name"]),
    (["serve", "a="], {}, ["path"]),
    (["serve", MODEL, "--config", "/nonexistent/x.conf"], {}, ["/nonexistent/x.conf"]),
    (["serve", MODEL], {"LAM_CONFIG": "/nonexistent/x.conf"}, ["/nonexistent/x.conf"]),
    (["serve", MODEL], {"LAM_PROT": "1"}, ["LAM_PROT"]),
    (["serve", MODEL, "--unix-socket", "x" * 108], {}, ["--unix-socket", "107"]),
    (["serve", "/nonexistent/model", "--check-config"], {}, ["/nonexistent/model"]),
    (["serve", MODEL, "--check-config", "--api-key-file", "/nonexistent/keys"], {}, ["/nonexistent/keys"]),
]

# Row 174: each setting with each kind of junk, in each place.
JUNK = ["", "-1", "+1", " 1", "1 ", "1x", "8k", "1e3", "0x1", "1.0", "18446744073709551616", "99999999999999999999999",
        "NaN", "true", "１"]


def one_sentence(what, code, out, err, named):
    check(code == 2, f"{what}: status 2", code)
    check(out == b"", f"{what}: nothing on standard output", out)
    check(err.startswith("lamina: ") and err.endswith("\n") and err.count("\n") == 1, f"{what}: one sentence", err)
    for text in named:
        check(text in err, f"{what}: names {text}", err)


def test_refusals():
    for args, env, named in REFUSED:
        what = " ".join(a.replace(str(ROOT) + "/", "")[:60] for a in args) + "".join(f" [{k}={v}]" for k, v in env.items())
        one_sentence(what, *run(*args, env=env), named)


def settings():
    """(name, default, values) of docs/CONFIG.md"""
    for line in (ROOT / "docs/CONFIG.md").read_text().splitlines():
        cells = [c.strip().strip("`") for c in line.replace("\\|", "\0").split("|")]
        if line.startswith("| `"):
            yield cells[1], cells[4], cells[5].replace("\0", "|")


def test_junk_settings():
    for name, _, values in settings():
        number = values.isdigit() or " to " in values
        flag, variable = "--" + name.replace("_", "-"), "LAM_" + name.upper()
        for junk in JUNK if number else [""]:
            one_sentence(f"{variable}={junk}", *run("serve", MODEL, "--print-config", env={variable: junk}), [variable])
        for junk in ("", "12k") if number else ("",):
            one_sentence(f"{flag}={junk}", *run("serve", MODEL, "--print-config", f"{flag}={junk}"), [flag])
            with folder() as f:
                (f / "c").write_text(f"# c\n{name} = {junk}\n")
                one_sentence(f"{name} = {junk}", *run("serve", MODEL, "--print-config", "--config", str(f / "c")),
                             [f"{f}/c:2: {name}"])


# ---- Configuration ----------------------------------------------------------------------------------

def parse_config(text):
    return dict(line.split(" = ", 1) for line in text.splitlines() if line and not line.startswith("#"))


def test_config():
    code, out, err = run("serve", "--print-config")
    shown = parse_config(out.decode())
    check(code == 0 and err == "", "--print-config: status 0", (code, err))
    for name, default, _ in settings():
        check(shown.get(name, "–") == default, f"--print-config: {name} has its documented default", shown.get(name))
    with folder() as f:
        (f / "c").write_text("port = 1\nmax_items = 7\nalias = a,b\n")
        args = ("serve", "--print-config", "--config", str(f / "c"), "--port", "3")
        code, out, _ = run(*args, env={"LAM_PORT": "2", "LAM_WORKERS": "5"})
        text = out.decode()
        check("# flag: --port\nport = 3\n" in text, "the flag wins and is named", text)
        check("# environment: LAM_WORKERS\nworkers = 5\n" in text, "the environment is named", text)
        check(f"# {f}/c:2\nmax_items = 7\n" in text, "file and line are named", text)
        (f / "again").write_bytes(out)
        code, again, _ = run("serve", "--print-config", env={"LAM_CONFIG": str(f / "again")})
        check(code == 0 and parse_config(again.decode()) == parse_config(text), "what it prints reads back")
    code, out, err = run("serve", MODEL, "--check-config")
    check((code, out) == (0, b""), "--check-config: status 0", (code, out, err))


# ---- encode -----------------------------------------------------------------------------------------

TEXTS = ["the cat", "a much longer line of text than the first", "the cat"] + [f"text number {i}" for i in range(200)]


def test_encode_text():
    code, out, err = run("encode", MODEL, stdin="\n".join(TEXTS).encode())
    got = lines(out)
    check(code == 0 and len(got) == len(TEXTS), "encode: a line for each text", (code, len(got), err))
    check([g["index"] for g in got] == list(range(len(TEXTS))), "encode: index counts from 0")
    check(all(set(g) == {"index", "embedding", "tokens", "truncated"} for g in got), "encode: the fields", got[0])
    check(all(len(g["embedding"]) == WIDTH for g in got), "encode: the width")
    check(all(abs(math.fsum(x * x for x in g["embedding"]) - 1) < 1e-5 for g in got), "encode: unit length")
    check(got[0]["embedding"] == got[2]["embedding"] != got[1]["embedding"], "encode: same text, same bits")
    check("encoded 203 lines" in err and err.count("\n") == 1, "encode: a summary on standard error", err)
    code, again, err = run("encode", MODEL, "--quiet", stdin="\r\n".join(TEXTS).encode() + b"\r\n")
    check(code == 0 and again == out and err == "", "encode: CRLF, last line end and --quiet change no result", err)
    for workers in ("1", "2", "5"):
        for batch in ("1", "200"):
            code, again, _ = run("encode", MODEL, "--workers", workers, "--max-batch-tokens", batch,
                                 stdin="\n".join(TEXTS).encode())
            check(again == out, f"encode: same bytes with {workers} workers and batches of {batch}")
    code, again, err = run("encode", MODEL, stdin=b"")
    check((code, again) == (0, b""), "encode: nothing in, nothing out", (code, again, err))


def test_encode_options():
    text = b"the cat sat\n"
    full = lines(run("encode", MODEL, "--normalize", "false", stdin=text)[1])[0]["embedding"]
    cut = lines(run("encode", MODEL, "--normalize", "false", "--dimensions", "8", stdin=text)[1])[0]["embedding"]
    check(cut == full[:8], "encode: dimensions cut first")
    for pooling in ("cls", "max", "last", "mean_sqrt_len", "weighted"):
        v = lines(run("encode", MODEL, "--normalize", "false", "--pooling", pooling, stdin=text)[1])[0]["embedding"]
        check(len(v) == WIDTH and v != full, f"encode: pooling {pooling}")
    rows = lines(run("encode", MODEL, "--normalize", "false", "--pooling", "none", stdin=text)[1])[0]
    check(len(rows["embedding"]) == rows["tokens"], "encode: pooling none has a row for each token", rows["tokens"])
    mean = [math.fsum(r[i] for r in rows["embedding"]) / rows["tokens"] for i in range(WIDTH)]
    check(max(abs(a - b) for a, b in zip(mean, full)) < 1e-5, "encode: their mean is the mean")
    query = lines(run("encode", MODEL, "--normalize", "false", "--prompt-name", "query", stdin=text)[1])[0]
    check(query["embedding"] != full, "encode: a prompt changes the vector")
    stats = lines(run("encode", MODEL, "--statistics", "summary", stdin=text)[1])[0]
    check(len(stats["layers"]) == 2 and stats["sites"]["final"]["tokens"] == stats["tokens"],
          "encode: statistics of the line", sorted(stats))
    long = b"cat " * 300 + b"\n"
    code, out, _ = run("encode", MODEL, stdin=long)
    check(code == 1 and lines(out)[0]["error"]["code"] == "context_length_exceeded", "encode: too long fails", out)
    code, out, _ = run("encode", MODEL, "--truncate", "right", stdin=long)
    got = lines(out)[0]
    check(code == 0 and got["truncated"] is True and got["tokens"] > 64, "encode: truncation is said", got["tokens"])


def test_encode_failures():
    bad = b"fine\n\n\xff\xfe\nfine\n" + b"x" * (8 * 1024 * 1024 + 1) + b"\nfine"
    code, out, err = run("encode", MODEL, stdin=bad)
    got = lines(out)
    codes = [g["error"]["code"] if "error" in g else None for g in got]
    check(code == 1, "encode: failed items end with 1", code)
    check(codes == [None, "empty_input", "invalid_utf8", None, "body_too_large", None], "encode: each line its own", codes)
    check(got[0]["embedding"] == got[3]["embedding"] == got[5]["embedding"], "encode: neighbours are unharmed")
    check(", 3 failed" in err, "encode: the summary counts them", err)
    with open("/dev/full", "wb") as full:
        code, _, err = run("encode", MODEL, stdin=b"a\n", stdout=full)
    check(code == 2 and err == "lamina: standard output: No space left on device\n", "encode: a full disk", err)
    read, write = os.pipe()
    os.close(read)
    code, _, err = run("encode", MODEL, stdin=b"a\n" * 1000, stdout=write)
    os.close(write)
    check(code == 2 and err == "", "encode: a reader that went away is no news", (code, err))
    with folder() as f:
        (f / "t").write_bytes(b"a\n")
        one_sentence("encode: onto its input", *run("encode", MODEL, "--input", str(f / "t"), "--output", str(f / "t")),
                     ["--output"])
        check((f / "t").read_bytes() == b"a\n", "encode: the input is still there")
        (f / "o").write_bytes(b"kept")
        code, _, _ = run("encode", "/nonexistent", "--output", str(f / "o"))
        check(code == 2 and (f / "o").read_bytes() == b"kept", "encode: no model, no output emptied")


def test_encode_resume():
    data = "\n".join(TEXTS).encode() + b"\n"
    with folder() as f:
        (f / "t").write_bytes(data)
        args = ("encode", MODEL, "--input", str(f / "t"), "--output", str(f / "o"))
        run(*args)
        whole = (f / "o").read_bytes()
        third = whole.index(b"\n", len(whole) // 3) + 1
        for size in (0, 10, third - 1, third, third + 7, len(whole) - 1, len(whole)):
            (f / "o").write_bytes(whole[:size])
            code, _, err = run(*args, "--resume")
            check(code == 0 and (f / "o").read_bytes() == whole, f"encode: resumed after {size} bytes", err)
        (f / "o").write_bytes(whole + b"{}\n")
        one_sentence("encode: resumed with another input", *run(*args, "--resume"), ["fewer lines"])
        (f / "o").unlink()
        code, _, _ = run(*args, "--resume")
        check(code == 0 and (f / "o").read_bytes() == whole, "encode: resuming nothing starts it")


def read_npy(data):
    check(data[:8] == b"\x93NUMPY\x01\x00", "npy: magic", data[:8])
    size = 10 + struct.unpack("<H", data[8:10])[0]
    head = eval(data[10:size].decode(), {"__builtins__": {}})  # a literal, as the format has it
    check(size % 64 == 0 and head["descr"] == "<f4" and head["fortran_order"] is False, "npy: head", head)
    rows, width = head["shape"]
    check(len(data) == size + 4 * rows * width, "npy: size", (len(data), head))
    floats = struct.unpack(f"<{rows * width}f", data[size:])
    return [floats[i * width:(i + 1) * width] for i in range(rows)]


def test_encode_npy():
    data = b"the cat\n\nanother text\n"
    want = lines(run("encode", MODEL, stdin=data)[1])
    code, piped, err = run("encode", MODEL, "--output-format", "npy", stdin=data)
    rows = read_npy(piped)
    check(code == 1 and len(rows) == 3 and "line 2: empty_input" in err, "npy: a row for each text", (code, err))
    check([struct.pack("<f", x) for x in want[0]["embedding"]] == [struct.pack("<f", x) for x in rows[0]],
          "npy: the same bits as the decimals")
    check(all(math.isnan(x) for x in rows[1]), "npy: a text that failed is NaN")
    with folder() as f:
        run("encode", MODEL, "--output-format", "npy", "--output", str(f / "o"), stdin=data)
        check((f / "o").read_bytes() == piped, "npy: a file and a pipe get the same")
        with open(f / "o", "ab") as out:
            run("encode", MODEL, "--output-format", "npy", stdin=data, stdout=out)
        check((f / "o").read_bytes() == piped + piped, "npy: appended")
    body = b'{"tokens":[[2,7,3],[2,3]]}\n{"tokens":[]}\n{"tokens":[[2],[9999]],"on_error":"item"}\n'
    code, out, err = run("encode", MODEL, "--format", "requests", "--output-format", "npy", stdin=body)
    rows = read_npy(out)
    check(code == 1 and len(rows) == 4 and math.isnan(rows[3][0]) and "line 2: empty_input" in err,
          "npy: the items of all requests", (code, len(rows), err))


def test_encode_requests():
    bodies = [{"tokens": [[2, 7, 3]]}, {"tokens": [2, 7, 3], "statistics": "summary", "layers": [1]},
              {"tokens": [[2], []]}, {"tokens": [[2], [120]], "on_error": "item"}, {"tokens": [[2]], "x": 1}]
    data = "\n".join(json.dumps(b) for b in bodies).encode() + b"\nnot json\n\n"
    code, out, _ = run("encode", MODEL, "--format", "requests", stdin=data)
    got = lines(out)
    check(code == 1 and len(got) == 7, "requests: an answer for each line", (code, len(got)))
    check(got[0]["embeddings"] == got[1]["embeddings"], "requests: statistics change no vector")
    check([x["layer"] for x in got[1]["layers"]] == [1], "requests: the layers asked for")
    check(got[3]["embeddings"][0] is not None and got[3]["embeddings"][1] is None, "requests: on_error item")
    codes = [g["error"]["code"] if "error" in g else None for g in got]
    check(codes == [None, None, "empty_input", None, "unknown_field", "invalid_json", "empty_body"], "requests: errors", codes)
    check(all("timing" not in g for g in got), "requests: no times, so that runs compare")
    for workers in ("1", "3"):
        again = run("encode", MODEL, "--format", "requests", "--workers", workers, stdin=data)[1]
        check(again == out, f"requests: same bytes with {workers} workers")


def test_encode_level_full():
    full = lines(run("encode", MODEL, "--statistics", "full", stdin=b"cat mat\n")[1])[0]
    plain = lines(run("encode", MODEL, stdin=b"cat mat\n")[1])[0]
    names = {"attention_entropy", "attention_sink", "token_similarity", "layer_cosine", "participation_ratio",
             "attention_branch_ratio", "ffn_branch_ratio", "gelu_negative", "gelu_positive", "massive_activations"}
    check(full["embedding"] == plain["embedding"], "full: the vector stays")
    check(all(set(layer) == names | {"layer", "sites"} for layer in full["layers"]), "full: its numbers", full["layers"])
    body = b'{"tokens":[[1,2,3],[4,5]],"statistics":"full","per_item":true,"layers":[1]}\n'
    for model, values in (("batch-running-post", {"mean_distance", "variance_distance", "mean_tid", "variance_tid"}),
                          ("power-pre", {"second_moment_distance", "second_moment_tid"})):
        code, out, _ = run("encode", "tests/data/norms/" + model, "--format", "requests", stdin=body)
        answer = lines(out)[0]
        site = answer["layers"][0]["sites"]["attention_norm"]
        item = answer["items"][1]["layers"][0]["sites"]["attention_norm"]
        check(code == 0 and set(site["population"]) == values, f"full: population of {model}", site)
        check(item["tokens"] == 2 and set(item["population"]) == values, f"full: population of an item, {model}", item)
        check(item["population"] != site["population"], "full: an item has its own")
    answer = lines(run("encode", "tests/data/norms/dyt-post", "--format", "requests", stdin=body)[1])[0]
    site = answer["layers"][0]["sites"]["ffn_norm"]
    check(0 < site["saturation"] < 1 and "population" not in site, "full: saturation of dyt", site)


def test_encode_memory():
    """A line is judged alone, not by what the lines before it hold."""
    body = json.dumps({"tokens": [[2] * 64] * 60, "pooling": "none"}).encode() + b"\n"
    code, out, err = run("encode", MODEL, "--format", "requests", "--max-request-bytes", "1048576", stdin=body * 6)
    check(code == 0 and len(set(out.splitlines())) == 1, "requests: memory of one line at a time", (code, out[:80], err))
    code, out, _ = run("encode", MODEL, "--format", "requests", "--max-request-bytes", "1048576",
                       stdin=json.dumps({"tokens": [[2] * 64] * 180, "pooling": "none"}).encode() + b'\n{"tokens":[2]}\n')
    got = lines(out)
    check(code == 1 and "error" in got[0] and "embeddings" in got[1], "requests: too much memory fails one line", out[:200])
    code, out, _ = run("encode", MODEL, "--format", "requests", "--max-reply-bytes", "4096", stdin=body)
    check(code == 1 and lines(out)[0]["error"]["code"] == "response_too_large", "requests: too long an answer", out[:200])


def test_streaming():
    """A line is answered before the next is sent."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("LAM_")}
    with subprocess.Popen([BIN, "encode", MODEL, "--quiet"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          env=clean) as p:
        timer = threading.Timer(30, p.kill)
        timer.start()
        for i in range(3):
            p.stdin.write(f"text {i}\n".encode())
            p.stdin.flush()
            line = p.stdout.readline()
            check(line and json.loads(line)["index"] == i, "encode: answers as it goes", line[:80])
        p.stdin.close()
        check(p.wait() == 0, "encode: ends with its input")
        timer.cancel()


def test_progress():
    """On a terminal, and only there, a line that is rewritten."""
    head, tail = pty.openpty()
    clean = {k: v for k, v in os.environ.items() if not k.startswith("LAM_")}
    with folder() as f:
        (f / "t").write_text("some text to encode\n" * 40000)
        with subprocess.Popen([BIN, "encode", MODEL, "--input", str(f / "t"), "--output", str(f / "o")],
                              stderr=tail, env=clean) as p:
            os.close(tail)
            shown = b""
            with contextlib.suppress(OSError):
                while piece := os.read(head, 4096):
                    shown += piece
            check(p.wait() == 0, "encode: progress: status")
    os.close(head)
    check(b"lines/s" in shown and b"\r" in shown, "encode: progress on a terminal", shown[-200:])


# ---- tokenize, inspect, bench, healthcheck ----------------------------------------------------------

def test_tokenize():
    code, out, err = run("tokenize", MODEL, "--text", "--quiet", stdin=b"the cat\n\n")
    got = lines(out)
    check(code == 0 and err == "" and len(got) == 2, "tokenize --text", (code, out, err))
    check(set(got[0]) == {"ids", "type_ids", "offsets", "tokens"}, "tokenize: the fields", got[0])
    check(len({len(v) for v in got[0].values()}) == 1, "tokenize: lists of one length", got[0])
    check(got[0]["tokens"][0] == "[CLS]" and got[0]["tokens"][-1] == "[SEP]", "tokenize: special tokens", got[0])
    check(got[0]["offsets"][0] == [0, 0], "tokenize: specials have no place", got[0])
    again = run("tokenize", MODEL + "/tokenizer.json", "--quiet", stdin=b'{"text":"the cat"}\n')[1]
    check(lines(again)[0] == got[0], "tokenize: a tokenizer.json, and JSON lines")
    rows = [{"text": "the cat", "add_special_tokens": False}, {"text": "the", "pair": "cat", "truncate": None},
            {"text": "the cat the cat", "truncate": {"max_length": 3, "strategy": "longest_first", "direction": "left"}},
            {"txt": "a"}, {}, {"text": 1}, {"text": "a", "truncate": {"max_length": 0}}, [], {"text": "a", "pair": []}]
    data = "\n".join(json.dumps(r) for r in rows).encode() + b'\n{"text":"\xff"}\n{"text":"a"} x\n'
    code, out, _ = run("tokenize", MODEL, stdin=data)
    got = lines(out)
    check(code == 1 and len(got) == 11, "tokenize: errors end with 1", (code, len(got)))
    check("[CLS]" not in got[0]["tokens"], "tokenize: without special tokens", got[0])
    check(got[1]["type_ids"][-1] == 1 and got[1]["tokens"].count("[SEP]") == 2, "tokenize: a pair", got[1])
    check(len(got[2]["ids"]) == 3, "tokenize: truncated", got[2])
    codes = [g["error"]["code"] for g in got[3:]]
    check(codes == ["unknown_field", "missing_field", "wrong_type", "out_of_range", "not_object", "wrong_type",
                    "invalid_utf8", "invalid_json"], "tokenize: errors", codes)


def test_inspect():
    code, out, err = run("inspect", MODEL, "--json")
    told = json.loads(out)
    check(code == 0 and err == "", "inspect --json: status", (code, err))
    check((told["width"], told["layers"], told["max_positions"]) == (32, 2, 64), "inspect --json: shape", told["width"])
    check(told["prompts"] == {"document": "search document: ", "query": "search query: "}, "inspect --json: prompts")
    check({"embedding", "attention", "ffn_norm", "final"} <= set(told["sites"]), "inspect --json: sites", told["sites"])
    norms = [op for op in told["ops"] if op["op"] == "norm"]
    check(len(norms) == 5 and all(n["verdict"] and n["eps"] == 1e-12 for n in norms), "inspect --json: norms", norms[:1])
    check(sum(op["parameters"] for op in told["ops"]) == told["parameters"], "inspect --json: parameters add up",
          (sum(op["parameters"] for op in told["ops"]), told["parameters"]))
    code, out, _ = run("inspect", MODEL, "--cpu", "ref")
    check(code == 0 and b"instruction set   ref\n" in out, "inspect: readable, and --cpu", out[:300])


def certificate(model, *args):
    code, out, err = run("compile", model, "--quiet", "--rounds", "3", "--report", "-", *args)
    check(code == 0 and err == "", f"compile {args}: status", (code, err))
    return json.loads(out)


def test_compile():
    norms = ROOT / "tests/data/norms"
    told = certificate(str(norms / "mabn-pre"))
    folds = {(f.get("layer"), f["site"]): f for f in told["folds"]}
    check(told["asked"] == ["reader", "writer", "stream", "final"], "compile: the default folds", told["asked"])
    check(told["taken"] == 4 and told["refused"] == len(told["folds"]) - 4, "compile: counts", told["taken"])
    check(all(folds[i, s]["taken"] and folds[i, s]["fold"] == "reader" and folds[i, s]["norm"] == "mabn"
              for i in range(2) for s in ("attention_norm", "ffn_norm")), "compile: folds of the layers", folds)
    check(folds[None, "final"]["reason"] and not folds[None, "final"]["taken"], "compile: a reason", folds)
    check(told["norms"]["folded"] == told["norms"]["unfolded"] - 4, "compile: norms", told["norms"])
    check(told["weight_bytes"]["folded"] == told["weight_bytes"]["unfolded"] + told["folded_bytes"]
          and told["folded_bytes"] > 0, "compile: bytes", told["weight_bytes"])
    random = told["difference"]["random"]
    check(0 < random["relative"] < 1e-5 and random["min_cosine"] > 0.999999 and random["failed"] == 0
          and random["tokens"] > random["sequences"] > 1, "compile: difference", random)
    check(random == certificate(str(norms / "mabn-pre"))["difference"]["random"], "compile: the same seed, the same inputs")
    check(random != certificate(str(norms / "mabn-pre"), "--seed", "2")["difference"]["random"], "compile: another seed")
    check(told["time"]["rounds"] == 3 and told["time"]["unfolded_ms"] > 0 and told["time"]["folded_ms"] > 0,
          "compile: times", told["time"])
    stream = certificate(str(norms / "power-v-post"))
    check(stream["min_abs_a"] > 1e-6 and stream["norms"]["folded"] == 1, "compile: the smallest factor", stream["min_abs_a"])
    code, out, _ = run("inspect", str(norms / "mabn-pre"), "--quiet", "--json")
    shown = [op for op in json.loads(out)["ops"] if op["op"] == "norm"]
    check(code == 0 and sum(op["folded"] for op in shown) == 4 and all(op["fold"] for op in shown),
          "inspect says what is folded", shown[:2])
    code, out, _ = run("inspect", str(norms / "mabn-pre"), "--quiet")
    check(code == 0 and out.count(b", folded\n") == 4, "inspect: folded norms, readable", out[-500:])
    none = certificate(str(norms / "mabn-pre"), "--fold", "none")
    check(none["taken"] == 0 and none["folded_bytes"] == 0 and none["difference"]["random"]["max_abs"] == 0,
          "compile --fold none", none["difference"])
    with folder() as f:
        (f / "texts").write_text("one line of text\n\nand another, which is longer\n")
        code, out, err = run("compile", MODEL, "--quiet", "--rounds", "1", "--texts", str(f / "texts"),
                             "--report", str(f / "report"))
        told = json.loads((f / "report").read_text())
        check(code == 0 and told["difference"]["texts"]["sequences"] == 2, "compile --texts", told["difference"])
        check(told["taken"] == 0 and told["difference"]["texts"]["max_abs"] == 0,
              "compile: a LayerNorm model behind residual sums keeps its bits", told["folds"])
        check(b"folds             0 taken" in out, "compile: readable beside the report", out[-400:])


def test_bench():
    code, out, _ = run("bench", MODEL, "--shape", "1x4,3x5,mixed2", "--rounds", "3", "--json", "--threads", "2")
    rows = json.loads(out)
    check(code == 0 and [r["shape"] for r in rows] == ["1x4", "3x5", "mixed2"], "bench: the shapes", rows)
    for r in rows:
        ms = r["ms"]
        check(len(ms["all"]) == r["rounds"] == 3 and r["threads"] == 2 and r["precision"] == "f32", "bench: facts", r)
        check(ms["min"] == min(ms["all"]) and ms["max"] == max(ms["all"]), "bench: extremes", ms)
        check(ms["median"] == sorted(ms["all"])[1] and r["tokens_per_second"] > 0, "bench: median", ms)
    check(abs(rows[1]["tokens_per_second"] * rows[1]["ms"]["median"] / 1e3 - 15) < 0.01, "bench: tokens are counted", rows[1])
    code, out, _ = run("bench", MODEL, "--shape", "1x4", "--rounds", "1")
    check(code == 0 and out.splitlines()[1].startswith(b"1x4 "), "bench: a table", out)


def answer_once(reply):
    """A server for one connection: (port, thread)."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        connection, _ = listener.accept()
        with connection, listener:
            seen.append(connection.recv(4096))
            if reply:
                connection.sendall(reply)
            else:
                connection.recv(4096)

    seen = []
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return listener.getsockname()[1], seen


def test_healthcheck():
    for reply, status in ((b"HTTP/1.1 200 OK\r\n\r\n", 0), (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", 1),
                          (b"SSH-2.0-x\r\n", 1), (b"HTTP/1.1\r\n", 1)):
        port, seen = answer_once(reply)
        code, out, err = run("healthcheck", env={"LAM_PORT": str(port)})
        check(code == status, f"healthcheck: {reply[:12]!r}", (code, out, err))
        check(seen and seen[0].startswith(b"GET /readyz HTTP/1.1\r\n") and b"\r\nHost: 127.0.0.1:" in seen[0],
              "healthcheck: asks /readyz", seen)
    port, seen = answer_once(b"HTTP/1.1 204 No Content\r\n\r\n")
    code, _, _ = run("healthcheck", f"http://127.0.0.1:{port}/livez?x=1")
    check(code == 0 and seen[0].startswith(b"GET /livez?x=1 "), "healthcheck: a URL", seen)
    port, seen = answer_once(b"HTTP/1.1 200 OK\r\n\r\n")
    code, _, _ = run("healthcheck", env={"LAM_PORT": "1", "LAM_ADMIN_PORT": str(port), "LAM_HOST": "0.0.0.0"})
    check(code == 0, "healthcheck: prefers the administration's port", code)
    port, _ = answer_once(b"")
    code, _, err = run("healthcheck", f"http://127.0.0.1:{port}", "--timeout-ms", "200")
    check(code == 1 and "timed out" in err, "healthcheck: does not wait for ever", (code, err))
    code, out, err = run("healthcheck", "http://127.0.0.1:1/")
    check(code == 1 and out == b"" and "refused" in err, "healthcheck: nobody listens", (code, err))


def test_serve():
    clean = {k: v for k, v in os.environ.items() if not k.startswith("LAM_")}
    with subprocess.Popen([BIN, "serve", f"tiny={MODEL}", "--port", "0", "--log-format", "json"], stderr=subprocess.PIPE,
                          env=clean) as p:
        timer = threading.Timer(30, p.kill)
        timer.start()
        port = next((told["port"] for told in map(json.loads, p.stderr) if told.get("msg") == "listening"), 0)
        check(port > 0, "serve: says its port")
        code, _, err = run("healthcheck", f"http://127.0.0.1:{port}")
        check(code == 0, "serve: is healthy", (code, err))
        one_sentence("serve: on a port in use", *run("serve", MODEL, "--port", str(port), "--quiet"), [str(port)])
        p.terminate()
        p.stderr.read()
        check(p.wait() == 0, "serve: SIGTERM ends it with 0", p.returncode)
        timer.cancel()


def test_closed_streams():
    for close, status in ((0, 0), (1, 2), (2, 0)):
        code, _, err = run("version", preexec_fn=lambda close=close: os.close(close))
        check(code == status, f"version with descriptor {close} closed", (code, err))
    code, _, err = run("encode", MODEL, preexec_fn=lambda: os.close(0))
    check(code == 2 and "standard input" in err, "encode without standard input", (code, err))


def main():
    chosen = sys.argv[1:]
    for name, test in sorted(globals().items()):
        if name.startswith("test_") and (not chosen or name in chosen):
            test()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
