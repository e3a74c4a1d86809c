/* The pipeline: names to passes, what each needs and gives, a check after each. */
#include <mlir-c/Pass.h>
#include <mlir-c/Transforms.h>
#include <pthread.h>
#include <stdlib.h>

#include "ir/ir_names.h"
#include "size/size.h"
#include "wafer/program.h"

/* What a pass needs and gives. A module carries its facts in an attribute, so that a text can start
 * anywhere in the pipeline. */
#define FACTS(X)                                                                                   \
  X(SHAPED)                                                                                        \
  X(FOLDED)                                                                                        \
  X(SIMPLE) X(GRADED) X(KERNELED) X(MODED) X(SIZED) X(PLACED) X(ROUTED) X(SCHEDULED) X(VERIFIED)

enum {
#define X(name) BIT_##name,
  FACTS(X)
#undef X
      FACT_COUNT
};
enum {
#define X(name) name = 1 << BIT_##name,
  FACTS(X)
#undef X
};
static const char *const fact_names[FACT_COUNT] = {
#define X(name) #name,
    FACTS(X)
#undef X
};

typedef struct pass_row {
  const char *name, *summary;
  uint32_t needs, gives;
  wafer_pass_fn *run;
} pass_row;

static const pass_row rows[] = {
#define PASS(id, needs_, gives_, summary_) {#id, summary_, needs_, gives_, wafer_pass_##id},
#include "wafer/passes.def"
};

static const pass_row *row_by_name(const char *name) {
  for (size_t i = 0; i < WAFER_COUNT(rows); i++)
    if (!strcmp(rows[i].name, name)) return &rows[i];
  return NULL;
}

/* ---- The passes a text asks for ---- */

typedef struct stage {
  const char *name;
  const pass_row *row; /* NULL: one of MLIR's own */
} stage;

typedef struct pipeline {
  uint32_t count;
  stage *at;
} pipeline;

static wafer_status usage_no_memory(const wafer_ctx *ctx) {
  return wafer_fail(ctx->diag, wafer_at_file(NULL), WAFER_NO_MEMORY, "no memory for the pipeline");
}

/* "default" and "default:<last>". */
static wafer_status default_stages(const wafer_ctx *ctx, const char *last, pipeline *p) {
  const pass_row *end = *last ? row_by_name(last + 1) : &rows[WAFER_COUNT(rows) - 1];
  if (!end)
    return wafer_fail(ctx->diag, wafer_at_file(NULL), WAFER_USAGE,
                      "there is no pass '%s' to stop after; see wafer-opt --help for their names",
                      last + 1);
  p->at = WAFER_NEW(ctx->arena, stage, WAFER_COUNT(rows));
  if (!p->at) return usage_no_memory(ctx);
  for (const pass_row *row = rows; row <= end; row++)
    p->at[p->count++] = (stage){.name = row->name, .row = row};
  return WAFER_OK;
}

/* Up to the next comma outside braces and parentheses. */
static size_t name_length(const char *text) {
  size_t length = 0;
  for (int depth = 0; text[length] && (depth > 0 || text[length] != ','); length++)
    depth += !!strchr("({", text[length]) - !!strchr(")}", text[length]);
  return length;
}

static wafer_status parse(const wafer_ctx *ctx, const char *text, pipeline *p) {
  static const char prefix[] = "default";
  const size_t length = sizeof prefix - 1;
  if (!strncmp(text, prefix, length) && (!text[length] || text[length] == ':'))
    return default_stages(ctx, text + length, p);
  p->at = WAFER_NEW(ctx->arena, stage, strlen(text) + 1);
  if (!p->at) return usage_no_memory(ctx);
  for (const char *at = text; *at;) {
    size_t bytes = name_length(at);
    char *name = wafer_arena_strndup(ctx->arena, at, bytes);
    if (!name) return usage_no_memory(ctx);
    if (bytes) p->at[p->count++] = (stage){.name = name, .row = row_by_name(name)};
    at += bytes + (at[bytes] == ',');
  }
  return WAFER_OK;
}

/* ---- Needs and gives ---- */

static uint32_t facts_of(const wafer_ir *ir) {
  const char *text;
  uint32_t facts = 0;
  if (!get_string(mlirModuleGetOperation(ir->module), NAME_FACTS, &text)) return 0;
  for (int f = 0; f < FACT_COUNT; f++) {
    const char *at = strstr(text, fact_names[f]);
    if (at) facts |= 1u << f;
  }
  return facts;
}

static void set_facts(wafer_ir *ir, uint32_t facts) {
  char text[16 * FACT_COUNT] = "";
  for (int f = 0; f < FACT_COUNT; f++) {
    if (!(facts & 1u << f)) continue;
    if (*text) strcat(text, ",");
    strcat(text, fact_names[f]);
  }
  set_string(mlirModuleGetOperation(ir->module), NAME_FACTS, text);
}

