/* Every setting of `lamina serve`, once. One row makes the field, its default, the parser for flag,
 * environment (LAM_NAME) and file key, the line of --help, of --print-config and of docs/CONFIG.md.
 *
 * X(type, field, default, min, max, value, help); option.h says what each type is. */
#ifndef SERVER_CONFIG_CONFIG_TABLE_H
#define SERVER_CONFIG_CONFIG_TABLE_H

#include "core/model/names.h"

/* "all|none|affine|reader|..." */
#define SRV_FOLD_WORD(name, text, on, what) "|" text
#define SRV_FOLD_WORDS                      "all|none|affine" LAM_FOLD_MAP(SRV_FOLD_WORD)

/* Those that every command with a model takes. */
#define SRV_ENGINE_MAP(X)                                                                  \
    X(NUMBER, workers, 0, 0, 1024, "N",                                                    \
      "inference threads; 0: one for each CPU this process may use")                       \
    X(NUMBER, threads, 1, 1, 1, "N", "threads that share one batch")                       \
    X(CHOICE, cpu, "auto", 0, 0, "auto|ref|avx2|avx512", "highest instruction set to use") \
    X(CHOICE, precision, "f32", 0, 0, "f32", "arithmetic")                                 \
    X(WORDS, fold, "affine", 0, 0, SRV_FOLD_WORDS,                                         \
      "what may be folded into weights, several with commas; lamina compile reports")

#define SRV_SETTING_MAP(X)                                                                        \
    X(TEXT, host, "127.0.0.1", 1, 255, "ADDRESS", "address to listen on")                         \
    X(NUMBER, port, 8080, 0, 65535, "PORT",                                                       \
      "port to listen on; 0: any free port, printed at start")                                    \
    X(TEXT, unix_socket, NULL, 1, 107, "PATH", "listen on this Unix socket as well")              \
    X(NUMBER, admin_port, 0, 0, 65535, "PORT", "second listener for health and metrics; 0: none") \
    SRV_ENGINE_MAP(X)                                                                             \
    X(LIST, alias, NULL, 1, 4096, "NAME[,NAME...]", "other names of the first model")             \
    X(NUMBER, max_body_bytes, 8388608, 1024, 1073741824, "BYTES", "largest request body")         \
    X(NUMBER, max_items, 2048, 1, 65536, "N", "most items of one request")                        \
    X(NUMBER, max_reply_bytes, 67108864, 4096, 1073741824, "BYTES", "largest reply")              \
    X(NUMBER, max_request_bytes, 134217728, 1048576, 4294967296, "BYTES",                         \
      "most memory of one request")                                                               \
    X(NUMBER, max_memory_bytes, 0, 0, 1099511627776, "BYTES",                                     \
      "bound on the memory of all requests together; 0: computed from the other limits")          \
    X(NUMBER, max_batch_tokens, 512, 1, 1048576, "TOKENS",                                        \
      "rows of one batch; raised to the model's longest sequence where smaller")                  \
    X(NUMBER, max_queue_items, 512, 1, 1048576, "N", "items waiting or running; beyond it 429")   \
    X(NUMBER, max_connections, 4096, 1, 65536, "N", "open connections")                           \
    X(NUMBER, max_input_length, 0, 0, 1048576, "TOKENS",                                          \
      "longest text in tokens; 0: what the model says")                                           \
    X(NUMBER, spin_us, 200, 0, 10000, "US",                                                       \
      "longest time to poll for a reply that is about to be ready, if a CPU is idle; 0: sleep")   \
    X(NUMBER, default_deadline_ms, 30000, 1, 3600000, "MS",                                       \
      "deadline of a request that names none")                                                    \
    X(NUMBER, header_timeout_ms, 5000, 100, 3600000, "MS", "time to send a request's head")       \
    X(NUMBER, body_timeout_ms, 10000, 100, 3600000, "MS",                                         \
      "time to send a request's body, plus 1 ms for 64 bytes")                                    \
    X(NUMBER, write_timeout_ms, 30000, 100, 3600000, "MS",                                        \
      "time to take a reply, plus 1 ms for 16 bytes")                                             \
    X(NUMBER, idle_timeout_ms, 75000, 100, 3600000, "MS", "time an idle connection is kept")      \
    X(NUMBER, drain_delay_ms, 0, 0, 600000, "MS",                                                 \
      "time between SIGTERM (readiness off) and the end of accepting")                            \
    X(NUMBER, stop_timeout_ms, 25000, 1, 600000, "MS",                                            \
      "time for admitted requests to finish after that")                                          \
    X(NUMBER, drift_sample, 16, 0, 1000000, "N",                                                  \
      "measure drift in every Nth batch of a worker; 0: never")                                   \
    X(NUMBER, drift_window_s, 600, 1, 604800, "S",                                                \
      "drift is of the last one to two windows of so many seconds")                               \
    X(TEXT, api_key_file, NULL, 1, 4095, "FILE",                                                  \
      "file of keys, one a line; without it no key is asked")                                     \
    X(LIST, allowed_hosts, NULL, 1, 4096, "HOST[,HOST...]", "Host names that are answered")       \
    X(CHOICE, log_format, "auto", 0, 0, "auto|json|text",                                         \
      "auto: text on a terminal, JSON lines else")                                                \
    X(CHOICE, log_level, "info", 0, 0, "error|warn|info|debug", "least severe level that is logged")

#endif
