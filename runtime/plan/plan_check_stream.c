/* Streams: their ends, their route over the fabric, their colour among the others of a phase. */
#include <stdlib.h>
#include <string.h>

#include "plan_check.h"

/* ---- one stream ---- */

static const char *value_name(const plan_check *c, const wafer_stream *s) {
  return c->plan->values[s->value].name;
}

/* Streams are named by the kernel at an end. */
static wafer_loc at_stream(const plan_check *c, const wafer_stream *s) {
  uint32_t kernel = s->to_kernel != WAFER_NONE ? s->to_kernel : s->from_kernel;
  return kernel < c->plan->kernel_count ? plan_check_at(c, &c->plan->kernels[kernel])
                                        : wafer_at_file(c->file);
}

/* Parts along one direction do not interfere: of any two cut dims one has all its parts between two
 * parts of the other, and the rectangle is full of whole turns of each. */
static bool nests(uint32_t rank, const uint32_t *parts, const uint32_t *stride, uint32_t extent) {
  for (uint32_t d = 0; d < rank; d++) {
    uint64_t turn = (uint64_t)parts[d] * stride[d];
    if (parts[d] < 2) continue;
    if (turn == 0 || extent % turn != 0) return false;
    for (uint32_t e = 0; e < rank; e++) {
      if (e == d || parts[e] < 2 || stride[e] < stride[d]) continue;
      if (stride[e] % turn != 0) return false;
    }
  }
  return true;
}

static wafer_status check_layout(const plan_check *c, const wafer_stream *s,
                                 const wafer_holding *h) {
  const wafer_shape *shape = &c->plan->values[s->value].type.shape;
  uint64_t rows = 1, cols = 1;
  if (!plan_check_inside(c->plan->machine->usable, h->rect))
    return wafer_fail(c->diag, at_stream(c, s), WAFER_BAD_INPUT,
                      "stream of '%s': %ux%u cores at (%u, %u) are not all usable",
                      value_name(c, s), h->rect.width, h->rect.height, h->rect.x, h->rect.y);
  if (h->layout.rank != shape->rank)
    return wafer_fail(c->diag, at_stream(c, s), WAFER_BAD_INPUT,
                      "stream of '%s': a layout of %u dims for a value of %u", value_name(c, s),
                      h->layout.rank, shape->rank);
  for (uint32_t d = 0; d < shape->rank; d++) {
    rows *= h->layout.rows[d];
    cols *= h->layout.cols[d];
    if (rows < 1 || cols < 1 || rows > h->rect.height || cols > h->rect.width)
      return wafer_fail(c->diag, at_stream(c, s), WAFER_BAD_INPUT,
                        "stream of '%s': dim %u is cut into %ux%u parts on %ux%u cores",
                        value_name(c, s), d, h->layout.rows[d], h->layout.cols[d], h->rect.height,
                        h->rect.width);
  }
  if (nests(shape->rank, h->layout.rows, h->layout.row_stride, h->rect.height) &&
      nests(shape->rank, h->layout.cols, h->layout.col_stride, h->rect.width))
    return WAFER_OK;
  return wafer_fail(c->diag, at_stream(c, s), WAFER_BAD_INPUT,
                    "stream of '%s': %ux%u cores do not divide by its parts and their strides",
                    value_name(c, s), h->rect.width, h->rect.height);
}

static wafer_status check_ends(const plan_check *c, const wafer_stream *s) {
  const wafer_value *v = &c->plan->values[s->value];
  bool leaves = s->from.where == WAFER_AT_wafer, arrives = s->to.where == WAFER_AT_wafer;
  if ((uint32_t)s->from.where > WAFER_AT_wafer || (uint32_t)s->to.where > WAFER_AT_wafer ||
      (!leaves && !arrives) || s->to.where == WAFER_AT_memoryx)
    return wafer_fail(c->diag, at_stream(c, s), WAFER_BAD_INPUT,
                      "stream of '%s' must go from the edge, MemoryX or the wafer to the wafer, or "
                      "from it to the edge",
                      v->name);
  if (s->from.where == WAFER_AT_memoryx && v->weight == WAFER_NONE)
    return wafer_fail(c->diag, at_stream(c, s), WAFER_BAD_INPUT,
                      "'%s' comes from MemoryX and is no weight", v->name);
  if (leaves) WAFER_TRY(check_layout(c, s, &s->from));
  if (arrives) WAFER_TRY(check_layout(c, s, &s->to));
  return WAFER_OK;
}

