/* `wafer compile --check`: everything that keeps a model from compiling. */
#ifndef WAFER_CHECK_H
#define WAFER_CHECK_H

#include "cli.h"

/* Imports and matches the model and prints every problem with its place and remedy to stdout.
 * Returns what the import does; a model without problems is WAFER_OK. */
wafer_status check_model(const wafer_ctx *ctx, const char *model, bool json);

#endif
