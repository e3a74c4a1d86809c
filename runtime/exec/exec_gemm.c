/* Matrix products through oneDNN. Operands may lie in any order in which their matrices have a unit
 * stride; a matrix known when building is put into the library's own format once. Slabs are ranges
 * of the result's outermost dim: matrices of a batch, rows, or the columns of a single row. */
#include <string.h>

#include "exec_dnnl.h"

/* Dims as oneDNN sees them: batch dims, then rows and columns. */
typedef struct gemm {
  exec_program *program;
  exec_op *op;
  exec_tensor *y;
  uint32_t rank;
  dnnl_dims_t a, b, y_dims, a_stride, b_stride, y_stride;
  bool packed;  /* b is known: any format */
  bool columns; /* y is a row vector: slabs are ranges of its columns, each with its part of b */
  library_weights *copies;
} gemm;

static void take_operand(const exec_tensor *t, uint32_t rank, int64_t *dims, int64_t *strides) {
  uint32_t missing = rank - t->shape.rank;
  int64_t outermost = 1;
  for (uint32_t i = 0; i < t->shape.rank; i++) outermost *= t->shape.dims[i];
  for (uint32_t i = 0; i < rank; i++) {
    dims[i] = i < missing ? 1 : t->shape.dims[i - missing];
    strides[i] = i < missing ? outermost : t->strides[i - missing];
  }
}

static bool is_one_matrix(const gemm *g, const int64_t *dims) {
  for (uint32_t i = 0; i + 2 < g->rank; i++)
    if (dims[i] != 1) return false;
  return true;
}

/* One matrix b for all: the batch dims of a row-major a are rows of one tall matrix. */
static void fold_batch(gemm *g) {
  exec_order order = exec_row_major();
  const exec_tensor *a = g->op->operands[0];
  if (g->rank == 2 || !is_one_matrix(g, g->b) || !exec_same_order(&a->shape, &a->order, &order))
    return;
  uint32_t r = g->rank;
  int64_t rows = 1;
  for (uint32_t i = 0; i + 1 < r; i++) rows *= g->a[i];
  g->a[0] = g->y_dims[0] = rows;
  g->a[1] = g->a[r - 1];
  g->b[0] = g->b[r - 2];
  g->y_dims[1] = g->b[1] = g->b[r - 1];
  g->a_stride[0] = g->a[1];
  g->y_stride[0] = g->y_dims[1];
  g->b_stride[0] = g->b_stride[r - 2];
  g->b_stride[1] = g->b_stride[r - 1];
  g->a_stride[1] = g->y_stride[1] = 1;
  g->rank = 2;
}

static bool has_unit_stride(const gemm *g, const int64_t *dims, const int64_t *strides) {
  uint32_t r = g->rank;
  return strides[r - 1] == 1 || strides[r - 2] == 1 || (dims[r - 1] == 1 && dims[r - 2] == 1);
}

/* The library dim that slabs cut, and how many of its rows one row of the result is. */
static void slab_dim(const gemm *g, uint32_t *dim, int64_t *scale) {
  uint32_t outer = exec_outer_dim(g->y), rank = g->y->shape.rank;
  *scale = 1;
  *dim = g->rank == rank ? outer : 0;
  if (g->rank == rank) return;
  for (uint32_t i = outer + 1; i + 1 < rank; i++) *scale *= g->y->shape.dims[i];
}

typedef struct descriptors {
  dnnl_memory_desc_t a, b, plain_b, y;
} descriptors;

static bool describe(const gemm *g, uint32_t dim, int64_t rows, descriptors *d) {
  dnnl_dims_t a, b, y;
  int r = (int)g->rank;
  memcpy(a, g->a, sizeof a);
  memcpy(b, g->b, sizeof b);
  memcpy(y, g->y_dims, sizeof y);
  y[dim] = rows;
  if (g->columns)
    b[dim] = rows;
  else if (a[dim] != 1)
    a[dim] = rows;
  if (dim + 2 < g->rank && b[dim] != 1) b[dim] = rows;
  return dnnl_memory_desc_init_by_strides(&d->a, r, a, dnnl_f32, g->a_stride) == dnnl_success &&
         dnnl_memory_desc_init_by_strides(&d->plain_b, r, b, dnnl_f32, g->b_stride) ==
             dnnl_success &&
         dnnl_memory_desc_init_by_strides(&d->y, r, y, dnnl_f32, g->y_stride) == dnnl_success &&
         (g->packed ? dnnl_memory_desc_init_by_tag(&d->b, r, b, dnnl_f32, dnnl_format_tag_any) ==
                          dnnl_success
                    : (d->b = d->plain_b, true));
}

static wafer_status init_call(gemm *g, const descriptors *d, dnnl_primitive_desc_t pd, uint32_t dim,
                              int64_t from, library_slab *slab) {
  static const library_arg args[] = {{DNNL_ARG_SRC, dnnl_query_src_md, 0},
                                     {DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0},
                                     {DNNL_ARG_DST, dnnl_query_dst_md, 0}};
  exec_program *p = g->program;
  WAFER_TRY(library_call_init(p, &slab->call, pd, args, 3));
  if (dnnl_primitive_create(&slab->call.primitive, pd) != dnnl_success)
    return library_failed(p, "a matrix product");
  slab->call.owns_primitive = true;
  const int64_t size = (int64_t)sizeof(float);
  bool cuts_b = dim + 2 < g->rank && g->b[dim] != 1;
  slab->handles[0].tensor = g->op->operands[0];
  slab->handles[0].offset = g->columns || g->a[dim] == 1 ? 0 : from * g->a_stride[dim] * size;
  slab->handles[2].tensor = g->y;
  slab->handles[2].offset = from * g->y_stride[dim] * size;
  if (!g->packed) {
    slab->handles[1].tensor = g->op->operands[1];
    slab->handles[1].offset = cuts_b ? from * g->b_stride[dim] * size : 0;
    return WAFER_OK;
  }
  library_weights *own = NULL, **copies = g->columns ? &own : &g->copies;
  library_handle b = {.tensor = g->op->operands[1],
                      .offset = g->columns ? from * g->b_stride[dim] * size : 0};
  return library_pack(p, copies, &b, &d->plain_b,
                      dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0),
                      &slab->handles[1]);
}

