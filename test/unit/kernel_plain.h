/* A machine of round figures and what a body costs there, for tests of kernels. */
#ifndef KERNEL_PLAIN_H
#define KERNEL_PLAIN_H

#include "body_text.h"

/* Round figures: every rate 1 element per cycle, set-up 6, descriptors 28, task switch 10, hop 1,
 * ramp 2, 8 banks. */
static inline wafer_machine plain_machine(void) {
  wafer_machine m = {.name = "plain",
                     .width = 32,
                     .height = 32,
                     .usable = {0, 0, 32, 32},
                     .clock_hz = 1000000000,
                     .core_bytes = 49152,
                     .reserved_bytes = 1024,
                     .banks = 8,
                     .vector_setup_cycles = 6,
                     .descriptor_load_cycles = 28,
                     .task_switch_cycles = 10,
                     .hop_cycles = 1,
                     .ramp_cycles = 2,
                     .colors = 24};
  for (int r = 0; r < WAFER_RATE_COUNT; r++)
    for (int w = 0; w < 2; w++) m.rate[r][w] = (wafer_throughput){w ? 4 : 1, 1};
  return m;
}

static inline wafer_cost cost_of(const body_text *b, const char *split) {
  wafer_machine m = plain_machine();
  wafer_split s = split_text(split);
  wafer_cost cost;
  wafer_kernel_cost(&m, &b->body, &s, &cost);
  return cost;
}

static inline void conv_3x3(body_text *b) {
  body_text_begin(b, "conv", "1x4x8x8xf32 w:6x4x3x3xf32");
  body_text_node(b, "conv", "0 1", "group=1 strides=1,1 dilations=1,1 pads=1,1,1,1");
}

#endif
