#!/usr/bin/env python3
"""HTTP conformance over raw sockets, every route, and every error code of api/error.h seen at least once."""

import base64
import json
import os
import re
import struct
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import lamina
import report
import wire

S = lamina.SLOWER
# Codes that need a fault in the machine or in the model's weights, and where they are shown.
ELSEWHERE = {
    "non_finite": "tests/faults row 116", "zero_norm": "tests/faults row 116",
    "headers_too_large": "libmicrohttpd answers before our handler does",
    "out_of_memory": "tests/torture", "internal": "a fault of our own: nothing asks for it",
}


class Suite:
    def __init__(self, server, out):
        self.server, self.out = server, out
        self.facts = lamina.Facts(server)
        self.host = f"127.0.0.1:{server.port}"
        self.codes = {}

    def see(self, reply, name, status, code=None):
        """A reply that must have this status (and code); remembers the code."""
        if reply.code():
            self.codes.setdefault(reply.code(), name)
        ok = reply.status == status and (code is None or reply.code() == code)
        return self.out.check(ok, name, f"{reply!r}, wanted {status} {code or ''}")

    def ask(self, method, path, body=None, headers=()):
        return self.server.ask(method, path, body, headers)

    def raw(self, text):
        with wire.Conn(self.server.port, 15 * S) as c:
            c.send(text.replace("{host}", self.host).encode("latin-1"))
            return c.reply()


# ---- routes ----------------------------------------------------------------------------------------

def routes(s):
    for path in ("/livez", "/readyz", "/health", "/metrics", "/info", "/openapi.json", "/v1/models"):
        reply = s.ask("GET", path)
        s.see(reply, f"GET {path}", 200)
        s.out.check(reply.count("x-request-id") == 1, f"GET {path}", "no x-request-id")
        head = s.ask("HEAD", path)
        s.out.check(head.status == 200 and not head.body, f"HEAD {path}", f"{head!r}")
        if path != "/metrics":
            same = head.get("content-length") == reply.get("content-length")
            s.out.check(same or path == "/info", f"HEAD {path}", "another content-length than GET")
    openapi = s.ask("GET", "/openapi.json").json()
    for path in ("/v1/encode", "/v1/embeddings", "/v1/models", "/livez", "/readyz", "/health", "/metrics", "/info"):
        s.out.check(path in openapi["paths"], "openapi.json", f"{path} is absent")
    info = s.ask("GET", "/info").json()
    for key in ("max_body_bytes", "max_items", "max_reply_bytes", "max_queue_items"):
        s.out.check(isinstance(info["limits"].get(key), int), "/info limits", f"{key} is absent")
    models = s.ask("GET", "/v1/models").json()
    first = models["data"][0]
    s.out.check(models["object"] == "list" and first["object"] == "model", "/v1/models", f"{models}")
    s.out.check(isinstance(first["created"], int) and first["owned_by"], "/v1/models", f"{first}")
    one = s.ask("GET", f"/v1/models/{s.facts.name}")
    s.out.check(one.status == 200 and one.json() == first, "/v1/models/{id}", f"{one!r}")


