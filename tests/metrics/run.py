#!/usr/bin/env python3
"""/metrics of a live server: promtool's lint, names, and counters that agree with what was asked."""

import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import lamina
import report

NAMES = ("lamina_requests_total", "lamina_request_duration_seconds", "lamina_queue_duration_seconds",
         "lamina_compute_duration_seconds", "lamina_queue_requests", "lamina_inflight_requests", "lamina_tokens_total",
         "lamina_build_info", "process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds")


def main():
    out = report.Report("metrics")
    with lamina.Server() as server:
        for body in ({"tokens": [[1, 2, 3], [4]]}, {"tokens": [[1]], "statistics": "summary"}, {"tokens": []}, {}):
            server.encode(body)
        server.ask("GET", "/nowhere/\"\\\n".split("\n")[0])
        server.ask("GET", "/v1/encode")
        reply = server.ask("GET", "/metrics")
        kind = reply.get("content-type") or ""
        out.check(reply.status == 200, "/metrics", f"{reply!r}")
        out.check(kind.startswith("text/plain; version=0.0.4"), "content type", kind)
        text = reply.body.decode()
        for name in NAMES:
            out.check(f"# TYPE {name} " in text, f"metric {name}", "absent")
        values = lamina.parse_metrics(text)
        good = lamina.metric_sum(values, "lamina_requests_total", route="/v1/encode", code="200")
        bad = lamina.metric_sum(values, "lamina_requests_total", route="/v1/encode", code="400")
        out.check((good, bad) == (2, 2), "requests of /v1/encode", f"200: {good}, 400: {bad}; wanted 2, 2")
        count = lamina.metric_sum(values, "lamina_request_duration_seconds_count", route="/v1/encode")
        out.check(count in (4, 5), "histogram counts what the counter counts", f"{count}")
        tokens = lamina.metric_sum(values, "lamina_tokens_total")
        out.check(tokens == 5, "tokens", f"{tokens}, wanted 5")
        if shutil.which("promtool"):
            lint = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True)
            out.check(lint.returncode == 0, "promtool check metrics", lint.stdout + lint.stderr)
        else:
            out.note("promtool is not installed: its lint is skipped")
        out.check(server.stop() == 0, "exit status", "not 0")
    out.finish()


if __name__ == "__main__":
    main()
