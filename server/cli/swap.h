/* Whether a norm may stand in for another on the same weights. */
#ifndef SERVER_CLI_SWAP_H
#define SERVER_CLI_SWAP_H

#include "core/program/context.h"

/* Refuses kinds that need training where another kind is now: dyt and derf always, ada where values
 * leave the range in which it rises. The message has the largest normalized value that these items
 * give a norm which would be swapped. `ctx` is of the model as it is. LAM_E_UNSUPPORTED. */
lam_status cli_swap_check(lam_ctx *ctx, const lam_hparams *other, lam_item *items, size_t count,
                          lam_err *err);

#endif
