#include "training.h"

#include <fnmatch.h>
#include <math.h>
#include <string.h>

#include "import.h"

#define MOST_LOOKED_AT (1 << 24) /* elements; masks with infinities are smaller */

static wafer_status no_memory(const importer *im) {
  return wafer_fail(im->ctx->diag, im->b.loc, WAFER_NO_MEMORY, "no memory for the parameters");
}

/* ---- Parameters ---- */

static bool is_frozen(const training_state *t, const char *name) {
  bool frozen = false;
  for (size_t i = 0; i < t->options->frozen_count; i++)
    if (!fnmatch(t->options->frozen[i], name, 0)) frozen = t->fits[i] = true;
  return frozen;
}

/* A pattern with a typing error would train what should have stayed. */
static wafer_status check_patterns(const importer *im) {
  const training_state *t = &im->training;
  for (size_t i = 0; i < t->options->frozen_count; i++)
    if (!t->fits[i])
      return wafer_fail(im->ctx->diag, wafer_at_file(im->file), WAFER_USAGE,
                        "--freeze '%s' names none of the model's weights%s%s%s",
                        t->options->frozen[i], t->count ? ", one of which is '" : "",
                        t->count ? t->at[0].of : "", t->count ? "'" : "");
  return WAFER_OK;
}

static bool is_finite(const wafer_view *view) {
  int64_t count;
  if (!view->data || !wafer_shape_elements(&view->shape, &count) || count > MOST_LOOKED_AT)
    return true;
  for (int64_t i = 0; i < count; i++)
    if (!isfinite(wafer_element_f64(view->dtype, view->data, i))) return false;
  return true;
}

static bool is_trainable(const training_state *t, const wafer_view *view) {
  bool real = view->dtype == WAFER_DTYPE_f32 || view->dtype == WAFER_DTYPE_f16 ||
              view->dtype == WAFER_DTYPE_bf16 || view->dtype == WAFER_DTYPE_f64;
  return real && (view->shape.rank > 0 || t->told.told) && is_finite(view);
}

static wafer_status add(importer *im, const extra_argument *argument) {
  training_state *t = &im->training;
  if (t->count == t->room) {
    uint32_t room = 2 * t->room + 64;
    extra_argument *at = WAFER_NEW(im->ctx->arena, extra_argument, room);
    if (!at) return no_memory(im);
    if (t->count) memcpy(at, t->at, t->count * sizeof *at);
    t->at = at;
    t->room = room;
  }
  if (!wafer_ir_map_put(t->numbers, argument->value.ptr, t->count) ||
      (argument->tensor && !wafer_ir_map_put(t->numbers, argument->tensor, t->count)))
    return no_memory(im);
  t->at[t->count++] = *argument;
  return WAFER_OK;
}

/* The parameter that has this value or this tensor; NULL: none. */
static extra_argument *find(const training_state *t, const void *key) {
  uint32_t number = t->options ? wafer_ir_map_get(t->numbers, key) : WAFER_NONE;
  bool found = number != WAFER_NONE && t->at[number].role == WAFER_ROLE_parameter;
  return found ? &t->at[number] : NULL;
}

wafer_status training_start(importer *im, const wafer_training_options *options) {
  im->training = (training_state){.options = options};
  if (!options) return WAFER_OK;
  im->training.numbers = wafer_ir_map_create(im->ctx->arena);
  im->training.fits = WAFER_NEW(im->ctx->arena, bool, options->frozen_count + 1);
  return im->training.numbers && im->training.fits ? WAFER_OK : no_memory(im);
}

wafer_status training_read(importer *im) {
  training_state *t = &im->training;
  if (!t->options) return WAFER_OK;
  return parameters_read(&t->told, im->ctx->arena, im->model->graph) ? WAFER_OK : no_memory(im);
}

wafer_status training_parameter(importer *im, const onnx_tensor *tensor, const char *name,
                                MlirValue *out) {
  training_state *t = &im->training;
  extra_argument made = {.role = WAFER_ROLE_parameter, .tensor = tensor};
  *out = (MlirValue){NULL};
  if (!t->options || im->fn->open->ir != im->root || is_frozen(t, name)) return WAFER_OK;
  const extra_argument *before = find(t, tensor);
  if (before) return *out = before->value, WAFER_OK;
  const char *expected;
  WAFER_TRY(data_find(&im->store, tensor, &made.view, &expected));
  if (!is_trainable(t, &made.view)) return WAFER_OK;
  wafer_type type = {made.view.dtype, made.view.shape};
  wafer_weight *weight =
      wafer_weights_add(im->root->weights, name, type.dtype, &type.shape, made.view.data);
  if (!weight) return no_memory(im);
  if (expected) weight->expected = expected;
  made.of = weight->name;
  made.value = *out = wafer_ir_add_argument(&im->b, &type);
  return add(im, &made);
}

