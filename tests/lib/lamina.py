"""Starts and watches one server. Everything that the suites know about the program itself is here."""

import glob
import json
import os
import random
import re
import resource
import signal
import socket
import subprocess
import tempfile
import time

import wire

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
BINARY = os.environ.get("LAMINA_BIN", os.path.join(ROOT, "build", "lamina"))
REPORTS = re.compile(r"ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|runtime error:|ERROR: LeakSanitizer")


def sanitizer():
    """Which sanitizer the program is built with: its timings and memory are judged by other numbers."""
    with open(BINARY, "rb") as f:
        data = f.read()
    if b"__tsan_init" in data:
        return "tsan"
    return "asan" if b"__asan_init" in data else ""


SANITIZER = sanitizer() if os.path.exists(BINARY) else ""
# How much longer than the plain program anything may take.
SLOWER = {"": 1.0, "asan": 4.0, "tsan": 15.0}[SANITIZER]


def tiny_models():
    """Small models that stand in the repository: one with a tokenizer, one without."""
    found = []
    for name in ("st-mean-prompts-new", "bert"):
        found += glob.glob(os.path.join(ROOT, "tests", "data", "**", name, "model.safetensors"), recursive=True)
    return [os.path.dirname(path) for path in found]


def default_model():
    named = os.environ.get("LAMINA_MODEL")
    if named:
        return named
    real = os.path.join(ROOT, "models", "all-MiniLM-L6-v2")
    if os.path.exists(os.path.join(real, "model.safetensors")):
        return real
    tiny = tiny_models()
    if not tiny:
        raise SystemExit("no model: run `make model` or set LAMINA_MODEL")
    return tiny[0]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class StartFailed(Exception):
    pass


class Server:
    def __init__(self, *args, model=None, env=None, wait=True, nofile=None, port=0):
        self.model = model or default_model()
        self.log = tempfile.TemporaryFile()
        self.port = None
        self.started = time.monotonic()
        environment = dict(os.environ, **(env or {}))
        environment.setdefault("TSAN_OPTIONS", "halt_on_error=0 exitcode=66")
        environment.setdefault("ASAN_OPTIONS", "detect_leaks=1 allocator_may_return_null=1")
        command = [BINARY, "serve", self.model, "--port", str(port), "--log-format", "json"]

        def limit():
            if nofile:
                resource.setrlimit(resource.RLIMIT_NOFILE, (nofile, nofile))

        self.process = subprocess.Popen(command + [str(a) for a in args], stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=self.log, env=environment,
                                        preexec_fn=limit if nofile else None)
        self.pid = self.process.pid
        if wait:
            self.wait_ready()

    def __enter__(self):
        return self

    def __exit__(self, *args):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.log.close()

    # ---- what it says -------------------------------------------------------------------------

    def log_text(self):
        return os.pread(self.log.fileno(), 1 << 28, 0).decode("utf-8", "replace")

    def log_lines(self):
        """The log's lines that are JSON objects."""
        lines = []
        for line in self.log_text().splitlines():
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                lines.append(value)
        return lines

    def find_port(self):
        for line in self.log_lines():
            if line.get("msg") in ("listening", "ready", "serving") and line.get("port"):
                return int(line["port"])
        return None

    def wait_ready(self, seconds=60.0):
        deadline = time.monotonic() + seconds * SLOWER
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise StartFailed(f"exit {self.process.returncode}: {self.log_text()[-1500:]}")
            self.port = self.port or self.find_port()
            if self.port:
                try:
                    if wire.ask(self.port, "GET", "/readyz", timeout=5).status == 200:
                        self.ready_seconds = time.monotonic() - self.started
                        return self
                except (OSError, wire.Closed, wire.WireError):
                    pass
            time.sleep(0.002)
        raise StartFailed(f"not ready in time: {self.log_text()[-1500:]}")

    def reports(self):
        """What a sanitizer printed."""
        text = self.log_text()
        found = REPORTS.search(text)
        return text[found.start():found.start() + 3000] if found else ""

    # ---- what it holds ------------------------------------------------------------------------

    def fds(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def threads(self):
        return len(os.listdir(f"/proc/{self.pid}/task"))

    def status_kb(self, key):
        with open(f"/proc/{self.pid}/status") as f:
            for line in f:
                if line.startswith(key + ":"):
                    return int(line.split()[1])
        return 0

    def rss_bytes(self):
        return self.status_kb("VmRSS") * 1024

    def peak_bytes(self):
        return self.status_kb("VmHWM") * 1024

    def reset_peak(self):
        with open(f"/proc/{self.pid}/clear_refs", "w") as f:
            f.write("5")

    def cpu_seconds(self):
        with open(f"/proc/{self.pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def alive(self):
        return self.process.poll() is None

    # ---- what it answers ----------------------------------------------------------------------

    def ask(self, method, path, body=None, headers=(), timeout=30.0):
        return wire.ask(self.port, method, path, body, headers, timeout * SLOWER)

    def encode(self, body, path="/v1/encode"):
        return self.ask("POST", path, body)

    def info(self):
        return self.ask("GET", "/info").json()

    def metrics(self, port=None):
        return parse_metrics(wire.ask(port or self.port, "GET", "/metrics").body.decode())

    # ---- its end ------------------------------------------------------------------------------

    def send_signal(self, number):
        os.kill(self.pid, number)

    def stop(self, number=signal.SIGTERM, seconds=30.0):
        """Exit status after the signal; None if it did not end."""
        if self.process.poll() is None:
            self.send_signal(number)
        return self.wait(seconds)

    def wait(self, seconds=30.0):
        try:
            return self.process.wait(seconds * SLOWER)
        except subprocess.TimeoutExpired:
            return None


def parse_metrics(text):
    """{'name{labels}': value}"""
    values = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            values[name] = float(value)
    return values


def metric_sum(values, name, **labels):
    """Sum over the series of a metric whose labels match."""
    total = 0.0
    for key, value in values.items():
        if key.split("{")[0] != name:
            continue
        if all(f'{k}="{v}"' in key for k, v in labels.items()):
            total += value
    return total


class Facts:
    """What a model allows, as /info tells it."""

    def __init__(self, server):
        self.info = server.info()
        self.limits = self.info["limits"]
        self.vocab = find_number(self.info, "vocab_size", "vocab")
        self.positions = find_number(self.info, "max_positions", "positions")
        self.max_input = find_number(self.info, "max_input_length")
        self.width = find_number(self.info, "width", "dimensions", "hidden_size")
        self.layers = find_number(self.info, "layers", "layer_count", "num_layers")
        self.has_texts = server.encode({"texts": ["a"]}).status == 200
        self.name = server.ask("GET", "/v1/models").json()["data"][0]["id"]

    def item(self, rng, length):
        return [rng.randrange(self.vocab) for _ in range(length)]

    def items(self, seed, count, longest=None):
        """Token lists of mixed lengths, most of them short."""
        rng = random.Random(seed)
        longest = min(longest or self.positions, self.positions)
        lengths = [min(longest, 1 + int(rng.expovariate(1.0) * longest / 8)) for _ in range(count)]
        return [self.item(rng, n) for n in lengths]


def find_number(value, *names):
    """The first number of that name anywhere in a JSON value."""
    todo = [value]
    while todo:
        at = todo.pop(0)
        if isinstance(at, dict):
            for name in names:
                if isinstance(at.get(name), int):
                    return at[name]
            todo.extend(at.values())
        elif isinstance(at, list):
            todo.extend(at)
    raise KeyError(f"/info has none of {names}")