static const char *giver(uint32_t fact) {
  for (size_t i = 0; i < WAFER_COUNT(rows); i++)
    if (rows[i].gives & fact) return rows[i].name;
  return "none";
}

static wafer_status check_needs(const wafer_ctx *ctx, const wafer_ir *ir, const pipeline *p) {
  uint32_t facts = facts_of(ir);
  for (uint32_t i = 0; i < p->count; i++) {
    const pass_row *row = p->at[i].row;
    if (!row) continue;
    uint32_t missing = row->needs & ~facts;
    if (missing)
      return wafer_fail(ctx->diag, wafer_at_file(ir->file), WAFER_USAGE,
                        "wafer-%s needs what no earlier pass gives; run '%s' before it", row->name,
                        giver(missing & -missing));
    facts |= row->gives;
  }
  return WAFER_OK;
}

static wafer_status check_print_after(const wafer_ctx *ctx, const pipeline *p) {
  const char *name = ctx->options ? ctx->options->print_after : NULL;
  if (!name || !strcmp(name, "all")) return WAFER_OK;
  for (uint32_t i = 0; i < p->count; i++)
    if (!strcmp(p->at[i].name, name)) return WAFER_OK;
  return wafer_fail(ctx->diag, wafer_at_file(NULL), WAFER_USAGE,
                    "there is no pass '%s' in the pipeline to print after", name);
}

/* ---- Running ---- */

/* A sink that counts errors on their way to the caller's. */
typedef struct counter {
  const wafer_diag *to;
  uint32_t errors;
} counter;

static void count_emit(void *self, wafer_severity severity, wafer_status status,
                       const wafer_loc *loc, const char *text) {
  counter *c = self;
  c->errors += severity == WAFER_ERROR;
  if (c->to && c->to->emit) c->to->emit(c->to->self, severity, status, loc, text);
}

static void count_progress(void *self, const char *what, uint64_t done, uint64_t total) {
  wafer_progress(((counter *)self)->to, what, done, total);
}

static bool count_cancelled(void *self) {
  return wafer_cancelled(((counter *)self)->to);
}

static void append(MlirStringRef part, void *self) {
  char *text = self;
  size_t used = strlen(text), room = 255 - used;
  memcpy(text + used, part.data, part.length < room ? part.length : room);
}

static void register_mlir_passes(void) {
  mlirRegisterTransformsPasses();
}

static wafer_status run_mlir(const wafer_ctx *ctx, wafer_ir *ir, const char *name) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, register_mlir_passes);
  char said[256] = "";
  MlirPassManager manager = mlirPassManagerCreate(ir->context);
  MlirOpPassManager passes = mlirPassManagerGetAsOpPassManager(manager);
  wafer_status status = WAFER_OK;
  if (mlirLogicalResultIsFailure(mlirOpPassManagerAddPipeline(passes, ref(name), append, said)))
    status = strchr(name, '{')
                 ? wafer_fail(ctx->diag, wafer_at_file(NULL), WAFER_USAGE,
                              "MLIR has no pass '%s': %.*s", name, (int)strcspn(said, "\n"), said)
                 : wafer_fail(ctx->diag, wafer_at_file(NULL), WAFER_USAGE,
                              "there is no pass '%s', neither here nor in MLIR; see wafer-opt "
                              "--help for their names",
                              name);
  else if (mlirLogicalResultIsFailure(
               mlirPassManagerRunOnOp(manager, mlirModuleGetOperation(ir->module))))
    status = WAFER_INTERNAL;
  mlirPassManagerDestroy(manager);
  mlirSymbolTableDestroy(ir->symbols);
  ir->symbols = mlirSymbolTableCreate(mlirModuleGetOperation(ir->module));
  return status;
}

static wafer_status print_after(const wafer_ctx *ctx, const wafer_ir *ir, const char *name) {
  const wafer_options *o = ctx->options;
  if (!o || !o->print_after || !o->print) return WAFER_OK;
  if (strcmp(o->print_after, "all") && strcmp(o->print_after, name)) return WAFER_OK;
  const char *text;
  size_t bytes;
  WAFER_TRY(wafer_ir_print(ctx, ir, &text, &bytes));
  o->print(o->print_self, name, text, bytes);
  return WAFER_OK;
}

