/* Options of `wafer train`: one row each. */
#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train.h"
#include "training.h"

const char train_usage[] =
    "usage: wafer train MODEL.onnx --data X.npy,Y.npy --loss LOSS --steps N [options]\n\n"
    "data:\n"
    "      --data D             X.npy,Y.npy (inputs, then labels), a folder of x-*.npy and "
    "y-*.npy,\n"
    "                           or tokens with --lm\n"
    "      --lm                 D is tokens.npy or a folder of tokens-*.npy; labels are the next "
    "tokens\n"
    "      --eval-data D        the same, to evaluate on\n"
    "      --eval-every N       steps between evaluations (0: after the last step)\n"
    "      --no-shuffle         samples in the order of the files\n"
    "loss and model:\n"
    "      --loss L[:OUTPUT]    cross-entropy, soft-cross-entropy, nll, mse, l1 or bce, of the "
    "first\n"
    "                           output or the one named\n"
    "      --ignore-index N     labels that do not count\n"
    "      --freeze PATTERN     weights that stay, as a pattern of the shell; repeat\n"
    "      --sparsity S         of each weight of products and convolutions this share becomes and "
    "stays\n"
    "                           zero: the smallest magnitudes\n"
    "      --mask FILE          zeros of a mask stay zeros: NAME=mask.npy or a .safetensors; "
    "repeat\n"
    "      --recompute R        activations for the backward pass: auto, none or all are "
    "recomputed\n"
    "      --dtype f32|f16      how cores store floats (f32)\n"
    "      --dim NAME=N         size of a symbolic dim; repeat\n"
    "      --shape INPUT=DIMS   shape of an input; its first dim becomes the micro-batch; repeat\n"
    "optimizer:\n"
    "      --optimizer O        sgd, momentum, nesterov, adam, adamw, adagrad, rmsprop, lion or\n"
    "                           adafactor (sgd)\n"
    "      --lr X --momentum X --beta1 X --beta2 X --eps X --weight-decay X\n"
    "                           its numbers (PyTorch's defaults)\n"
    "      --lr-schedule S      constant, linear, cosine or step (constant)\n"
    "      --warmup N           steps in which the rate grows to --lr (0)\n"
    "      --lr-end X           of linear and cosine: part of --lr at the last step (0)\n"
    "      --lr-every N         of step: steps between two reductions\n"
    "      --lr-gamma X         of step: factor of each (0.1)\n"
    "      --clip-norm X        longest gradient (0: any)\n"
    "      --loss-scale S       a number, or dynamic (dynamic with --dtype f16, else 1)\n"
    "run:\n"
    "      --mode M             train, eval or train_and_eval (train; with --eval-data\n"
    "                           train_and_eval)\n"
    "      --steps N            updates; or --epochs N\n"
    "      --epochs N           passes over the data\n"
    "      --batch N            samples of a step, over all systems (32)\n"
    "      --micro-batch N      samples of one pass over a wafer (from model, machine and batch)\n"
    "      --systems N          wafers (1); changes no result\n"
    "      --weight-servers N   of MemoryX (1); changes no result\n"
    "      --processes N        of the host, by mpirun (1); systems and servers are spread over "
    "them;\n"
    "                           under mpirun or srun --mpi=pmix the launcher says how many\n"
    "      --restarts N         start again from the newest checkpoint when a process dies (0)\n"
    "      --store DIR          weights and state in mapped files there, not in memory\n"
    "      --seed N             of shuffling and of dropout (0)\n"
    "      --threads N          of the host (all)\n"
    "      --machine NAME|FILE  (wse2)\n"
    "      --execution E        streaming: weights and gradients cross the wafer's edge; "
    "pipelined:\n"
    "                           they stay on one wafer, with sgd, momentum, adam or adamw; auto: "
    "the\n"
    "                           faster of the two where both fit (auto); changes no result\n"
    "      --placer shelf|best  of a pipeline: shelves, or a search, which replicates kernels "
    "(shelf)\n"
    "      --replicas N         of a kernel, at most, with --placer best (auto: as many as pay)\n"
    "      --checkpoint DIR     the last step writes one there, as DIR/step-NNNNNNNN\n"
    "      --checkpoint-every N and every N steps\n"
    "      --keep N             newest checkpoints to keep (3; 0: all)\n"
    "      --resume             go on from the newest whole checkpoint, if there is one\n"
    "      --metrics FILE       a line of JSON per step and per evaluation\n"
    "      --plot FILE.svg      curves of the losses\n"
    "      --compile-only       stop when the plan is made, and say what it costs\n"
    "      --validate-only      stop when options, model and all data are known to be fine\n"
    "  -p, --params FILE.yaml   all of the above; options on the command line win\n"
    "  -q, --quiet              no progress, no report\n"
    "  -h, --help\n\n"
    "examples:\n"
    "  wafer train mlp.onnx --data x.npy,y.npy --loss cross-entropy --optimizer adam --lr 1e-3 \\\n"
    "      --batch 64 --steps 1000 --checkpoint run --checkpoint-every 100\n"
    "  wafer train gpt.onnx --data tokens.npy --lm --loss cross-entropy --optimizer adamw \\\n"
    "      --lr-schedule cosine --warmup 100 --steps 2000 --systems 4 --eval-data held-out.npy\n"
    "  wafer train -p params.yaml --resume\n"
    "  wafer train -p params.yaml --systems 4 --processes 2 --restarts 3\n"
    "  srun --mpi=pmix -n 16 wafer train -p params.yaml --systems 16 --resume\n";

