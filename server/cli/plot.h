/* Figures, drawn by gnuplot. */
#ifndef SERVER_CLI_PLOT_H
#define SERVER_CLI_PLOT_H

#include "core/base/status.h"

/* Runs the commands with the file as their output (terminal svg). The file is there only if all
 * went well. LAM_E_FILE, or LAM_E_SYSTEM where there is no gnuplot. */
lam_status cli_plot(const char *path, const char *commands, lam_err *err);

#endif