static wafer_status run_stage(const wafer_ctx *ctx, wafer_ir *ir, const stage *s, counter *c) {
  wafer_loc file = wafer_at_file(ir->file);
  wafer_ctx with = *ctx;
  WAFER_TRY(wafer_ir_machine(ctx, ir, wafer_ir_get_cut(ir), &with.machine));
  wafer_status status = s->row ? s->row->run(&with, ir) : run_mlir(ctx, ir, s->name);
  if (status != WAFER_OK && c->errors == 0)
    return wafer_fail(ctx->diag, file, WAFER_INTERNAL, "pass '%s' failed and did not say why",
                      s->name);
  WAFER_TRY(status);
  if (!mlirOperationVerify(mlirModuleGetOperation(ir->module)))
    return wafer_fail(ctx->diag, file, WAFER_INTERNAL, "pass '%s' left an invalid module", s->name);
  if (s->row) set_facts(ir, facts_of(ir) | s->row->gives);
  return print_after(ctx, ir, s->name);
}

static wafer_status run_all(const wafer_ctx *ctx, wafer_ir *ir, const pipeline *p, counter *c) {
  for (uint32_t i = 0; i < p->count; i++) {
    wafer_progress(ctx->diag, p->at[i].name, i, p->count);
    if (wafer_cancelled(ctx->diag))
      return wafer_fail(ctx->diag, wafer_at_file(ir->file), WAFER_USAGE,
                        "cancelled before pass '%s'", p->at[i].name);
    WAFER_TRY(run_stage(ctx, ir, &p->at[i], c));
  }
  wafer_progress(ctx->diag, "passes", p->count, p->count);
  return WAFER_OK;
}

/* Passes before the first that chooses a layout; that one and those behind it. */
typedef enum extent { WHOLE, KERNELS, LAYOUT } extent;

static void take_part(pipeline *p, extent part) {
  uint32_t kernels = 0;
  while (kernels < p->count && !(p->at[kernels].row && p->at[kernels].row->gives & MODED))
    kernels++;
  if (part == KERNELS) p->count = kernels;
  if (part != LAYOUT) return;
  p->at += kernels;
  p->count -= kernels;
}

static wafer_status transform(const wafer_ctx *ctx, wafer_ir *ir, const char *passes, extent part) {
  pipeline p = {0};
  wafer_ir *speaker = ir->owner ? ir->owner : ir; /* MLIR reports there */
  WAFER_TRY(parse(ctx, passes, &p));
  if (part != LAYOUT) WAFER_TRY(check_needs(ctx, ir, &p));
  WAFER_TRY(check_print_after(ctx, &p));
  take_part(&p, part);
  counter c = {.to = ctx->diag};
  wafer_diag diag = {
      .emit = count_emit, .progress = count_progress, .cancelled = count_cancelled, .self = &c};
  wafer_ctx counted = *ctx;
  counted.diag = &diag;
  const wafer_diag *own = speaker->diag;
  speaker->diag = &diag;
  /* Facts that a text claims are taken on trust, but for the types that every pass asserts. */
  wafer_status status = facts_of(ir) & SHAPED ? wafer_pass_shape(&counted, ir) : WAFER_OK;
  if (status == WAFER_OK) status = run_all(&counted, ir, &p, &c);
  speaker->diag = own;
  return status;
}

/* A piece does not know a pin of another one; what none knows is nobody's. */
static wafer_status check_pin(const wafer_ctx *ctx, const wafer_program *program,
                              const wafer_pin *pin) {
  const char *file = NULL;
  for (uint32_t i = 0; i < program->function_count; i++) {
    wafer_graph graph;
    if (!program->pieces[i]) continue;
    WAFER_TRY(wafer_graph_read(ctx, program->pieces[i], &graph));
    if (size_find_kernel(&graph, pin->kernel) != WAFER_NONE) return WAFER_OK;
    file = program->pieces[i]->file;
  }
  return wafer_fail(ctx->diag, wafer_at_file(file), WAFER_USAGE,
                    "no kernel or ONNX node is named '%s', of any function of the wafer",
                    pin->kernel);
}

/* A piece that is to be laid out. */
typedef struct turn {
  wafer_ir *piece;
  uint32_t number, size; /* of pieces; of sizes of the model */
  uint64_t bytes;        /* of weights */
} turn;

/* The largest size first: others find room where it has its kernels. Of one size the piece with the
 * fewest weights: what others have beside these finds free cores. */
static int by_turn(const void *left, const void *right) {
  const turn *a = left, *b = right;
  if (a->size != b->size) return a->size > b->size ? -1 : 1;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
  return (a->number < b->number) - (a->number > b->number);
}

/* Sizes have contexts of their own. */
static uint32_t list_turns(const wafer_program *program, turn *turns) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < program->function_count; i++) {
    wafer_ir *piece = program->pieces[i];
    if (!piece) continue;
    turns[count] = (turn){.piece = piece, .number = count};
    if (count) {
      const turn *last = &turns[count - 1];
      turns[count].size = last->size + !mlirContextEqual(last->piece->context, piece->context);
    }
    count++;
  }
  return count;
}

