/* y = x A on a rectangle of cores: rows of A lie over the rows of cores, columns over the columns;
 * x is where its rows are. Each core multiplies its tile; each column of cores sums y and gives it
 * to all of its cores. In a chain the sum goes up the column, core by core, and comes back by
 * multicast. In a tree each of G groups sums towards its middle from both ends, then the middles do
 * the same among themselves, and the middle of the middles sends to both sides: after He et al.,
 * "WaferLLM" (OSDI 2025), MeshGEMV.
 *
 * With a density x lies in the first column, which sends what of it is not zero along the rows as
 * pairs of index and value; a core adds a row of its tile, times the value, for each. */
#include <math.h>
#include <string.h>

#include "case_matrix.h"

/* Colours come in pairs: senders take turns. */
enum { DOWN = 0, UP = 2, ROOTS_DOWN = 4, ROOTS_UP = 6, BACK_UP = 8, BACK_DOWN = 9, PAIRS = 10 };

typedef struct tree {
  bool chain;            /* one group that sums towards its first row */
  uint32_t groups, size; /* rows of a group; the last may have fewer */
  uint32_t root;         /* the group whose middle has the sum at last; its row: top */
  uint32_t top;
} tree;

static uint32_t group_end(const case_build *b, const tree *t, uint32_t g) {
  uint32_t end = (g + 1) * t->size;
  return end < b->o.height ? end : b->o.height;
}

/* The row that gathers a group's sum. */
static uint32_t middle(const case_build *b, const tree *t, uint32_t g) {
  uint32_t begin = g * t->size;
  return t->chain ? begin : begin + (group_end(b, t, g) - begin) / 2;
}

static wafer_operand vector_at(const case_build *b, uint32_t address) {
  return case_memory(b, (int32_t)address);
}

/* ---- one core ---- */

static wafer_instruction *emit(case_build *b, case_program *p, wafer_core_op op, wafer_operand out,
                               wafer_operand x, wafer_operand y) {
  const case_matrices *m = b->state;
  wafer_instruction code = case_instruction(b, op, out, x, y);
  code.shape[3] = m->nt;
  return case_emit(b, p, code);
}

static void emit_add(case_build *b, case_program *p, wafer_operand out, uint8_t in) {
  wafer_operand from = case_in(b, p, in);
  emit(b, p, WAFER_CORE_add, out, vector_at(b, b->answer), from);
}

static void emit_move(case_build *b, case_program *p, wafer_operand out, wafer_operand in) {
  emit(b, p, WAFER_CORE_move, out, in, (wafer_operand){0});
}

/* The first column's cores send to themselves, too. */
static void emit_pairs(case_build *b, case_program *p, bool sends) {
  const case_matrices *m = b->state;
  wafer_operand y = vector_at(b, b->answer), x = vector_at(b, 0),
                a = vector_at(b, case_matrix_room(b, m->kt)),
                zero = {.kind = WAFER_OPERAND_constant, .dtype = (uint8_t)b->o.dtype};
  emit_move(b, p, y, zero);
  if (sends) {
    wafer_instruction *out =
        emit(b, p, WAFER_CORE_compress, case_out(b, p, PAIRS), x, (wafer_operand){0});
    out->shape[3] = m->kt;
    out->thread = 1;
    out->async = out->load_descriptors = true;
  }
  a.stride[2] = (int32_t)(b->bytes * m->nt);
  wafer_instruction *axpy = emit(b, p, WAFER_CORE_axpy, y, case_in(b, p, PAIRS), a);
  axpy->in[2] = y;
  axpy->shape[2] = m->kt;
  axpy->load_descriptors = true;
}