bool training_known(importer *im, MlirValue value, bool use, wafer_view *view) {
  extra_argument *a = find(&im->training, value.ptr);
  if (!a || !a->view.data) return false;
  *view = a->view;
  a->known |= use;
  return true;
}

bool training_keeps(importer *im, MlirValue value, MlirValue next) {
  extra_argument *a = find(&im->training, value.ptr);
  if (!a) return false;
  a->kept = true;
  if (!im->training.options->evaluate && mlirValueIsNull(a->next)) a->next = next;
  return true;
}

MlirValue emit_noise(import_node *n, const wafer_shape *shape) {
  importer *im = n->im;
  wafer_type type = {WAFER_DTYPE_f32, *shape};
  extra_argument made = {.role = WAFER_ROLE_noise, .of = n->label};
  if (n->status != WAFER_OK) return (MlirValue){NULL};
  made.value = wafer_ir_add_argument(&im->b, &type);
  n->status = add(im, &made);
  return made.value;
}

/* ---- The leading dim ---- */

/* A reshape of x, which has micro-batches of `now`, to dims that hold the batch; dims that both
 * begin or end with are left out: they hold none, though they may be multiples of both. */
typedef struct rebatch {
  const wafer_shape *x;
  const int64_t *dims;
  uint32_t first, x_end, end; /* what is left of x, of dims */
  int64_t batch, now, alike;  /* elements of what they begin with */
} rebatch;

/* The dim that begins at or behind `before` elements and no later than at `last`: the batch itself
 * with `exact`, else what it is merged with; `end`: there is none. */
static uint32_t dim_within(const rebatch *r, int64_t before, int64_t last, bool exact) {
  int64_t reached = r->alike;
  uint32_t i = r->first;
  if (exact) {
    for (; i < r->end && r->dims[i] > 0 && reached <= last; reached *= r->dims[i++])
      if (r->dims[i] == r->batch && reached >= before) return i;
    return r->end;
  }
  while (i < r->end && r->dims[i] > 0 && reached * r->dims[i] < before * r->batch)
    reached *= r->dims[i++];
  return i < r->end && r->dims[i] > 0 && r->dims[i] % r->batch == 0 ? i : r->end;
}

/* The dim of the target that holds the batch. A dim of x that is the micro-batch says where; in one
 * that is merged with others it may lie anywhere, where the target has it by itself it does. */
static uint32_t dim_of_batch(const rebatch *r) {
  for (int round = 0; round < 3; round++) {
    int64_t before = r->alike;
    for (uint32_t d = r->first; d < r->x_end; before *= r->x->dims[d++]) {
      int64_t dim = r->x->dims[d];
      if (round == 0 ? dim != r->now : dim % r->now != 0) continue;
      uint32_t i = dim_within(r, before, before * (dim / r->now), round == 1);
      if (i < r->end) return i;
    }
  }
  return r->end;
}

/* A batch of 1 that the target does not show lies at the boundary of two dims. Features, the last
 * dim, are what a product sums over: it is merged with the dim before them. */
static uint32_t merged_one(const rebatch *r, uint32_t found, uint32_t count) {
  bool hidden = found == r->end ? r->x_end > r->first : r->dims[found] != 1 && found + 1 == count;
  if (r->batch != 1 || !hidden) return found < r->end ? found : count;
  return found == r->end ? (r->first ? r->first - 1 : 0) : found ? found - 1 : 0;
}

/* `count`: there is none. */
static uint32_t find_batch(const wafer_shape *x, uint32_t count, const int64_t *dims, int64_t batch,
                           int64_t now) {
  rebatch r = {x, dims, 0, x->rank, count, batch, now, 1};
  for (; r.first < r.end && r.first < r.x_end; r.alike *= x->dims[r.first++]) {
    if (dims[r.first] == batch && x->dims[r.first] == now) return r.first;
    if (!dims[r.first] && x->dims[r.first] == now) return count; /* it is copied */
    if (dims[r.first] && dims[r.first] != x->dims[r.first]) break;
  }
  while (r.end > r.first && r.x_end > r.first && dims[r.end - 1] == x->dims[r.x_end - 1])
    r.end--, r.x_end--;
  return merged_one(&r, dim_of_batch(&r), count);
}

