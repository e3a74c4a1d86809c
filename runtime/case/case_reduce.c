/* The sum of a row's words in its first core: every row of the rectangle by itself.
 * In a chain, neighbours take turns with two colours, since a router has one way for a colour. */
#include <string.h>

#include "case_build.h"

/* answer = words + what comes in (again: answer + what comes in). */
static wafer_instruction *receive(case_build *b, case_program *p, uint8_t color, bool again) {
  return case_emit(b, p,
                   case_instruction(b, WAFER_CORE_add, case_memory(b, (int32_t)b->answer),
                                    case_memory(b, again ? (int32_t)b->answer : 0),
                                    case_in(b, p, color)));
}

static wafer_instruction *send(case_build *b, case_program *p, uint8_t color, uint32_t address) {
  return case_emit(b, p,
                   case_instruction(b, WAFER_CORE_move, case_out(b, p, color),
                                    case_memory(b, (int32_t)address), (wafer_operand){0}));
}

static wafer_instruction *pass_on(case_build *b, case_program *p, uint8_t in, uint8_t out,
                                  uint32_t address) {
  wafer_operand from = case_in(b, p, in);
  return case_emit(b, p,
                   case_instruction(b, WAFER_CORE_add, case_out(b, p, out),
                                    case_memory(b, (int32_t)address), from));
}

static void place_column(case_build *b, uint32_t x, uint32_t program) {
  for (uint32_t y = 0; y < b->o.height; y++) case_place(b, x, y, program);
}

static void lines_west(case_build *b, uint32_t x, uint32_t to, uint8_t color) {
  for (uint32_t y = 0; y < b->o.height; y++) case_line_west(b, x, to, y, color);
}

/* ---- star: everyone to core 0; a switch lets the neighbour's words by when one's own have gone
 * ---- */

static void star_routes(case_build *b) {
  uint32_t last = b->o.width - 1, h = b->o.height;
  case_route(b, (wafer_rect){0, 0, 1, h}, 0, WAFER_PORT_east, WAFER_TO(ramp));
  case_route(b, (wafer_rect){last, 0, 1, h}, 0, WAFER_PORT_ramp, WAFER_TO(west));
  if (last > 1)
    case_route_add(b, (wafer_route){.cores = {1, 0, last - 1, h},
                                    .color = 0,
                                    .positions = 2,
                                    .at = {{WAFER_PORT_ramp, WAFER_TO(west)},
                                           {WAFER_PORT_east, WAFER_TO(west)}}});
}

static void star(case_build *b) {
  uint32_t cores = b->o.width;
  case_program *root = case_program_begin(b, "star root");
  receive(b, root, 0, false)->async = true;
  if (cores > 2) {
    wafer_instruction *rest = receive(b, root, 0, true);
    rest->thread = 1;
    rest->after = 1;
    rest->shape[2] = cores - 2;
  }
  place_column(b, 0, case_program_end(b, root));
  case_program *leaf = case_program_begin(b, "star leaf");
  send(b, leaf, 0, 0)->control = WAFER_CONTROL_advance;
  uint32_t program = case_program_end(b, leaf);
  for (uint32_t x = 1; x < cores; x++) place_column(b, x, program);
  star_routes(b);
  b->predicted = case_sums(b) * (cores - 1) + case_depth(b);
}

/* ---- two-phase: a chain in each group, then a chain of the groups' first cores; one group, or
 * groups of one core: a chain ---- */

/* Group g sends on colour 2 + g % 2, a core on x % 2. */
static uint8_t group_color(uint32_t g) {
  return (uint8_t)(2 + g % 2);
}

static void leader(case_build *b, case_program *p, uint32_t x, uint32_t group, bool members) {
  uint32_t g = x / group, groups = (b->o.width + group - 1) / group;
  uint32_t sum = members ? b->answer : 0; /* of the group */
  if (members) receive(b, p, (uint8_t)((x + 1) % 2), false)->async = true;
  if (groups == 1) return;
  wafer_instruction *second = g + 1 == groups ? send(b, p, group_color(g), sum)
                              : g ? pass_on(b, p, group_color(g + 1), group_color(g), sum)
                                  : receive(b, p, group_color(1), members);
  second->thread = 1;
  second->after = members ? 1 : 0;
}