static wafer_status wants(const char *option, const char *what, const char *text) {
  return (wafer_status)cli_usage("train", "%s wants %s, got '%s'", option, what, text);
}

static wafer_status parse_u64(const char *option, const char *text, uint64_t least, uint64_t most,
                              uint64_t *out) {
  return cli_parse_u64("train", option, text, least, most, out) ? WAFER_OK : WAFER_USAGE;
}

static wafer_status parse_f64(const char *option, const char *text, double *out) {
  return cli_parse_f64("train", option, text, out) ? WAFER_OK : WAFER_USAGE;
}

/* ---- values with a form of their own ---- */

static wafer_status parse_loss(train_arguments *a, wafer_arena *arena, const char *text) {
  a->train.loss = wafer_arena_strdup(arena, text);
  return a->train.loss ? training_parse_loss("train", arena, text, &a->loss) : cli_no_memory();
}

static wafer_status parse_ignore(train_arguments *a, wafer_arena *arena, const char *text) {
  (void)arena;
  return training_parse_ignore("train", text, &a->loss);
}

static wafer_status parse_freeze(train_arguments *a, wafer_arena *arena, const char *text) {
  (void)arena;
  a->frozen[a->loss.frozen_count++] = text;
  return WAFER_OK;
}

static wafer_status parse_sparsity(train_arguments *a, wafer_arena *arena, const char *text) {
  (void)arena;
  return sparsity_parse("train", text, &a->compile.sparsity);
}

static wafer_status parse_mask(train_arguments *a, wafer_arena *arena, const char *text) {
  return sparsity_add_mask("train", arena, text, &a->masks);
}

static wafer_status parse_dim(train_arguments *a, wafer_arena *arena, const char *text) {
  const char *name, *value;
  uint64_t size;
  if (!cli_parse_pair("train", "--dim", text, arena, &name, &value)) return WAFER_USAGE;
  WAFER_TRY(parse_u64("--dim", value, 0, INT32_MAX, &size));
  a->dims[a->compile.dim_count++] = (wafer_dim_binding){name, (int64_t)size, 0};
  return WAFER_OK;
}

static wafer_status parse_shape(train_arguments *a, wafer_arena *arena, const char *text) {
  wafer_shape_binding *to = &a->shapes[a->compile.shape_count++];
  return cli_parse_input_shape("train", text, arena, to) ? WAFER_OK : WAFER_USAGE;
}

/* Position of a word in a list that ends with NULL; -1. */
static int word(const char *text, const char *const *words) {
  for (int i = 0; words[i]; i++)
    if (!strcmp(text, words[i])) return i;
  return -1;
}

static wafer_status parse_mode(train_arguments *a, wafer_arena *arena, const char *text) {
  static const char *const modes[] = {"train", "eval", "train_and_eval", NULL};
  (void)arena;
  int found = word(text, modes);
  a->mode = (train_mode)found;
  a->mode_set = true;
  return found < 0 ? wants("--mode", "train, eval or train_and_eval", text) : WAFER_OK;
}

static wafer_status parse_recompute(train_arguments *a, wafer_arena *arena, const char *text) {
  (void)arena;
  return training_parse_recompute("train", text, &a->loss.recompute);
}

