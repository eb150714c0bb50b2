"""Faults that are a procedure and not one run of bytes. Each takes the bench and the case, and returns
what is wrong, or "" (None)."""

import base64
import glob
import json
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
import time

import lamina
import table
import wire
from canary import embeddings_of

S = lamina.SLOWER
REQUEST = b'{"tokens":[[1,2,3]]}'


def data_files(pattern):
    return sorted(glob.glob(os.path.join(lamina.ROOT, "tests", "data", "**", pattern), recursive=True))


def post(bench, body, path="/v1/encode", headers=()):
    return wire.ask(bench.server.port, "POST", path, body, headers, 60 * S)


def served(port, seconds=2.0):
    """True if a new connection is answered in time."""
    try:
        return wire.ask(port, "GET", "/livez", timeout=seconds * S).status == 200
    except (OSError, wire.Closed, wire.WireError):
        return False


def lost_requests(server):
    """Counters that do not add up, once nothing is in flight."""
    deadline = time.monotonic() + 3 * S
    while True:
        values = server.metrics()
        gauges = {k: v for k, v in values.items()
                  if k.split("{")[0] in ("lamina_queue_requests", "lamina_queue_items", "lamina_inflight_requests")}
        if not any(gauges.values()):
            return ""
        if time.monotonic() > deadline:
            return f"gauges that do not return to 0: {gauges}"
        time.sleep(0.02)


# ---- HTTP ------------------------------------------------------------------------------------------

def unknown_routes(bench, case):
    client = wire.Client(bench.server.port)
    client.ask("GET", "/nowhere")
    before = set(bench.server.metrics())
    for i in range(case["count"]):
        if client.ask("GET", f"/nowhere/{i}").status != 404:
            return "not 404"
    client.close()
    new = set(bench.server.metrics()) - before
    return f"new series: {sorted(new)[:5]}" if len(new) > 4 else ""


def expect_continue(bench, case):
    port, host = bench.server.port, bench.names["host"]
    with wire.Conn(port) as c:
        head = wire.build("POST", "/v1/encode", b"", ["Expect: 100-continue"], host)
        c.send(head.replace(b"Content-Length: 0", b"Content-Length: %d" % len(REQUEST)))
        first = c.reply(skip_continue=False)
        if first.status != 100:
            return f"no 100: {first!r}"
        c.send(REQUEST)
        if c.reply().status != 200:
            return "not 200 after the body"
    with wire.Conn(port) as c:
        c.send(head.replace(b"Content-Length: 0", b"Content-Length: 1000000000"))
        first = c.reply(skip_continue=False)
        if first.status != 413 or not c.is_closed():
            return f"too big: {first!r}"
    with tempfile.NamedTemporaryFile("w") as keys:
        keys.write("secret-key-of-the-test\n")
        keys.flush()
        with lamina.Server("--api-key-file", keys.name) as server, wire.Conn(server.port) as c:
            c.send(head.replace(b"Content-Length: 0", b"Content-Length: 20"))
            first = c.reply(skip_continue=False)
            if first.status != 401 or first.code() != "invalid_api_key":
                return f"without a key: {first!r}"
    return ""


def pipeline(bench, case):
    host = bench.names["host"]
    count = case["count"]
    lengths = [1 + (i * 7) % min(40, bench.facts.positions) for i in range(count)]
    data = b""
    for i, n in enumerate(lengths):
        data += wire.build("POST", "/v1/encode", wire.as_body({"tokens": [[1] * n]}), (), host)
        data += wire.build("GET", "/livez" if i % 2 else "/nowhere", None, (), host)
    with wire.Conn(bench.server.port, 60 * S) as c:
        sender = threading.Thread(target=c.send, args=(data,), daemon=True)
        sender.start()
        for i, n in enumerate(lengths):
            reply = c.reply()
            if reply.status != 200 or reply.json()["items"][0]["tokens"] != n:
                return f"reply {i} is not its request's: {reply!r}"
            if c.reply().status != (200 if i % 2 else 404):
                return f"reply {i} out of order"
        sender.join(5)
    return ""


def many_requests(bench, case):
    one = wire.build("GET", "/livez", None, (), bench.names["host"])
    left = case["count"]
    with wire.Conn(bench.server.port, 30 * S) as c:
        while left > 0:
            n = min(left, 50)
            c.send(one * n)
            for _ in range(n):
                if c.reply().status != 200:
                    return "not 200"
            left -= n
    return ""


