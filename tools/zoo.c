/* wafer zoo: architectures as ONNX files. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "wafer/zoo.h"

typedef unsigned long long ull;

static const char usage_head[] =
    "usage: wafer zoo NAME -o MODEL.onnx [options]       one of the models below\n"
    "       wafer zoo gpt|bert --layers N --d-model N --heads N -o MODEL.onnx [options]\n"
    "       wafer zoo mlp --widths 64,128,10 -o MODEL.onnx [options]\n"
    "       wafer zoo cnn --widths 1,16,32,10 --side 8 -o MODEL.onnx [options]\n"
    "       wafer zoo --list\n\n";
static const char usage_tail[] =
    "\noptions:\n"
    "  -o, --output FILE     the ONNX file\n"
    "      --layers N        of gpt and bert\n"
    "      --d-model N       width of the residual\n"
    "      --heads N         of attention\n"
    "      --d-ff N          width of the MLP (4 d-model)\n"
    "      --vocab N         tokens (50257; of bert 30522)\n"
    "      --sequence N      tokens of a sample (a named model's own, else 1024; of bert 512)\n"
    "      --positions N     rows of the table of learned positions (the sequence)\n"
    "      --position P      learned, rotary or none (learned)\n"
    "      --rotary-dims N   dims of a head that are turned (all)\n"
    "      --norm N          layer or rms (layer); of cnn: batch, in training mode (none)\n"
    "      --activation A    gelu (by erf), gelu_tanh, swiglu or relu (gelu_tanh; of bert gelu)\n"
    "      --bias B          all, mlp or none: which products have biases (all; with rms none)\n"
    "      --untied          logits by a table of their own\n"
    "      --parallel        attention and MLP side by side\n"
    "      --parts N         matrices in so many parts, each streamed alone (1)\n"
    "      --masked-head     of bert: logits of every token in place of the pooler\n"
    "      --widths W,W,...  of mlp: input, layers, classes; of cnn: channels of the image, of\n"
    "                        each 3x3 convolution, classes; the image is halved after each second\n"
    "      --side N          of cnn: of the square image (8)\n"
    "      --batch N         a fixed batch; otherwise the leading dim is named `batch`\n"
    "      --weights absent  the file says how large weights are and has none (gpt, bert)\n"
    "      --init SEED       fresh weights, drawn from SEED (mlp and cnn: 0)\n"
    "      --list            the models with their numbers of parameters\n"
    "  -q, --quiet           nothing but errors\n"
    "  -h, --help\n\n"
    "examples:\n"
    "  wafer zoo gpt3-175b -o gpt3.onnx\n"
    "  wafer zoo gpt --layers 2 --d-model 128 --heads 4 --vocab 256 --sequence 64 --init 1 -o "
    "small.onnx\n"
    "  wafer zoo mlp --widths 64,128,10 -o mlp.onnx\n";

typedef struct arguments {
  const char *name, *output;
  wafer_zoo_model model;
  wafer_zoo_options options;
  bool weights_set, bias_set, rotary_set, positions_set, list, quiet;
  uint32_t flags_on, flags_off;
} arguments;

enum {
  LAYERS = 256,
  D_MODEL,
  HEADS,
  D_FF,
  VOCAB,
  SEQUENCE,
  POSITIONS,
  POSITION,
  ROTARY,
  NORM,
  ACTIVATION,
  BIAS,
  UNTIED,
  PARALLEL,
  PARTS,
  MASKED,
  WIDTHS,
  SIDE,
  BATCH,
  WEIGHTS,
  INIT,
  LIST
};

static const char *const kind_names[] = {"gpt", "bert", "mlp", "cnn"};

static const struct option long_options[] = {{"output", required_argument, NULL, 'o'},
                                             {"layers", required_argument, NULL, LAYERS},
                                             {"d-model", required_argument, NULL, D_MODEL},
                                             {"heads", required_argument, NULL, HEADS},
                                             {"d-ff", required_argument, NULL, D_FF},
                                             {"vocab", required_argument, NULL, VOCAB},
                                             {"sequence", required_argument, NULL, SEQUENCE},
                                             {"positions", required_argument, NULL, POSITIONS},
                                             {"position", required_argument, NULL, POSITION},
                                             {"rotary-dims", required_argument, NULL, ROTARY},
                                             {"norm", required_argument, NULL, NORM},
                                             {"activation", required_argument, NULL, ACTIVATION},
                                             {"bias", required_argument, NULL, BIAS},
                                             {"untied", no_argument, NULL, UNTIED},
                                             {"parallel", no_argument, NULL, PARALLEL},
                                             {"parts", required_argument, NULL, PARTS},
                                             {"masked-head", no_argument, NULL, MASKED},
                                             {"widths", required_argument, NULL, WIDTHS},
                                             {"side", required_argument, NULL, SIDE},
                                             {"batch", required_argument, NULL, BATCH},
                                             {"weights", required_argument, NULL, WEIGHTS},
                                             {"init", required_argument, NULL, INIT},
                                             {"list", no_argument, NULL, LIST},
                                             {"quiet", no_argument, NULL, 'q'},
                                             {"help", no_argument, NULL, 'h'},
                                             {0}};

/* ---- The table ---- */