/* Samples of the value that the kernel's own bytes count. */
static uint32_t counted_depth(const wafer_kernel *k, uint32_t value) {
  uint32_t most = 0;
  for (uint32_t i = 0; i < k->body.input_count; i++)
    if (k->inputs[i] == value && k->body.input_depth[i] > most) most = k->body.input_depth[i];
  return most;
}

static wafer_status check_depth(const plan_check *c, const wafer_stream *s) {
  uint32_t most = s->to_kernel == WAFER_NONE
                      ? WAFER_MAX_DEPTH
                      : counted_depth(&c->plan->kernels[s->to_kernel], s->value);
  bool in = s->to_kernel != WAFER_NONE && most == 0;
  bool out = s->to.where == WAFER_AT_edge && s->from_kernel != WAFER_NONE &&
             c->plan->kernels[s->from_kernel].body.output_depth == 0;
  bool slices = in || out;
  if (slices && s->depth == 0) return WAFER_OK;
  if (s->depth >= 1 && s->depth <= most && s->depth <= WAFER_MAX_DEPTH) return WAFER_OK;
  return wafer_fail(c->diag, at_stream(c, s), WAFER_BAD_INPUT,
                    "stream of '%s' buffers %u samples where it ends, at least 1 and at most %u "
                    "are counted there",
                    value_name(c, s), s->depth, most);
}

/* A kernel named at an end makes or takes the value, where the stream leaves or arrives. */
static wafer_status check_kernels(const plan_check *c, const wafer_stream *s) {
  const wafer_plan *plan = c->plan;
  if ((s->from_kernel != WAFER_NONE && s->from_kernel >= plan->kernel_count) ||
      (s->to_kernel != WAFER_NONE && s->to_kernel >= plan->kernel_count))
    return wafer_fail(c->diag, wafer_at_file(c->file), WAFER_BAD_INPUT,
                      "stream of '%s' names a kernel beyond the %u", value_name(c, s),
                      plan->kernel_count);
  const wafer_kernel *from = s->from_kernel == WAFER_NONE ? NULL : &plan->kernels[s->from_kernel];
  const wafer_kernel *to = s->to_kernel == WAFER_NONE ? NULL : &plan->kernels[s->to_kernel];
  if (from && (s->from.where != WAFER_AT_wafer || !wafer_rect_equal(s->from.rect, from->rect) ||
               !plan_check_among(from->outputs, from->body.output_count, s->value)))
    return wafer_fail(c->diag, plan_check_at(c, from), WAFER_BAD_INPUT,
                      "kernel '%s' does not leave '%s' where its stream begins", from->name,
                      value_name(c, s));
  if (to && (s->to.where != WAFER_AT_wafer || !wafer_rect_equal(s->to.rect, to->rect) ||
             !plan_check_among(to->inputs, to->body.input_count, s->value)))
    return wafer_fail(c->diag, plan_check_at(c, to), WAFER_BAD_INPUT,
                      "kernel '%s' does not take '%s' where its stream ends", to->name,
                      value_name(c, s));
  return WAFER_OK;
}

/* The sparse weight that a value is, or is the gradient of; NULL: it is dense. */
static const wafer_weight *sparse_of(const plan_check *c, uint32_t value) {
  const wafer_plan *plan = c->plan;
  uint32_t weight = plan->values[value].weight;
  bool gradient =
      weight == WAFER_NONE && plan->training && plan->values[value].owner == WAFER_OWNER_gradient;
  for (uint32_t i = 0; gradient && i < plan->training->trained_count; i++)
    if (plan->training->trained[i].gradient == value) weight = plan->training->trained[i].weight;
  const wafer_weight *w = weight == WAFER_NONE ? NULL : wafer_weights_at(plan->weights, weight);
  return w && w->sparse ? w : NULL;
}

