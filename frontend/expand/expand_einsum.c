/* Einsum: operand after operand is multiplied into the first by one matmul, whose batch, row and
 * column dims are groups of labels. */
#include <ctype.h>
#include <string.h>

#include "operators.h"

/* Letters are labels 0 to 51; the dims under an ellipsis, from the innermost on, 52 and up. */
#define ELLIPSIS 52
#define LABELS (ELLIPSIS + WAFER_MAX_RANK)

typedef struct term {
  uint32_t rank;
  uint8_t labels[WAFER_MAX_RANK]; /* of each dim */
} term;

typedef struct factor {
  MlirValue value;
  term t;
} factor;

static uint64_t set_of(const term *t) {
  uint64_t set = 0;
  for (uint32_t i = 0; i < t->rank; i++) set |= UINT64_C(1) << t->labels[i];
  return set;
}

static bool in(uint64_t set, uint8_t label) {
  return set >> label & 1;
}

static void push_label(import_node *n, term *t, uint32_t label) {
  if (t->rank == WAFER_MAX_RANK) {
    node_unsupported(n, "more than %d labels", WAFER_MAX_RANK);
    return;
  }
  t->labels[t->rank++] = (uint8_t)label;
}

/* One term up to a comma, an arrow or the end; an ellipsis stands for `dots` dims. */
static const char *parse_term(import_node *n, const char *at, uint32_t dots, term *t) {
  *t = (term){0};
  for (; *at && *at != ',' && *at != '-' && n->status == WAFER_OK; at++) {
    if (isspace((unsigned char)*at)) continue;
    if (isalpha((unsigned char)*at)) {
      push_label(n, t, (uint32_t)(islower((unsigned char)*at) ? *at - 'a' : *at - 'A' + 26));
    } else if (!strncmp(at, "...", 3)) {
      for (uint32_t i = dots; i-- > 0;) push_label(n, t, ELLIPSIS + i);
      at += 2;
    } else {
      node_bad(n, "equation holds '%c'", *at);
    }
  }
  return at;
}

/* Letters of a term that starts at `at`; an ellipsis covers the operand's other dims. */
static uint32_t dots_of(const char *at, uint32_t rank) {
  uint32_t letters = 0;
  for (; *at && *at != ',' && *at != '-'; at++) letters += isalpha((unsigned char)*at) != 0;
  return letters < rank ? rank - letters : 0;
}

/* Without an arrow: the ellipsis, then labels that occur once, in the order of the alphabet. */
static void implied_result(import_node *n, const factor *factors, uint32_t count, term *result) {
  uint32_t times[LABELS] = {0};
  *result = (term){0};
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t d = 0; d < factors[i].t.rank; d++) times[factors[i].t.labels[d]]++;
  for (uint32_t label = LABELS; label-- > ELLIPSIS;)
    if (times[label]) push_label(n, result, label);
  for (uint32_t label = 26; label < ELLIPSIS; label++) /* capitals come first */
    if (times[label] == 1) push_label(n, result, label);
  for (uint32_t label = 0; label < 26; label++)
    if (times[label] == 1) push_label(n, result, label);
}

static void parse(import_node *n, const char *equation, factor *factors, term *result) {
  uint32_t dots = 0;
  for (uint32_t i = 0; i < n->input_count && n->status == WAFER_OK; i++) {
    uint32_t rank = node_rank(n, node_input(n, i)), here = dots_of(equation, rank);
    dots = here > dots ? here : dots;
    equation = parse_term(n, equation, here, &factors[i].t);
    factors[i].value = node_input(n, i);
    if (factors[i].t.rank != rank)
      node_bad(n, "term %u has %u labels, operand %u has %u dims", i, factors[i].t.rank, i, rank);
    if ((*equation == ',') != (i + 1 < n->input_count))
      node_bad(n, "equation and operands differ in number");
    equation += *equation == ',';
  }
  if (n->status == WAFER_OK && !strncmp(equation, "->", 2))
    equation = parse_term(n, equation + 2, dots, result);
  else
    implied_result(n, factors, n->input_count, result);
  if (*equation) node_bad(n, "equation goes on with '%s'", equation);
}