static void emit_multiply(case_build *b, case_program *p) {
  const case_matrices *m = b->state;
  int32_t bytes = (int32_t)b->bytes;
  wafer_operand y = vector_at(b, b->answer), x = vector_at(b, 0),
                a = vector_at(b, case_matrix_room(b, m->kt)),
                zero = {.kind = WAFER_OPERAND_constant, .dtype = (uint8_t)b->o.dtype};
  emit_move(b, p, y, zero);
  x.stride[2] = bytes;
  x.stride[3] = 0;
  a.stride[2] = bytes * (int32_t)m->nt;
  wafer_instruction *fma = emit(b, p, WAFER_CORE_fma, y, x, a);
  fma->in[2] = y;
  fma->shape[2] = m->kt;
  fma->load_descriptors = true;
}

/* A place in a line of senders towards `to`: sums come from before, if there is one, and go on. */
static void emit_link(case_build *b, case_program *p, uint8_t colors, uint32_t at, bool first) {
  wafer_operand y = vector_at(b, b->answer), out = case_out(b, p, (uint8_t)(colors + at % 2));
  if (first)
    emit_move(b, p, out, y);
  else
    emit_add(b, p, out, (uint8_t)(colors + (at + 1) % 2));
}

/* Where two lines meet. */
static void emit_meeting(case_build *b, case_program *p, uint8_t down, uint8_t up, uint32_t at,
                         bool above, bool below) {
  wafer_operand y = vector_at(b, b->answer);
  if (below) emit_add(b, p, y, (uint8_t)(up + (at + 1) % 2));
  if (above) emit_add(b, p, y, (uint8_t)(down + (at + 1) % 2));
}

static void emit_reduce(case_build *b, case_program *p, const tree *t, uint32_t row) {
  uint32_t g = row / t->size, begin = g * t->size, end = group_end(b, t, g), mid = middle(b, t, g);
  if (row < mid) {
    emit_link(b, p, DOWN, row, row == begin);
    return;
  }
  if (row > mid) {
    emit_link(b, p, UP, row, row == end - 1);
    return;
  }
  emit_meeting(b, p, DOWN, UP, row, mid > begin, mid + 1 < end);
  if (g < t->root)
    emit_link(b, p, ROOTS_DOWN, g, g == 0);
  else if (g > t->root)
    emit_link(b, p, ROOTS_UP, g, g == t->groups - 1);
  else
    emit_meeting(b, p, ROOTS_DOWN, ROOTS_UP, g, g > 0, g + 1 < t->groups);
}

static void emit_back(case_build *b, case_program *p, const tree *t, uint32_t row) {
  wafer_operand y = vector_at(b, b->answer);
  if (row == t->top) {
    if (row > 0) emit_move(b, p, case_out(b, p, BACK_UP), y);
    if (row + 1 < b->o.height) emit_move(b, p, case_out(b, p, BACK_DOWN), y);
  } else {
    emit_move(b, p, y, case_in(b, p, row < t->top ? BACK_UP : BACK_DOWN));
  }
}

/* ---- routes ---- */

/* One colour down (or up) the column from row `from` to row `to`, in every column. */
static void line(case_build *b, uint32_t from, uint32_t to, uint8_t color, bool all) {
  uint32_t w = b->o.width;
  bool down = to > from;
  wafer_port behind = down ? WAFER_PORT_north : WAFER_PORT_south;
  uint32_t on = down ? WAFER_TO(south) : WAFER_TO(north);
  uint32_t first = down ? from + 1 : to + 1, between = (down ? to - from : from - to) - 1;
  case_route(b, (wafer_rect){0, from, w, 1}, color, WAFER_PORT_ramp, on);
  case_route(b, (wafer_rect){0, first, w, between}, color, behind, all ? on | WAFER_TO(ramp) : on);
  case_route(b, (wafer_rect){0, to, w, 1}, color, behind, WAFER_TO(ramp));
}

