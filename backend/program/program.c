/* The program of a kernel, node by node; where its values lie. */
#include "program.h"

#include <string.h>

#include "program_build.h"
#include "wafer/pairs.h"

static program_rule *const rules[WAFER_FAMILY_COUNT] = {
#define FAMILY(name, ...) [WAFER_FAMILY_##name] = program_##name,
#include "wafer/kernels.def"
};

wafer_status program_no_memory(const program *p) {
  return wafer_fail(p->r->diag, p->r->loc, WAFER_NO_MEMORY,
                    "the host has no memory left for the program of '%s'", p->r->name);
}

wafer_status program_refuse(const program *p, const char *what) {
  const wafer_node *node = &p->body->nodes[p->node];
  wafer_loc loc = p->r->loc;
  loc.node = node->name;
  return wafer_fail(p->r->diag, loc, WAFER_UNSUPPORTED,
                    "kernel '%s', op %s (node '%s') has no program for cores: %s; run it at kernel "
                    "fidelity",
                    p->r->name, wafer_op_get(node->op)->name, node->name ? node->name : "", what);
}

/* ---- How values lie ---- */

/* The dims of value v from the outermost. Around windows channels are the innermost, so that runs
 * along them keep to their banks whatever the tap; weights have the filters innermost. A pair goes
 * over all that lies around the dims of its weight: those dims come first, and around windows
 * samples last, so that a tap shifts reads by all of them: they keep to their banks where the
 * samples of a core are even, and samples and places are one run. */
static void order_of(const wafer_kernel_body *body, bool right_is_pairs, uint32_t v,
                     uint8_t *order) {
  const wafer_node *anchor = &body->nodes[body->anchor];
  uint32_t rank = wafer_body_type(body, v)->shape.rank, at = 0;
  bool weight = anchor->operand_count > 1 && anchor->operands[1] == v;
  bool windows = wafer_op_is(anchor->op, WAFER_TRAIT_WINDOW),
       alike = rank == anchor->type.shape.rank;
  uint32_t first = !right_is_pairs || rank < 2 ? 0 : !windows ? rank - 1 : alike ? 1 : 0;
  order[0] = (uint8_t)first;
  for (uint32_t d = 0, to = 1; d < rank; d++)
    if (d != first) order[to++] = (uint8_t)d;
  if (!windows || rank < 3 || !alike) return;
  if (right_is_pairs || !weight) order[at++] = right_is_pairs;
  for (uint32_t d = 2; d < rank; d++) order[at++] = (uint8_t)d;
  if (weight && !right_is_pairs) order[at++] = anchor->op == WAFER_OP_conv;
  order[at] = right_is_pairs ? 0 : weight ? anchor->op != WAFER_OP_conv : 1;
}

void program_pack_like(spread *s, const spread *like) {
  uint8_t order[WAFER_MAX_RANK];
  for (uint32_t d = 0; d < s->rank; d++) {
    uint32_t at = d;
    while (at > 0 && like->dim[order[at - 1]].stride < like->dim[d].stride) {
      order[at] = order[at - 1];
      at--;
    }
    order[at] = (uint8_t)d;
  }
  s->apart = like->apart;
  spread_pack_in(s, order);
}

/* Gives dim d room for what the anchor's windows reach beyond the parts. */
static bool make_room(wafer_arena *arena, const wafer_kernel_body *body, const wafer_split *split,
                      wafer_rect rect, uint32_t d, spread *s) {
  program_reach w;
  wafer_layout layout = wafer_kernel_value_layout(body, split, body->input_count + body->anchor);
  const wafer_shape *shape = &body->nodes[body->anchor].type.shape;
  spread result;
  if (!program_window(&body->nodes[body->anchor], body, d, &w)) return true;
  if (!spread_of_layout(arena, rect, &layout, shape, s->dtype, 0, &result)) return false;
  spread_dim *dim = &s->dim[d], *by = &result.dim[d];
  uint32_t parts = dim->rows * dim->cols;
  if (parts != by->rows * by->cols || by->rows != dim->rows) return true;
  spread_run *runs = WAFER_NEW(arena, spread_run, parts);
  spread_part *part = WAFER_NEW(arena, spread_part, parts);
  if (!runs || !part) return false;
  dim->buffer = 0;
  for (uint32_t i = 0; i < parts; i++) {
    spread_run own = *dim->part[i].runs, need = {0, 0, 0};
    const spread_run *r = by->part[i].runs;
    if (by->part[i].count) program_window_range(&w, r->lo, r->hi, &need.lo, &need.hi);
    bool empty = own.lo >= own.hi, idle = need.lo >= need.hi;
    int32_t lo = idle || (!empty && own.lo < need.lo) ? own.lo : need.lo;
    int32_t hi = idle || (!empty && own.hi > need.hi) ? own.hi : need.hi;
    runs[i] = (spread_run){own.lo, own.hi, own.lo - lo};
    part[i] = (spread_part){!empty, &runs[i]};
    if (hi - lo > dim->buffer) dim->buffer = hi - lo;
  }
  dim->part = part;
  return true;
}

