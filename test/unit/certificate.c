/* runtime/plan/certificate.c: what is proved about a plan, and what cannot be. */
#include "wafer/certificate.h"

#include <CUnit/CUnit.h>
#include <string.h>

#include "caught.h"
#include "relay_plan.h"

static relay_plan relay;

static wafer_arena *open_relay(wafer_mode mode) {
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *small;
  CU_ASSERT_EQUAL_FATAL(wafer_machine_open(NULL, arena, "small16", &small), WAFER_OK);
  CU_ASSERT_TRUE_FATAL(relay_init(&relay, small, arena, mode));
  return arena;
}

static void figures(void) {
  for (int streaming = 0; streaming < 2; streaming++) {
    wafer_arena *arena = open_relay(streaming ? WAFER_MODE_streaming : WAFER_MODE_pipelined);
    const wafer_phase_proof *proofs;
    uint32_t kernels = 0, streams = 0;
    CU_ASSERT_EQUAL_FATAL(wafer_certify(NULL, arena, &relay.plan, &proofs), WAFER_OK);
    for (uint32_t i = 0; i < relay.plan.phase_count; i++) {
      CU_ASSERT(proofs[i].waits > 0);
      CU_ASSERT(proofs[i].longest_chain <= proofs[i].kernels + proofs[i].streams);
      CU_ASSERT(proofs[i].colors >= 1);
      kernels += proofs[i].kernels;
      streams += proofs[i].streams;
    }
    CU_ASSERT_EQUAL(kernels, relay.plan.kernel_count);
    CU_ASSERT_EQUAL(streams, relay.plan.stream_count);
    wafer_arena_destroy(arena);
  }
}

/* A colour that all streams have: those that meet another one take turns. */
static void shared_colors(void) {
  wafer_arena *arena = open_relay(WAFER_MODE_pipelined);
  const wafer_phase_proof *proofs;
  wafer_stream *streams =
      wafer_arena_copy(arena, relay.plan.streams, relay.plan.stream_count * sizeof *streams);
  CU_ASSERT_PTR_NOT_NULL_FATAL(streams);
  for (uint32_t i = 1; i < relay.plan.stream_count; i++) {
    streams[i].color = streams[0].color;
    streams[i].route = streams[0].route;
    streams[i].route_count = streams[0].route_count;
  }
  relay.plan.streams = streams;
  CU_ASSERT_EQUAL_FATAL(wafer_certify(NULL, arena, &relay.plan, &proofs), WAFER_OK);
  CU_ASSERT_EQUAL(proofs[0].colors, 1);
  CU_ASSERT_EQUAL(proofs[0].sharing, proofs[0].streams - 1);
  wafer_arena_destroy(arena);
}

/* Two colours into the sum's core: a queue each, or turns in one. */
static void queues_are_counted(void) {
  for (uint32_t queues = 1; queues <= 2; queues++) {
    wafer_arena *arena = open_relay(WAFER_MODE_pipelined);
    const wafer_phase_proof *proofs;
    uint32_t hand_over = 0, other = 0;
    relay.machine = *relay.plan.machine;
    relay.machine.input_queues = queues;
    relay.plan.machine = &relay.machine;
    relay.streams[RELAY_WEIGHT].from.where = WAFER_AT_edge;
    for (uint32_t a = 0; a < relay.phases[0].action_count; a++) {
      if (relay.actions[0][a].kind != WAFER_ACTION_stream) continue;
      if (relay.actions[0][a].index == RELAY_HAND_OVER) hand_over = a;
      if (relay.actions[0][a].index == RELAY_WEIGHT) other = a;
    }
    CU_ASSERT_EQUAL_FATAL(wafer_certify(NULL, arena, &relay.plan, &proofs), WAFER_OK);
    const wafer_stream_queues *q = proofs[0].queues;
    CU_ASSERT(proofs[0].enter == 2 && proofs[0].leave == 1);
    CU_ASSERT_EQUAL(proofs[0].turns, queues == 1);
    CU_ASSERT(q[hand_over].in.queue == 0 && q[other].in.queue == queues - 1);
    CU_ASSERT(q[hand_over].out.queue == 0 && q[other].out.queue == WAFER_NONE);
    CU_ASSERT_EQUAL(q[other].in.after, queues == 1 ? hand_over : WAFER_NONE);
    CU_ASSERT_EQUAL(q[hand_over].in.after, queues == 1 ? other : WAFER_NONE);
    wafer_arena_destroy(arena);
  }
}

/* Last things first: what is used is made after it. */
static void a_cycle_is_found(void) {
  wafer_arena *arena = open_relay(WAFER_MODE_pipelined);
  const wafer_phase_proof *proofs;
  caught last;
  wafer_diag diag = caught_diag(&last);
  wafer_phase phase = relay.plan.phases[0];
  wafer_action *actions = WAFER_NEW(arena, wafer_action, phase.action_count);
  CU_ASSERT_PTR_NOT_NULL_FATAL(actions);
  for (uint32_t i = 0; i < phase.action_count; i++)
    actions[i] = phase.actions[phase.action_count - 1 - i];
  phase.actions = actions;
  relay.plan.phases = &phase;
  CU_ASSERT_EQUAL(wafer_certify(&diag, arena, &relay.plan, &proofs), WAFER_TRAP);
  CU_ASSERT_PTR_NOT_NULL(strstr(last.text, "they may wait for each other"));
  wafer_arena_destroy(arena);
}

static void no_room_is_found(void) {
  wafer_arena *arena = open_relay(WAFER_MODE_pipelined);
  const wafer_phase_proof *proofs;
  wafer_stream *streams =
      wafer_arena_copy(arena, relay.plan.streams, relay.plan.stream_count * sizeof *streams);
  CU_ASSERT_PTR_NOT_NULL_FATAL(streams);
  for (uint32_t i = 0; i < relay.plan.stream_count; i++) streams[i].depth = 0;
  relay.plan.streams = streams;
  CU_ASSERT_EQUAL(wafer_certify(NULL, arena, &relay.plan, &proofs), WAFER_TRAP);
  wafer_arena_destroy(arena);
}

CU_TestInfo tests_certificate[] = {
    {"figures of each phase", figures},
    {"streams that share a colour", shared_colors},
    {"queues of a core are counted", queues_are_counted},
    {"a cycle is found", a_cycle_is_found},
    {"no room is found", no_room_is_found},
    CU_TEST_INFO_NULL,
};
