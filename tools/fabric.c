/* wafer fabric: validation programs on the emulated fabric, cycle by cycle. */
#include <cjson/cJSON.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "wafer/assembly.h"
#include "wafer/fabric_case.h"

typedef unsigned long long ull;

static const char usage_head[] = "usage: wafer fabric CASE [options]\n\n"
                                 "Runs a small program on emulated cores and routers, checks what "
                                 "it computed, and prints the cycles that\n"
                                 "were counted beside those that published formulas predict. "
                                 "docs/validation.md compares.\n\ncases:\n";
static const char usage_tail[] =
    "\noptions:\n"
    "  --machine NAME|FILE   the wafer (wse2)\n"
    "  --cores WxH           cores from the corner (0,0) (1x1)\n"
    "  --words N             elements per core (256)\n"
    "  --dtype T             f32 or f16 (f32)\n"
    "  --repeat R            that many runs back to back; cycles are the mean (1)\n"
    "  --algorithm A         where a case has several\n"
    "  --group S             cores of a group of two-phase (the square root of the row)\n"
    "  --groups G            groups of a tree of gemv (the square root of the column)\n"
    "  --m M --k K --n N     of gemv: a matrix of MxN; of gemm: MxK by KxN (an element per core)\n"
    "  --density D           of gemv: the share of the vector that is not zero, and goes along "
    "the\n"
    "                        rows as sparse wavelets; the sender leaves out zeros\n"
    "  --op O                of vector: move, convert, add, sub, max, min, mul (add)\n"
    "  --conflict            of vector: both inputs in the same banks\n"
    "  --load-descriptors    of vector: descriptors are not yet in registers\n"
    "  --load L --cycles N   of random: wavelets per sender and cycle (0.1), cycles (100000)\n"
    "  --single              every wavelet by itself, no trains: as many cycles, slower\n"
    "  --threads N           of the host (all); the result does not depend on it\n"
    "  --seed N              of the inputs (0)\n"
    "  --fault F             in a second run; may be given again. drop@X,Y,CYCLE: a wavelet at a "
    "router is lost;\n"
    "                        flip@X,Y,CYCLE[,BIT]: a bit of it changes; "
    "flip@X,Y,ADDRESS,BIT,CYCLE: one of a\n"
    "                        core's memory; stuck@X,Y,CYCLE: a core stops\n"
    "  --json [FILE]         the figures as JSON: in the file, or printed in place of the lines\n"
    "  --assembly FILE       the program as text (docs/assembly.md), before it runs\n\n"
    "example: wafer fabric reduce --algorithm chain --cores 512x1 --words 4096\n";

#define MOST_FAULTS 64
#define MOST_CORES 16384 /* of a side, of any machine */
#define JSON_ON_STDOUT "-"

typedef struct arguments {
  const char *name, *machine, *json, *assembly;
  char given[64]; /* the letters of the options that were */
  wafer_case_options options;
  wafer_fault faults[MOST_FAULTS];
} arguments;

static void help(void) {
  fputs(usage_head, stdout);
  for (const wafer_case_info *info = wafer_case_list(); info->name; info++)
    printf("  %-11s %s%s%s%s\n", info->name, info->summary, *info->algorithms ? " (" : "",
           info->algorithms, *info->algorithms ? ")" : "");
  fputs(usage_tail, stdout);
}

static bool parse_u32(const char *option, const char *text, uint32_t least, uint32_t most,
                      uint32_t *out) {
  uint64_t value;
  if (!cli_parse_u64("fabric", option, text, least, most, &value)) return false;
  *out = (uint32_t)value;
  return true;
}

static bool parse_cores(const char *text, wafer_case_options *o) {
  wafer_shape s;
  if (!cli_parse_shape("fabric", "--cores", text, &s)) return false;
  bool fits = s.rank == 2 && s.dims[0] > 0 && s.dims[1] > 0 && s.dims[0] <= MOST_CORES &&
              s.dims[1] <= MOST_CORES;
  if (!fits)
    return cli_usage("fabric", "--cores wants WxH, as in 512x1, each from 1 to %d, got '%s'",
                     MOST_CORES, text),
           false;
  o->width = (uint32_t)s.dims[0];
  o->height = (uint32_t)s.dims[1];
  return true;
}

static bool parse_dtype(const char *text, wafer_case_options *o) {
  o->dtype = wafer_dtype_by_name(text);
  if (o->dtype != WAFER_DTYPE_none) return true;
  return cli_usage("fabric", "--dtype is '%s'; it is f32 or f16", text), false;
}

static bool parse_fault(const char *text, arguments *a) {
  wafer_case_options *o = &a->options;
  if (o->fault_count == MOST_FAULTS)
    return cli_usage("fabric", "--fault %s: %u faults at most", text, MOST_FAULTS), false;
  if (!wafer_fault_parse(text, &a->faults[o->fault_count]))
    return cli_usage("fabric",
                     "--fault is '%s'; it is drop@X,Y,CYCLE, stuck@X,Y,CYCLE or "
                     "flip@X,Y,CYCLE,BIT (of memory: flip@X,Y,ADDRESS,BIT,CYCLE)",
                     text),
           false;
  o->fault_count++;
  return true;
}

