/* One line on a terminal that says how far a calibration is. */
#ifndef SERVER_CLI_CALIBRATE_PROGRESS_H
#define SERVER_CLI_CALIBRATE_PROGRESS_H

#include "server/cli/calibrate_run.h"

typedef struct cal_progress {
    bool on, shown;
    double start, last; /* seconds */
    uint64_t first_rows, first_offset;
    char what[96]; /* "pass 2 of 7 (layer 0, attention_norm)" */
} cal_progress;

/* Seconds of a clock that only runs forward. */
double cal_now(void);

void cal_progress_start(cal_progress *g, const cal_plan *p, const cal_pass *pass);
void cal_progress_show(cal_progress *g, const cal_counts *n, uint64_t size_bytes);
void cal_progress_stop(cal_progress *g);

#endif
