/* wafer place: kernels of a contest file onto its wafer. */
#include "place/place.h"

#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define BOUND_SHARE 0.03 /* of the seconds, for a bound that counts adapters */

static const char usage[] =
    "usage: wafer place --ispd BENCH.kgraph -o SOL.paint [options]\n\n"
    "Chooses a shape and a place for every kernel of an ISPD 2020 contest file, and prints the\n"
    "score, how far from the best it can be at most, and where the wafer is wasted.\n\n"
    "  --ispd FILE        the kernel graph\n"
    "  -o FILE            the solution\n"
    "  --place-seconds S  stop after so long (60; with --place-moves: no limit)\n"
    "  --place-moves N    so many moves: the same result on every machine\n"
    "  --seed N           another seed, another placement (1)\n"
    "  --adapters a0|a1   count edges that disagree, or components that do (a1)\n"
    "  --svg FILE         a picture\n"
    "  --threads N        host threads (all); does not change the result of --place-moves\n"
    "  -q                 no progress\n\n"
    "example: wafer place --ispd chain.kgraph -o chain.paint --place-moves 20000 --svg chain.svg\n";

static bool parse_options(contest_job *j, int argc, char **argv, int *code) {
  enum { ISPD = 256, SECONDS, MOVES, SEED, ADAPTERS, SVG, THREADS };
  static const struct option options[] = {{"ispd", required_argument, NULL, ISPD},
                                          {"output", required_argument, NULL, 'o'},
                                          {"place-seconds", required_argument, NULL, SECONDS},
                                          {"place-moves", required_argument, NULL, MOVES},
                                          {"seed", required_argument, NULL, SEED},
                                          {"adapters", required_argument, NULL, ADAPTERS},
                                          {"svg", required_argument, NULL, SVG},
                                          {"threads", required_argument, NULL, THREADS},
                                          {"quiet", no_argument, NULL, 'q'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
  uint64_t threads = 0;
  uint32_t adapters;
  double seconds = -1;
  bool ok = true;
  *code = WAFER_USAGE;
  for (int c; ok && (c = cli_option("place", argc, argv, "o:qh", options)) != -1;) switch (c) {
    case ISPD: j->in = optarg; break;
    case 'o': j->out = optarg; break;
    case SVG: j->svg = optarg; break;
    case 'q': cli_quiet(); break;
    case SECONDS: ok = cli_parse_f64("place", "--place-seconds", optarg, &seconds); break;
    case MOVES:
      ok = cli_parse_u64("place", "--place-moves", optarg, 1, UINT64_MAX / 4, &j->options.moves);
      break;
    case SEED:
      ok = cli_parse_u64("place", "--seed", optarg, 0, UINT64_MAX, &j->options.seed);
      break;
    case THREADS: ok = cli_parse_u64("place", "--threads", optarg, 1, 1024, &threads); break;
    case ADAPTERS:
      ok = cli_parse_choice("place", "--adapters", optarg, "a0 a1", &adapters);
      j->components = adapters;
      break;
    case 'h': fputs(usage, stdout), *code = WAFER_OK; return false;
    default: return false;
    }
  if (ok && optind < argc) ok = false, cli_usage("place", "what is '%s'?", argv[optind]);
  if (ok && (!j->in || !j->out)) ok = false, cli_usage("place", "--ispd FILE and -o FILE, please");
  j->options.threads = (uint32_t)threads;
  j->options.seconds = seconds >= 0 ? fmax(seconds, 0.01) : j->options.moves ? 0 : 60;
  return ok;
}

static bool same_signature(const contest_kernel *a, const contest_kernel *b) {
  return a->type == b->type && a->H == b->H && a->W == b->W && a->F == b->F && a->R == b->R &&
         a->S == b->S && a->C == b->C && a->K == b->K && a->T == b->T;
}

/* A kind per signature. */
static wafer_status make_kinds(contest_job *j, wafer_arena *arena) {
  const contest *c = &j->contest;
  wafer_placer_shapes *kinds = WAFER_NEW(arena, wafer_placer_shapes, c->count);
  uint32_t *kind = WAFER_NEW(arena, uint32_t, c->count), n = 0;
  uint32_t *first = WAFER_NEW(arena, uint32_t, c->count);
  if (!kinds || !kind || !first) return cli_no_memory();
  for (uint32_t i = 0; i < c->count; i++) {
    uint32_t k = 0;
    while (k < n && !same_signature(&c->kernels[first[k]], &c->kernels[i])) k++;
    kind[i] = k;
    if (k < n) continue;
    first[n] = i;
    WAFER_TRY(contest_shapes(cli_diag(), arena, c, &c->kernels[i], j->unit, &kinds[n++]));
  }
  j->problem.kinds = kinds;
  j->problem.kind = kind;
  j->problem.kind_count = n;
  return WAFER_OK;
}

/* What a shape's split takes and gives. */
static wafer_placer_ports ports_of(const contest_job *j, const contest_kernel *k,
                                   const wafer_placer_shape *shape) {
  contest_split s = contest_split_of(&j->contest, k, j->unit, shape);
  return (wafer_placer_ports){{s.h, s.w, s.c[0]}, {s.h, s.w, s.k[contest_last_conv(k)]}};
}

static wafer_status make_ports(contest_job *j, wafer_arena *arena) {
  const contest *c = &j->contest;
  wafer_placer_ports **ports = WAFER_NEW(arena, wafer_placer_ports *, j->problem.kind_count);
  if (!ports) return cli_no_memory();
  for (uint32_t i = 0; i < c->count; i++) {
    const wafer_placer_shapes *shapes = &j->problem.kinds[j->problem.kind[i]];
    wafer_placer_ports **to = &ports[j->problem.kind[i]];
    if (*to) continue;
    if (!(*to = WAFER_NEW(arena, wafer_placer_ports, shapes->count))) return cli_no_memory();
    for (uint32_t s = 0; s < shapes->count; s++)
      (*to)[s] = ports_of(j, &c->kernels[i], &shapes->at[s]);
  }
  j->problem.ports = (const wafer_placer_ports *const *)ports;
  j->problem.adapter_weight = (double)c->wadapter;
  j->problem.count_components = j->components;
  return WAFER_OK;
}

static wafer_status make_problem(contest_job *j, wafer_arena *arena) {
  const contest *c = &j->contest;
  WAFER_TRY(contest_unit(cli_diag(), c, &j->unit));
  WAFER_TRY(make_kinds(j, arena));
  j->problem.file = c->path;
  j->problem.width = c->width;
  j->problem.height = c->height;
  j->problem.count = c->count;
  j->problem.edges = c->edges;
  j->problem.edge_count = c->edge_count;
  j->problem.time_weight = (double)c->wdeltat / (double)j->unit;
  j->problem.wire_weight = (double)c->wlength;
  j->problem.turns = true;
  return c->wadapter ? make_ports(j, arena) : WAFER_OK;
}

static void print_waste(const contest_job *j) {
  const contest *c = &j->contest;
  const wafer_placement *p = &j->placement;
  double all = (double)c->width * c->height;
  uint64_t slow = 0;
  for (uint32_t i = 0; i < c->count; i++) {
    if (contest_time(c, &c->kernels[i], j->unit, &j->splits[i]) == p->time) slow++;
  }
  printf("cores     %.2f %% covered by kernels, %.2f %% between them; %llu of %u kernels are as "
         "slow as the slowest\n",
         100 * (double)p->area / all, 100 - 100 * (double)p->area / all, (unsigned long long)slow,
         c->count);
}

static void print_result(const contest_job *j) {
  const contest *c = &j->contest;
  const wafer_placement *p = &j->placement;
  uint32_t any = 0, components = 0;
  for (uint32_t e = 0; e < c->edge_count; e++) {
    uint32_t n = contest_mismatches(c, j->splits, e);
    any += n > 0;
    components += n;
  }
  double unit = (double)j->unit, adapters = (double)c->wadapter;
  double score = p->score + adapters * (j->components ? components : any);
  printf("benchmark %s: %u kernels, %u edges, %u x %u cores, weights %llu/%llu/%llu\n", c->test,
         c->count, c->edge_count, c->width, c->height, (unsigned long long)c->wdeltat,
         (unsigned long long)c->wlength, (unsigned long long)c->wadapter);
  printf("time      %.10g (bound %.10g)\n", (double)p->time / unit, (double)p->time_bound / unit);
  printf("wire      %.10g\n", 0.5 * (double)p->wire2);
  printf("adapters  a0 %u, a1 %u; %s is counted\n", any, components, j->components ? "a1" : "a0");
  double gap = score > p->score_bound ? 100 * (score / p->score_bound - 1) : 0;
  printf("score     %.10g (bound %.10g, gap %.2f %%)\n", score, p->score_bound, gap);
  print_waste(j);
  printf("search    %llu moves, first legal answer after %.2f s\n", (unsigned long long)p->moves,
         p->first_seconds);
}

/* The engine's bound knows no adapters; where they cost something, one that does is looked for. */
static wafer_status find_bound(contest_job *j, wafer_arena *arena, double until) {
  wafer_placement *p = &j->placement;
  uint32_t adapters = contest_adapters(&j->contest, j->splits, j->components);
  double bound = p->score + (double)j->contest.wadapter * adapters;
  if (!j->contest.wadapter) return WAFER_OK;
  WAFER_TRY(contest_bound(cli_diag(), arena, j, until, &bound));
  p->score_bound = fmax(p->score_bound, bound);
  return WAFER_OK;
}

static wafer_status place(contest_job *j, wafer_arena *arena) {
  const char *const files[] = {j->out, j->svg, j->in};
  WAFER_TRY(cli_check_apart("place", files, 2, WAFER_COUNT(files)));
  WAFER_TRY(cli_check_output(j->out));
  WAFER_TRY(cli_check_output(j->svg));
  WAFER_TRY(contest_read(cli_diag(), arena, j->in, &j->contest));
  WAFER_TRY(make_problem(j, arena));
  double end = j->options.seconds > 0 ? j->started + j->options.seconds : 0;
  if (j->contest.wadapter) j->options.seconds *= 1 - BOUND_SHARE;
  WAFER_TRY(contest_search(cli_diag(), arena, j));
  cli_progress_done();
  WAFER_TRY(find_bound(j, arena, end));
  WAFER_TRY(contest_write(cli_diag(), j->out, &j->contest, j->splits, j->placement.at));
  if (j->svg) WAFER_TRY(contest_svg(cli_diag(), j->svg, &j->contest, j->placement.at));
  print_result(j);
  return WAFER_OK;
}

int wafer_tool_place(int argc, char **argv) {
  contest_job j = {.components = true, .options = {.seed = 1}, .started = cli_seconds()};
  int code;
  if (!parse_options(&j, argc, argv, &code)) return code;
  wafer_arena *arena = wafer_arena_create();
  if (!arena) return cli_no_memory();
  wafer_status status = place(&j, arena);
  wafer_arena_destroy(arena);
  return status;
}