def check_encode(s):
    tokens = [[1, 2, 3], [4, 5, 6, 7]]
    reply = s.ask("POST", "/v1/encode", {"tokens": tokens})
    answer = reply.json()
    s.out.check(reply.status == 200, "/v1/encode", f"{reply!r}")
    s.out.check((reply.get("content-type") or "").startswith("application/json"), "/v1/encode", "content type")
    s.out.check(answer["model"] == s.facts.name, "/v1/encode model", f"{answer['model']}")
    s.out.check([len(v) for v in answer["embeddings"]] == [s.facts.width] * 2, "/v1/encode width", "wrong")
    wanted = [{"index": i, "tokens": len(t), "tokens_used": len(t), "truncated": False} for i, t in enumerate(tokens)]
    s.out.check(answer["items"] == wanted, "/v1/encode items", f"{answer['items']}")
    s.out.check(answer["usage"] == {"prompt_tokens": 7, "total_tokens": 7}, "/v1/encode usage", f"{answer['usage']}")
    s.out.check(set(answer["timing"]) == {"queue_ms", "compute_ms", "total_ms"}, "/v1/encode timing", f"{answer['timing']}")
    s.out.check("sites" not in answer and "layers" not in answer, "/v1/encode without statistics", "has them")
    flat = s.ask("POST", "/v1/encode", {"tokens": tokens[0]}).json()
    s.out.check(flat["embeddings"] == answer["embeddings"][:1], "/v1/encode flat list", "not one item")
    packed = s.ask("POST", "/v1/encode", {"tokens": tokens, "encoding_format": "base64"}).json()
    for text, vector in zip(packed["embeddings"], answer["embeddings"]):
        values = list(struct.unpack(f"<{s.facts.width}f", base64.b64decode(text, validate=True)))
        floats = [struct.unpack("<f", struct.pack("<f", v))[0] for v in vector]
        s.out.check(values == floats, "/v1/encode base64", "other numbers than as floats")
    masked = s.ask("POST", "/v1/encode", {"tokens": tokens[:1], "attention_mask": [[1, 1, 0]]}).json()
    s.out.check(masked["items"][0]["tokens_used"] == 2, "/v1/encode mask", f"{masked['items']}")
    cut = s.ask("POST", "/v1/encode", {"tokens": tokens, "dimensions": 8, "normalize": True}).json()
    s.out.check(all(abs(sum(x * x for x in v) - 1) < 1e-5 and len(v) == 8 for v in cut["embeddings"]),
                "/v1/encode dimensions", "not 8 of length 1")
    rows = s.ask("POST", "/v1/encode", {"tokens": tokens, "pooling": "none"}).json()
    s.out.check([len(v) for v in rows["embeddings"]] == [3, 4], "/v1/encode pooling none", "not a row a token")
    for pooling in ("mean", "cls", "max", "mean_sqrt_len", "weighted", "weightedmean", "last", "last_token", "lasttoken"):
        s.see(s.ask("POST", "/v1/encode", {"tokens": tokens, "pooling": pooling}), f"pooling {pooling}", 200)


def check_statistics(s):
    tokens = [[1, 2, 3], [4, 5, 6, 7]]
    answer = s.ask("POST", "/v1/encode", {"tokens": tokens, "statistics": "summary", "per_item": True}).json()
    s.out.check(set(answer["sites"]) == {"embedding", "final"}, "statistics sites", f"{list(answer['sites'])}")
    s.out.check([l["layer"] for l in answer["layers"]] == list(range(s.facts.layers)), "statistics layers", "wrong")
    final = answer["sites"]["final"]
    wanted = {"tokens", "mean", "variance", "rms", "min", "max", "kurtosis", "nonfinite", "channels"}
    s.out.check(wanted <= set(final) and final["tokens"] == 7, "statistics of a site", f"{final}")
    per_item = [i["sites"]["final"]["tokens"] for i in answer["items"]]
    s.out.check(per_item == [3, 4], "statistics per item", f"{per_item}")
    some = s.ask("POST", "/v1/encode", {"tokens": tokens, "statistics": "summary", "layers": [0]}).json()
    s.out.check([l["layer"] for l in some["layers"]] == [0] and "sites" not in some, "layers filter", f"{list(some)}")
    plain = s.ask("POST", "/v1/encode", {"tokens": tokens}).json()
    s.out.check(plain["embeddings"] == answer["embeddings"], "statistics change no bit", "they do")