static uint64_t words_of(const plan_check *c, uint32_t value) {
  const wafer_type *type = &c->plan->values[value].type;
  const wafer_weight *sparse = sparse_of(c, value);
  if (sparse) return wafer_sparse_words(type, c->plan->storage, sparse->nonzeros);
  int64_t elements = 0;
  (void)wafer_shape_elements(&type->shape, &elements);
  uint64_t bytes = (uint64_t)elements * wafer_stored_bytes(type->dtype, c->plan->storage);
  return bytes / WAFER_WAVELET_BYTES + (bytes % WAFER_WAVELET_BYTES != 0);
}

/* ---- its route ---- */

static bool straight(const wafer_route_segment *s) {
  return s->x0 == s->x1 || s->y0 == s->y1;
}

static wafer_rect rect_of(const wafer_route_segment *s) {
  uint32_t x = s->x0 < s->x1 ? s->x0 : s->x1, y = s->y0 < s->y1 ? s->y0 : s->y1;
  return (wafer_rect){x, y,
                      (s->x0 ^ s->x1) ? (s->x0 > s->x1 ? s->x0 - s->x1 : s->x1 - s->x0) + 1 : 1,
                      (s->y0 ^ s->y1) ? (s->y0 > s->y1 ? s->y0 - s->y1 : s->y1 - s->y0) + 1 : 1};
}

/* What stands side by side at an end: the replicas of its kernel, or its rectangle in each stripe
 * that the stream runs past; how many, and columns from one to the next. */
typedef struct copies {
  const char *what;
  uint32_t count, columns;
} copies;

static copies copies_of(const plan_check *c, const wafer_stream *s, uint32_t kernel) {
  if (c->plan->stripes > 1)
    return (copies){"stripe", wafer_stream_crosses(s) ? c->plan->stripes : 1,
                    c->plan->stripe_columns};
  if (kernel == WAFER_NONE) return (copies){"replica", 1, 0};
  const wafer_kernel *k = &c->plan->kernels[kernel];
  return (copies){"replica", k->replicas, k->rect.width};
}

/* In the copies or beside them; at the border of the fabric for the edge and MemoryX. */
static bool touches(const plan_check *c, const wafer_holding *h, copies n, uint32_t x, uint32_t y) {
  const wafer_machine *m = c->plan->machine;
  if (h->where != WAFER_AT_wafer)
    return x == 0 || y == 0 || x == m->width - 1 || y == m->height - 1;
  wafer_rect r = h->rect;
  r.width += (n.count - 1) * n.columns;
  bool in_x = x >= r.x && x - r.x < r.width, in_y = y >= r.y && y - r.y < r.height;
  bool near_x = x + 1 == r.x || x == r.x + r.width, near_y = y + 1 == r.y || y == r.y + r.height;
  return (in_x && in_y) || (in_x && near_y) || (near_x && in_y);
}

static bool passes(const wafer_stream *s, wafer_rect r) {
  for (uint32_t i = 0; i < s->route_count; i++)
    if (wafer_rect_overlaps(rect_of(&s->route[i]), r)) return true;
  return false;
}

/* All copies at an end, where it has more than one. */
static wafer_status check_copies(const plan_check *c, const wafer_stream *s, const wafer_holding *h,
                                 copies n) {
  if (h->where != WAFER_AT_wafer) return WAFER_OK;
  for (uint32_t i = 0; n.count > 1 && i < n.count; i++) {
    wafer_rect r = h->rect;
    r.x += i * n.columns;
    if (!passes(s, r))
      return wafer_fail(c->diag, at_stream(c, s), WAFER_BAD_INPUT,
                        "stream of '%s': its route passes by %s %u, %ux%u cores at (%u, %u)",
                        value_name(c, s), n.what, i, r.width, r.height, r.x, r.y);
  }
  return WAFER_OK;
}

