/* Options of `wafer train`: one row each. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "train.h"

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
    "      --sparsity S         of each weight that a matrix product takes, this share becomes and "
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
    "      --validate-only      stop when options and model are known to be fine\n"
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

enum {
  DATA = 256,
  LM,
  EVAL_DATA,
  EVAL_EVERY,
  NO_SHUFFLE,
  LOSS,
  IGNORE,
  FREEZE,
  RECOMPUTE,
  DTYPE,
  DIM,
  SHAPE,
  OPTIMIZER_,
  LR,
  MOMENTUM,
  BETA1,
  BETA2,
  EPS,
  DECAY,
  SCHEDULE,
  WARMUP,
  LR_END,
  LR_EVERY,
  LR_GAMMA,
  CLIP,
  SCALE,
  MODE,
  STEPS,
  EPOCHS,
  BATCH,
  MICRO,
  SYSTEMS,
  SERVERS,
  STORE,
  SEED,
  THREADS,
  MACHINE,
  EXECUTION,
  CHECKPOINT,
  EVERY,
  KEEP,
  RESUME,
  METRICS,
  PLOT,
  COMPILE_ONLY,
  VALIDATE_ONLY,
  MODEL,
  PROCESSES,
  RESTARTS,
  SPARSITY,
  MASK,
  PLACER,
  REPLICAS
};

static const struct option long_options[] = {
    {"data", required_argument, NULL, DATA},
    {"lm", no_argument, NULL, LM},
    {"eval-data", required_argument, NULL, EVAL_DATA},
    {"eval-every", required_argument, NULL, EVAL_EVERY},
    {"no-shuffle", no_argument, NULL, NO_SHUFFLE},
    {"loss", required_argument, NULL, LOSS},
    {"ignore-index", required_argument, NULL, IGNORE},
    {"freeze", required_argument, NULL, FREEZE},
    {"sparsity", required_argument, NULL, SPARSITY},
    {"mask", required_argument, NULL, MASK},
    {"recompute", required_argument, NULL, RECOMPUTE},
    {"dtype", required_argument, NULL, DTYPE},
    {"dim", required_argument, NULL, DIM},
    {"shape", required_argument, NULL, SHAPE},
    {"optimizer", required_argument, NULL, OPTIMIZER_},
    {"lr", required_argument, NULL, LR},
    {"momentum", required_argument, NULL, MOMENTUM},
    {"beta1", required_argument, NULL, BETA1},
    {"beta2", required_argument, NULL, BETA2},
    {"eps", required_argument, NULL, EPS},
    {"weight-decay", required_argument, NULL, DECAY},
    {"lr-schedule", required_argument, NULL, SCHEDULE},
    {"warmup", required_argument, NULL, WARMUP},
    {"lr-end", required_argument, NULL, LR_END},
    {"lr-every", required_argument, NULL, LR_EVERY},
    {"lr-gamma", required_argument, NULL, LR_GAMMA},
    {"clip-norm", required_argument, NULL, CLIP},
    {"loss-scale", required_argument, NULL, SCALE},
    {"mode", required_argument, NULL, MODE},
    {"steps", required_argument, NULL, STEPS},
    {"epochs", required_argument, NULL, EPOCHS},
    {"batch", required_argument, NULL, BATCH},
    {"micro-batch", required_argument, NULL, MICRO},
    {"systems", required_argument, NULL, SYSTEMS},
    {"weight-servers", required_argument, NULL, SERVERS},
    {"processes", required_argument, NULL, PROCESSES},
    {"restarts", required_argument, NULL, RESTARTS},
    {"store", required_argument, NULL, STORE},
    {"seed", required_argument, NULL, SEED},
    {"threads", required_argument, NULL, THREADS},
    {"machine", required_argument, NULL, MACHINE},
    {"execution", required_argument, NULL, EXECUTION},
    {"placer", required_argument, NULL, PLACER},
    {"replicas", required_argument, NULL, REPLICAS},
    {"checkpoint", required_argument, NULL, CHECKPOINT},
    {"checkpoint-every", required_argument, NULL, EVERY},
    {"keep", required_argument, NULL, KEEP},
    {"resume", no_argument, NULL, RESUME},
    {"metrics", required_argument, NULL, METRICS},
    {"plot", required_argument, NULL, PLOT},
    {"compile-only", no_argument, NULL, COMPILE_ONLY},
    {"validate-only", no_argument, NULL, VALIDATE_ONLY},
    {"model", required_argument, NULL,
     MODEL}, /* what -p says; MODEL.onnx of the command line wins */
    {"quiet", no_argument, NULL, 'q'},
    {"help", no_argument, NULL, 'h'},
    {0}};