def check_openai(s):
    ask = {"model": s.facts.name, "input": [[1, 2, 3], [4, 5]]}
    answer = s.ask("POST", "/v1/embeddings", ask).json()
    s.out.check(answer["object"] == "list" and answer["model"] == s.facts.name, "/v1/embeddings", f"{list(answer)}")
    s.out.check([(d["object"], d["index"]) for d in answer["data"]] == [("embedding", 0), ("embedding", 1)],
                "/v1/embeddings data", "wrong")
    s.out.check(answer["usage"] == {"prompt_tokens": 5, "total_tokens": 5}, "/v1/embeddings usage", f"{answer['usage']}")
    packed = s.ask("POST", "/v1/embeddings", {**ask, "encoding_format": "base64"}).json()
    values = list(struct.unpack(f"<{s.facts.width}f", base64.b64decode(packed["data"][0]["embedding"])))
    floats = [struct.unpack("<f", struct.pack("<f", v))[0] for v in answer["data"][0]["embedding"]]
    s.out.check(values == floats, "/v1/embeddings base64", "other numbers than as floats")
    one = s.ask("POST", "/v1/embeddings", {**ask, "input": [1, 2, 3]}).json()
    s.out.check(len(one["data"]) == 1 and one["data"][0]["embedding"] == answer["data"][0]["embedding"],
                "/v1/embeddings flat list", "not one item")
    own = s.ask("POST", "/v1/encode", {"tokens": ask["input"]}).json()
    s.out.check(own["embeddings"] == [d["embedding"] for d in answer["data"]], "both routes", "different numbers")
    if s.facts.has_texts:
        for texts in ("a text", ["a text", "another"]):
            s.see(s.ask("POST", "/v1/embeddings", {**ask, "input": texts}), "/v1/embeddings texts", 200)
    s.see(s.ask("POST", "/v1/embeddings", {**ask, "input": ""}), "/v1/embeddings empty", 400, "empty_input")


# ---- the protocol ----------------------------------------------------------------------------------