def split(bench, case):
    data = wire.build("POST", "/v1/encode", REQUEST, (), bench.names["host"])
    reference = embeddings_of(post(bench, REQUEST).body)
    with wire.Conn(bench.server.port, 30 * S) as c:
        for at in range(1, len(data)):
            c.send(data[:at])
            time.sleep(0.0005)
            c.send(data[at:])
            reply = c.reply()
            if reply.status != 200 or embeddings_of(reply.body) != reference:
                return f"split at {at}: {reply!r}"
    with wire.Conn(bench.server.port, 30 * S) as c:
        for i in range(len(data)):
            c.send(data[i:i + 1])
            time.sleep(0.0005)
        if embeddings_of(c.reply().body) != reference:
            return "one byte a segment"
    return ""


# ---- connections -----------------------------------------------------------------------------------

def drip(bench, case):
    data = wire.build("POST", "/v1/encode", REQUEST, ["X-Long: " + "x" * 4000], bench.names["host"])
    at = 20 if case["part"] == "head" else len(data) - len(REQUEST)
    began = time.monotonic()
    with wire.Conn(bench.server.port, 10 * S) as c:
        c.send(data[:at])
        while c.is_quiet(0.1):
            if time.monotonic() - began > case["limit_s"] * S:
                return f"still open after {time.monotonic() - began:.1f} s"
            if case["part"] == "head" or at < len(data) - 1:
                if not c.send(data[at:at + 1]):
                    break
                at += 1
        try:
            reply = c.reply()
        except wire.Closed:
            return ""
        return "" if reply.status == 408 and c.is_closed() else f"{reply!r}"