static void two_phase_core(case_build *b, uint32_t x, uint32_t group) {
  uint32_t last = b->o.width - 1;
  bool leads = x % group == 0, ends = x == last || (x + 1) % group == 0;
  uint8_t own = (uint8_t)(x % 2), next = (uint8_t)((x + 1) % 2);
  case_program *p = case_program_begin(b, leads ? "reduce leader" : "reduce member");
  if (leads)
    leader(b, p, x, group, !ends);
  else if (ends)
    send(b, p, own, 0);
  else
    pass_on(b, p, next, own, 0);
  if (leads && b->o.repeat > 1)
    case_emit(b, p, (wafer_instruction){.op = WAFER_CORE_join, .thread = 0});
  place_column(b, x, case_program_end(b, p));
  if (!leads)
    lines_west(b, x, x - 1, own);
  else if (x)
    lines_west(b, x, x - group, group_color(x / group));
}

static void two_phase(case_build *b, uint32_t group) {
  for (uint32_t x = 0; x < b->o.width; x++) two_phase_core(b, x, group);
  uint64_t cores = b->o.width, groups = (cores + group - 1) / group;
  uint64_t depth = group - 1 + groups - 1,
           contention = group > 1 && group < cores ? 2 * case_sums(b) : case_sums(b);
  b->predicted = contention + case_hops(b, cores - 1) + case_depth(b) * depth;
}

/* ---- tree: the first core of each half of an interval has the half's sum; the second sends its to
 * the first. Halves are as equal as they can be, so that both have it at about the same time. ----
 */

typedef struct tree_core {
  uint32_t receives[32], count; /* rounds in which it receives, last first */
  uint32_t to, sends;           /* where it sends at last, in which round */
} tree_core;

static tree_core tree_core_at(uint32_t x, uint32_t cores, uint32_t rounds) {
  tree_core c = {0};
  for (uint32_t low = 0, n = cores, round = rounds; n > 1;) {
    uint32_t left = (n + 1) / 2;
    round--;
    if (x == low) c.receives[c.count++] = round;
    if (x < low + left) {
      n = left;
      continue;
    }
    if (x == low + left) {
      c.to = low;
      c.sends = round;
    }
    low += left;
    n -= left;
  }
  return c;
}

static wafer_status tree(case_build *b) {
  uint32_t cores = b->o.width, rounds = 0;
  while (1u << rounds < cores) rounds++;
  if (rounds > b->machine->colors)
    return case_refuse(b, "a tree needs a color for each of its rounds");
  for (uint32_t x = 0; x < cores; x++) {
    tree_core c = tree_core_at(x, cores, rounds);
    case_program *p = case_program_begin(b, "tree");
    for (uint32_t k = c.count; k > 0; k--) receive(b, p, (uint8_t)c.receives[k - 1], k < c.count);
    if (x) send(b, p, (uint8_t)c.sends, c.count ? b->answer : 0);
    place_column(b, x, case_program_end(b, p));
    if (x) lines_west(b, x, c.to, (uint8_t)c.sends);
  }
  b->predicted = case_sums(b) * rounds + case_hops(b, cores - 1) + case_depth(b) * rounds;
  return WAFER_OK;
}

static wafer_status build_reduce(case_build *b) {
  const char *algorithm = b->o.algorithm ? b->o.algorithm : "chain";
  if (b->o.width < 2) return case_refuse(b, "a reduction takes two cores in a row");
  if (!strcmp(algorithm, "tree")) return tree(b);
  if (!strcmp(algorithm, "star")) {
    if (b->o.repeat > 1) return case_refuse(b, "a star runs once: its switches do not turn back");
    star(b);
    return WAFER_OK;
  }
  uint32_t group = b->o.group ? b->o.group : 1;
  while (!b->o.group && group * group < b->o.width) group++;
  if (group > b->o.width)
    return case_refuse(b, "a group of %u is larger than the row of %u", group, b->o.width);
  two_phase(b, !strcmp(algorithm, "chain") ? b->o.width : group);
  return WAFER_OK;
}

static bool expect_reduce(const case_build *b, uint32_t x, uint32_t y, uint32_t i, double *value) {
  if (x) return false;
  *value = 0;
  for (uint32_t from = 0; from < b->o.width; from++) *value += case_input(b, from, y, i);
  return true;
}

const case_row case_reduce_row = {
    {"reduce", "star|chain|tree|two-phase", "the sum of each row in its first core"},
    build_reduce,
    expect_reduce,
    NULL,
    NULL};