def protocol(s):
    body = wire.as_body({"tokens": [[1, 2, 3]]})
    reference = s.ask("POST", "/v1/encode", body).json()["embeddings"]
    whole = wire.build("POST", "/v1/encode", body, (), s.host)
    with wire.Conn(s.server.port, 30 * S) as c:
        for _ in range(50):
            c.send(whole)
            if not s.out.check(c.reply().status == 200 and not c.buffer, "keep-alive", "not 200"):
                break
    with wire.Conn(s.server.port, 30 * S) as c:
        c.send(whole * 10 + wire.build("GET", "/livez", None, (), s.host))
        got = [c.reply() for _ in range(11)]
        ok = all(r.json()["embeddings"] == reference for r in got[:10]) and got[10].status == 200
        s.out.check(ok, "pipelining while suspended", f"{[r.status for r in got]}")
    with wire.Conn(s.server.port, 30 * S) as c:
        for i in range(len(whole)):
            c.send(whole[i:i + 1])
        s.out.check(c.reply().json()["embeddings"] == reference, "one byte a segment", "another answer")
    with wire.Conn(s.server.port, 30 * S) as c:
        c.send(whole.replace(b"HTTP/1.1", b"HTTP/1.0"))
        s.out.check(c.reply().status == 200 and c.is_closed(), "HTTP/1.0 closes", "not closed")
    with wire.Conn(s.server.port, 30 * S) as c:
        c.send(whole.replace(b"HTTP/1.1\r\n", b"HTTP/1.1\r\nConnection: close\r\n"))
        reply = c.reply()
        s.out.check(reply.status == 200 and c.is_closed(), "Connection: close", f"{reply!r}")
    with wire.Conn(s.server.port, 30 * S) as c:
        c.send(whole)
        c.half_close()
        s.out.check(c.reply().status == 200, "half close after the request", "not answered")
    chunks = b"".join(b"%x\r\n" % len(p) + p + b"\r\n" for p in (body[:5], body[5:6], body[6:])) + b"0\r\n\r\n"
    head = b"POST /v1/encode HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n" % s.host.encode()
    with wire.Conn(s.server.port, 30 * S) as c:
        c.send(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + whole)
        got = [c.reply().json()["embeddings"] for _ in range(2)]
        s.out.check(got == [reference] * 2, "chunked, then another request", "another answer")
    with wire.Conn(s.server.port, 30 * S) as c:
        c.send(head + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
        first = c.reply(skip_continue=False)
        c.send(body)
        s.out.check(first.status == 100 and c.reply().status == 200, "100-continue", f"{first!r}")
    with wire.Conn(s.server.port, 30 * S) as c:
        c.send(wire.build("HEAD", "/livez", None, (), s.host) + wire.build("GET", "/livez", None, (), s.host))
        s.out.check(c.reply(head=True).status == 200 and c.reply().status == 200, "HEAD, then GET", "not in step")
    for sent in ("my-id-1", "a" * 64):
        got = s.ask("GET", "/livez", headers=[f"X-Request-Id: {sent}"]).get("x-request-id")
        s.out.check(got == sent, "x-request-id is taken over", f"{got}")
    for sent in ("a" * 5000, "a\tb", "<script>", "\u00e4"):
        got = s.ask("GET", "/livez", headers=[f"X-Request-Id: {sent}"]).get("x-request-id")
        s.out.check(got and got != sent, "x-request-id that is odd is replaced", f"{got}")


def client_leaves(s):
    """Clients that leave while their request waits or runs: the server goes on, nothing piles up."""
    body = wire.as_body({"tokens": [[1] * min(s.facts.positions, 128)] * 8})
    for i in range(30):
        c = wire.Conn(s.server.port)
        c.send(wire.build("POST", "/v1/encode", body, (), s.host))
        time.sleep(0.001 * (i % 5))
        c.close()
    reply = s.ask("POST", "/v1/encode", {"tokens": [[1]]})
    s.out.check(reply.status == 200, "after clients that left", f"{reply!r}")


# ---- codes -----------------------------------------------------------------------------------------

def codes_of_bodies(s):
    own, openai = "/v1/encode", "/v1/embeddings"
    f = s.facts
    rows = [
        (own, b"{", "invalid_json"), (own, b'{"texts":["\xff"]}', "invalid_utf8"), (own, b"[]", "not_object"),
        (openai, b'{"x":' + b"[" * 99 + b"]" * 99 + b"}", "too_deep"),
        (own, b'{"tokens":[[1]],"tokens":[[1]]}', "duplicate_key"), (own, {"tokenz": 1}, "unknown_field"),
        (own, {}, "missing_field"), (own, {"tokens": [[1]], "texts": ["a"]}, "conflicting_fields"),
        (own, {"tokens": "x"}, "wrong_type"), (own, {"tokens": [[1]], "pooling": "x"}, "invalid_value"),
        (own, {"tokens": [[1]], "dimensions": f.width + 1}, "out_of_range"), (own, {"tokens": []}, "empty_input"),
        (own, {"tokens": [[f.vocab]]}, "token_out_of_range"),
        (own, {"tokens": [[1]], "token_type_ids": [[99999]]}, "token_type_out_of_range"),
        (own, {"tokens": [[1]], "attention_mask": [[0]]}, "invalid_mask"),
        (own, {"tokens": [[1] * (f.positions + 1)]}, "context_length_exceeded"),
        (own, {"tokens": [[1]] * (f.limits["max_items"] + 1)}, "too_many_items"),
        (own, {"tokens": [[1]], "norm": {"statistics": "batch"}}, "unsupported"),
    ]
    for path, body, code in rows:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        s.see(s.ask("POST", path, data), f"code {code}", 400, code)
    s.see(s.ask("POST", own, {"model": "x", "tokens": [[1]]}), "code model_not_found", 404, "model_not_found")


def codes_of_heads(s):
    post = "POST /v1/encode HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    rows = [
        (post + "Content-Length: 0\r\n\r\n", 400, "empty_body"),
        (post + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "invalid_http"),
        ("GET /livez HTTP/1.1\r\nHost: example.com\r\n\r\n", 403, "host_not_allowed"),
        ("GET /nowhere HTTP/1.1\r\nHost: {host}\r\n\r\n", 404, "route_not_found"),
        ("GET /v1/encode HTTP/1.1\r\nHost: {host}\r\n\r\n", 405, "method_not_allowed"),
        ("BREW /livez HTTP/1.1\r\nHost: {host}\r\n\r\n", 501, "method_unknown"),
        (post + f"Content-Length: {s.facts.limits['max_body_bytes'] + 1}\r\n\r\n", 413, "body_too_large"),
        (post.replace("application/json", "text/plain") + "Content-Length: 2\r\n\r\n{}", 415, "unsupported_media_type"),
        (post + "Expect: something\r\nContent-Length: 2\r\n\r\n{}", 417, "expectation_failed"),
        ("GET /livez HTTP/1.2\r\nHost: {host}\r\n\r\n", 505, "http_version"),
    ]
    for text, status, code in rows:
        s.see(s.raw(text), f"code {code}", status, code)