static void routes(case_build *b, const tree *t) {
  for (uint32_t row = 0; row < b->o.height; row++) {
    uint32_t mid = middle(b, t, row / t->size);
    if (row < mid) line(b, row, row + 1, (uint8_t)(DOWN + row % 2), false);
    if (row > mid) line(b, row, row - 1, (uint8_t)(UP + row % 2), false);
  }
  for (uint32_t g = 0; g < t->groups; g++) {
    if (g < t->root)
      line(b, middle(b, t, g), middle(b, t, g + 1), (uint8_t)(ROOTS_DOWN + g % 2), false);
    if (g > t->root)
      line(b, middle(b, t, g), middle(b, t, g - 1), (uint8_t)(ROOTS_UP + g % 2), false);
  }
  for (uint32_t x = 0; b->o.density > 0 && x < b->o.width; x++) {
    uint32_t to = WAFER_TO(ramp) | (x + 1 < b->o.width ? WAFER_TO(east) : 0);
    case_route(b, (wafer_rect){x, 0, 1, b->o.height}, PAIRS, x ? WAFER_PORT_west : WAFER_PORT_ramp,
               to);
  }
  if (t->top > 0) line(b, t->top, 0, BACK_UP, true);
  if (t->top + 1 < b->o.height) line(b, t->top, b->o.height - 1, BACK_DOWN, true);
}

/* ---- all ---- */

static uint64_t larger(uint32_t a, uint32_t b) {
  return a > b ? a : b;
}

/* The row of cores with most pairs: its first core looks at all of x, sends and multiplies; the
 * last has their set-ups besides what it multiplies, and waits for the way to it. */
static uint64_t predict_pairs(const case_build *b) {
  const case_matrices *m = b->state;
  const wafer_machine *w = b->machine;
  uint64_t most = 0, words = b->bytes == 4 ? 2 : 1;
  for (uint32_t row = 0; row < b->o.height; row++) {
    uint64_t pairs = 0;
    for (uint32_t i = 0; i < m->kt; i++) pairs += m->a[row * m->kt + i] != 0;
    if (pairs > most) most = pairs;
  }
  uint64_t run = wafer_machine_cycles(w, WAFER_RATE_fma, b->o.dtype, m->nt);
  uint64_t first = m->kt - most + most * (words + run),
           last = most * (run + w->vector_setup_cycles - 1) + case_hops(b, b->o.width - 1);
  return (first > last ? first : last) + 2 * (uint64_t)w->ramp_cycles;
}

/* Along each line its hops and depths, at its end the words; set-ups where a core begins anew. */
static uint64_t predict(const case_build *b, const tree *t) {
  const case_matrices *m = b->state;
  const wafer_machine *w = b->machine;
  uint32_t h = b->o.height, mid = middle(b, t, t->root) - t->root * t->size,
           end = group_end(b, t, t->root) - t->root * t->size;
  uint64_t steps = larger(mid, end - 1 - mid), roots = larger(t->root, t->groups - 1 - t->root),
           back = larger(t->top, h - 1 - t->top), wavelets = (m->nt * b->bytes + 3) / 4;
  uint64_t part = wavelets + w->vector_setup_cycles;
  uint64_t cycles = 2 * ((uint64_t)w->vector_setup_cycles + w->descriptor_load_cycles) +
                    wafer_machine_cycles(w, WAFER_RATE_move, b->o.dtype, m->nt);
  cycles += b->o.density > 0
                ? predict_pairs(b)
                : wafer_machine_cycles(w, WAFER_RATE_fma, b->o.dtype, (uint64_t)m->kt * m->nt);
  if (steps) cycles += steps * (case_depth(b) + case_hops(b, 1)) + part;
  if (roots) cycles += roots * (case_depth(b) + case_hops(b, t->size)) + part;
  if (back) cycles += case_hops(b, back) + 2 * (uint64_t)w->ramp_cycles + part;
  return cycles;
}

static tree tree_of(const case_build *b) {
  tree t = {.chain = !b->o.groups, .groups = 1, .size = b->o.height};
  if (t.chain) return t;
  t.size = (b->o.height + b->o.groups - 1) / b->o.groups;
  t.groups = (b->o.height + t.size - 1) / t.size;
  t.root = t.groups / 2;
  t.top = middle(b, &t, t.root);
  return t;
}