def large_request(facts, reply_bytes):
    """A body whose reply (all rows of all items) is about that large."""
    rows = reply_bytes // (facts.width * 11)
    length = min(facts.positions, 128)
    item = [1 + i % 9 for i in range(length)]
    return {"tokens": [item] * max(1, min(facts.limits["max_items"], rows // length)), "pooling": "none"}


def slow_read(bench, case):
    """A client that takes a large reply slowly or never: others are served, its memory comes back."""
    body = wire.as_body(large_request(bench.facts, 8 << 20))
    bench.server.encode(json.loads(body))
    before = bench.server.rss_bytes()
    c = wire.Conn(bench.server.port, 60 * S, receive_bytes=4096)
    c.send(wire.build("POST", "/v1/encode", body, (), bench.names["host"]))
    end = time.monotonic() + 3.0
    while time.monotonic() < end:
        if case["bytes_per_s"]:
            c.sock.recv(case["bytes_per_s"] // 10)
        time.sleep(0.1)
        if not served(bench.server.port):
            return "others are not served"
    c.close()
    time.sleep(0.3)
    grown = bench.server.rss_bytes() - before
    return f"{grown >> 20} MiB more than before" if grown > (48 << 20) and not lamina.SANITIZER else ""


def raise_nofile():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def median_ms(bench, count=60):
    client, times = wire.Client(bench.server.port), []
    for _ in range(count):
        began = time.monotonic()
        if client.ask("POST", "/v1/encode", REQUEST).status != 200:
            return 1e9
        times.append((time.monotonic() - began) * 1000)
    client.close()
    return sorted(times)[count // 2]


def idle(bench, case):
    raise_nofile()
    before_ms, before = median_ms(bench), bench.server.rss_bytes()
    conns = []
    try:
        for _ in range(case["count"]):
            conns.append(wire.Conn(bench.server.port))
        if not served(bench.server.port, 0.1):
            return "probe not answered in 100 ms"
        grown = bench.server.rss_bytes() - before
        after_ms = median_ms(bench)
    finally:
        for c in conns:
            c.close()
    if grown > (64 << 20) and not lamina.SANITIZER:
        return f"{grown >> 20} MiB for {case['count']} idle connections"
    if after_ms > 2 * before_ms + 2 * S:
        return f"a request took {after_ms:.2f} ms instead of {before_ms:.2f}"
    return ""


def idle_end(bench, case):
    with wire.Conn(bench.server.port, 10 * S) as c:
        c.send(wire.build("GET", "/livez", None, (), bench.names["host"]))
        c.reply()
        if not c.is_quiet(0.3):
            return "closed too early"
        return "" if c.is_closed(4 * S) else "still open"


def connection_limit(bench, case):
    admin = lamina.free_port()
    with lamina.Server("--max-connections", case["limit"], "--admin-port", admin) as server:
        conns = []
        time.sleep(0.2)
        for _ in range(case["limit"]):
            c = wire.Conn(server.port, 5 * S)
            c.send(wire.build("GET", "/livez", None, (), f"127.0.0.1:{server.port}"))
            c.reply()
            conns.append(c)
        if not served(admin, 0.1):
            return "probe port does not answer at the connection limit"
        late = wire.Conn(server.port, 3 * S)
        late.send(wire.build("GET", "/livez", None, (), f"127.0.0.1:{server.port}"))
        refused = not late.is_quiet(0.3)
        conns.pop().close()
        if not refused and late.reply().status != 200:
            return "a waiting client got no answer after a place was free"
        late.close()
        if not served(server.port, 2):
            return "new clients are not served after a place was free"
        for c in conns:
            c.close()
        left = server.stop()
        return "" if left == 0 else f"exit {left}"


def churn(bench, case):
    for i in range(case["count"]):
        c = wire.Conn(bench.server.port, 5 * S)
        if i % 3 == 1:
            c.send(b"POST /v1/enc")
        if i % 3 == 2:
            c.send(wire.build("POST", "/v1/encode", REQUEST, (), bench.names["host"]))
        if i % 2:  # leave with a reset instead of a polite end
            c.sock.setsockopt(__import__("socket").SOL_SOCKET, __import__("socket").SO_LINGER, struct.pack("ii", 1, 0))
        c.close()
    return "" if served(bench.server.port) else "not served afterwards"


def slowloris(bench, case):
    raise_nofile()
    data = wire.build("POST", "/v1/encode", REQUEST, (), bench.names["host"])
    conns = [wire.Conn(bench.server.port) for _ in range(case["count"])]
    try:
        for step in range(20):
            for i, c in enumerate(conns):
                if not c.eof and not c.send(data[step + i % 3:step + i % 3 + 1]):
                    c.eof = True
            if not served(bench.server.port, 0.5):
                return "not served while slow clients are there"
            time.sleep(0.05)
    finally:
        for c in conns:
            c.close()
    return ""


def fd_limit(bench, case):
    with lamina.Server(nofile=case["nofile"]) as server:
        host = f"127.0.0.1:{server.port}"
        kept = wire.Client(server.port, 5 * S)
        if kept.ask("POST", "/v1/encode", REQUEST).status != 200:
            return "not served"
        conns = [wire.Conn(server.port) for _ in range(100)]
        lines, cpu = server.log_text().count("\n"), server.cpu_seconds()
        for _ in range(10):
            time.sleep(0.1)
            if kept.ask("POST", "/v1/encode", REQUEST).status != 200:
                return "the connection that was there is not served"
        burnt = server.cpu_seconds() - cpu
        if burnt > 0.7 * max(1, S / 2):
            return f"{burnt:.2f} s of CPU burnt in one second"
        logged = server.log_text().count("\n") - lines - 10
        if logged > 4:
            return f"{logged} log lines in a second"
        for c in conns:
            c.close()
        time.sleep(0.5)
        if not served(server.port, 1.0):
            return "not served after descriptors were free again"
        kept.close()
        left = server.stop()
        return "" if left == 0 else f"exit {left}, host {host}"


# ---- JSON ------------------------------------------------------------------------------------------

def corpus(bench, case):
    """Each file as a body of our own route (any answer but 2xx and 5xx), and as the value of a field that
    the OpenAI route ignores: there the answer is only about JSON."""
    files = [f for f in data_files(case["prefix"] + "*.json") if "test_parsing" in f or "JSONTestSuite" in f]
    if not files:
        return "no corpus under tests/data"
    loose = {"y_object_duplicated_key.json", "y_object_duplicated_key_and_value.json",
             "y_string_null_escape.json", "y_object_escaped_null_in_key.json"}
    client, wrong = wire.Client(bench.server.port, 30 * S), []
    for path in files:
        with open(path, "rb") as f:
            data = f.read()
        own = client.ask("POST", "/v1/encode", data)
        framed = b'{"model":"%s","input":[1,2],"x":' % bench.facts.name.encode() + data + b"}"
        openai = client.ask("POST", "/v1/embeddings", framed)
        name = os.path.basename(path)
        allowed = {"n_": (400,), "y_": (200, 400) if name in loose else (200,), "i_": (200, 400)}[case["prefix"]]
        if own.status != 400 or openai.status not in allowed:
            wrong.append(f"{name}: {own!r} {openai!r}")
    client.close()
    return f"{len(wrong)} of {len(files)}: {wrong[:3]}" if wrong else ""


def many_values(bench, case):
    names = dict(bench.names)
    body = table.expand(case["it"], names).encode()
    body = body[:bench.names["max_body"]]
    bench.server.reset_peak()
    before = bench.server.rss_bytes()
    reply = post(bench, body)
    grown = bench.server.peak_bytes() - before
    if reply.status not in (400, 413) or reply.code() not in case["code"] + ["body_too_large"]:
        return f"{reply!r}"
    if grown > 4 * len(body) + (16 << 20) and not lamina.SANITIZER:
        return f"{grown >> 20} MiB for a body of {len(body) >> 20} MiB"
    return ""


def truncated(bench, case):
    body = b'{"tokens":[[1,2],[3]],"normalize":true,"encoding_format":"base64","user":"\\u00e4\xc3\xa4"}'
    client = wire.Client(bench.server.port, 30 * S)
    if client.ask("POST", "/v1/encode", body).status != 200:
        return "the whole body is refused"
    for at in range(len(body)):
        reply = client.ask("POST", "/v1/encode", body[:at])
        if reply.status != 400:
            return f"cut at {at}: {reply!r}"
    client.close()
    return ""


def echo(bench, case):
    reply = post(bench, case["it"].encode("latin-1"))
    if reply.status not in (400, 404):
        return f"{reply!r}"
    return f"echoed: {reply!r}" if b"mark" in reply.body else ""


# ---- schema, tokens, text --------------------------------------------------------------------------

def vectors(reply):
    return reply.json()["embeddings"]


def same(bench, case):
    rng = random.Random(104)
    items = bench.facts.items(104, 6, 60)
    body = {"tokens": items, "encoding_format": "base64"}
    client = wire.Client(bench.server.port, 60 * S)
    reference = vectors(client.ask("POST", "/v1/encode", body))
    for _ in range(case["count"]):
        order = list(range(len(items)))
        rng.shuffle(order)
        got = vectors(client.ask("POST", "/v1/encode", {**body, "tokens": [items[i] for i in order]}))
        if got != [reference[i] for i in order]:
            return f"different bytes in order {order}"
    client.close()
    return ""


def time_of(bench, body):
    began = time.monotonic()
    reply = post(bench, body)
    return time.monotonic() - began, reply


def long_text(bench, case):
    if not bench.facts.has_texts:
        return ""
    half = 1 << 19
    for name, unit in (("a", "a"), ("_", "_"), ("CJK", "\u4e2d"), ("marks", "e\u0301\u0302"), ("joiners", "\u200d"),
                       ("words", "word "), ("hash", "##")):
        times = []
        for size in (half, 2 * half):
            text = (unit * (size // len(unit.encode()) + 1)).encode()[:size].decode("utf-8", "ignore")
            body = json.dumps({"texts": [text], "truncate": True}, ensure_ascii=False).encode()
            runs = []
            for _ in range(3):
                seconds, reply = time_of(bench, body)
                if reply.status not in (200, 400):
                    return f"{name}: {reply!r}"
                runs.append(seconds)
            times.append(min(runs))
        if times[1] > 0.3 * S:
            return f"{name}: 1 MiB takes {times[1] * 1000:.0f} ms"
        if times[1] > 3 * times[0] + 0.02 * S:
            return f"{name}: not linear: {times[0] * 1000:.1f} ms, twice as long {times[1] * 1000:.1f} ms"
    return ""


def special_texts(bench, case):
    if not bench.facts.has_texts:
        return ""
    for text in ("[CLS]", "[SEP]", "[MASK]", "[PAD]", "[UNK]", "</s>", "<s>", "<0x-1>", "<|endoftext|>", "[unused0]"):
        counts = []
        for special in (True, False):
            reply = bench.server.encode({"texts": [text], "special_tokens": special})
            if reply.status != 200:
                return f"{text} special_tokens {special}: {reply!r}"
            counts.append(reply.json()["items"][0]["tokens"])
        if text == "[SEP]" and (counts[0] != 3 or counts[1] <= 3):
            return f"[SEP] gives {counts} tokens"
    return ""


def naughty(bench, case):
    if not bench.facts.has_texts:
        return ""
    files = data_files("blns.json")
    if not files:
        return "blns.json is not under tests/data"
    with open(files[0], encoding="utf-8") as f:
        texts = [t for t in json.load(f) if t and "\0" not in t]
    options = {"encoding_format": "base64", "truncate": True}
    together = bench.server.encode({"texts": texts, **options})
    if together.status != 200:
        return f"as a batch: {together!r}"
    client = wire.Client(bench.server.port, 60 * S)
    for text, vector in zip(texts, vectors(together)):
        reply = client.ask("POST", "/v1/encode", {"texts": [text], **options})
        if reply.status != 200 or vectors(reply) != [vector]:
            return f"{text!r}: {reply!r}"
        values = struct.unpack(f"<{bench.facts.width}f", base64.b64decode(vector))
        if not all(abs(v) < 1e9 for v in values):
            return f"{text!r}: not finite"
    client.close()
    return ""


def edit_tensors(source, target, change):
    """Copies a model; `change(name)` gives the constant to fill that F32 tensor with, or None."""
    shutil.copytree(source, target, dirs_exist_ok=True)
    path = os.path.join(target, "model.safetensors")
    with open(path, "rb") as f:
        data = bytearray(f.read())
    header_bytes = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + header_bytes])
    changed = 0
    for name, tensor in header.items():
        value = change(name) if name != "__metadata__" else None
        if value is not None and tensor["dtype"] == "F32":
            start, end = (8 + header_bytes + o for o in tensor["data_offsets"])
            data[start:end] = struct.pack("<f", value) * ((end - start) // 4)
            changed += 1
    os.chmod(target, 0o755)
    os.chmod(path, 0o644)
    with open(path, "wb") as f:
        f.write(data)
    return changed


def broken_model(bench, case):
    tiny = [m for m in lamina.tiny_models() if os.path.basename(m) == "bert"] or lamina.tiny_models()
    if not tiny:
        return "no small model under tests/data"
    with open(os.path.join(tiny[0], "config.json")) as f:
        last = json.load(f)["num_hidden_layers"] - 1
    for code, weight, bias in (("zero_norm", 0.0, 0.0), ("non_finite", 3e38, 3e38)):
        with tempfile.TemporaryDirectory() as d:
            def change(name):
                if f"layer.{last}.output.LayerNorm." not in name:
                    return None
                return weight if name.endswith(("weight", "gamma")) else bias
            if edit_tensors(tiny[0], os.path.join(d, "model"), change) != 2:
                return "no last norm in the model"
            with lamina.Server(model=os.path.join(d, "model")) as server:
                error = broken_model_answers(server, code)
                if error:
                    return f"{code}: {error}"
                if server.stop() != 0:
                    return f"{code}: exit status"
    return ""


def broken_model_answers(server, code):
    body = {"tokens": [[1, 2, 3], [4]], "normalize": True}
    reply = server.encode(body)
    if reply.status != 500 or reply.code() != code or reply.json()["error"].get("index") != 0:
        return f"{reply!r}"
    if code == "non_finite" and "final" not in reply.json()["error"]["message"]:
        if "layer" not in reply.json()["error"]["message"]:
            return f"no layer and site: {reply!r}"
    reply = server.encode({**body, "on_error": "item"})
    answer = reply.json()
    if reply.status != 200 or answer["embeddings"] != [None, None]:
        return f"on_error item: {reply!r}"
    if any(item["error"]["code"] != code for item in answer["items"]):
        return f"on_error item: {reply!r}"
    reply = server.ask("POST", "/v1/embeddings", {"model": server.ask("GET", "/v1/models").json()["data"][0]["id"],
                                                  "input": [[1, 2, 3]]})
    # The OpenAI route scales as the model's modules say: without scaling, zeros are a result.
    return "" if reply.status in (500, 200) and (code == "zero_norm" or reply.status == 500) else f"{reply!r}"


# ---- process ---------------------------------------------------------------------------------------

def start(args, model=None, env=None, before=None, port="0", **streams):
    command = [lamina.BINARY, "serve", model or lamina.default_model(), "--port", port]
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    return subprocess.Popen(command + list(args), env={**os.environ, **(env or {})}, preexec_fn=before, **options)


def wait_served(process, port, seconds=20):
    deadline = time.monotonic() + seconds * S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if wire.ask(port, "GET", "/readyz", timeout=2).status == 200:
                return True
        except (OSError, wire.Closed, wire.WireError):
            pass
        time.sleep(0.01)
    return False


def start_fails(bench, case):
    args = [table.expand(a, bench.names) for a in case.get("args", [])]
    process = start(args, case.get("model"), case.get("env"))
    try:
        stdout, stderr = process.communicate(timeout=15 * S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return f"{args} {case.get('env')}: started"
    text = stderr.decode("utf-8", "replace")
    if process.returncode != 2:
        return f"{args} {case.get('env')}: exit {process.returncode}: {text[-300:]}"
    names = [table.expand(n, bench.names) for n in case["names"]]
    if not any(n in text or n.replace("-", "_") in text for n in names):
        return f"{args}: message names none of {names}: {text[-300:]}"
    if len(text.strip().splitlines()) > 3 or stdout:
        return f"{args}: not one sentence on stderr: {text[-600:]!r} {stdout[-100:]!r}"
    return ""


def refused_or_running(args, before, what):
    """A start under a tight limit either works or ends with a sentence; never a signal, never half a server."""
    port = lamina.free_port()
    process = start(args, before=before, port=str(port), stdout=subprocess.DEVNULL)
    try:
        if wait_served(process, port, 5):
            reply = wire.ask(port, "POST", "/v1/encode", REQUEST, timeout=10 * S)
            if reply.status not in (200, 429, 503):
                return f"{what}: {reply!r}"
            process.terminate()
        stderr = process.communicate(timeout=15 * S)[1].decode("utf-8", "replace")
    except subprocess.TimeoutExpired:
        return f"{what}: does not end"
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if process.returncode < 0:
        return f"{what}: killed by signal {-process.returncode}: {stderr[-400:]}"
    if process.returncode and not stderr.strip():
        return f"{what}: exit {process.returncode} without a word"
    return ""


def as_user_with(limit):
    def before():
        resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(65532)
            os.setuid(65532)
    return before


def no_threads(bench, case):
    if lamina.SANITIZER == "tsan":
        return ""
    return refused_or_running(["--workers", "8"], as_user_with(2), "two processes at most")


def small_limits(bench, case):
    if lamina.SANITIZER:
        return ""  # a sanitizer's own needs are far above these limits

    def limited(kind, value):
        return lambda: resource.setrlimit(kind, (value, value))
    for kind, value, what in ((resource.RLIMIT_NOFILE, 8, "8 descriptors"), (resource.RLIMIT_NOFILE, 16, "16 descriptors"),
                              (resource.RLIMIT_STACK, 128 << 10, "128 KiB of stack"),
                              (resource.RLIMIT_AS, 48 << 20, "48 MiB of address space"),
                              (resource.RLIMIT_AS, 256 << 20, "256 MiB of address space"),
                              (resource.RLIMIT_FSIZE, 0, "no file size")):
        error = refused_or_running([], limited(kind, value), what)
        if error:
            return error
    return ""


def log_lost(bench, case):
    """Its log's reader is gone, never reads, or the disk is full: requests are served as before."""
    for what in ("gone", "blocked", "full"):
        port = lamina.free_port()
        read_end, write_end = os.pipe()
        with open("/dev/full", "wb") as full:
            stderr = full if what == "full" else write_end
            process = start(["--log-format", "json"], port=str(port), stdout=subprocess.DEVNULL, stderr=stderr)
        os.close(write_end)
        if what == "gone":
            os.close(read_end)
        try:
            if not wait_served(process, port):
                return f"{what}: not served"
            client = wire.Client(port, 10 * S)
            for _ in range(1500 if what == "blocked" else 50):
                if client.ask("GET", "/nowhere").status != 404:
                    return f"{what}: wrong answer"
            if client.ask("POST", "/v1/encode", REQUEST).status != 200:
                return f"{what}: wrong answer"
            client.close()
            process.terminate()
            if process.wait(15 * S) != 0:
                return f"{what}: exit {process.returncode}"
        except (TimeoutError, subprocess.TimeoutExpired):
            return f"{what}: hangs"
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            if what != "gone":
                os.close(read_end)
    return ""


def closed_streams(bench, case):
    for which in ((1,), (2,), (0, 1, 2)):
        def before(which=which):
            for fd in which:
                os.close(fd)
        port = lamina.free_port()
        process = start([], before=before, port=str(port), stdout=None, stderr=subprocess.DEVNULL)
        try:
            if not wait_served(process, port):
                return f"closed {which}: not served"
            client = wire.Client(port, 10 * S)
            for _ in range(20):
                if client.ask("POST", "/v1/encode", REQUEST).status != 200:
                    return f"closed {which}: wrong answer"
            client.close()
            process.terminate()
            if process.wait(15 * S) != 0:
                return f"closed {which}: exit {process.returncode}"
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    return ""


def load(port, seconds, clients=16, body=None):
    """A process that keeps `clients` busy; prints its counts as JSON at the end."""
    script = os.path.join(os.path.dirname(lamina.__file__), "load.py")
    command = ["python3", script, str(port), "--seconds", str(seconds), "--clients", str(clients)]
    return subprocess.Popen(command + ["--body", (body or REQUEST).decode()], stdout=subprocess.PIPE)


def stolen_cpu(bench, case):
    thieves = [subprocess.Popen(["python3", "-c", "while True: pass"]) for _ in range(8)]
    try:
        end = time.monotonic() + 10
        while time.monotonic() < end:
            if bench.server.encode({"tokens": [[1, 2, 3]]}).status != 200:
                return "not served"
            if bench.server.ask("GET", "/livez").status != 200:
                return "not live"
    finally:
        for t in thieves:
            t.kill()
            t.wait()
    return ""


def retrying(bench, case):
    """More clients than the queue holds, each honouring retry-after: all are served in the end."""
    with lamina.Server("--max-queue-items", 8, "--workers", 1) as server:
        body = wire.as_body({"tokens": [[1] * min(bench.facts.positions, 64)] * 4})
        refused, wrong, lock = [0], [], threading.Lock()

        def client():
            for _ in range(2):
                for _ in range(40):
                    reply = wire.ask(server.port, "POST", "/v1/encode", body, timeout=30 * S)
                    if reply.status == 200:
                        break
                    wait = reply.get("retry-after") or ""
                    with lock:
                        refused[0] += 1
                        if reply.status != 429 or not wait.isdigit() or reply.code() != "overloaded":
                            wrong.append(f"{reply!r} retry-after {wait!r}")
                            return
                    time.sleep(min(float(reply.get("retry-after-ms") or int(wait) * 1000) / 1000, 0.2))
                else:
                    wrong.append("never served")
        threads = [threading.Thread(target=client, daemon=True) for _ in range(case["count"])]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60 * S)
        if any(t.is_alive() for t in threads):
            return "some clients hang"
        if server.stop() != 0:
            return "exit status"
        return f"{wrong[:2]}" if wrong else ("" if refused[0] else "nothing was ever refused: the row tests nothing")


def probes_under_load(bench, case):
    body = wire.as_body({"tokens": [[1] * min(bench.facts.positions, 128)] * 2})
    loader = load(bench.server.port, 3, 16, body)
    time.sleep(0.5)
    times, client = [], wire.Client(bench.server.port)
    end = time.monotonic() + 2
    while time.monotonic() < end:
        for path in ("/livez", "/metrics"):
            began = time.monotonic()
            if client.ask("GET", path).status != 200:
                return f"{path} fails"
            times.append((time.monotonic() - began) * 1000)
        time.sleep(0.005)
    client.close()
    counts = json.loads(loader.communicate()[0])
    if set(counts["statuses"]) - {"200", "429"}:
        return f"load saw {counts['statuses']}"
    p99 = sorted(times)[int(len(times) * 0.99)]
    return f"p99 of probes {p99:.1f} ms" if p99 > 100 * S else ""


KINDS = {f.__name__: f for f in (
    unknown_routes, expect_continue, pipeline, many_requests, split, drip, slow_read, idle, idle_end,
    connection_limit, churn, slowloris, fd_limit, corpus, many_values, truncated, echo, same, long_text,
    special_texts, naughty, broken_model, no_threads, small_limits, log_lost, closed_streams, stolen_cpu,
    retrying, probes_under_load, start_fails)}