def codes_of_other_servers(s):
    with tempfile.NamedTemporaryFile("w") as keys:
        keys.write("key-number-one\n\nkey-number-two\n")
        keys.flush()
        with lamina.Server("--api-key-file", keys.name, "--max-reply-bytes", 4096,
                           "--max-queue-items", 1, "--workers", 1, "--body-timeout-ms", int(300 * S)) as server:
            keyed(s, server)
            overloaded(s, server)
            slow_body(s, server)
            s.out.check(server.stop() == 0, "exit status of the keyed server", "not 0")
            s.out.check("key-number" not in server.log_text(), "the log holds no key", "found one")
    tiny = [m for m in lamina.tiny_models() if not os.path.exists(os.path.join(m, "tokenizer.json"))]
    if tiny:
        with lamina.Server(model=tiny[0]) as server:
            s.see(server.encode({"texts": ["a"]}), "code no_tokenizer", 400, "no_tokenizer")
    with lamina.Server("--admin-port", lamina.free_port(), "--alias", "text-embedding-3-small,other") as server:
        admin_port(s, server)
    with lamina.Server("--workers", 1, "--stop-timeout-ms", 1, "--max-queue-items", 100000) as server:
        shutting_down(s, server)


KEY = ["Authorization: Bearer key-number-one"]


def keyed(s, server):
    reply = server.ask("GET", "/v1/models")
    s.see(reply, "code invalid_api_key", 401, "invalid_api_key")
    s.out.check((reply.get("www-authenticate") or "").startswith("Bearer"), "401 says Bearer", f"{reply.headers}")
    for path in ("/livez", "/readyz", "/health"):
        s.see(server.ask("GET", path), f"{path} without a key", 200)
    for path in ("/metrics", "/info", "/v1/models", "/openapi.json"):
        s.see(server.ask("GET", path), f"{path} without a key", 401, "invalid_api_key")
    rows = [(["Authorization: bearer key-number-two"], 200), (KEY, 200), (["Authorization: Bearer key-number-on"], 401),
            (["Authorization: Bearer "], 401), (["Authorization: Basic a2V5"], 401), (KEY + KEY, 400),
            (["Authorization: Bearer key-number-onex"], 401), (["X-Api-Key: key-number-one"], 401)]
    for headers, status in rows:
        s.see(server.ask("GET", "/v1/models", headers=headers), f"key {headers}", status)
    body = {"tokens": [[1] * 60] * 4, "pooling": "none"}
    s.see(server.ask("POST", "/v1/encode", body, KEY), "code response_too_large", 400, "response_too_large")


