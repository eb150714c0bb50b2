/* What a calibration says when it is done. */
#ifndef SERVER_CLI_CALIBRATE_REPORT_H
#define SERVER_CLI_CALIBRATE_REPORT_H

#include "server/cli/calibrate_run.h"

typedef struct cal_report {
    const cal_plan *plan;
    const cal_state *state;
    const char *out, *order, *estimator;
    uint64_t batch_size;
} cal_report;

/* On standard output. */
void cal_report_text(const cal_report *r);
lam_status cal_report_json(const cal_report *r, lam_err *err);

#endif
