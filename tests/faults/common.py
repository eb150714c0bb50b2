"""What the procedures of the fault table share."""

import glob
import os
import time

import lamina
import wire

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
        gauges["lamina_inflight_requests"] -= 1  # the scrape itself
        if not any(gauges.values()):
            return ""
        if time.monotonic() > deadline:
            return f"gauges that do not return to 0: {gauges}"
        time.sleep(0.02)
