"""The procedures of the fault table by their names. Each takes the bench and the case, and returns what is
wrong, or "" (None)."""

import kinds_http
import kinds_input
import kinds_process

KINDS = {f.__name__: f for f in (
    kinds_http.unknown_routes, kinds_http.expect_continue, kinds_http.pipeline, kinds_http.many_requests,
    kinds_http.split, kinds_http.drip, kinds_http.slow_read, kinds_http.idle, kinds_http.idle_end,
    kinds_http.connection_limit, kinds_http.churn, kinds_http.slowloris, kinds_http.fd_limit,
    kinds_input.corpus, kinds_input.many_values, kinds_input.truncated, kinds_input.echo, kinds_input.same,
    kinds_input.long_text, kinds_input.special_texts, kinds_input.naughty, kinds_input.broken_model,
    kinds_process.no_threads, kinds_process.small_limits, kinds_process.log_lost, kinds_process.closed_streams,
    kinds_process.stolen_cpu, kinds_process.retrying, kinds_process.probes_under_load,
    kinds_process.start_fails)}
