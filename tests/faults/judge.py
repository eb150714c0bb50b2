"""One case of bytes in, reply out: sends it and judges what came back."""

import math
import time

import lamina
import table
import wire


def payload(case, names):
    names = dict(names)
    if "it" in case:
        names["it"] = table.expand(case["it"], names)
    if "raw" in case:
        return table.expand(case["raw"], names).encode("latin-1")
    body = table.expand(case["body"], names).encode("latin-1")
    headers = [table.expand(h, names) for h in case.get("headers", [])]
    return wire.build("POST", case["post"], body, headers, names["host"])


def exchange(case, names, conn):
    """What happened: (reply or None, its time in ms, protocol error)."""
    data = payload(case, names)
    head = data.startswith(b"HEAD ")
    began = time.monotonic()
    try:
        conn.send(data)
        if case.get("half_close"):
            conn.half_close()
    except TimeoutError:
        pass  # the server stopped reading: its reply decides
    try:
        reply = conn.reply(head=head)
    except wire.Closed:
        return None, (time.monotonic() - began) * 1000, ""
    except (wire.WireError, TimeoutError, OSError) as e:
        return None, (time.monotonic() - began) * 1000, str(e) or repr(e)
    return reply, (time.monotonic() - began) * 1000, ""


def is_finite(reply):
    for vector in reply.json()["embeddings"]:
        if not vector or any(not isinstance(x, (int, float)) or not math.isfinite(x) for x in vector):
            return False
    return True


def judge_error(case, reply):
    try:
        error = reply.json()["error"]
    except (ValueError, KeyError, TypeError):
        return f"no error body: {reply!r}"
    missing = {"message", "type", "param", "code"} - set(error)
    if missing:
        return f"error body lacks {missing}"
    if error["code"] not in case["code"]:
        return f"code {error['code']}, wanted {case['code']}: {reply!r}"
    if not reply.get("x-request-id"):
        return "no x-request-id"
    if case.get("param") and not error["param"]:
        return f"no param: {reply!r}"
    if "index" in case and error.get("index") != case["index"]:
        return f"index {error.get('index')}, wanted {case['index']}: {reply!r}"
    if case.get("limit") and not ("limit" in error and "actual" in error):
        return f"no limit and actual: {reply!r}"
    return ""


def judge_reply(case, reply, ms):
    status = reply.status if reply else 0
    if status not in case["status"]:
        return f"status {status}, wanted {case['status']}: {reply!r}"
    if "within_ms" in case and ms > case["within_ms"] * lamina.SLOWER:
        return f"took {ms:.0f} ms"
    if not reply:
        return ""
    if status >= 400 and case.get("code"):
        return judge_error(case, reply)
    if case.get("header") and not reply.get(case["header"]):
        return f"no {case['header']} header"
    if case.get("absent") and reply.get(case["absent"]):
        return f"has a {case['absent']} header"
    if case.get("finite") and not is_finite(reply):
        return f"not finite: {reply!r}"
    return ""


def judge_connection(case, reply, conn, host):
    """Whether the connection is kept or closed as the row says, and nothing came twice."""
    then = case["then"]
    says_close = bool(reply) and (reply.get("connection") or "").lower() == "close"
    if then == "any":
        # The reply was all: either it is closed now, or it waits for the next request in silence.
        if conn.is_closed(0.3 if says_close or not reply else 0.02) or conn.is_quiet(0.02):
            return ""
        return f"more bytes after the reply: {conn.buffer[:80]!r}"
    if then == "x":
        if case.get("double_head"):
            return "" if conn.drained(5 * lamina.SLOWER) else "not closed after the page"
        if conn.is_closed(5 * lamina.SLOWER):
            return ""
        return f"not closed, or more bytes after the reply: {conn.buffer[:80]!r}"
    if says_close:
        return "connection is closed, should be kept"
    conn.send(wire.build("GET", "/livez", host=host))
    try:
        after = conn.reply()
    except (wire.WireError, wire.Closed, TimeoutError) as e:
        return f"connection not usable after the reply: {e!r}"
    if after.status != 200 or conn.buffer:
        return f"wrong reply after the reply: {after!r} {conn.buffer[:80]!r}"
    return ""


def run_once(case, names, port):
    with wire.Conn(port, 10 * lamina.SLOWER) as conn:
        reply, ms, error = exchange(case, names, conn)
        if error:
            if case.get("double_head") and "second status line" in error:
                return "" if conn.eof or conn.fill(time.monotonic() + 5) is not None else "not closed"
            return error
        return judge_reply(case, reply, ms) or judge_connection(case, reply, conn, names["host"])


def run(case, names, port):
    """(error or "", whether it is the known gap)."""
    for _ in range(case.get("repeat", 1)):
        error = run_once(case, names, port)
        if error and case.get("gap"):
            other = {**{k: v for k, v in case.items() if k != "code"}, **case["gap"]}
            if not run_once(other, names, port):
                return "", True
        if error:
            return error, False
    return "", False