bool train_option(const char *name, bool *has_value) {
  for (const struct option *o = long_options; o->name; o++)
    if (!strcmp(o->name, name)) return *has_value = o->has_arg == required_argument, true;
  return false;
}

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
  const char *colon = strchr(text, ':');
  char *name = wafer_arena_strndup(arena, text, colon ? (size_t)(colon - text) : strlen(text));
  if (!name) return cli_no_memory();
  a->loss.loss = wafer_loss_by_name(name);
  a->loss.output = colon ? colon + 1 : NULL;
  a->train.loss = wafer_arena_strdup(arena, text);
  if (a->loss.loss != WAFER_LOSS_COUNT && a->train.loss) return WAFER_OK;
  return wants("--loss", "cross-entropy, soft-cross-entropy, nll, mse, l1 or bce", text);
}

static wafer_status parse_ignore(train_arguments *a, const char *text) {
  char *end;
  a->loss.ignores = true;
  a->loss.ignore_index = strtoll(text, &end, 10);
  return *text && !*end ? WAFER_OK : wants("--ignore-index", "an integer", text);
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
  const char *name, *value;
  wafer_shape shape;
  if (!cli_parse_pair("train", "--shape", text, arena, &name, &value)) return WAFER_USAGE;
  if (!cli_parse_shape("train", "--shape", value, &shape)) return WAFER_USAGE;
  a->shapes[a->compile.shape_count++] = (wafer_shape_binding){name, shape};
  return WAFER_OK;
}

/* Position of a word in a list that ends with NULL; -1. */
static int word(const char *text, const char *const *words) {
  for (int i = 0; words[i]; i++)
    if (!strcmp(text, words[i])) return i;
  return -1;
}

static wafer_status parse_word(train_arguments *a, int option, const char *text) {
  static const char *const modes[] = {"train", "eval", "train_and_eval", NULL};
  static const char *const recomputes[] = {"auto", "none", "all", NULL};
  static const char *const executions[] = {"auto", "pipelined", "streaming", NULL};
  int found = word(text, option == MODE ? modes : option == RECOMPUTE ? recomputes : executions);
  if (option == MODE) {
    a->mode = (train_mode)found;
    return found < 0 ? wants("--mode", "train, eval or train_and_eval", text) : WAFER_OK;
  }
  if (option == RECOMPUTE) {
    a->loss.recompute = (wafer_recompute)found;
    return found < 0 ? wants("--recompute", "auto, none or all", text) : WAFER_OK;
  }
  a->compile.mode = found == 1   ? WAFER_MODE_pipelined
                    : found == 2 ? WAFER_MODE_streaming
                                 : WAFER_MODE_auto;
  return found < 0 ? wants("--execution", "auto, streaming or pipelined", text) : WAFER_OK;
}

static wafer_status parse_placer(train_arguments *a, const char *text) {
  a->compile.placer = strcmp(text, "best") ? WAFER_PLACER_shelf : WAFER_PLACER_best;
  bool known = a->compile.placer == WAFER_PLACER_best || !strcmp(text, "shelf");
  return known ? WAFER_OK : wants("--placer", "shelf or best", text);
}

static wafer_status parse_replicas(train_arguments *a, const char *text) {
  uint64_t most = 0;
  if (strcmp(text, "auto")) WAFER_TRY(parse_u64("--replicas", text, 1, UINT32_MAX, &most));
  a->compile.replicas = (uint32_t)most;
  return WAFER_OK;
}

static wafer_status parse_dtype(train_arguments *a, const char *text) {
  a->compile.storage = wafer_dtype_by_name(text);
  if (a->compile.storage == WAFER_DTYPE_f32 || a->compile.storage == WAFER_DTYPE_f16)
    return WAFER_OK;
  return wants("--dtype", "f32 or f16", text);
}

static wafer_status parse_scale(train_arguments *a, const char *text) {
  a->scale_set = true;
  a->train.loss_scale = (wafer_loss_scale){.scale = 65536, .patience = 2000};
  if (!strcmp(text, "dynamic")) return a->train.loss_scale.dynamic = true, WAFER_OK;
  WAFER_TRY(parse_f64("--loss-scale", text, &a->train.loss_scale.scale));
  return a->train.loss_scale.scale > 0 ? WAFER_OK
                                       : wants("--loss-scale", "more than 0, or dynamic", text);
}

static wafer_status parse_schedule(train_arguments *a, const char *text) {
  a->train.schedule.kind = wafer_schedule_by_name(text);
  return a->train.schedule.kind == WAFER_SCHEDULE_COUNT
             ? wants("--lr-schedule", "constant, linear, cosine or step", text)
             : WAFER_OK;
}

