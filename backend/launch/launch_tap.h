/* Where the outputs of kernels lie, for whoever compares them. Private to backend/. */
#ifndef BACKEND_LAUNCH_TAP_H
#define BACKEND_LAUNCH_TAP_H

#include "exchange/spread.h"
#include "wafer/launch.h"

/* `s`, whose parts are single runs, as a tap in the arena. False: out of memory. */
bool launch_tap_of(wafer_arena *arena, const spread *s, wafer_tap *out);

#endif