/* A sparse weight's words. */
static bool pairs_spread(wafer_arena *arena, const wafer_pairs *pairs, const wafer_layout *layout,
                         wafer_rect rect, spread *out) {
  wafer_shape shape = wafer_pairs_shape(pairs, layout);
  wafer_layout words = wafer_pairs_layout(layout);
  return spread_of_layout(arena, rect, &words, &shape, WAFER_DTYPE_u32, 0, out);
}

/* How input v lies as pairs. */
static wafer_pairs pairs_of(const wafer_machine *machine, const wafer_kernel_body *body,
                            const wafer_split *split, uint32_t v) {
  if (v >= body->input_count) return (wafer_pairs){0};
  return wafer_kernel_pairs(machine, body, split, v);
}

uint32_t program_weight_pairs(const wafer_machine *machine, const wafer_kernel_body *body,
                              const wafer_split *split) {
  const wafer_node *anchor = &body->nodes[body->anchor];
  for (uint32_t i = anchor->operand_count < 2 ? anchor->operand_count : 2; i-- > 0;)
    if (pairs_of(machine, body, split, anchor->operands[i]).lists) return i;
  return UINT32_MAX;
}

bool program_spread(wafer_arena *arena, const wafer_machine *machine, const wafer_kernel_body *body,
                    const wafer_split *split, wafer_rect rect, uint32_t v, spread *out) {
  const wafer_type *type = wafer_body_type(body, v);
  wafer_layout layout = wafer_kernel_value_layout(body, split, v);
  uint8_t order[WAFER_MAX_RANK];
  wafer_pairs pairs = pairs_of(machine, body, split, v);
  if (pairs.lists) return pairs_spread(arena, &pairs, &layout, rect, out);
  if (!spread_of_layout(arena, rect, &layout, &type->shape, wafer_body_dtype(body, v), 0, out))
    return false;
  const wafer_node *anchor = &body->nodes[body->anchor];
  if (wafer_op_is(anchor->op, WAFER_TRAIT_WINDOW) && anchor->operands[0] == v)
    for (uint32_t d = 0; d < type->shape.rank; d++)
      if (!make_room(arena, body, split, rect, d, out)) return false;
  uint32_t weight = program_weight_pairs(machine, body, split);
  order_of(body, weight == 1, v, order);
  out->apart = weight > 1 ? 0 : (uint32_t)(wafer_pairs_dim(body, weight, v) + 1);
  spread_pack_in(out, order);
  return true;
}

static int64_t tile_of(const wafer_layout *layout, const wafer_shape *shape, uint32_t d) {
  int64_t parts = (int64_t)layout->rows[d] * layout->cols[d];
  return (shape->dims[d] + parts - 1) / parts;
}

/* Results lie at 4, what they are summed from and what is added to them at 0; weights at 4 where
 * the innermost run is along what is summed: with an odd number of columns, or filters, on a core;
 * what pairs are multiplied with where fewest reads meet the sums. */
int32_t program_phase(const wafer_machine *machine, const wafer_kernel_body *body,
                      const wafer_split *split, uint32_t v) {
  const wafer_node *anchor = &body->nodes[body->anchor];
  const wafer_shape *shape = &anchor->type.shape;
  if (v >= body->input_count) return body->family == WAFER_FAMILY_map ? 0 : 4;
  uint32_t weight = program_weight_pairs(machine, body, split);
  if (weight < 2 && anchor->operands[1 - weight] == v)
    return (int32_t)wafer_pairs_phase(machine, body, split);
  if (anchor->operand_count < 2 || anchor->operands[0] == v) return 0;
  if (body->family == WAFER_FAMILY_map) return 4;
  if (anchor->operands[1] != v || shape->rank < 2) return 0;
  wafer_layout layout = wafer_kernel_value_layout(body, split, body->input_count + body->anchor);
  uint32_t inner = body->family == WAFER_FAMILY_gemm ? shape->rank - 1 : 1;
  return tile_of(&layout, shape, inner) % 2 ? 4 : 0;
}

