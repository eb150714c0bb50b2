#!/usr/bin/env python3
"""A closed-loop load of many clients in one process, by an event loop. Prints counts and times as JSON.

load.py PORT [--clients N] [--seconds S] [--path P] [--body JSON | --bodies FILE] [--pause-ms MS]
FILE holds a JSON list of bodies that the clients take in turn. After a 429 a client waits MS (0: tries again
at once, which costs the machine more in refusals than many machines have).
"""

import argparse
import collections
import json
import selectors
import socket
import time


class Client:
    def __init__(self, port, requests, at):
        self.port = port
        self.requests = requests
        self.at = at
        self.open()

    def open(self):
        self.sock = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.data = b""
        self.want = None

    def send(self):
        self.at = (self.at + 1) % len(self.requests)
        self.began = time.monotonic()
        self.sock.sendall(self.requests[self.at])

    def take(self):
        """Status of a reply that is complete, 0 where the server closed, else None."""
        try:
            data = self.sock.recv(1 << 18)
        except ConnectionError:
            data = b""
        if not data:
            return 0
        self.data += data
        if self.want is None:
            end = self.data.find(b"\r\n\r\n")
            if end < 0:
                return None
            head = self.data[:end].lower()
            start = head.find(b"content-length:")
            length = int(head[start + 15:].split(b"\r\n", 1)[0]) if start >= 0 else 0
            self.want = end + 4 + length
            self.close_after = b"connection: close" in head
        if len(self.data) < self.want:
            return None
        status = int(self.data[9:12])
        self.data, self.want = b"", None
        return status


def run(port, requests, clients, seconds, pause):
    chosen = selectors.DefaultSelector()
    statuses, times, lost = {}, [], 0
    waiting = collections.deque()  # (when, client), in order
    for i in range(clients):
        c = Client(port, requests, i * 7)
        chosen.register(c.sock, selectors.EVENT_READ, c)
        c.send()
    began = time.monotonic()
    end = began + seconds
    while time.monotonic() < end:
        while waiting and waiting[0][0] <= time.monotonic():
            waiting.popleft()[1].send()
        left = waiting[0][0] - time.monotonic() if waiting else 0.1
        for key, _ in chosen.select(max(0.0, min(left, 0.1))):
            c = key.data
            status = c.take()
            if status is None:
                continue
            now = time.monotonic()
            if status:
                statuses[str(status)] = statuses.get(str(status), 0) + 1
                if status == 200:
                    times.append(now - c.began)
            if not status or c.close_after:
                lost += not status
                chosen.unregister(c.sock)
                c.sock.close()
                c.open()
                chosen.register(c.sock, selectors.EVENT_READ, c)
            if status == 429 and pause:
                waiting.append((now + pause, c))
            else:
                c.send()
    elapsed = time.monotonic() - began
    times.sort()
    return {"statuses": statuses, "lost": lost, "seconds": elapsed, "good_per_second": len(times) / elapsed,
            "p50_ms": times[len(times) // 2] * 1000 if times else None,
            "p99_ms": times[int(len(times) * 0.99)] * 1000 if times else None}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--path", default="/v1/encode")
    parser.add_argument("--body", default='{"tokens":[[1,2,3]]}')
    parser.add_argument("--bodies")
    parser.add_argument("--pause-ms", type=float, default=0)
    options = parser.parse_args()
    bodies = [options.body]
    if options.bodies:
        with open(options.bodies) as f:
            bodies = [json.dumps(b) for b in json.load(f)]
    requests = []
    for body in bodies:
        data = body.encode()
        head = (f"POST {options.path} HTTP/1.1\r\nHost: 127.0.0.1:{options.port}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n")
        requests.append(head.encode() + data)
    print(json.dumps(run(options.port, requests, options.clients, options.seconds,
                         options.pause_ms / 1000)))


if __name__ == "__main__":
    main()
