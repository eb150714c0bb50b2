"""HTTP/1.1 over a bare socket: sends what it is told to, and reads replies strictly.

Nothing here repairs a reply. A reply that no client should have to accept is a WireError.
"""

import json
import select
import socket
import time


class WireError(Exception):
    pass


class Closed(Exception):
    """The peer closed (or reset) before one byte of a reply."""


class Reply:
    def __init__(self, version, status, headers, body):
        self.version = version
        self.status = status
        self.headers = headers
        self.body = body

    def get(self, name):
        values = [v for n, v in self.headers if n.lower() == name.lower()]
        return values[0] if values else None

    def count(self, name):
        return sum(n.lower() == name.lower() for n, _ in self.headers)

    def json(self):
        return json.loads(self.body)

    def code(self):
        """The error code of the body, or None where there is none."""
        try:
            return json.loads(self.body)["error"]["code"]
        except (ValueError, KeyError, TypeError):
            return None

    def __repr__(self):
        return f"{self.status} {self.body[:200]!r}"


def build(method, path, body=None, headers=(), host="127.0.0.1", version="HTTP/1.1"):
    """A request's bytes. `headers` are whole lines and come after ours; `body` None: no length."""
    lines = [f"{method} {path} {version}", f"Host: {host}"]
    if body is not None:
        if not any(h.lower().startswith("content-type:") for h in headers):
            lines.append("Content-Type: application/json")
        lines.append(f"Content-Length: {len(body)}")
    lines.extend(headers)
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + (body or b"")


def as_body(value):
    return value if isinstance(value, bytes) else json.dumps(value).encode()


class Conn:
    def __init__(self, port, timeout=15.0, host="127.0.0.1", receive_bytes=None):
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_bytes:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.sock.settimeout(timeout)
        self.sock.connect((host, port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.timeout = timeout
        self.buffer = b""
        self.eof = False

    def send(self, data):
        """False where the peer has closed: its reply may still be readable."""
        try:
            self.sock.sendall(data)
            return True
        except (BrokenPipeError, ConnectionResetError):
            return False

    def half_close(self):
        self.sock.shutdown(socket.SHUT_WR)

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.close()

    def fill(self, deadline):
        """One more read; False at the end of the stream."""
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("no reply in time")
        self.sock.settimeout(left)
        try:
            data = self.sock.recv(1 << 18)
        except ConnectionResetError:
            data = b""
        except socket.timeout:
            raise TimeoutError("no reply in time") from None
        if not data:
            self.eof = True
            return False
        self.buffer += data
        return True

    def take_line(self, deadline, what):
        while b"\r\n" not in self.buffer:
            if len(self.buffer) > 65536:
                raise WireError(f"endless {what}")
            if not self.fill(deadline):
                if not self.buffer and what == "status line":
                    raise Closed()
                raise WireError(f"closed inside {what}: {self.buffer[:80]!r}")
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def take(self, n, deadline):
        while len(self.buffer) < n:
            if not self.fill(deadline):
                raise WireError(f"closed after {len(self.buffer)} of {n} body bytes")
        data, self.buffer = self.buffer[:n], self.buffer[n:]
        return data

    def take_headers(self, deadline):
        headers = []
        while True:
            line = self.take_line(deadline, "headers")
            if not line:
                return headers
            if line.startswith(b"HTTP/"):
                raise WireError("a second status line inside the headers")
            name, colon, value = line.partition(b":")
            if not colon or not name or name != name.strip():
                raise WireError(f"bad header line {line[:80]!r}")
            headers.append((name.decode("latin-1"), value.strip().decode("latin-1")))

    def reply(self, head=False, timeout=None, skip_continue=True):
        """The next reply. Raises Closed, WireError or TimeoutError."""
        deadline = time.monotonic() + (timeout or self.timeout)
        while True:
            line = self.take_line(deadline, "status line").decode("latin-1")
            parts = line.split(" ", 2)
            if len(parts) < 2 or not parts[0].startswith("HTTP/1.") or not parts[1].isdigit():
                raise WireError(f"bad status line {line[:80]!r}")
            status = int(parts[1])
            headers = self.take_headers(deadline)
            if status >= 200 or not skip_continue:
                break
        reply = Reply(parts[0], status, headers, b"")
        lengths = [v for n, v in headers if n.lower() == "content-length"]
        if len(set(lengths)) > 1:
            raise WireError("two content-length headers")
        if head or status in (204, 304) or status < 200:
            return reply
        if (reply.get("transfer-encoding") or "").lower() == "chunked":
            reply.body = self.take_chunks(deadline)
        elif lengths:
            reply.body = self.take(int(lengths[0]), deadline)
        else:
            while self.fill(deadline):
                pass
            reply.body, self.buffer = self.buffer, b""
        return reply

    def take_chunks(self, deadline):
        body = b""
        while True:
            size = int(self.take_line(deadline, "chunk size").split(b";")[0], 16)
            if size == 0:
                while self.take_line(deadline, "trailer"):
                    pass
                return body
            body += self.take(size, deadline)
            if self.take(2, deadline) != b"\r\n":
                raise WireError("chunk without its line end")

    def is_closed(self, timeout=3.0):
        """True if the peer closes within `timeout` and sends nothing more before that."""
        deadline = time.monotonic() + timeout
        if self.buffer:
            return False
        try:
            while not self.eof:
                if self.fill(deadline):
                    return False
        except TimeoutError:
            return False
        return True

    def drained(self, timeout=3.0):
        """True if the peer closes within `timeout`, whatever else it sends before."""
        deadline = time.monotonic() + timeout
        try:
            while not self.eof:
                self.fill(deadline)
        except TimeoutError:
            return False
        return True

    def is_quiet(self, seconds):
        """True if nothing arrives and the peer keeps the connection for that long."""
        if self.buffer or self.eof:
            return False
        return not select.select([self.sock], [], [], seconds)[0]


def ask(port, method, path, body=None, headers=(), timeout=30.0):
    """One request on a connection of its own."""
    with Conn(port, timeout) as c:
        data = None if body is None else as_body(body)
        c.send(build(method, path, data, headers, f"127.0.0.1:{port}"))
        return c.reply(head=method == "HEAD")


class Client:
    """Requests one after another on a kept connection, opened again where the server closed it."""

    def __init__(self, port, timeout=60.0):
        self.port = port
        self.timeout = timeout
        self.conn = None

    def ask(self, method, path, body=None, headers=()):
        if self.conn is None:
            self.conn = Conn(self.port, self.timeout)
        data = None if body is None else as_body(body)
        self.conn.send(build(method, path, data, headers, f"127.0.0.1:{self.port}"))
        try:
            reply = self.conn.reply(head=method == "HEAD")
        except Exception:
            self.close()
            raise
        if (reply.get("connection") or "").lower() == "close":
            self.close()
        return reply

    def close(self):
        if self.conn:
            self.conn.close()
            self.conn = None