/* ---- Memory ---- */

static bool is_free(const program *p, int64_t from, int64_t to, int64_t *next) {
  for (uint32_t i = 0; i < p->block_count; i++) {
    const program_block *b = &p->blocks[i];
    if (b->address >= to || b->address + b->bytes <= from) continue;
    *next = b->address + b->bytes;
    return false;
  }
  return true;
}

static wafer_status note_block(program *p, program_block block) {
  if (!WAFER_GROW(p->arena, p->blocks, p->block_count, p->block_room, 32))
    return program_no_memory(p);
  p->blocks[p->block_count++] = block;
  if (block.address + block.bytes > p->highest) p->highest = block.address + block.bytes;
  return WAFER_OK;
}

wafer_status program_bytes(program *p, uint64_t bytes, int32_t phase, uint32_t until,
                           int32_t *address) {
  int64_t at = ((int64_t)p->r->scratch + 7) / 8 * 8 + phase;
  for (int64_t next = 0; !is_free(p, at, at + (int64_t)bytes, &next);)
    at = (next - phase + 7) / 8 * 8 + phase;
  if (bytes > INT32_MAX || at + (int64_t)bytes > p->r->scratch_end)
    return wafer_fail(
        p->r->diag, p->r->loc, WAFER_NO_FIT,
        "kernel '%s' needs %llu bytes at address %lld of its cores for node '%s'; its "
        "memory ends at %d",
        p->r->name, (unsigned long long)bytes, (long long)at, p->body->nodes[p->node].name,
        p->r->scratch_end);
  *address = (int32_t)at;
  return note_block(p, (program_block){(int32_t)at, (int32_t)bytes, until});
}

wafer_status program_reserve(program *p, spread *s, int32_t phase, uint32_t until) {
  return program_bytes(p, spread_bytes(s), phase, until, &s->address);
}

void program_release(program *p, uint32_t node) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < p->block_count; i++)
    if (p->blocks[i].until > node) p->blocks[kept++] = p->blocks[i];
  p->block_count = kept;
}

/* ---- Fragments ---- */

fragment *program_fragment(program *p, const char *node) {
  fragment *f = WAFER_NEW(p->arena, fragment, 1);
  if (!f) return NULL;
  fragment_begin(f, p->arena, p->r->name, node, p->r->rect);
  return f->failed ? NULL : f;
}

wafer_status program_append(program *p, fragment *f) {
  program_kernel_code *out = p->out;
  if (f->failed) return program_no_memory(p);
  if (!WAFER_GROW(p->arena, out->fragments, out->fragment_count, p->fragment_room, 16))
    return program_no_memory(p);
  out->fragments[out->fragment_count++] = f;
  out->cycles += f->cycles;
  return WAFER_OK;
}

/* ---- Nodes ---- */

static wafer_status add_data(program *p, uint32_t node, const spread *at, const void *elements) {
  program_kernel_code *out = p->out;
  if (!WAFER_GROW(p->arena, out->data, out->data_count, p->data_room, 8))
    return program_no_memory(p);
  out->data[out->data_count++] = (program_data){node, elements, at};
  return WAFER_OK;
}

/* A table that the program reads, in memory for good. */
wafer_status program_table(program *p, uint32_t node, spread *at, const void *elements) {
  WAFER_TRY(program_reserve(p, at, 4, UINT32_MAX));
  return add_data(p, node, at, elements);
}

/* Instructions hold constants as doubles, which integers of 64 bits may not be. */
static bool is_double(wafer_dtype dtype, const void *element) {
  uint64_t again = 0;
  if (wafer_dtype_is_float(dtype)) return true;
  wafer_element_set_f64(dtype, &again, 0, wafer_element_f64(dtype, element, 0));
  return wafer_element_i64(dtype, &again, 0) == wafer_element_i64(dtype, element, 0);
}