void training_rebatch(const import_node *n, const wafer_shape *x, uint32_t count, int64_t *dims) {
  const training_state *t = &n->im->training;
  int64_t have, known = 1, now = t->options ? t->options->micro_batch : 0, batch = t->declared;
  bool open = false;
  if (!now || !count || batch == now || !wafer_shape_elements(x, &have)) return;
  for (uint32_t i = 0; i < count; i++) {
    open |= dims[i] == -1;
    int64_t dim = dims[i] ? dims[i] : i < x->rank ? x->dims[i] : 1;
    if (dims[i] != -1 && __builtin_mul_overflow(known, dim, &known)) return;
  }
  if (!open && known == have) return;
  /* Without an open dim the numbers say themselves which batch they were made for. */
  if (!open && have && known * now % have == 0) batch = known * now / have;
  if (batch <= 0) return;
  uint32_t at = find_batch(x, count, dims, batch, now);
  if (at < count && (!open || batch > 1 || dims[at] == 1)) dims[at] = dims[at] / batch * now;
}

static bool is_rebatched(const import_node *n) {
  const training_state *t = &n->im->training;
  return t->options && t->options->micro_batch && t->declared > 0 &&
         t->declared != t->options->micro_batch;
}

int64_t training_length(const import_node *n, const wafer_shape *x, uint32_t axis, int64_t length) {
  const training_state *t = &n->im->training;
  bool batch = axis == 0 && is_rebatched(n) && x->dims[0] == t->options->micro_batch;
  return batch && length == t->declared ? x->dims[0] : length;
}

/* The first entry along `axis` of a constant all of whose entries there are alike. */
static bool first_of_alike(const import_node *n, const wafer_view *view, uint32_t axis,
                           wafer_view *first) {
  int64_t entries = view->shape.dims[axis], outer = 1, count;
  if (!view->data || entries < 1 || !wafer_shape_elements(&view->shape, &count)) return false;
  for (uint32_t i = 0; i < axis; i++) outer *= view->shape.dims[i];
  if (outer == 0) return false;
  size_t bytes = (size_t)(count / outer / entries) * wafer_dtype_bytes(view->dtype);
  char *made = WAFER_NEW(n->im->ctx->arena, char, (size_t)outer *bytes + 1);
  const char *from = view->data;
  for (int64_t i = 0; made && i < outer; i++, from += (size_t)entries * bytes) {
    if (memcmp(from, from + bytes, bytes * (size_t)(entries - 1))) return false;
    memcpy(made + (size_t)i * bytes, from, bytes);
  }
  *first = *view;
  first->data = made;
  first->shape.dims[axis] = 1;
  return made;
}

MlirValue training_rebatch_along(import_node *n, MlirValue value, uint32_t axis) {
  const training_state *t = &n->im->training;
  wafer_view view, first;
  wafer_shape s = node_type(n, value).shape;
  if (!is_rebatched(n) || axis >= s.rank || s.dims[axis] != t->declared) return value;
  if (!wafer_ir_constant(n->im->ctx, n->im->ir, value, &view) &&
      !training_known(n->im, value, false, &view))
    return value;
  if (!first_of_alike(n, &view, axis, &first)) return value;
  training_known(n->im, value, true, &view);
  s.dims[axis] = t->options->micro_batch;
  return emit_expand(n, emit_constant(n, &first), s.rank, s.dims);
}

/* Is each sample's part of the indices that of the one before, `each` entries further on? */
static bool goes_by_samples(const wafer_view *index, int64_t samples, int64_t part, int64_t each) {
  for (int64_t i = 0; i < samples * part; i++) {
    int64_t at = wafer_element_i64(index->dtype, index->data, i);
    int64_t first = wafer_element_i64(index->dtype, index->data, i % part);
    if (first < 0 || first >= each || at != first + i / part * each) return false;
  }
  return true;
}