static bool parse_density(const char *text, wafer_case_options *o) {
  if (!cli_parse_f64("fabric", "--density", text, &o->density)) return false;
  if (o->density > 0 && o->density <= 1) return true;
  return cli_usage("fabric", "--density is '%s'; it is a share above 0, at most 1", text), false;
}

static bool parse_load(const char *text, wafer_case_options *o) {
  if (!cli_parse_f64("fabric", "--load", text, &o->load)) return false;
  if (o->load > 0 && o->load <= 1) return true;
  return cli_usage("fabric", "--load is '%s'; it is a share above 0, at most 1", text), false;
}

/* What means nothing to a case is refused rather than ignored. */
static const struct {
  char letter;
  const char *option, *cases;
} owned[] = {{'g', "--group", "reduce"},
             {'G', "--groups", "gemv"},
             {'M', "--m", "gemv gemm"},
             {'K', "--k", "gemm"},
             {'N', "--n", "gemv gemm"},
             {'d', "--density", "gemv"},
             {'o', "--op", "vector"},
             {'C', "--conflict", "vector"},
             {'D', "--load-descriptors", "vector"},
             {'l', "--load", "random"},
             {'n', "--cycles", "random"}};

static bool has_word(const char *words, const char *word) {
  size_t bytes = strlen(word);
  for (const char *at = words; *at; at += strcspn(at, " "), at += *at == ' ')
    if (strcspn(at, " ") == bytes && !strncmp(at, word, bytes)) return true;
  return false;
}

static bool settle_case(arguments *a, int count, char **names) {
  if (count != 1)
    return cli_usage("fabric", count ? "one case at a time" : "which case, please"), false;
  a->name = names[0];
  for (size_t i = 0; i < WAFER_COUNT(owned); i++)
    if (strchr(a->given, owned[i].letter) && !has_word(owned[i].cases, a->name))
      return cli_usage("fabric", "%s is no option of %s, but of %s", owned[i].option, a->name,
                       owned[i].cases),
             false;
  return true;
}

static bool take(arguments *a, int c, const char *value) {
  wafer_case_options *o = &a->options;
  switch (c) {
  case 'm': a->machine = value; return true;
  case 'c': return parse_cores(value, o);
  case 'w': return parse_u32("--words", value, 1, 1u << 24, &o->words);
  case 't': return parse_dtype(value, o);
  case 'r': return parse_u32("--repeat", value, 1, 1u << 20, &o->repeat);
  case 'a': o->algorithm = value; return true;
  case 'g': return parse_u32("--group", value, 1, 1u << 16, &o->group);
  case 'G': return parse_u32("--groups", value, 1, 1u << 16, &o->groups);
  case 'M': return parse_u32("--m", value, 1, 1u << 16, &o->m);
  case 'K': return parse_u32("--k", value, 1, 1u << 16, &o->k);
  case 'N': return parse_u32("--n", value, 1, 1u << 16, &o->n);
  case 'd': return parse_density(value, o);
  case 'o': o->op = value; return true;
  case 'C': o->conflict = true; return true;
  case 'D': o->load_descriptors = true; return true;
  case 'l': return parse_load(value, o);
  case 'n': return cli_parse_u64("fabric", "--cycles", value, 1, 1u << 30, &o->cycles);
  case 'S': o->single = true; return true;
  case 'T': return parse_u32("--threads", value, 1, 1024, &o->threads);
  case 's': return cli_parse_u64("fabric", "--seed", value, 0, UINT64_MAX, &o->seed);
  case 'f': return parse_fault(value, a);
  case 'j': a->json = value ? value : JSON_ON_STDOUT; return true;
  case 'A': a->assembly = value; return true;
  default: return false;
  }
}

static const struct option long_options[] = {{"machine", required_argument, NULL, 'm'},
                                             {"cores", required_argument, NULL, 'c'},
                                             {"words", required_argument, NULL, 'w'},
                                             {"dtype", required_argument, NULL, 't'},
                                             {"repeat", required_argument, NULL, 'r'},
                                             {"algorithm", required_argument, NULL, 'a'},
                                             {"group", required_argument, NULL, 'g'},
                                             {"groups", required_argument, NULL, 'G'},
                                             {"m", required_argument, NULL, 'M'},
                                             {"k", required_argument, NULL, 'K'},
                                             {"n", required_argument, NULL, 'N'},
                                             {"density", required_argument, NULL, 'd'},
                                             {"op", required_argument, NULL, 'o'},
                                             {"conflict", no_argument, NULL, 'C'},
                                             {"load-descriptors", no_argument, NULL, 'D'},
                                             {"load", required_argument, NULL, 'l'},
                                             {"cycles", required_argument, NULL, 'n'},
                                             {"single", no_argument, NULL, 'S'},
                                             {"threads", required_argument, NULL, 'T'},
                                             {"seed", required_argument, NULL, 's'},
                                             {"fault", required_argument, NULL, 'f'},
                                             {"json", optional_argument, NULL, 'j'},
                                             {"assembly", required_argument, NULL, 'A'},
                                             {"help", no_argument, NULL, 'h'},
                                             {0}};