static void list(void) {
  wafer_zoo_model m;
  printf("%-13s %6s %8s %6s %8s %7s %9s %19s  %s\n", "name", "layers", "d-model", "heads", "d-ff",
         "vocab", "sequence", "parameters", "");
  for (size_t i = 0; wafer_zoo_at(i, &m); i++)
    printf("%-13s %6lld %8lld %6lld %8lld %7lld %9lld %19llu  %s\n", m.name, (long long)m.layers,
           (long long)m.d_model, (long long)m.heads, (long long)m.d_ff, (long long)m.vocabulary,
           (long long)m.sequence, (ull)wafer_zoo_parameters(&m), m.summary);
}

static void help(void) {
  fputs(usage_head, stdout);
  list();
  fputs(usage_tail, stdout);
}

/* ---- Option values ---- */

static bool parse_size(const char *option, const char *text, int64_t most, int64_t *out) {
  uint64_t value;
  if (!cli_parse_u64("zoo", option, text, 1, (uint64_t)most, &value)) return false;
  *out = (int64_t)value;
  return true;
}

static bool parse_word(const char *option, const char *text, size_t count, const char *const *names,
                       uint32_t *out) {
  for (*out = 0; *out < count; ++*out)
    if (!strcmp(names[*out], text)) return true;
  return cli_usage("zoo", "%s does not know '%s'", option, text), false;
}

static bool parse_kind(arguments *a, int option, const char *text) {
#define X(name) #name,
  static const char *const positions[] = {WAFER_ZOO_POSITION_MAP(X)};
  static const char *const norms[] = {WAFER_ZOO_NORM_MAP(X)};
  static const char *const activations[] = {WAFER_ZOO_ACTIVATION_MAP(X)};
#undef X
  uint32_t found;
  if (option == POSITION) {
    if (!parse_word("--position", text, WAFER_COUNT(positions), positions, &found)) return false;
    a->model.position = (wafer_zoo_position)found;
  } else if (option == NORM) {
    if (!parse_word("--norm", text, WAFER_COUNT(norms), norms, &found)) return false;
    a->model.norm = (wafer_zoo_norm)found;
  } else {
    if (!parse_word("--activation", text, WAFER_COUNT(activations), activations, &found))
      return false;
    a->model.activation = (wafer_zoo_activation)found;
  }
  return true;
}

static bool parse_bias(arguments *a, const char *text) {
  static const char *const names[] = {"all", "mlp", "none"};
  static const uint32_t flags[] = {WAFER_ZOO_ATTENTION_BIAS | WAFER_ZOO_MLP_BIAS,
                                   WAFER_ZOO_MLP_BIAS, 0};
  uint32_t found;
  if (!parse_word("--bias", text, WAFER_COUNT(names), names, &found)) return false;
  a->bias_set = true;
  a->flags_off |= WAFER_ZOO_ATTENTION_BIAS | WAFER_ZOO_MLP_BIAS | WAFER_ZOO_HEAD_BIAS;
  a->flags_on |= flags[found];
  return true;
}