static void refuse_outside(import_node *n, const wafer_view *index, int64_t count, int64_t dim) {
  for (int64_t i = 0; i < count; i++) {
    int64_t at = wafer_element_i64(index->dtype, index->data, i);
    if (at < -dim || at >= dim)
      node_bad(n, "index %lld lies outside the dimension of %lld", (long long)at, (long long)dim);
  }
}

MlirValue training_rebatch_index(import_node *n, MlirValue x, MlirValue index, uint32_t axis) {
  const training_state *t = &n->im->training;
  wafer_view view, known;
  int64_t count;
  if (n->status != WAFER_OK || !is_rebatched(n) ||
      !wafer_ir_constant(n->im->ctx, n->im->ir, index, &view) || !view.data ||
      !wafer_shape_elements(&view.shape, &count))
    return index;
  wafer_shape in = node_type(n, x).shape, out = view.shape;
  int64_t now = t->options->micro_batch, dim = in.dims[axis], part = count / t->declared;
  bool flat = in.rank == 1 && dim % now == 0 && out.rank > 0 && out.dims[0] == t->declared &&
              !wafer_ir_constant(n->im->ctx, n->im->ir, x, &known) &&
              !training_known(n->im, x, false, &known);
  if (!flat || !part || !goes_by_samples(&view, t->declared, part, dim / now)) {
    refuse_outside(n, &view, count, dim);
    return index;
  }
  int64_t *made = node_new_ints(n, part * now);
  if (n->status != WAFER_OK) return index;
  for (int64_t i = 0; i < part * now; i++)
    made[i] = wafer_element_i64(view.dtype, view.data, i % part) + i / part * (dim / now);
  out.dims[0] = now;
  wafer_view all = wafer_view_of(WAFER_DTYPE_i64, &out, made);
  return emit_constant(n, &all);
}

/* The rank of the operands that follow the micro-batch; 0: none does. */
static uint32_t rank_of_batches(const import_node *n) {
  uint32_t rank = 0;
  for (uint32_t i = 0; i < n->input_count; i++) {
    wafer_view view;
    wafer_shape s = node_type(n, node_input(n, i)).shape;
    bool known =
        !node_has_input(n, i) || wafer_ir_constant(n->im->ctx, n->im->ir, n->inputs[i], &view);
    if (!known && s.rank > rank && s.dims[0] == n->im->training.options->micro_batch) rank = s.rank;
  }
  return rank;
}

/* What does not follow the inputs, a token that is learned for instance, once per sample: of a
 * batch of 1 nothing in the model says so. */
static MlirValue repeat_one(import_node *n, MlirValue value, uint32_t rank) {
  wafer_shape s = node_type(n, value).shape;
  int64_t axis = attr_int(n, "axis", 1);
  if (n->status != WAFER_OK || s.rank != rank || s.dims[0] != 1 || !axis || axis == -(int64_t)rank)
    return value;
  s.dims[0] = n->im->training.options->micro_batch;
  return emit_expand(n, value, s.rank, s.dims);
}

void training_rebatch_operands(import_node *n) {
  const training_state *t = &n->im->training;
  bool joins = !strcmp(n->node->op_type, "Concat") || !strcmp(n->node->op_type, "Where");
  bool maps = n->op->op != NO_OP && wafer_op_is(n->op->op, WAFER_TRAIT_MAP);
  uint32_t first = strcmp(n->node->op_type, "Gemm") ? 0 : 2; /* what is added to the product */
  if (!is_rebatched(n) || !(joins || maps || first)) return;
  uint32_t rank = rank_of_batches(n);
  for (uint32_t i = first; rank && i < n->input_count; i++) {
    if (!node_has_input(n, i)) continue;
    MlirValue *value = (MlirValue *)(uintptr_t)&n->inputs[i]; /* of this node alone */
    bool concat = !strcmp(n->node->op_type, "Concat");
    if ((t->declared > 1 || concat) && node_rank(n, *value) == rank)
      *value = training_rebatch_along(n, *value, 0);
    if (concat && t->declared == 1) *value = repeat_one(n, *value, rank);
  }
}

void training_hint(const import_node *n) {
  if (is_rebatched(n))
    wafer_warn(n->im->ctx->diag, n->im->b.loc,
               "a constant of the model may hold its batch of %lld here, which --micro-batch %u "
               "changes: export the model with a batch of that size, or with a symbolic one",
               (long long)n->im->training.declared, n->im->training.options->micro_batch);
}

