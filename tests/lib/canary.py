"""A well-behaved client that runs beside a test: its replies must stay 200 and byte-identical."""

import threading
import time

import wire


def embeddings_of(body):
    """The bytes of the vectors in a reply of /v1/encode; what stands around them may differ (timing)."""
    start = body.index(b'"embeddings":')
    return body[start:body.index(b'"items":', start)]


class Canary:
    def __init__(self, port, body, pause=0.02):
        self.port = port
        self.body = wire.as_body(body)
        self.pause = pause
        self.reference = embeddings_of(wire.ask(port, "POST", "/v1/encode", self.body).body)
        self.replies = 0
        self.wrong = []
        self.slowest = 0.0
        self.end = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        client = wire.Client(self.port)
        while not self.end.is_set():
            began = time.monotonic()
            try:
                reply = client.ask("POST", "/v1/encode", self.body)
                if reply.status != 200:
                    self.wrong.append(repr(reply))
                elif embeddings_of(reply.body) != self.reference:
                    self.wrong.append("different bytes")
            except Exception as e:  # whatever it is, a canary must not have met it
                self.wrong.append(repr(e))
                client.close()
            self.replies += 1
            self.slowest = max(self.slowest, time.monotonic() - began)
            self.end.wait(self.pause)
        client.close()

    def take_wrong(self):
        wrong, self.wrong = self.wrong, []
        return wrong

    def stop(self):
        self.end.set()
        self.thread.join(30)