static bool parse_widths(arguments *a, const char *text) {
  a->model.width_count = 0;
  for (const char *at = text;;) {
    char *end;
    long long width = strtoll(at, &end, 10);
    bool good = end != at && width > 0 && width < INT32_MAX && (*end == ',' || !*end);
    if (!good || a->model.width_count == WAFER_ZOO_MOST_WIDTHS)
      return cli_usage("zoo", "--widths is '%s'; it is up to %d numbers, as in 64,128,10", text,
                       WAFER_ZOO_MOST_WIDTHS),
             false;
    a->model.widths[a->model.width_count++] = width;
    if (!*end) return true;
    at = end + 1;
  }
}

static bool parse_weights(arguments *a, int option, const char *text) {
  if (a->weights_set && a->options.init != (option == INIT))
    return cli_usage("zoo", "--weights absent and --init contradict each other"), false;
  a->weights_set = true;
  a->options.init = option == INIT;
  if (option == INIT) return cli_parse_u64("zoo", "--init", text, 0, UINT64_MAX, &a->options.seed);
  if (!strcmp(text, "absent")) return true;
  return cli_usage("zoo", "--weights wants absent, got '%s'; --init SEED draws them", text), false;
}

/* Kinds of models that have what an option says. */
static uint32_t kinds_of(int option) {
  const uint32_t gpt = 1u << WAFER_ZOO_gpt, bert = 1u << WAFER_ZOO_bert, mlp = 1u << WAFER_ZOO_mlp,
                 cnn = 1u << WAFER_ZOO_cnn;
  switch (option) {
  case PARALLEL: return gpt;
  case MASKED: return bert;
  case NORM: return gpt | bert | cnn;
  case WIDTHS: return mlp | cnn;
  case SIDE: return cnn;
  default: return (option >= LAYERS && option <= PARTS) || option == WEIGHTS ? gpt | bert : ~0u;
  }
}

static bool check_kind(const arguments *a, int option) {
  uint32_t kinds = kinds_of(option);
  if (kinds >> a->model.kind & 1) return true;
  char names[32] = "";
  for (uint32_t k = 0; k < WAFER_COUNT(kind_names); k++)
    if (kinds >> k & 1)
      snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", *names ? ", " : "",
               kind_names[k]);
  const struct option *row = long_options;
  while (row->val != option) row++;
  return cli_usage("zoo", "--%s changes nothing of %s: it is of %s", row->name, a->name, names),
         false;
}

static bool take(arguments *a, int option, const char *text) {
  wafer_zoo_model *m = &a->model;
  if (!check_kind(a, option)) return false;
  switch (option) {
  case 'o': return a->output = text, true;
  case 'q': return a->quiet = true;
  case LAYERS: return parse_size("--layers", text, 1 << 20, &m->layers);
  case D_MODEL: return parse_size("--d-model", text, 1 << 24, &m->d_model);
  case HEADS: return parse_size("--heads", text, 1 << 20, &m->heads);
  case D_FF: return parse_size("--d-ff", text, 1 << 26, &m->d_ff);
  case VOCAB: return parse_size("--vocab", text, 1 << 26, &m->vocabulary);
  case SEQUENCE: return parse_size("--sequence", text, 1 << 20, &m->sequence);
  case POSITIONS:
    a->positions_set = true;
    return parse_size("--positions", text, 1 << 20, &m->positions);
  case ROTARY: a->rotary_set = true; return parse_size("--rotary-dims", text, 1 << 20, &m->rotary);
  case POSITION:
  case NORM:
  case ACTIVATION: return parse_kind(a, option, text);
  case BIAS: return parse_bias(a, text);
  case UNTIED: return a->flags_off |= WAFER_ZOO_TIED, true;
  case PARALLEL: return a->flags_on |= WAFER_ZOO_PARALLEL, true;
  case MASKED:
    return a->flags_on |= WAFER_ZOO_MASKED_HEAD | WAFER_ZOO_TIED | WAFER_ZOO_HEAD_BIAS, true;
  case PARTS: return parse_size("--parts", text, 1 << 16, &m->parts);
  case WIDTHS: return parse_widths(a, text);
  case SIDE: return parse_size("--side", text, 1 << 14, &m->side);
  case BATCH: return parse_size("--batch", text, 1 << 20, &m->batch);
  case WEIGHTS:
  case INIT: return parse_weights(a, option, text);
  case LIST: return a->list = true;
  default: return false;
  }
}

/* ---- The model ---- */

