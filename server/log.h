/* The log: one line an event on stderr, JSON or readable text. Lines go into a bounded ring that a
 * thread empties, so a blocked reader of stderr never holds up a request; what does not fit is
 * counted and said later. Nothing of a request's input is ever logged. Any thread. */
#ifndef SERVER_LOG_H
#define SERVER_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SRV_LOG_LEVEL_MAP(X)               X(ERROR, "error") X(WARN, "warn") X(INFO, "info") X(DEBUG, "debug")
#define SRV_ENUM_ROW_LOG_LEVEL(name, text) SRV_LOG_##name,
typedef enum srv_log_level {
    SRV_LOG_LEVEL_MAP(SRV_ENUM_ROW_LOG_LEVEL) SRV_LOG_LEVEL_COUNT
} srv_log_level;

typedef enum srv_log_format { SRV_LOG_AUTO, SRV_LOG_JSON, SRV_LOG_TEXT } srv_log_format;

/* Starts the thread. Before it, and after srv_log_stop, lines are written at once. False: no
 * thread. */
bool srv_log_start(void);

/* Writes what is left, but waits no longer than a second for it, and ends the thread. */
void srv_log_stop(void);

void srv_log_configure(srv_log_format format, srv_log_level level);

bool srv_log_wants(srv_log_level level);

/* A line under construction, on the caller's stack. */
typedef struct srv_line {
    srv_log_level level;
    bool json;
    size_t size;
    char text[1024];
} srv_line;

/* `msg` is a fixed word or sentence. Values are escaped and cut where they would not fit. */
void srv_line_begin(srv_line *l, srv_log_level level, const char *msg);
void srv_line_text(srv_line *l, const char *key, const char *value);
void srv_line_u64(srv_line *l, const char *key, uint64_t value);
void srv_line_seconds(srv_line *l, const char *key, uint64_t ns);
void srv_line_end(srv_line *l);

/* A line with at most one more value; key may be NULL. */
void srv_log(srv_log_level level, const char *msg, const char *key, const char *value);

/* Lines that found the ring full. */
uint64_t srv_log_dropped(void);

#endif