/* ---- The function ---- */

static bool is_constant(const training_state *t, const extra_argument *a) {
  if (a->role != WAFER_ROLE_parameter || a->kept) return false;
  return a->known || (a->view.data && parameters_exclude(&t->told, a->of));
}

/* The constants of the model that were taken for parameters. */
static wafer_status settle(importer *im) {
  training_state *t = &im->training;
  intptr_t arguments = mlirBlockGetNumArguments(im->b.block);
  for (uint32_t i = t->count; i-- > 0;) {
    extra_argument *a = &t->at[i];
    bool unused = mlirOpOperandIsNull(mlirValueGetFirstUse(a->value));
    wafer_builder b = im->b;
    MlirValue constant;
    if (!is_constant(t, a) && !unused) continue;
    b.before = mlirBlockGetFirstOperation(b.block);
    if (!unused) {
      WAFER_TRY(wafer_build_constant(&b, a->of, &a->view, &constant));
      mlirValueReplaceAllUsesOfWith(a->value, constant);
    }
    mlirBlockEraseArgument(im->b.block, arguments - (t->count - i));
    arguments--;
    memmove(a, a + 1, (--t->count - i) * sizeof *a);
  }
  return WAFER_OK;
}

/* Results of @main behind the model's: what its statistics become. */
static wafer_status add_statistics(importer *im, wafer_ir_port *results, uint32_t *count) {
  const training_state *t = &im->training;
  MlirOperation end = mlirBlockGetTerminator(im->b.block);
  MlirValue *values = WAFER_NEW(im->ctx->arena, MlirValue, *count + t->count + 1);
  if (!values) return no_memory(im);
  for (uint32_t i = 0; i < *count; i++) values[i] = mlirOperationGetOperand(end, i);
  for (uint32_t i = 0; i < t->count; i++) {
    const extra_argument *a = &t->at[i];
    if (mlirValueIsNull(a->next)) continue;
    values[*count] = a->next;
    const char *name = wafer_arena_printf(im->ctx->arena, "next:%s", a->of);
    if (!name) return no_memory(im);
    results[(*count)++] = (wafer_ir_port){name, WAFER_ROLE_statistic, a->of};
  }
  mlirOperationSetOperands(end, *count, values);
  return WAFER_OK;
}

wafer_status training_finish(importer *im) {
  const training_state *t = &im->training;
  MlirOperation main = wafer_ir_main(im->root), end = mlirBlockGetTerminator(im->b.block);
  WAFER_TRY(check_patterns(im));
  WAFER_TRY(settle(im));
  uint32_t in = (uint32_t)mlirBlockGetNumArguments(im->b.block), first = in - t->count;
  uint32_t out = (uint32_t)mlirOperationGetNumOperands(end);
  wafer_ir_port *arguments = WAFER_NEW(im->ctx->arena, wafer_ir_port, in + 1);
  wafer_ir_port *results = WAFER_NEW(im->ctx->arena, wafer_ir_port, out + t->count + 1);
  if (!arguments || !results) return no_memory(im);
  for (uint32_t i = 0; i < out; i++) results[i] = wafer_ir_result(main, i);
  for (uint32_t i = 0; i < first; i++) arguments[i] = wafer_ir_argument(main, i);
  for (uint32_t i = 0; i < t->count; i++) {
    const extra_argument *a = &t->at[i];
    bool noise = a->role == WAFER_ROLE_noise;
    const char *name = noise ? wafer_arena_printf(im->ctx->arena, "noise:%s", a->of) : a->of;
    if (!name) return no_memory(im);
    arguments[first + i] = (wafer_ir_port){name, a->role, a->of};
  }
  WAFER_TRY(add_statistics(im, results, &out));
  return wafer_ir_set_ports(im->ctx, im->root, arguments, results);
}

wafer_status training_check(const importer *im) {
  const char *node = NULL;
  if (!im->training.options || !im->program.host) return WAFER_OK;
  for (const assembly_step *s = im->fn->first; s && !node; s = s->next)
    if (s->step.kind != WAFER_STEP_call && s->step.node) node = s->step.node;
  return wafer_fail(im->ctx->diag, wafer_at_node(im->file, node, -1), WAFER_UNSUPPORTED,
                    "a model is trained on the wafer alone, this node is a step of the host: give "
                    "the value that it needs with --bind, or dims with --dim");
}