static wafer_status dense(program *p, const wafer_attr *value, wafer_dtype dtype, int64_t elements,
                          const void **out) {
  size_t size = wafer_dtype_bytes(dtype);
  *out = value->data.bytes;
  if (!value->data.splat) return WAFER_OK;
  char *all = wafer_arena_alloc(p->arena, (size_t)elements, size);
  if (!all) return program_no_memory(p);
  for (int64_t i = 0; i < elements; i++) memcpy(all + (size_t)i * size, value->data.bytes, size);
  *out = all;
  return WAFER_OK;
}

/* A constant of one element stands in the instructions; others lie in memory for good. */
static wafer_status source(program *p, uint32_t node) {
  const wafer_node *n = &p->body->nodes[node];
  uint32_t v = p->body->input_count + node;
  const wafer_attr *value = wafer_attr_find(&n->attrs, WAFER_ATTR_value);
  int64_t elements = 0;
  if (!value) return program_refuse(p, "its value is not part of the kernel");
  (void)wafer_shape_elements(&n->type.shape, &elements);
  if ((value->data.splat || elements == 1) && is_double(n->type.dtype, value->data.bytes)) {
    p->constant[v] = true;
    p->splat[v] = wafer_element_f64(n->type.dtype, value->data.bytes, 0);
    if (p->result[v] == NULL) return WAFER_OK;
  }
  spread *s;
  WAFER_TRY(program_result(p, node, &s));
  if (p->constant[v]) return program_splat(p, node, s);
  const void *elements_at;
  WAFER_TRY(dense(p, value, n->type.dtype, elements, &elements_at));
  return add_data(p, node, s, elements_at);
}

/* ---- Results in the place of what is made of them ---- */

static bool lie_alike(const program *p, uint32_t a, uint32_t b) {
  wafer_layout left = wafer_kernel_value_layout(p->body, p->r->split, a);
  wafer_layout right = wafer_kernel_value_layout(p->body, p->r->split, b);
  return wafer_body_dtype(p->body, a) == wafer_body_dtype(p->body, b) &&
         wafer_shape_equal(&wafer_body_type(p->body, a)->shape,
                           &wafer_body_type(p->body, b)->shape) &&
         wafer_layout_equal(&left, &right);
}

/* An elementwise node may write over the first operand of its size that nobody reads later. */
static void find_homes(program *p) {
  for (uint32_t v = 0; v < WAFER_MAX_KERNEL_VALUES; v++) p->home[v] = v;
  for (uint32_t node = p->body->node_count; node-- > 0;) {
    const wafer_node *n = &p->body->nodes[node];
    uint32_t result = p->body->input_count + node;
    if (!wafer_op_is(n->op, WAFER_TRAIT_MAP)) continue;
    for (uint32_t i = 0; i < n->operand_count; i++) {
      uint32_t v = n->operands[i];
      if (v < p->body->input_count || p->result[v] || p->last[v] != node ||
          wafer_op_is(p->body->nodes[v - p->body->input_count].op, WAFER_TRAIT_SOURCE) ||
          !lie_alike(p, v, result))
        continue;
      p->home[v] = p->home[result];
      break;
    }
  }
}

static wafer_status place_of(program *p, uint32_t v, uint32_t until, spread *out) {
  if (p->result[v]) {
    *out = *p->result[v];
    return WAFER_OK;
  }
  if (p->place[v]) {
    *out = *p->place[v];
    return WAFER_OK;
  }
  if (!program_spread(p->arena, p->r->machine, p->body, p->r->split, p->r->rect, v, out))
    return program_no_memory(p);
  WAFER_TRY(program_reserve(p, out, program_phase(p->r->machine, p->body, p->r->split, v), until));
  p->place[v] = WAFER_NEW(p->arena, spread, 1);
  if (!p->place[v]) return program_no_memory(p);
  *p->place[v] = *out;
  return WAFER_OK;
}

wafer_status program_result(program *p, uint32_t node, spread **out) {
  uint32_t v = p->body->input_count + node, home = p->home[v];
  bool restricted = false, is_source = wafer_op_is(p->body->nodes[node].op, WAFER_TRAIT_SOURCE);
  *out = WAFER_NEW(p->arena, spread, 1);
  if (!*out) return program_no_memory(p);
  uint32_t until = p->last[home] > node ? p->last[home] : node;
  WAFER_TRY(place_of(p, home, is_source ? UINT32_MAX : until, *out));
  for (uint32_t i = 0; i < p->body->nodes[node].operand_count; i++)
    restricted |= p->first_only[p->body->nodes[node].operands[i]];
  p->first_only[v] = restricted;
  if (restricted) {
    spread full = **out;
    WAFER_TRY(program_first(p, &full, program_cut_reductions(p), *out));
  }
  p->value[v] = *out;
  return WAFER_OK;
}