/* A run inside a stripe is there in all of them. */
static wafer_status check_stripes(const plan_check *c, const wafer_stream *s, wafer_rect r) {
  const wafer_plan *plan = c->plan;
  const wafer_rect all = {0, 0, plan->machine->width, plan->machine->height};
  for (uint32_t b = 1; b < plan->stripes && !wafer_stream_crosses(s); b++) {
    r.x += plan->stripe_columns;
    if (!plan_check_inside(all, r) || plan_check_dead_in(c, r) > 0)
      return wafer_fail(c->diag, at_stream(c, s), WAFER_BAD_INPUT,
                        "stream of '%s' leaves the fabric or runs over a dead core in stripe %u",
                        value_name(c, s), b);
  }
  return WAFER_OK;
}

static wafer_status check_route(const plan_check *c, const wafer_stream *s) {
  const wafer_machine *m = c->plan->machine;
  wafer_loc loc = at_stream(c, s);
  if (s->route_count < 1)
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT, "stream of '%s' has no route",
                      value_name(c, s));
  for (uint32_t i = 0; i < s->route_count; i++) {
    const wafer_route_segment *at = &s->route[i];
    if (at->x0 >= m->width || at->x1 >= m->width || at->y0 >= m->height || at->y1 >= m->height ||
        !straight(at))
      return wafer_fail(
          c->diag, loc, WAFER_BAD_INPUT,
          "stream of '%s': (%u, %u) to (%u, %u) is no straight run inside the %ux%u fabric",
          value_name(c, s), at->x0, at->y0, at->x1, at->y1, m->width, m->height);
    if (i && (at[-1].x1 != at->x0 || at[-1].y1 != at->y0))
      return wafer_fail(c->diag, loc, WAFER_BAD_INPUT,
                        "stream of '%s': its route breaks off at (%u, %u) and goes on at (%u, %u)",
                        value_name(c, s), at[-1].x1, at[-1].y1, at->x0, at->y0);
    if (plan_check_dead_in(c, rect_of(at)) > 0)
      return wafer_fail(c->diag, loc, WAFER_BAD_INPUT,
                        "stream of '%s' runs over a dead core between (%u, %u) and (%u, %u)",
                        value_name(c, s), at->x0, at->y0, at->x1, at->y1);
    WAFER_TRY(check_stripes(c, s, rect_of(at)));
  }
  const wafer_route_segment *last = &s->route[s->route_count - 1];
  copies from = copies_of(c, s, s->from_kernel), to = copies_of(c, s, s->to_kernel);
  if (!touches(c, &s->from, from, s->route->x0, s->route->y0) ||
      !touches(c, &s->to, to, last->x1, last->y1))
    return wafer_fail(
        c->diag, loc, WAFER_BAD_INPUT,
        "stream of '%s': its route from (%u, %u) to (%u, %u) does not join what it should",
        value_name(c, s), s->route->x0, s->route->y0, last->x1, last->y1);
  WAFER_TRY(check_copies(c, s, &s->from, from));
  return check_copies(c, s, &s->to, to);
}

wafer_status plan_check_stream(const plan_check *c, uint32_t stream) {
  const wafer_stream *s = &c->plan->streams[stream];
  if (s->value >= c->plan->value_count)
    return wafer_fail(c->diag, wafer_at_file(c->file), WAFER_BAD_INPUT,
                      "stream %u carries value %u, the plan has %u", stream, s->value,
                      c->plan->value_count);
  WAFER_TRY(check_kernels(c, s));
  WAFER_TRY(check_ends(c, s));
  if (s->color >= c->plan->machine->colors)
    return wafer_fail(c->diag, at_stream(c, s), WAFER_BAD_INPUT,
                      "stream of '%s' has colour %u, the machine has %u", value_name(c, s),
                      s->color, c->plan->machine->colors);
  if (c->plan->values[s->value].kind != WAFER_VALUE_tensor)
    return wafer_fail(c->diag, at_stream(c, s), WAFER_BAD_INPUT,
                      "stream of '%s', which is no tensor of static type", value_name(c, s));
  uint64_t words = words_of(c, s->value);
  if (s->words != words)
    return wafer_fail(c->diag, at_stream(c, s), WAFER_BAD_INPUT,
                      "stream of '%s' is %" PRIu64 " words long, must be %" PRIu64,
                      value_name(c, s), s->words, words);
  WAFER_TRY(check_depth(c, s));
  return check_route(c, s);
}