static bool is_plain_loop(const_dnnl_primitive_desc_t pd) {
  const char *name = "";
  return dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) == dnnl_success &&
         strncmp(name, "ref", 3) == 0;
}

/* *known turns false when oneDNN has no fast way for these strides. */
static wafer_status init_slab(gemm *g, dnnl_primitive_attr_t attr, library_slab *slab, uint32_t dim,
                              int64_t from, int64_t to, bool *known) {
  descriptors d;
  dnnl_matmul_desc_t desc;
  dnnl_primitive_desc_t pd = NULL;
  if (!describe(g, dim, to - from, &d))
    return library_failed(g->program, "a matrix product's shapes");
  if (dnnl_matmul_desc_init(&desc, &d.a, &d.b, NULL, &d.y) == dnnl_success)
    (void)dnnl_primitive_desc_create(&pd, &desc, attr, g->program->engine, NULL);
  *known = pd && !is_plain_loop(pd);
  wafer_status status = *known ? init_call(g, &d, pd, dim, from, slab) : WAFER_OK;
  if (pd) dnnl_primitive_desc_destroy(pd);
  return status;
}

static wafer_status init_slabs(gemm *g, library_stage *stage, dnnl_primitive_attr_t attr,
                               bool *known) {
  uint32_t dim = g->rank - 2, n = stage->stage.slabs;
  int64_t scale = 1, rows = g->y_dims[dim];
  if (g->columns) {
    rows = g->y_dims[dim = 1];
  } else if (n > 1) {
    rows = g->y->shape.dims[exec_outer_dim(g->y)];
    slab_dim(g, &dim, &scale);
  }
  *known = true;
  for (uint32_t i = 0; i < n && *known; i++)
    WAFER_TRY(init_slab(g, attr, &stage->slabs[i], dim, rows * i / n * scale,
                        rows * (i + 1) / n * scale, known));
  return WAFER_OK;
}

static wafer_status try_with(gemm *g, bool *known) {
  exec_program *p = g->program;
  uint32_t rank = g->y->shape.rank;
  bool row_vector = exec_outer_dim(g->y) + 1 == rank;
  g->columns = row_vector && g->packed;
  uint32_t most = row_vector && !g->columns ? 1 : UINT32_MAX;
  library_stage *stage =
      library_stage_create(p, library_slabs(p, g->y, most), "oneDNN failed in a matrix product");
  dnnl_primitive_attr_t attr = NULL;
  if (!stage) return exec_no_memory(p);
  WAFER_TRY(library_attributes(p, g->op, &attr));
  wafer_status status = init_slabs(g, stage, attr, known);
  dnnl_primitive_attr_destroy(attr);
  if (status == WAFER_OK && *known) {
    g->op->took_clip = g->op->clips;
    g->op->result = g->y;
    return library_stage_add(p, stage, g->op, most);
  }
  stage->stage.release(&stage->stage);
  return status;
}

static wafer_status try_product(exec_program *p, exec_op *op, exec_tensor *y, bool *known) {
  gemm g = {.program = p, .op = op, .y = y, .rank = y->shape.rank};
  take_operand(op->operands[0], g.rank, g.a, g.a_stride);
  take_operand(op->operands[1], g.rank, g.b, g.b_stride);
  take_operand(y, g.rank, g.y_dims, g.y_stride);
  fold_batch(&g);
  g.packed = exec_tensor_known(p, op->operands[1]) != NULL && g.rank == 2;
  *known = has_unit_stride(&g, g.a, g.a_stride) && has_unit_stride(&g, g.b, g.b_stride);
  return *known ? try_with(&g, known) : WAFER_OK;
}

static bool is_empty(const wafer_shape *s) {
  for (uint32_t i = 0; i < s->rank; i++)
    if (s->dims[i] == 0) return true;
  return false;
}

wafer_status exec_build_gemm(exec_program *p, exec_op *op) {
  if (op->operands[0]->host == WAFER_DTYPE_i32) return exec_build_gemm_int(p, op);
  const wafer_shape *a = &op->operands[0]->shape, *b = &op->operands[1]->shape;
  if (op->operands[0]->host != WAFER_DTYPE_f32 || op->operands[1]->host != WAFER_DTYPE_f32 ||
      a->rank < 2 || b->rank < 2 || is_empty(a) || is_empty(b))
    return WAFER_OK;
  WAFER_TRY(library_engine(p));
  exec_order order = exec_row_major();
  exec_tensor *y = exec_tensor_create(p, &op->node->type, &order);
  bool known = false;
  if (!y) return exec_no_memory(p);
  WAFER_TRY(try_product(p, op, y, &known));
  if (known) return WAFER_OK;
  for (int i = 0; i < 2; i++)
    WAFER_TRY(exec_reordered(p, op->operands[i], &order, &op->operands[i]));
  return try_product(p, op, y, &known);
}