/* An output that only the first parts have goes to the others too. */
static wafer_status finish(program *p) {
  for (uint32_t i = 0; i < p->body->output_count; i++) {
    uint32_t v = p->body->outputs[i];
    p->node = v - p->body->input_count;
    if (p->first_only[v]) WAFER_TRY(program_exchange(p, p->value[v], &p->r->outputs[i], NULL));
  }
  WAFER_TRY(program_add_sums(p));
  return program_flush(p);
}

static bool loop_dims(program *p) {
  uint32_t width = p->r->rect.width, height = p->r->rect.height;
  wafer_shape shape = {p->loops.count, {0}};
  for (uint32_t l = 0; l < p->loops.count; l++) {
    wafer_layout one = {.rank = 1, .rows = {p->r->split->rows[l]}, .cols = {p->r->split->cols[l]}};
    spread s;
    one.row_stride[0] = one.col_stride[0] = 1;
    for (uint32_t i = l + 1; i < p->loops.count; i++) {
      one.row_stride[0] *= p->r->split->rows[i];
      one.col_stride[0] *= p->r->split->cols[i];
    }
    shape = (wafer_shape){1, {p->loops.extent[l]}};
    if (!spread_of_layout(p->arena, p->r->rect, &one, &shape, WAFER_DTYPE_u8, 0, &s)) return false;
    p->loop[l] = s.dim[0];
  }
  p->nowhere = WAFER_NEW(p->arena, uint32_t, width > height ? width : height);
  return p->nowhere != NULL;
}

wafer_status program_begin(program *p, const program_request *r) {
  p->r = r;
  p->body = r->body;
  p->arena = r->arena;
  p->highest = r->scratch;
  wafer_kernel_loops(r->body, &p->loops);
  if (!loop_dims(p)) return program_no_memory(p);
  for (uint32_t i = 0; i < r->body->input_count; i++) p->value[i] = &r->inputs[i];
  for (uint32_t i = 0; i < r->body->output_count; i++)
    p->result[r->body->outputs[i]] = &r->outputs[i];
  for (uint32_t node = 0; node < r->body->node_count; node++)
    for (uint32_t i = 0; i < r->body->nodes[node].operand_count; i++)
      p->last[r->body->nodes[node].operands[i]] = node;
  find_homes(p);
  return WAFER_OK;
}

/* What is in memory for good comes first, so that nothing is written over it. */
static wafer_status tables(program *p) {
  for (p->node = 0; p->node < p->body->node_count; p->node++) {
    const wafer_node *n = &p->body->nodes[p->node];
    if (wafer_op_is(n->op, WAFER_TRAIT_SOURCE)) WAFER_TRY(source(p, p->node));
    if (wafer_op_is(n->op, WAFER_TRAIT_INDEX)) WAFER_TRY(program_index_table(p, p->node, 1));
    if (n->op == WAFER_OP_arg_sort) WAFER_TRY(program_index_table(p, p->node, PROGRAM_PLACE));
  }
  return WAFER_OK;
}

wafer_status program_kernel(const program_request *request, program_kernel_code *out) {
  program *p = WAFER_NEW(request->arena, program, 1);
  *out = (program_kernel_code){0};
  if (!p) return WAFER_NO_MEMORY;
  p->out = out;
  WAFER_TRY(program_begin(p, request));
  WAFER_TRY(program_clear_sums(p));
  out->clear_count = out->fragment_count;
  out->cycles = 0;
  WAFER_TRY(tables(p));
  for (p->node = 0; p->node < p->body->node_count; p->node++) {
    const wafer_node *n = &p->body->nodes[p->node];
    wafer_family family = wafer_op_get(n->op)->family;
    if (wafer_op_is(n->op, WAFER_TRAIT_SOURCE)) continue;
    if (family >= WAFER_FAMILY_COUNT)
      return program_refuse(p, "its family is not written for them");
    WAFER_TRY(rules[family](p, p->node));
    program_release(p, p->node);
  }
  WAFER_TRY(finish(p));
  out->scratch_bytes = p->highest - request->scratch;
  return WAFER_OK;
}