/* ---- rows by kind of value ---- */

static const char **text_of(train_arguments *a, int option) {
  switch (option) {
  case DATA: return &a->data;
  case EVAL_DATA: return &a->eval_data;
  case STORE: return &a->store;
  case MACHINE: return &a->machine;
  case CHECKPOINT: return &a->train.checkpoint;
  case METRICS: return &a->metrics;
  case PLOT: return &a->plot;
  case MODEL: return &a->model;
  default: return NULL;
  }
}

static bool *flag_of(train_arguments *a, int option) {
  switch (option) {
  case 'q': return &a->quiet;
  case LM: return &a->lm;
  case NO_SHUFFLE: return &a->no_shuffle;
  case RESUME: return &a->train.resume;
  case COMPILE_ONLY: return &a->compile_only;
  case VALIDATE_ONLY: return &a->validate_only;
  default: return NULL;
  }
}

/* Numbers of the optimizer are kept until it is known which one it is. */
typedef struct optimizer_numbers {
  const char *text[DECAY - LR + 1];
} optimizer_numbers;

static const struct count_row {
  int option;
  const char *name;
  uint64_t least, most;
} counts[] = {
    {EVAL_EVERY, "--eval-every", 0, UINT32_MAX},
    {WARMUP, "--warmup", 0, UINT32_MAX},
    {LR_EVERY, "--lr-every", 1, UINT32_MAX},
    {STEPS, "--steps", 1, UINT32_MAX},
    {EPOCHS, "--epochs", 1, UINT32_MAX},
    {BATCH, "--batch", 1, 1 << 24},
    {MICRO, "--micro-batch", 1, 1 << 20},
    {SYSTEMS, "--systems", 1, 4096},
    {SERVERS, "--weight-servers", 1, 4096},
    {SEED, "--seed", 0, UINT64_MAX},
    {THREADS, "--threads", 1, 1024},
    {EVERY, "--checkpoint-every", 1, UINT32_MAX},
    {KEEP, "--keep", 0, UINT32_MAX},
    {PROCESSES, "--processes", 1, 4096},
    {RESTARTS, "--restarts", 0, 1 << 20},
};

static uint64_t *count_of(train_arguments *a, int option) {
  uint64_t *const at[] = {&a->train.eval_every,
                          &a->train.schedule.warmup,
                          &a->train.schedule.every,
                          &a->train.steps,
                          &a->epochs,
                          &a->train.batch,
                          &a->micro_batch,
                          &a->systems,
                          &a->servers,
                          &a->train.seed,
                          &a->threads,
                          &a->train.checkpoint_every,
                          &a->train.keep,
                          &a->processes,
                          &a->restarts};
  for (size_t i = 0; i < WAFER_COUNT(counts); i++)
    if (counts[i].option == option) return at[i];
  return NULL;
}

static wafer_status parse_count(int option, const char *text, uint64_t *to) {
  for (size_t i = 0; i < WAFER_COUNT(counts); i++)
    if (counts[i].option == option)
      return parse_u64(counts[i].name, text, counts[i].least, counts[i].most, to);
  return WAFER_INTERNAL;
}

static wafer_status parse_special(train_arguments *a, wafer_arena *arena, int option,
                                  const char *text) {
  switch (option) {
  case LOSS: return parse_loss(a, arena, text);
  case IGNORE: return parse_ignore(a, text);
  case FREEZE: return a->frozen[a->loss.frozen_count++] = text, WAFER_OK;
  case SPARSITY: return sparsity_parse("train", text, &a->compile.sparsity);
  case MASK: return sparsity_add_mask("train", arena, text, &a->masks);
  case DTYPE: return parse_dtype(a, text);
  case DIM: return parse_dim(a, arena, text);
  case SHAPE: return parse_shape(a, arena, text);
  case SCHEDULE: return parse_schedule(a, text);
  case LR_END: return parse_f64("--lr-end", text, &a->train.schedule.end);
  case LR_GAMMA: return parse_f64("--lr-gamma", text, &a->train.schedule.gamma);
  case CLIP: return parse_f64("--clip-norm", text, &a->train.clip_norm);
  case SCALE: return parse_scale(a, text);
  case PLACER: return parse_placer(a, text);
  case REPLICAS: return parse_replicas(a, text);
  case MODE:
  case RECOMPUTE:
  case EXECUTION: return parse_word(a, option, text);
  default: return (wafer_status)cli_usage("train", "that option is unknown or lacks its value");
  }
}