/* ---- colours of a phase ---- */

enum { NOBODY, FROM_WEST, FROM_EAST, FROM_NORTH, FROM_SOUTH, FROM_CORE };

typedef struct colored {
  uint32_t color, stream;
} colored;

static int by_color(const void *left, const void *right) {
  const colored *a = left, *b = right;
  if (a->color != b->color) return a->color < b->color ? -1 : 1;
  return a->stream < b->stream ? -1 : a->stream > b->stream;
}

/* Marks every router of the route with the side from which the stream enters it (0 unmarks).
 * Returns the first router that already has another side, SIZE_MAX when there is none. Stopping
 * there bounds a route that runs in circles: it comes back to a router of its own from another
 * side. */
static size_t mark(const plan_check *c, const wafer_stream *s, uint8_t *side, bool unmark) {
  size_t width = c->plan->machine->width, at = s->route->y0 * width + s->route->x0;
  uint8_t in = FROM_CORE;
  for (uint32_t i = 0; i < s->route_count; i++) {
    const wafer_route_segment *r = &s->route[i];
    bool along_x = r->y0 == r->y1, ahead = along_x ? r->x0 < r->x1 : r->y0 < r->y1;
    size_t end = r->y1 * width + r->x1, step = along_x ? 1 : width;
    for (;; at = ahead ? at + step : at - step) {
      if (!unmark && side[at] != NOBODY && side[at] != in) return at;
      side[at] = unmark ? NOBODY : in;
      if (at == end) break;
      in = (uint8_t)(along_x ? (ahead ? FROM_WEST : FROM_EAST) : (ahead ? FROM_NORTH : FROM_SOUTH));
    }
  }
  return SIZE_MAX;
}

static wafer_status check_color(const plan_check *c, const wafer_phase *phase, const colored *at,
                                size_t count, uint8_t *side) {
  for (size_t i = 0; i < count; i++) {
    const wafer_stream *s = &c->plan->streams[at[i].stream];
    size_t clash = mark(c, s, side, false), width = c->plan->machine->width;
    if (clash != SIZE_MAX)
      return wafer_fail(c->diag, at_stream(c, s), WAFER_BAD_INPUT,
                        "stream of '%s' brings colour %u to core (%zu, %zu) from another side than "
                        "an earlier one "
                        "in phase '%s'",
                        value_name(c, s), s->color, clash % width, clash / width, phase->name);
  }
  for (size_t i = 0; i < count; i++) (void)mark(c, &c->plan->streams[at[i].stream], side, true);
  return WAFER_OK;
}

wafer_status plan_check_colors(plan_check *c, const wafer_phase *phase) {
  const wafer_machine *m = c->plan->machine;
  colored *all = WAFER_NEW(c->arena, colored, phase->action_count);
  if (!c->side) c->side = WAFER_NEW(c->arena, uint8_t, (size_t)m->width * m->height);
  if (!all || !c->side) return plan_check_no_memory(c);
  size_t count = 0;
  for (uint32_t a = 0; a < phase->action_count; a++)
    if (phase->actions[a].kind == WAFER_ACTION_stream)
      all[count++] =
          (colored){c->plan->streams[phase->actions[a].index].color, phase->actions[a].index};
  qsort(all, count, sizeof *all, by_color);
  for (size_t i = 0, end; i < count; i = end) {
    for (end = i + 1; end < count && all[end].color == all[i].color; end++) continue;
    WAFER_TRY(check_color(c, phase, &all[i], end - i, c->side));
  }
  return WAFER_OK;
}