static wafer_status parse_execution(train_arguments *a, wafer_arena *arena, const char *text) {
  static const char *const executions[] = {"auto", "pipelined", "streaming", NULL};
  static const wafer_mode modes[] = {WAFER_MODE_auto, WAFER_MODE_pipelined, WAFER_MODE_streaming};
  (void)arena;
  int found = word(text, executions);
  if (found < 0) return wants("--execution", "auto, streaming or pipelined", text);
  a->compile.mode = modes[found];
  return WAFER_OK;
}

static wafer_status parse_placer(train_arguments *a, wafer_arena *arena, const char *text) {
  (void)arena;
  a->compile.placer = strcmp(text, "best") ? WAFER_PLACER_shelf : WAFER_PLACER_best;
  bool known = a->compile.placer == WAFER_PLACER_best || !strcmp(text, "shelf");
  return known ? WAFER_OK : wants("--placer", "shelf or best", text);
}

static wafer_status parse_replicas(train_arguments *a, wafer_arena *arena, const char *text) {
  (void)arena;
  uint64_t most = 0;
  if (strcmp(text, "auto")) WAFER_TRY(parse_u64("--replicas", text, 1, UINT32_MAX, &most));
  a->compile.replicas = (uint32_t)most;
  return WAFER_OK;
}

static wafer_status parse_dtype(train_arguments *a, wafer_arena *arena, const char *text) {
  (void)arena;
  a->compile.storage = wafer_dtype_by_name(text);
  if (a->compile.storage == WAFER_DTYPE_f32 || a->compile.storage == WAFER_DTYPE_f16)
    return WAFER_OK;
  return wants("--dtype", "f32 or f16", text);
}

static wafer_status parse_scale(train_arguments *a, wafer_arena *arena, const char *text) {
  (void)arena;
  a->scale_set = true;
  a->train.loss_scale = (wafer_loss_scale){.scale = 65536, .patience = 2000};
  if (!strcmp(text, "dynamic")) return a->train.loss_scale.dynamic = true, WAFER_OK;
  WAFER_TRY(parse_f64("--loss-scale", text, &a->train.loss_scale.scale));
  return a->train.loss_scale.scale > 0 ? WAFER_OK
                                       : wants("--loss-scale", "more than 0, or dynamic", text);
}

static wafer_status parse_schedule(train_arguments *a, wafer_arena *arena, const char *text) {
  (void)arena;
  a->train.schedule.kind = wafer_schedule_by_name(text);
  return a->train.schedule.kind == WAFER_SCHEDULE_COUNT
             ? wants("--lr-schedule", "constant, linear, cosine or step", text)
             : WAFER_OK;
}

/* ---- every option is a row ---- */

typedef enum option_kind { FLAG, TEXT, COUNT, NUMBER, SPECIAL } option_kind;

typedef struct option_row {
  const char *name;
  option_kind kind;
  size_t at;            /* of its field in train_arguments; not of a SPECIAL one */
  uint64_t least, most; /* of a COUNT */
  wafer_status (*parse)(train_arguments *a, wafer_arena *arena, const char *text);
} option_row;

/* What a field takes follows from its type. */
#define FIELD(f)                                                                                   \
  .kind = _Generic(((train_arguments *)0)->f,                                                      \
      bool: FLAG,                                                                                  \
      const char *: TEXT,                                                                          \
      uint64_t: COUNT,                                                                             \
      double: NUMBER),                                                                             \
  .at = offsetof(train_arguments, f)