/* A label that stands twice in a term: what is off the diagonal becomes zero, then one dim is
 * summed up. */
static void take_diagonals(import_node *n, factor *f) {
  for (uint32_t i = 0; i < f->t.rank; i++)
    for (uint32_t j = i + 1; j < f->t.rank && n->status == WAFER_OK; j++) {
      if (f->t.labels[i] != f->t.labels[j]) continue;
      wafer_shape shape = node_type(n, f->value).shape, row = {0}, column = {0};
      if (shape.dims[i] != shape.dims[j])
        node_bad(n, "dims %u and %u share a label and differ", i, j);
      for (uint32_t d = 0; d < shape.rank; d++) {
        row.dims[d] = d == i ? shape.dims[i] : 1;
        column.dims[d] = d == j ? shape.dims[i] : 1;
      }
      MlirValue line = emit_iota(n, WAFER_DTYPE_i64, shape.dims[i]);
      MlirValue same = emit_binary(n, WAFER_OP_equal, emit_reshape(n, line, shape.rank, row.dims),
                                   emit_reshape(n, line, shape.rank, column.dims));
      f->value = emit_select(n, same, f->value, emit_scalar_like(n, f->value, 0));
      f->value = emit_reduce(n, WAFER_OP_reduce_sum, f->value, 1u << j, false);
      f->t.rank--;
      memmove(f->t.labels + j, f->t.labels + j + 1, f->t.rank - j);
      j--;
    }
}

/* Sums up the labels that nobody else needs. */
static void sum_up(import_node *n, factor *f, uint64_t needed) {
  uint32_t gone = 0, kept = 0;
  for (uint32_t i = 0; i < f->t.rank; i++) gone |= (uint32_t)!in(needed, f->t.labels[i]) << i;
  if (!gone) return;
  f->value = emit_reduce(n, WAFER_OP_reduce_sum, f->value, gone, false);
  for (uint32_t i = 0; i < f->t.rank; i++)
    if (!(gone >> i & 1)) f->t.labels[kept++] = f->t.labels[i];
  f->t.rank = kept;
}

/* The dims of `f` in the order of the labels of `to`, all of which it has. */
static MlirValue ordered(import_node *n, const factor *f, const term *to) {
  int64_t perm[WAFER_MAX_RANK];
  for (uint32_t i = 0; i < to->rank; i++)
    for (uint32_t j = 0; j < f->t.rank; j++)
      if (f->t.labels[j] == to->labels[i]) perm[i] = j;
  return emit_transpose(n, f->value, to->rank, perm);
}

/* Labels in three groups, as a tensor of three dims. */
typedef struct grouped {
  term t;
  uint32_t ends[3];
} grouped;

static void add_group(import_node *n, grouped *g, uint32_t index, const term *from, uint64_t set) {
  for (uint32_t i = 0; i < from->rank; i++)
    if (in(set, from->labels[i])) push_label(n, &g->t, from->labels[i]);
  g->ends[index] = g->t.rank;
}

static MlirValue as_batch_of_matrices(import_node *n, const factor *f, const grouped *g) {
  MlirValue moved = ordered(n, f, &g->t);
  wafer_shape shape = node_type(n, moved).shape;
  int64_t three[] = {1, 1, 1};
  for (uint32_t i = 0, group = 0; i < shape.rank && n->status == WAFER_OK; i++) {
    while (i >= g->ends[group]) group++;
    three[group] *= shape.dims[i];
  }
  return emit_reshape(n, moved, 3, three);
}

