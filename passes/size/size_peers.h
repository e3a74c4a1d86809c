/* A pipeline among others that take turns with it: sizes of a dim, pieces between steps of the
 * host. What size_peers.c (who is like whom), size_follow.c (the same places) and size_shared.c
 * (the same cuts) share. */
#ifndef WAFER_PASSES_SIZE_PEERS_H
#define WAFER_PASSES_SIZE_PEERS_H

#include "size_pipelined.h"

/* Another piece, as kernels of this one see it. */
typedef struct peer {
  const wafer_graph *graph;
  uint32_t *like; /* kernel: its like in `graph`; WAFER_NONE: it has none */
} peer;

/* Finds the likes. A kernel with weights is like one that makes the same of the same weights, any
 * other like one of the same ONNX node. */
wafer_status peer_match(const pipeline *p, peer *with);
/* Whether the like of kernel k takes the same weight there. */
bool peer_has_weight(const pipeline *p, const peer *of, uint32_t k, uint32_t input);
/* Cycles until those weights have come of which `counts` says so. */
typedef bool peer_counts(const pipeline *p, const peer *of, uint32_t k, uint32_t input);
uint64_t peer_load(const pipeline *p, const peer *of, peer_counts *counts);

/* Whether what is settled, with such a load behind another piece, is better than a layout of that
 * latency and load: calls are shorter on average, and not notably longer where a sample of its own
 * was before it. */
bool peer_is_better(const pipeline *p, uint64_t load, uint64_t other_latency, uint64_t other_load);

/* Shapes and places of that piece, which is laid out; what is settled stays where it is better. */
wafer_status pipeline_follow(pipeline *p, const peer *leader, bool *taken);
/* Shapes of which the cuts of weights can be those of all peers; what is settled stays where it is
 * better. */
wafer_status pipeline_share_cuts(pipeline *p);

#endif
