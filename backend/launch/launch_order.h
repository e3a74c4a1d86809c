/* Exchanges between values whose dims follow dealt weights (wafer/orders.h). Private to backend/.
 */
#ifndef BACKEND_LAUNCH_ORDER_H
#define BACKEND_LAUNCH_ORDER_H

#include "exchange/exchange.h"
#include "program/program.h"
#include "wafer/orders.h"

/* UNSUPPORTED: a value crosses the border in two orders, or kernels take a sparse weight in two
 * forms; the host has one for each. */
wafer_status launch_order_check(const wafer_diag *diag, wafer_arena *arena, const wafer_plan *plan);

/* Which index of its source a stream's target takes. The host orders what crosses the border: there
 * it is the identity. Tables live in the arena. */
wafer_status launch_order_map(const wafer_diag *diag, wafer_arena *arena, wafer_orders *orders,
                              const wafer_plan *plan, const wafer_stream *stream, index_map *map);

/* Whether it changes the order. */
bool launch_order_changes(const wafer_stream *stream);

/* launch_forms.c: what a pipeline takes in several forms becomes several values of one weight.
 * False: out of memory. */
bool launch_order_forms(wafer_arena *arena, wafer_plan *plan);
/* A kernel's constant whose dims follow dealt weights: its elements as they lie on the cores. */
wafer_status launch_order_data(const wafer_diag *diag, wafer_arena *arena, wafer_orders *orders,
                               const wafer_kernel *kernel, program_data *data);

#endif