/* The name decides what the options change, so it is looked for first. */
static bool find_model(arguments *a) {
  uint32_t all = WAFER_ZOO_TIED | WAFER_ZOO_ATTENTION_BIAS | WAFER_ZOO_MLP_BIAS;
  if (wafer_zoo_find(a->name, &a->model)) return true;
  for (uint32_t k = 0; k < WAFER_COUNT(kind_names); k++) {
    if (strcmp(kind_names[k], a->name)) continue;
    bool bert = k == WAFER_ZOO_bert;
    a->model = (wafer_zoo_model){.name = kind_names[k],
                                 .kind = (wafer_zoo_kind)k,
                                 .vocabulary = bert ? 30522 : 50257,
                                 .sequence = bert ? 512 : 1024,
                                 .parts = 1,
                                 .side = 8,
                                 .activation = bert ? WAFER_ZOO_gelu : WAFER_ZOO_gelu_tanh,
                                 .flags = bert ? all & ~(uint32_t)WAFER_ZOO_TIED : all};
    a->options.init = k == WAFER_ZOO_mlp || k == WAFER_ZOO_cnn;
    return true;
  }
  return cli_usage("zoo", "there is no model '%s'; `wafer zoo --list` has them", a->name), false;
}

static void complete(arguments *a) {
  wafer_zoo_model *m = &a->model;
  if (m->norm == WAFER_ZOO_rms && !a->bias_set && !m->summary)
    a->flags_off |= WAFER_ZOO_ATTENTION_BIAS | WAFER_ZOO_MLP_BIAS;
  if (a->flags_off & WAFER_ZOO_TIED) a->flags_on &= ~(uint32_t)WAFER_ZOO_TIED;
  m->flags = (m->flags & ~a->flags_off) | a->flags_on;
  if (!m->d_ff) m->d_ff = 4 * m->d_model;
  if (m->position == WAFER_ZOO_rotary && !m->rotary && m->heads) m->rotary = m->d_model / m->heads;
  if (m->position == WAFER_ZOO_learned && m->positions < m->sequence) m->positions = m->sequence;
}

/* Options that say something of what another one leaves out. */
static bool check_company(const arguments *a) {
  const wafer_zoo_model *m = &a->model;
  bool untied = a->flags_off & WAFER_ZOO_TIED, headless = !(m->flags & WAFER_ZOO_MASKED_HEAD);
  if (a->rotary_set && m->position != WAFER_ZOO_rotary)
    return cli_usage("zoo", "--rotary-dims goes with --position rotary"), false;
  if (a->positions_set && m->position != WAFER_ZOO_learned)
    return cli_usage("zoo", "--positions goes with --position learned"), false;
  if (untied && m->kind == WAFER_ZOO_bert && headless)
    return cli_usage("zoo", "--untied of bert goes with --masked-head"), false;
  return true;
}

static int run(arguments *a) {
  complete(a);
  if (!check_company(a)) return WAFER_USAGE;
  wafer_status status = wafer_zoo_write(cli_diag(), &a->model, &a->options, a->output);
  if (status == WAFER_OK && !a->quiet)
    printf("%s: %s, %llu parameters, %s\n", a->output, a->model.name,
           (ull)wafer_zoo_parameters(&a->model),
           a->options.init ? "drawn" : "absent: the model compiles, and does not run");
  return status;
}

int wafer_tool_zoo(int argc, char **argv) {
  arguments a = {0};
  bool wants_help = false;
  opterr = 0;
  for (int c; (c = getopt_long(argc, argv, "o:qh", long_options, NULL)) != -1;)
    wants_help |= c == 'h', a.list |= c == LIST;
  if (wants_help) return help(), WAFER_OK;
  if (a.list) return list(), WAFER_OK;
  if (optind + 1 != argc) return cli_usage("zoo", "one NAME is wanted, got %d", argc - optind);
  a.name = argv[optind];
  if (!find_model(&a)) return WAFER_USAGE;
  optind = 1;
  for (int c; (c = cli_option("zoo", argc, argv, "o:qh", long_options)) != -1;)
    if (!take(&a, c, optarg)) return WAFER_USAGE;
  if (!a.output) return cli_usage("zoo", "-o FILE is missing");
  return run(&a);
}