static const option_row rows[] = {
    {"data", FIELD(data)},
    {"lm", FIELD(lm)},
    {"eval-data", FIELD(eval_data)},
    {"eval-every", FIELD(train.eval_every), .most = UINT32_MAX},
    {"no-shuffle", FIELD(no_shuffle)},
    {"loss", .kind = SPECIAL, .parse = parse_loss},
    {"ignore-index", .kind = SPECIAL, .parse = parse_ignore},
    {"freeze", .kind = SPECIAL, .parse = parse_freeze},
    {"sparsity", .kind = SPECIAL, .parse = parse_sparsity},
    {"mask", .kind = SPECIAL, .parse = parse_mask},
    {"recompute", .kind = SPECIAL, .parse = parse_recompute},
    {"dtype", .kind = SPECIAL, .parse = parse_dtype},
    {"dim", .kind = SPECIAL, .parse = parse_dim},
    {"shape", .kind = SPECIAL, .parse = parse_shape},
    {"optimizer", FIELD(optimizer.name)},
    {"lr", FIELD(optimizer.lr)},
    {"momentum", FIELD(optimizer.momentum)},
    {"beta1", FIELD(optimizer.beta1)},
    {"beta2", FIELD(optimizer.beta2)},
    {"eps", FIELD(optimizer.eps)},
    {"weight-decay", FIELD(optimizer.weight_decay)},
    {"lr-schedule", .kind = SPECIAL, .parse = parse_schedule},
    {"warmup", FIELD(train.schedule.warmup), .most = UINT32_MAX},
    {"lr-end", FIELD(train.schedule.end)},
    {"lr-every", FIELD(train.schedule.every), .least = 1, .most = UINT32_MAX},
    {"lr-gamma", FIELD(train.schedule.gamma)},
    {"clip-norm", FIELD(train.clip_norm)},
    {"loss-scale", .kind = SPECIAL, .parse = parse_scale},
    {"mode", .kind = SPECIAL, .parse = parse_mode},
    {"steps", FIELD(train.steps), .least = 1, .most = UINT32_MAX},
    {"epochs", FIELD(epochs), .least = 1, .most = UINT32_MAX},
    {"batch", FIELD(train.batch), .least = 1, .most = 1 << 24},
    {"micro-batch", FIELD(micro_batch), .least = 1, .most = 1 << 20},
    {"systems", FIELD(systems), .least = 1, .most = 4096},
    {"weight-servers", FIELD(servers), .least = 1, .most = 4096},
    {"processes", FIELD(processes), .least = 1, .most = 4096},
    {"restarts", FIELD(restarts), .most = 1 << 20},
    {"store", FIELD(store)},
    {"seed", FIELD(train.seed), .most = UINT64_MAX},
    {"threads", FIELD(threads), .least = 1, .most = 1024},
    {"machine", FIELD(machine)},
    {"execution", .kind = SPECIAL, .parse = parse_execution},
    {"placer", .kind = SPECIAL, .parse = parse_placer},
    {"replicas", .kind = SPECIAL, .parse = parse_replicas},
    {"checkpoint", FIELD(train.checkpoint)},
    {"checkpoint-every", FIELD(train.checkpoint_every), .least = 1, .most = UINT32_MAX},
    {"keep", FIELD(train.keep), .most = UINT32_MAX},
    {"resume", FIELD(train.resume)},
    {"metrics", FIELD(metrics)},
    {"plot", FIELD(plot)},
    {"compile-only", FIELD(compile_only)},
    {"validate-only", FIELD(validate_only)},
    {"model", FIELD(model)}, /* what -p says; MODEL.onnx of the command line wins */
    {"quiet", FIELD(quiet)},
};

bool train_option(const char *name, bool *has_value) {
  for (size_t i = 0; i < WAFER_COUNT(rows); i++)
    if (!strcmp(rows[i].name, name)) return *has_value = rows[i].kind != FLAG, true;
  return false;
}

static wafer_status parse_row(train_arguments *a, wafer_arena *arena, const option_row *row,
                              const char *text) {
  void *field = (char *)a + row->at;
  char option[32];
  snprintf(option, sizeof option, "--%s", row->name);
  switch (row->kind) {
  case FLAG: *(bool *)field = true; return WAFER_OK;
  case TEXT: *(const char **)field = text; return WAFER_OK;
  case COUNT: return parse_u64(option, text, row->least, row->most, field);
  case NUMBER: return parse_f64(option, text, field);
  case SPECIAL: break;
  }
  return row->parse(a, arena, text);
}

/* ---- the optimizer, when everything is known ---- */

/* A number that changes nothing, of a file that -p names perhaps, beside another --optimizer. */
static void warn_unread(wafer_optimizer_kind kind, const char *number) {
  char readers[128] = "";
  if (wafer_optimizer_reads(kind, number)) return;
  for (int k = 0; k < WAFER_OPTIMIZER_COUNT; k++)
    if (wafer_optimizer_reads((wafer_optimizer_kind)k, number))
      snprintf(readers + strlen(readers), sizeof readers - strlen(readers), "%s%s",
               *readers ? ", " : "", wafer_optimizer_name((wafer_optimizer_kind)k));
  wafer_warn(cli_diag(), (wafer_loc){0}, "--%s changes nothing: %s has none, of --optimizer %s",
             number, wafer_optimizer_name(kind), readers);
}