static uint64_t bytes_of_weights(const wafer_graph *g) {
  uint64_t bytes = 0;
  for (uint32_t v = 0; v < g->value_count; v++)
    if (wafer_graph_is_weight(g, v))
      bytes += wafer_tensor_bytes(g->values[v].type.dtype, &g->values[v].type.shape);
  return bytes;
}

/* What the pieces consist of: those that are pipelines take turns on the wafer, and are laid out
 * with an eye to each other. Weights that are computed may have another name in each. */
static wafer_status find_peers(const wafer_ctx *ctx, uint32_t count, turn *turns,
                               wafer_peers *peers) {
  *peers = (wafer_peers){.count = count,
                         .at = WAFER_NEW(ctx->arena, wafer_graph, count),
                         .laid = WAFER_NEW(ctx->arena, bool, count)};
  if (!peers->at || !peers->laid) return usage_no_memory(ctx);
  for (uint32_t i = 0; i < count; i++) {
    wafer_ir *piece = turns[i].piece;
    for (size_t w = 0; w < wafer_weights_count(piece->weights); w++)
      wafer_weight_digest(wafer_weights_at(piece->weights, w));
    WAFER_TRY(wafer_graph_read(ctx, piece, &peers->at[i]));
    turns[i].bytes = bytes_of_weights(&peers->at[i]);
    piece->peers = peers;
  }
  return WAFER_OK;
}

static wafer_status lay_out_pieces(const wafer_ctx *ctx, const wafer_program *program,
                                   const char *passes) {
  turn *turns = WAFER_NEW(ctx->arena, turn, program->function_count);
  wafer_peers *peers = WAFER_NEW(ctx->arena, wafer_peers, 1);
  if (!turns || !peers) return usage_no_memory(ctx);
  const uint32_t count = list_turns(program, turns);
  bool together = ctx->options->mode == WAFER_MODE_pipelined && !ctx->options->pin_count;
  for (uint32_t i = 0; i < count; i++) together &= (facts_of(turns[i].piece) & KERNELED) != 0;
  if (together) WAFER_TRY(find_peers(ctx, count, turns, peers));
  qsort(turns, count, sizeof *turns, by_turn);
  for (uint32_t i = 0; i < count; i++) {
    wafer_ir *piece = turns[i].piece;
    WAFER_TRY(transform(ctx, piece, passes, LAYOUT));
    if (!together) continue;
    WAFER_TRY(wafer_graph_read(ctx, piece, &peers->at[turns[i].number]));
    peers->laid[turns[i].number] = (facts_of(piece) & PLACED) != 0;
  }
  return WAFER_OK;
}

/* All pieces are compiled in one mode, each by itself until it is laid out. Where there are several
 * they take turns on the wafer, sample by sample: a pipeline waits for weights that another one has
 * not left there, so that `auto` means streaming, unless a caller makes both plans and compares
 * them. No programs tell how fast they are: nothing is made in haste, to be made again. */
static wafer_status transform_pieces(const wafer_ctx *ctx, const wafer_program *program,
                                     const char *passes) {
  wafer_options options = ctx->options ? *ctx->options : (wafer_options){0};
  uint32_t count = 0;
  for (uint32_t i = 0; i < program->function_count; i++) count += program->pieces[i] != NULL;
  if (count > 1 && options.mode == WAFER_MODE_auto) options.mode = WAFER_MODE_streaming;
  if (options.batch > 1 && options.batch != WAFER_BATCH_auto)
    wafer_warn(ctx->diag, (wafer_loc){0},
               "a model with host steps runs sample by sample: --batch %u is taken as 1",
               options.batch);
  options.batch = 1;
  options.hasty = false;
  if (options.bands_kept) options.bands = options.sides = 0;
  wafer_ctx own = *ctx;
  own.options = &options;
  for (uint32_t i = 0; i < program->function_count; i++)
    if (program->pieces[i]) WAFER_TRY(transform(&own, program->pieces[i], passes, KERNELS));
  WAFER_TRY(lay_out_pieces(&own, program, passes));
  for (uint32_t i = 0; i < options.pin_count; i++)
    if (!options.pins[i].kept) WAFER_TRY(check_pin(&own, program, &options.pins[i]));
  return WAFER_OK;
}

wafer_status wafer_transform(const wafer_ctx *ctx, wafer_ir *ir, const char *passes) {
  return ir->program ? transform_pieces(ctx, ir->program, passes)
                     : transform(ctx, ir, passes, WHOLE);
}

void wafer_passes_each(void (*visit)(void *self, const char *name, const char *summary),
                       void *self) {
  for (size_t i = 0; i < WAFER_COUNT(rows); i++) visit(self, rows[i].name, rows[i].summary);
}
