/* What size_pipelined.c (shapes for an interval) and size_train.c (times and buffers of a train)
 * share. */
#ifndef WAFER_PASSES_SIZE_PIPELINED_H
#define WAFER_PASSES_SIZE_PIPELINED_H

#include "shelf.h"
#include "size.h"
#include "wafer/placement.h"

/* Kernels that are sized alike: the same curve, the same heaviest stream, the same haste and
 * patience. */
typedef struct kind {
  const wafer_curve *curve;
  uint64_t words;
  uint32_t haste, patience;
} kind;

typedef struct pipeline {
  const wafer_ctx *ctx;
  const wafer_graph *graph;
  curve_set *curves;
  sizing *out;
  uint32_t *stage;  /* kernel: see wafer_graph_stages */
  uint32_t *haste;  /* kernel: it takes at most T >> haste cycles, if it can */
  uint32_t *patience; /* kernel: of a search, a sample stays at most so many parts of T; 0: any */
  int32_t *skipped; /* stage: values too deep for their buffers that skip it, as differences */
  const wafer_curve **curve;
  uint32_t guess;            /* buffers of at most so many samples are guessed */
  bool copied;               /* curves are to have what is worth having in copies alone */
  const uint32_t **wanted;   /* kernel: depths that the settled times ask for, held or not */
  const shelf_place *places; /* that are being settled */
  uint32_t *kind_of;
  uint32_t kind_count;
  kind *kinds;
  size_t cycle_count;
  uint64_t *cycles;      /* every cycle count on a curve, rising */
  uint64_t edge;         /* cycles of a sample across the edge, or of the slowest pinned kernel */
  uint64_t floor;        /* nothing faster is looked for */
  bool piece;            /* of a model of several: pins may mean kernels of others */
  const wafer_pin **pin; /* kernel: what holds it in place, NULL: nothing; NULL: no pins at all */
  const wafer_shape_point **pinned; /* kernel: the shape that its pin wants */
  const wafer_loops **shared; /* kernel: loops that all pieces with its weights can cut so; NULL:
                                 those of its own, and NULL: of all kernels */
  int64_t *waste; /* kernel: multiply cycles that a sparse product may waste; NULL: any */
} pipeline;

/* Room for what is known of each kernel; nothing is. */
wafer_status pipeline_start(pipeline *p);
/* Numbers the kinds, anew after kernels have made haste. */
wafer_status pipeline_find_kinds(pipeline *p);
/* Kernels in stages that values too deep for their buffers skip make haste. */
void pipeline_hasten(const pipeline *p);
/* size_curves.c. Words of the heaviest stream to or from kernel k. */
uint64_t pipeline_heaviest_stream(const pipeline *p, uint32_t k);
/* The curve of every kernel, with buffers for at most `limit` samples; *fits is false when one has
 * no shape at all, and that one is refused. */
wafer_status pipeline_find_curves(pipeline *p, uint32_t limit, bool *fits);
/* The same curves with what is worth having in copies alone, as all others that are found from here
 * on. */
wafer_status pipeline_copied_curves(pipeline *p);
/* Curves of kernels whose cores could not hold the depths wanted, made for these; *found is false
 * when there are none. */
wafer_status pipeline_deepen(pipeline *p, bool *found);
/* Buffers of kernel k as shallow as can be: of each input, then of the outputs. */
void pipeline_shallow_depths(const pipeline *p, uint32_t k, uint32_t *depths);
/* The curve of kernel k for buffers so deep; with higher shapes that are no faster, for their
 * lanes, or without. */
wafer_status pipeline_curve_for(const pipeline *p, uint32_t k, const uint32_t *depths, bool lanes,
                                const wafer_curve **out);
/* Who makes input `input` of kernel k; WAFER_NONE: it is a weight, or comes from the edge. */
static inline uint32_t pipeline_producer(const pipeline *p, uint32_t k, uint32_t input) {
  const wafer_graph_kernel *kernel = &p->graph->kernels[k];
  bool weight = kernel->body.input_is_weight[input];
  return weight ? WAFER_NONE : p->graph->values[kernel->inputs[input]].producer;
}
/* The curve of every kernel for buffers as shallow as can be. */
wafer_status pipeline_shallow(const pipeline *p, bool lanes, const wafer_curve ***out);
/* size_lean.c. Leaves curves with those shapes alone with which sparse products waste as little as
 * options ask for. *t: the interval at which, from `from` on, there are such first; 0: there are
 * none, or no others than for the last one that was asked for, and curves are as they were. */
wafer_status pipeline_lean(pipeline *p, uint64_t from, uint64_t *t);
/* The same of another curve of kernel k; whether a split of it is among these, and among those that
 * are shared. */
wafer_status pipeline_keep_lean(const pipeline *p, uint32_t k, const wafer_kernel_body *body,
                                const wafer_curve **curve);
bool pipeline_is_lean(const pipeline *p, uint32_t k, const wafer_kernel_body *body,
                      const wafer_split *split);