static wafer_status choose(case_build *b) {
  bool is_tree = b->o.algorithm && !strcmp(b->o.algorithm, "tree");
  if (!is_tree && b->o.groups) return case_refuse(b, "only a tree has groups");
  if (is_tree && !b->o.groups) b->o.groups = (uint32_t)ceil(sqrt(b->o.height));
  if (b->o.groups > b->o.height)
    return case_refuse(b, "%u groups of %u rows: a group has one row or more", b->o.groups,
                       b->o.height);
  if (b->o.density < 0 || b->o.density > 1)
    return case_refuse(b, "a density is a share, from 0 to 1");
  if (b->o.height < 2) return case_refuse(b, "a gemv takes two rows of cores");
  if (!b->o.m) b->o.m = b->o.height;
  if (!b->o.n) b->o.n = b->o.width;
  if (b->o.m % b->o.height || b->o.n % b->o.width)
    return case_refuse(b, "m is a multiple of the rows of cores, n of their columns");
  return WAFER_OK;
}

static uint32_t build_row(case_build *b, const tree *t, uint32_t row, bool sends) {
  case_program *p = case_program_begin(b, "gemv");
  if (b->o.density > 0)
    emit_pairs(b, p, sends);
  else
    emit_multiply(b, p);
  uint32_t sums = p->program.code_count;
  emit_reduce(b, p, t, row);
  p->code[sums].load_descriptors = true; /* of y, for the whole reduction */
  emit_back(b, p, t, row);
  return case_program_end(b, p);
}

static wafer_status build_gemv(case_build *b) {
  WAFER_TRY(choose(b));
  WAFER_TRY(case_matrices_fit(b, (uint64_t)(b->o.m / b->o.height + 1) * (b->o.n / b->o.width)));
  tree t = tree_of(b);
  case_matrices *m = case_matrices_make(b, 1, b->o.m, b->o.n, b->o.density, 0);
  if (!m) return case_refuse(b, "no memory for the matrix");
  m->mt = 1;
  m->kt = b->o.m / b->o.height;
  m->nt = b->o.n / b->o.width;
  b->state = m;
  b->warms = b->timed = b->o.repeat > 1;
  b->answer_words = m->nt;
  b->answer = case_matrix_room(b, m->kt) + case_matrix_room(b, m->kt * m->nt) + 4;
  bool sparse = b->o.density > 0;
  for (uint32_t row = 0; row < b->o.height; row++) {
    uint32_t first = sparse ? build_row(b, &t, row, true) : 0,
             others = build_row(b, &t, row, false);
    for (uint32_t x = 0; x < b->o.width; x++)
      case_place(b, x, row, sparse && x == 0 ? first : others);
  }
  routes(b, &t);
  b->predicted = predict(b, &t);
  return WAFER_OK;
}

static wafer_status fill_gemv(case_build *b) {
  const case_matrices *m = b->state;
  for (uint32_t y = 0; y < b->o.height; y++)
    for (uint32_t x = 0; x < b->o.width; x++) {
      case_block vector = {&m->a[y * m->kt], m->k, 1, m->kt, false};
      case_block tile = {&m->b[(size_t)y * m->kt * m->n + x * m->nt], m->n, m->kt, m->nt, false};
      WAFER_TRY(case_matrix_put(b, x, y, 0, &vector));
      WAFER_TRY(case_matrix_put(b, x, y, case_matrix_room(b, m->kt), &tile));
    }
  return WAFER_OK;
}

static bool expect_gemv(const case_build *b, uint32_t x, uint32_t y, uint32_t i, double *value) {
  const case_matrices *m = b->state;
  (void)y;
  *value = m->c[x * m->nt + i];
  return true;
}

const case_row case_gemv_row = {
    {"gemv", "chain|tree", "a vector times a matrix, the sums at all cores"},
    build_gemv,
    expect_gemv,
    NULL,
    fill_gemv};
