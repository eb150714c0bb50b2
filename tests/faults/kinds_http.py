"""Faults of HTTP and of connections that are a procedure and not one run of bytes."""

import json
import resource
import socket
import struct
import tempfile
import threading
import time

import lamina
import wire
from canary import embeddings_of
from common import REQUEST, S, post, served

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
            c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
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
    # The limit counts connections; the files beyond them are the server's own.
    with lamina.Server("--max-connections", 32, nofile=case["nofile"]) as server:
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