static wafer_status settle_optimizer(train_arguments *a) {
  wafer_optimizer_kind kind = wafer_optimizer_by_name(a->optimizer.name);
  if (kind == WAFER_OPTIMIZER_COUNT)
    return wants("--optimizer",
                 "sgd, momentum, nesterov, adam, adamw, adagrad, rmsprop, lion or adafactor",
                 a->optimizer.name);
  wafer_optimizer *o = &a->train.optimizer;
  *o = wafer_optimizer_default(kind);
  const struct {
    const char *option, *text;
    double *to;
  } numbers[] = {{"--lr", a->optimizer.lr, &o->lr},
                 {"--momentum", a->optimizer.momentum, &o->momentum},
                 {"--beta1", a->optimizer.beta1, &o->beta1},
                 {"--beta2", a->optimizer.beta2, &o->beta2},
                 {"--eps", a->optimizer.eps, &o->eps},
                 {"--weight-decay", a->optimizer.weight_decay, &o->weight_decay}};
  for (size_t i = 0; i < WAFER_COUNT(numbers); i++) {
    bool own = numbers[i].to != &o->lr && numbers[i].to != &o->weight_decay;
    if (!numbers[i].text) continue;
    WAFER_TRY(parse_f64(numbers[i].option, numbers[i].text, numbers[i].to));
    if (own) warn_unread(kind, numbers[i].option + 2);
  }
  return wafer_optimizer_check(cli_diag(), o);
}

/* What a pipeline has no part in. */
static wafer_status check_pipelined(const train_arguments *a) {
  if (a->compile.mode != WAFER_MODE_pipelined || a->mode == EVALUATE) return WAFER_OK;
  if (a->systems > 1)
    return wafer_fail(cli_diag(), (wafer_loc){0}, WAFER_UNSUPPORTED,
                      "--execution pipelined with --systems %llu: the weights stay on one wafer, "
                      "within which kernels are replicated (--systems 1); --execution streaming "
                      "trains on several",
                      (unsigned long long)a->systems);
  if (wafer_optimizer_on_wafer(a->train.optimizer.kind)) return WAFER_OK;
  return wafer_fail(cli_diag(), (wafer_loc){0}, WAFER_UNSUPPORTED,
                    "--execution pipelined with --optimizer %s: cores update weights by sgd, "
                    "momentum, adam or adamw; take one of these, or --execution streaming, where "
                    "MemoryX has %s",
                    wafer_optimizer_name(a->train.optimizer.kind),
                    wafer_optimizer_name(a->train.optimizer.kind));
}

/* Options that do nothing alone. */
static wafer_status check_company(const train_arguments *a) {
  bool saves = a->train.checkpoint != NULL, pipe = a->compile.mode != WAFER_MODE_streaming;
  wafer_schedule_kind kind = a->train.schedule.kind;
  bool falls = kind == WAFER_SCHEDULE_linear || kind == WAFER_SCHEDULE_cosine;
  bool by_steps = kind == WAFER_SCHEDULE_step;
  bool best = a->compile.placer == WAFER_PLACER_best && pipe;
  const struct {
    bool given, company;
    const char *option, *with;
  } pairs[] = {
      {a->train.resume, saves, "--resume", "--checkpoint DIR"},
      {a->restarts != 0, saves, "--restarts", "--checkpoint DIR"},
      {a->train.checkpoint_every != 0, saves, "--checkpoint-every", "--checkpoint DIR"},
      {a->train.keep != UINT64_MAX, saves, "--keep", "--checkpoint DIR"},
      {a->train.eval_every != 0, a->eval_data != NULL, "--eval-every", "--eval-data D"},
      {a->train.schedule.end != 0, falls, "--lr-end", "--lr-schedule linear or cosine"},
      {a->train.schedule.every != 0, by_steps, "--lr-every", "--lr-schedule step"},
      {a->train.schedule.gamma >= 0, by_steps, "--lr-gamma", "--lr-schedule step"},
      {a->compile.replicas != 0, best, "--replicas", "--placer best, of a pipeline"},
  };
  for (size_t i = 0; i < WAFER_COUNT(pairs); i++)
    if (pairs[i].given && !pairs[i].company)
      return (wafer_status)cli_usage("train", "%s goes with %s", pairs[i].option, pairs[i].with);
  return WAFER_OK;
}