/* Shapes of at most `cycles`, with few cores and not too long as far as the shelves can hold them;
 * *found is false when they hold none. */
wafer_status pipeline_shelves(const pipeline *p, uint64_t cycles, shelf_place *places, bool *found);
/* size_quick.c. Shapes and places with which one sample is done sooner, as streams tell, than in
 * the layout that is settled, which stays if there are none. */
wafer_status pipeline_quicken(pipeline *p);
/* The layout that shelves have for the curves as they are, settled; it is not looked for again. */
wafer_status pipeline_lay_out(pipeline *p, bool *fits);
/* size_peers.c. Shapes and places of a piece among pieces that take turns with it, where these gain
 * from that; the layout that is settled stays where they do not. */
wafer_status pipeline_heed_peers(pipeline *p);
/* A search for a better layout than the one that is settled, which stays if there is none; *fits
 * says whether one is settled, before and after. `quick`: without the placement engine. */
wafer_status pipeline_best(pipeline *p, bool quick, bool *fits);
/* size_meet.c. Shapes and places for which no kernel's turn of a sample (what it receives, computes
 * and sends, one after the other) takes as long as at `places`, which are settled, and the interval
 * is no longer; `places` as they are when there are none. `t`: the interval looked for. */
wafer_status pipeline_meet(pipeline *p, uint64_t t, shelf_place *places);
/* Shapes and places with the least predicted pace, however long kernels then compute: of each
 * interval of the kernels that is tried, of one if `quick`, the best; `places` as they are, which
 * are settled, where that is none. The layout found is not settled. */
wafer_status pipeline_meet_pace(const pipeline *p, bool quick, shelf_place *places);
/* size_turns.c. Shapes and shelves with which the longest turn of a kernel is shorter than at
 * `places`, and the predicted pace as well; `places` as they are where there are none, where cores
 * are dead, reserved or pinned, and where kernels have replicas. Some layout is settled before; the
 * one found is not. */
wafer_status pipeline_shorten_turns(pipeline *p, shelf_place *places);
/* One of the layouts near `places`, which are settled: a few kernels cut otherwise, shelves that
 * end elsewhere, turns predicted about as short. It is not settled. */
wafer_status pipeline_wander(pipeline *p, shelf_place *places);
/* The longest turn of a kernel, predicted, without what crosses the wafer's edge. */
wafer_status pipeline_turn(const pipeline *p, const shelf_place *places, uint64_t *longest);
/* Cycles between samples where each core has its turns one after the other, as core programs do,
 * and what skips kernels waits until the cores that want it have ended the sample before. */
wafer_status pipeline_pace(const pipeline *p, const shelf_place *places, uint64_t *interval);
/* size_train.c. Cycles from when input `input` of kernel k is made to when it is there, as kernels
 * lie in the layout that was settled last. */
uint64_t pipeline_way(const pipeline *p, uint32_t k, uint32_t input);
/* A kernel that takes nothing of a sample, and takes so many cycles, starts as late as its readers
 * let it: it has no more to give until these have room. `start`: of all kernels, in cycles. */
void pipeline_start_late(const pipeline *p, uint32_t k, uint64_t cycles, uint64_t *start);
/* size_patience.c. Patience and curves of all kernels, with buffers for what waits then, for the
 * least interval, above `low` and below *t, at which they fill `cores` with up to so many replicas
 * each; *t is that interval. All is as it was where there is none. */
#define SIZE_PATIENCE 1024u /* parts of T */
wafer_status pipeline_be_patient(pipeline *p, uint32_t replicas, uint64_t cores, uint64_t low,
                                 uint64_t *t);
/* size_hold.c. Patience and curves of all kernels for a search in which no sample stays longer than
 * in the layout that is settled, whose slowest kernel takes t > 0, and all that waits there has
 * room. */
wafer_status pipeline_hold(pipeline *p, uint64_t t);
/* Every kernel where a layout of this pipeline, or of an earlier sizing of it, has it. */
wafer_status pipeline_take(pipeline *p, const shelf_place *kept);
/* size_control.c. Finds whom each pin means; refuses those that cannot be. Needs curves. */
wafer_status pipeline_pin(pipeline *p);
/* Whether each pinned kernel has a shape with its buffers as they are. */
bool pipeline_pins_have_room(const pipeline *p);
/* Frees kept kernels up to `radius` places in the order from one that is free. */
wafer_status pipeline_release(pipeline *p, uint32_t radius);
uint32_t pipeline_kept(const pipeline *p);
uint64_t pipeline_pinned_cycles(const pipeline *p, uint64_t least);
/* Packs all that is not pinned, with these shapes of each kind. */
wafer_status pipeline_pack(const pipeline *p, wafer_arena *arena, const shelf_shapes *kinds,
                           shelf_place *places, bool *fits);
wafer_status pipeline_no_memory(const pipeline *p);
/* Cost and depths of the shapes at `places`; the interval includes what shallow buffers cost.
 * Stages that values too deep for their buffers skip are marked in `skipped`. */
wafer_status pipeline_settle(pipeline *p, const shelf_place *places);

#endif