static wafer_status parse_option(train_arguments *a, wafer_arena *arena, int option,
                                 const char *text) {
  if (flag_of(a, option)) return *flag_of(a, option) = true, WAFER_OK;
  if (text_of(a, option)) return *text_of(a, option) = text, WAFER_OK;
  if (count_of(a, option)) return parse_count(option, text, count_of(a, option));
  return parse_special(a, arena, option, text);
}

/* ---- the optimizer, when everything is known ---- */

static wafer_status settle_optimizer(train_arguments *a, const char *name,
                                     const optimizer_numbers *numbers) {
  static const char *const names[] = {"--lr",    "--momentum", "--beta1",
                                      "--beta2", "--eps",      "--weight-decay"};
  wafer_optimizer_kind kind = wafer_optimizer_by_name(name);
  if (kind == WAFER_OPTIMIZER_COUNT)
    return wants("--optimizer",
                 "sgd, momentum, nesterov, adam, adamw, adagrad, rmsprop, lion or adafactor", name);
  wafer_optimizer *o = &a->train.optimizer;
  *o = wafer_optimizer_default(kind);
  double *const at[] = {&o->lr, &o->momentum, &o->beta1, &o->beta2, &o->eps, &o->weight_decay};
  for (size_t i = 0; i < WAFER_COUNT(names); i++)
    if (numbers->text[i]) WAFER_TRY(parse_f64(names[i], numbers->text[i], at[i]));
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

static wafer_status check(train_arguments *a, int mode_given) {
  if (!a->model) return (wafer_status)cli_usage("train", "one MODEL.onnx is wanted");
  if (!a->train.loss) return (wafer_status)cli_usage("train", "--loss is missing");
  if (!mode_given && a->eval_data) a->mode = TRAIN_AND_EVALUATE;
  bool runs = !a->compile_only && !a->validate_only;
  if (runs && a->mode != EVALUATE && !a->data)
    return (wafer_status)cli_usage("train", "--data is missing");
  if (a->mode != TRAIN && !a->eval_data)
    return (wafer_status)cli_usage("train", "--eval-data is missing, which --mode asks for");
  bool steps = a->train.steps != 0, epochs = a->epochs != 0;
  if (a->mode != EVALUATE && steps == epochs && runs)
    return (wafer_status)cli_usage("train", "one of --steps and --epochs is wanted");
  if (a->train.resume && !a->train.checkpoint)
    return (wafer_status)cli_usage("train", "--resume goes with --checkpoint DIR");
  if (a->restarts && !a->train.checkpoint)
    return (wafer_status)cli_usage("train", "--restarts goes with --checkpoint DIR");
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
  *a = (train_arguments){.machine = "wse2", .systems = 1, .servers = 1};
  a->compile.programs = WAFER_PROGRAMS_never;
  a->train.diag = cli_diag();
  a->train.batch = 32;
  a->train.keep = 3;
  a->train.schedule.gamma = 0.1;
  a->train.loss_scale = (wafer_loss_scale){.scale = 1, .patience = 2000};
  a->dims = WAFER_NEW(arena, wafer_dim_binding, (size_t)argc);
  a->shapes = WAFER_NEW(arena, wafer_shape_binding, (size_t)argc);
  a->frozen = WAFER_NEW(arena, const char *, (size_t)argc);
  a->compile.dims = a->dims;
  a->compile.shapes = a->shapes;
  a->loss.frozen = a->frozen;
  return a->dims && a->shapes && a->frozen ? WAFER_OK : cli_no_memory();
}

wafer_status train_parse(int argc, char **argv, wafer_arena *arena, train_arguments *a,
                         bool *help) {
  optimizer_numbers numbers = {{NULL}};
  const char *optimizer = "sgd";
  bool mode_given = false;
  WAFER_TRY(defaults(a, arena, argc));
  opterr = 0;
  optind = 0; /* argv is not that of main where -p was given */
  for (int c; (c = getopt_long(argc, argv, "qh", long_options, NULL)) != -1;) {
    if (c == 'h') return *help = true, WAFER_OK;
    mode_given |= c == MODE;
    if (c == OPTIMIZER_)
      optimizer = optarg;
    else if (c >= LR && c <= DECAY)
      numbers.text[c - LR] = optarg;
    else
      WAFER_TRY(parse_option(a, arena, c, optarg));
  }
  if (optind + 1 < argc)
    return (wafer_status)cli_usage("train", "one MODEL.onnx is wanted, got %d", argc - optind);
  if (optind < argc) a->model = argv[optind];
  WAFER_TRY(settle_optimizer(a, optimizer, &numbers));
  return check(a, mode_given);
}