static wafer_status check(train_arguments *a) {
  if (!a->model) return (wafer_status)cli_usage("train", "one MODEL.onnx is wanted");
  if (!a->train.loss) return (wafer_status)cli_usage("train", "--loss is missing");
  if (!a->mode_set && a->eval_data) a->mode = TRAIN_AND_EVALUATE;
  bool runs = !a->compile_only && !a->validate_only;
  if (runs && a->mode != EVALUATE && !a->data)
    return (wafer_status)cli_usage("train", "--data is missing");
  if (a->mode != TRAIN && !a->eval_data)
    return (wafer_status)cli_usage("train", "--eval-data is missing, which --mode asks for");
  bool steps = a->train.steps != 0, epochs = a->epochs != 0;
  if (a->mode != EVALUATE && steps == epochs && runs)
    return (wafer_status)cli_usage("train", "one of --steps and --epochs is wanted");
  if (a->train.schedule.kind == WAFER_SCHEDULE_step && !a->train.schedule.every)
    return (wafer_status)cli_usage("train",
                                   "--lr-every is missing, which --lr-schedule step asks for");
  WAFER_TRY(check_company(a));
  if (a->train.keep == UINT64_MAX) a->train.keep = 3;
  if (a->train.schedule.gamma < 0) a->train.schedule.gamma = 0.1;
  for (size_t i = 0; i < a->compile.shape_count && !a->micro_batch; i++)
    if (a->shapes[i].shape.rank && a->shapes[i].shape.dims[0] > 0)
      a->micro_batch = (uint64_t)a->shapes[i].shape.dims[0];
  if (a->micro_batch && a->train.batch % a->micro_batch)
    return (wafer_status)cli_usage("train", "--batch %llu is no multiple of --micro-batch %llu",
                                   (unsigned long long)a->train.batch,
                                   (unsigned long long)a->micro_batch);
  WAFER_TRY(check_pipelined(a));
  a->train.evaluate = a->mode != TRAIN;
  a->compile.masks = a->masks.at;
  a->compile.mask_count = a->masks.count;
  if (!a->scale_set && a->compile.storage == WAFER_DTYPE_f16)
    a->train.loss_scale = (wafer_loss_scale){true, 65536, 2000, 0};
  return WAFER_OK;
}

static wafer_status defaults(train_arguments *a, wafer_arena *arena, int argc) {
  *a = (train_arguments){.machine = "wse2", .optimizer.name = "sgd", .systems = 1, .servers = 1};
  a->compile.programs = WAFER_PROGRAMS_never;
  a->train.diag = cli_diag();
  a->train.batch = 32;
  a->train.keep = UINT64_MAX; /* this and gamma: not given */
  a->train.schedule.gamma = -1;
  a->train.loss_scale = (wafer_loss_scale){.scale = 1, .patience = 2000};
  a->dims = WAFER_NEW(arena, wafer_dim_binding, (size_t)argc);
  a->shapes = WAFER_NEW(arena, wafer_shape_binding, (size_t)argc);
  a->frozen = WAFER_NEW(arena, const char *, (size_t)argc);
  a->compile.dims = a->dims;
  a->compile.shapes = a->shapes;
  a->loss.frozen = a->frozen;
  return a->dims && a->shapes && a->frozen ? WAFER_OK : cli_no_memory();
}

/* Rows as getopt wants them: a row's value is its position behind all characters. */
enum { FIRST_ROW = 256 };

static void long_options(struct option options[WAFER_COUNT(rows) + 2]) {
  for (size_t i = 0; i < WAFER_COUNT(rows); i++)
    options[i] =
        (struct option){rows[i].name, rows[i].kind == FLAG ? no_argument : required_argument, NULL,
                        FIRST_ROW + (int)i};
  options[WAFER_COUNT(rows)] = (struct option){"help", no_argument, NULL, 'h'};
  options[WAFER_COUNT(rows) + 1] = (struct option){0};
}

wafer_status train_parse(int argc, char **argv, wafer_arena *arena, train_arguments *a,
                         bool *help) {
  struct option options[WAFER_COUNT(rows) + 2];
  long_options(options);
  WAFER_TRY(defaults(a, arena, argc));
  optind = 0; /* argv is not that of main where -p was given */
  for (int c; (c = cli_option("train", argc, argv, "qh", options)) != -1;) {
    if (c == 'h') return *help = true, WAFER_OK;
    if (c == 'q')
      a->quiet = true;
    else if (c >= FIRST_ROW)
      WAFER_TRY(parse_row(a, arena, &rows[c - FIRST_ROW], optarg));
    else
      return WAFER_USAGE;
  }
  if (optind + 1 < argc)
    return (wafer_status)cli_usage("train", "one MODEL.onnx is wanted, got %d", argc - optind);
  if (optind < argc) a->model = argv[optind];
  WAFER_TRY(settle_optimizer(a));
  training_warn_ignored(&a->loss);
  return check(a);
}