def overloaded(s, server):
    body = wire.as_body({"tokens": [[1] * min(s.facts.positions, 256)] * 4, "dimensions": 1})
    seen = []

    def client():
        for _ in range(20):
            seen.append(wire.ask(server.port, "POST", "/v1/encode", body, KEY, timeout=60 * S))
    threads = [threading.Thread(target=client) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    refused = [r for r in seen if r.status == 429]
    if s.out.check(bool(refused), "code overloaded", f"{set(r.status for r in seen)}"):
        s.see(refused[0], "code overloaded", 429, "overloaded")
        s.out.check((refused[0].get("retry-after") or "").isdigit(), "429 has retry-after", f"{refused[0].headers}")
    s.out.check({r.status for r in seen} <= {200, 429}, "full queue", f"{set(r.status for r in seen)}")
    s.see(server.ask("POST", "/v1/encode", {"tokens": [[1, 2]], "dimensions": 1}, KEY), "after a full queue", 200)


def slow_body(s, server):
    with wire.Conn(server.port, 10 * S) as c:
        c.send(b"POST /v1/encode HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
               b"Authorization: Bearer key-number-one\r\nContent-Length: 100\r\n\r\n{")
        try:
            s.see(c.reply(), "code request_timeout", 408, "request_timeout")
        except wire.Closed:
            s.codes.setdefault("request_timeout", "closed instead")
            s.out.note("a body that does not come in time: the connection is closed without a 408")


def deadline(s):
    body = {"tokens": [[1] * s.facts.positions] * min(64, s.facts.limits["max_items"]), "deadline_ms": 1}
    for _ in range(5):
        reply = s.ask("POST", "/v1/encode", body)
        if reply.status == 504:
            break
    s.see(reply, "code deadline_exceeded", 504, "deadline_exceeded")


def admin_port(s, server):
    admin = next((l["port"] for l in server.log_lines() if l.get("for") == "health and metrics"), None)
    if not s.out.check(admin, "the admin port is printed", server.log_text()[:600]):
        return
    for path, main, second in (("/livez", 200, 200), ("/readyz", 200, 200), ("/health", 200, 200),
                               ("/metrics", 404, 200), ("/v1/models", 200, 404)):
        s.see(server.ask("GET", path), f"{path} beside an admin port", main)
        reply = wire.ask(admin, "GET", path)
        s.out.check(reply.status == second, f"{path} on the admin port", f"{reply!r}, wanted {second}")
    for name in ("text-embedding-3-small", "other", s.facts.name):
        reply = server.ask("POST", "/v1/embeddings", {"model": name, "input": [1, 2]})
        s.see(reply, f"alias {name}", 200)


def shutting_down(s, server):
    """Requests that the stop may not wait for are told so, or the deadline."""
    body = wire.as_body({"tokens": [[1] * s.facts.positions] * s.facts.limits["max_items"], "dimensions": 1})
    conns = [wire.Conn(server.port, 30 * S) for _ in range(24)]
    for c in conns:
        c.send(wire.build("POST", "/v1/encode", body, (), f"127.0.0.1:{server.port}"))
    time.sleep(0.15)
    code = server.stop(seconds=10)
    replies = []
    for c in conns:
        try:
            replies.append(c.reply())
        except (wire.Closed, wire.WireError, TimeoutError) as e:
            s.out.fail("stop with work that takes too long", repr(e))
    told = [r for r in replies if r.status != 200]
    s.out.check(code == 0, "stop with work that takes too long", f"exit {code}")
    for r in told[:1]:
        s.see(r, "code shutting_down", 503, "shutting_down")


def headers_too_large(s):
    reply = s.raw("GET /livez HTTP/1.1\r\nHost: {host}\r\n" + "X-A: 1\r\n" * 300 + "\r\n")
    if reply.status == 431:
        s.see(reply, "code headers_too_large", 431)
    else:
        s.see(s.raw("GET /livez HTTP/1.1\r\nHost: {host}\r\nX-A: " + "a" * 60000 + "\r\n\r\n"), "large header", 431)


def all_codes(s):
    with open(os.path.join(lamina.ROOT, "api", "error.h")) as f:
        codes = re.findall(r'X\(\w+, "(\w+)", \d{3}', f.read())
    missing = [c for c in codes if c not in s.codes and c not in ELSEWHERE]
    s.out.check(codes and not missing, "every error code is seen", f"never seen: {missing}")
    for code in sorted(ELSEWHERE):
        s.out.note(f"code {code}: {ELSEWHERE[code]}")


def main():
    out = report.Report("http")
    with lamina.Server() as server:
        s = Suite(server, out)
        for part in (routes, check_encode, check_statistics, check_openai, protocol, client_leaves, codes_of_bodies,
                     codes_of_heads, headers_too_large, deadline, codes_of_other_servers, all_codes):
            try:
                part(s)
            except (OSError, wire.WireError, wire.Closed, lamina.StartFailed, KeyError, ValueError, TypeError,
                    IndexError, struct.error) as e:
                out.fail(part.__name__, f"{type(e).__name__} {e}")
            if not server.alive():
                out.fail(part.__name__, f"the server ended: {server.log_text()[-1500:]}")
                break
        out.check(server.stop() == 0, "exit status", f"{server.process.returncode}")
        out.check(not server.reports(), "sanitizer", server.reports())
    out.finish()


if __name__ == "__main__":
    main()