/* Sizes of labels; where an ellipsis broadcasts, the operand of size 1 is expanded. */
static void agree(import_node *n, factor *a, factor *b, int64_t *sizes) {
  wafer_shape left = node_type(n, a->value).shape, right = node_type(n, b->value).shape;
  for (uint32_t i = 0; i < a->t.rank; i++) sizes[a->t.labels[i]] = left.dims[i];
  for (uint32_t j = 0; j < b->t.rank; j++) {
    uint8_t label = b->t.labels[j];
    bool shared = in(set_of(&a->t), label), wider = shared && sizes[label] != 1;
    if (shared && right.dims[j] != sizes[label] &&
        (label < ELLIPSIS || (right.dims[j] != 1 && wider)))
      node_bad(n, "operands disagree on a label: %lld and %lld elements", (long long)sizes[label],
               (long long)right.dims[j]);
    if (!wider || right.dims[j] != 1) sizes[label] = right.dims[j];
  }
  for (uint32_t i = 0; i < a->t.rank; i++) left.dims[i] = sizes[a->t.labels[i]];
  for (uint32_t j = 0; j < b->t.rank; j++) right.dims[j] = sizes[b->t.labels[j]];
  a->value = emit_expand(n, a->value, left.rank, left.dims);
  b->value = emit_expand(n, b->value, right.rank, right.dims);
}

/* a := a times b, keeping the labels that are needed later. */
static void contract(import_node *n, factor *a, factor *b, uint64_t needed) {
  int64_t sizes[LABELS] = {0}, dims[WAFER_MAX_RANK];
  uint64_t left = set_of(&a->t), right = set_of(&b->t), both = left & right;
  sum_up(n, a, needed | right);
  sum_up(n, b, needed | left);
  if (n->status == WAFER_OK) agree(n, a, b, sizes);
  grouped rows = {0}, columns = {0}, result = {0};
  add_group(n, &rows, 0, &a->t, both & needed);
  add_group(n, &rows, 1, &a->t, ~both);
  add_group(n, &rows, 2, &a->t, both & ~needed);
  add_group(n, &columns, 0, &a->t, both & needed);
  add_group(n, &columns, 1, &a->t, both & ~needed);
  add_group(n, &columns, 2, &b->t, ~both);
  add_group(n, &result, 0, &a->t, both & needed);
  add_group(n, &result, 1, &a->t, ~both);
  add_group(n, &result, 2, &b->t, ~both);
  MlirValue product = emit_binary(n, WAFER_OP_matmul, as_batch_of_matrices(n, a, &rows),
                                  as_batch_of_matrices(n, b, &columns));
  for (uint32_t i = 0; i < result.t.rank; i++) dims[i] = sizes[result.t.labels[i]];
  a->value = emit_reshape(n, product, result.t.rank, dims);
  a->t = result.t;
}

void import_einsum(import_node *n) {
  factor *factors = WAFER_NEW(n->im->ctx->arena, factor, n->input_count);
  const char *equation = attr_text(n, "equation", "");
  term result = {0};
  if (!factors) node_bad(n, "no memory for %u operands", n->input_count);
  if (n->status == WAFER_OK) parse(n, equation, factors, &result);
  for (uint32_t i = 0; i < n->input_count && n->status == WAFER_OK; i++)
    take_diagonals(n, &factors[i]);
  for (uint32_t i = 1; i < n->input_count && n->status == WAFER_OK; i++) {
    uint64_t needed = set_of(&result);
    for (uint32_t j = i + 1; j < n->input_count; j++) needed |= set_of(&factors[j].t);
    contract(n, &factors[0], &factors[i], needed);
  }
  if (n->status != WAFER_OK) return;
  sum_up(n, &factors[0], set_of(&result));
  if (set_of(&result) != set_of(&factors[0].t) || result.rank != factors[0].t.rank)
    node_bad(n, "the result of the equation has labels that no operand has, or one twice");
  if (n->status == WAFER_OK) n->outputs[0] = ordered(n, &factors[0], &result);
}