static bool is_case(const char *word) {
  for (const wafer_case_info *info = wafer_case_list(); info->name; info++)
    if (!strcmp(word, info->name)) return true;
  return false;
}

/* The word behind --json is its file, but for an option and for the case. */
static const char *take_file(int argc, char **argv) {
  if (optind >= argc || argv[optind][0] == '-' || is_case(argv[optind])) return NULL;
  return argv[optind++];
}

static double hops_per_s(const wafer_case_result *r) {
  return r->seconds > 0 ? (double)r->stats.hops / r->seconds : 0;
}

static void print(const wafer_case_result *r) {
  printf("counted %llu cycles\n", (ull)r->counted);
  if (r->predicted)
    printf("predicted %llu cycles (%+.2f %%)\n", (ull)r->predicted,
           100 * ((double)r->counted - (double)r->predicted) / (double)r->predicted);
  printf("hops %llu\nhops_per_s %.4g\nelements %llu\nchecked %llu values\nwall %.6f s\n",
         (ull)r->stats.hops, hops_per_s(r), (ull)r->stats.elements, (ull)r->checked, r->seconds);
}

/* Of a run that ended well: those that did anything did no harm. */
static void print_faults(const arguments *a, const wafer_case_result *r) {
  if (a->options.fault_count)
    printf("faults %u of %u struck, harmless: every value is as it was\n", r->struck,
           a->options.fault_count);
}

static bool is_printed(const arguments *a) {
  return !a->json || strcmp(a->json, JSON_ON_STDOUT) != 0;
}

static wafer_status write_json(const arguments *a, const wafer_case_result *r) {
  cJSON *json = cJSON_CreateObject();
  cJSON_AddNumberToObject(json, "version", 1);
  cJSON_AddStringToObject(json, "case", a->name);
  cJSON_AddStringToObject(json, "machine", a->machine);
  cJSON_AddNumberToObject(json, "counted_cycles", (double)r->counted);
  if (r->predicted) cJSON_AddNumberToObject(json, "predicted_cycles", (double)r->predicted);
  cJSON_AddNumberToObject(json, "total_cycles", (double)r->stats.cycles);
  cJSON_AddNumberToObject(json, "hops", (double)r->stats.hops);
  cJSON_AddNumberToObject(json, "elements", (double)r->stats.elements);
  cJSON_AddNumberToObject(json, "core_cycles", (double)r->stats.core_cycles);
  cJSON_AddNumberToObject(json, "checked_values", (double)r->checked);
  cJSON_AddNumberToObject(json, "wall_s", r->seconds);
  cJSON_AddNumberToObject(json, "hops_per_s", hops_per_s(r));
  char *text = json ? cJSON_Print(json) : NULL;
  cJSON_Delete(json);
  if (is_printed(a)) return cli_write_json(a->json, text);
  if (!text) return cli_no_memory();
  puts(text);
  free(text);
  return WAFER_OK;
}

static wafer_status write_assembly(const arguments *a, wafer_arena *arena,
                                   const wafer_machine *machine) {
  const wafer_fabric_program *program;
  char *text;
  size_t bytes;
  WAFER_TRY(wafer_case_program(cli_diag(), arena, machine, a->name, &a->options, &program));
  WAFER_TRY(wafer_assembly_print(cli_diag(), program, &text, &bytes));
  wafer_status status = wafer_file_save(cli_diag(), a->assembly, text, bytes);
  free(text);
  return status;
}

static wafer_status run(const arguments *a) {
  wafer_arena *arena = wafer_arena_create();
  if (!arena) return cli_no_memory();
  const wafer_machine *machine;
  wafer_case_result result;
  wafer_status status = wafer_machine_open(cli_diag(), arena, a->machine, &machine);
  if (status == WAFER_OK && a->assembly) status = write_assembly(a, arena, machine);
  if (status == WAFER_OK)
    status = wafer_case_run(cli_diag(), machine, a->name, &a->options, &result);
  if (status == WAFER_OK && is_printed(a)) print(&result), print_faults(a, &result);
  if (status == WAFER_OK && a->json) status = write_json(a, &result);
  wafer_arena_destroy(arena);
  return status;
}

int wafer_tool_fabric(int argc, char **argv) {
  arguments a = {.machine = "wse2", .options = {.words = 256}};
  for (int c; (c = cli_option("fabric", argc, argv, "h", long_options)) != -1;) {
    if (c == 'h') return help(), WAFER_OK;
    const char *value = c == 'j' && !optarg ? take_file(argc, argv) : optarg;
    if (!take(&a, c, value)) return WAFER_USAGE;
    if (!strchr(a.given, c)) a.given[strlen(a.given)] = (char)c;
  }
  a.options.faults = a.faults;
  if (!settle_case(&a, argc - optind, argv + optind)) return WAFER_USAGE;
  return run(&a);
}
