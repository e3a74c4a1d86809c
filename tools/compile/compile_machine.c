/* The machine of a compilation: defects, the rate of its edge; and what defects cost. */
#include <math.h>
#include <string.h>

#include "compile.h"

static wafer_status parse_repair(const char *text, wafer_repair_policy *out) {
  uint32_t at;
  if (!cli_parse_choice("compile", "--repair", text, "avoid spares", &at)) return WAFER_USAGE;
  *out = at ? WAFER_REPAIR_spares : WAFER_REPAIR_avoid;
  return WAFER_OK;
}

/* PERCENT of "PERCENT:SEED", the colon at `colon`. */
static wafer_status parse_random(const char *text, const char *colon, wafer_arena *arena,
                                 wafer_defects *out) {
  double percent;
  char *share = wafer_arena_strndup(arena, text, (size_t)(colon - text));
  if (!share) return cli_no_memory();
  if (!cli_parse_f64("compile", "--defects", share, &percent) ||
      !cli_parse_u64("compile", "--defects", colon + 1, 0, UINT64_MAX, &out->seed))
    return WAFER_USAGE;
  if (!(percent >= 0 && percent <= 100))
    return (wafer_status)cli_usage("compile", "--defects wants 0 to 100 per cent, got '%s'", share);
  out->per_million = (uint32_t)(percent * 10000 + 0.5);
  return WAFER_OK;
}

static wafer_status parse_defects(const wafer_diag *diag, const compile_machine *asked,
                                  wafer_arena *arena, wafer_defects *out) {
  const char *text = asked->defects, *colon = strrchr(text, ':');
  *out = (wafer_defects){.policy = WAFER_REPAIR_spares};
  if (colon && colon > text && strspn(text, "0123456789.") == (size_t)(colon - text))
    WAFER_TRY(parse_random(text, colon, arena, out));
  else
    WAFER_TRY(wafer_machine_defects_open(diag, arena, text, out));
  return asked->repair ? parse_repair(asked->repair, &out->policy) : WAFER_OK;
}

static wafer_status parse_edge(const char *text, uint64_t *bytes_per_second) {
  double gbps;
  *bytes_per_second = UINT64_MAX;
  if (!strcmp(text, "inf")) return WAFER_OK;
  if (!cli_parse_f64("compile", "--edge-gbps", text, &gbps)) return WAFER_USAGE;
  if (gbps < 1e9) *bytes_per_second = (uint64_t)(gbps * 1e9 / 8);
  if (gbps < 1e9 && *bytes_per_second) return WAFER_OK;
  return (wafer_status)cli_usage(
      "compile",
      "--edge-gbps wants at least 8e-9, a byte a second, and less than 1e9, or inf, got '%s'",
      text);
}

static wafer_status set_edge(const char *text, wafer_arena *arena, const wafer_machine **machine) {
  uint64_t rate;
  WAFER_TRY(parse_edge(text, &rate));
  wafer_machine *own = wafer_arena_copy(arena, *machine, sizeof **machine);
  if (!own) return cli_no_memory();
  own->edge_in_bytes_per_second = own->edge_out_bytes_per_second = rate;
  *machine = own;
  return WAFER_OK;
}

/* A machine file may name defects too: without them it is as it was made. */
static wafer_status find_whole(const wafer_machine *machine, wafer_arena *arena,
                               const wafer_machine **whole) {
  wafer_machine *own = wafer_arena_copy(arena, machine, sizeof *machine);
  if (!own) return cli_no_memory();
  if (own->repair) {
    own->width = own->repair->width;
    own->height = own->repair->height;
    own->usable = own->repair->usable;
    own->hop_cycles = own->repair->hop_cycles;
  }
  own->dead_count = own->detour_cycles = 0;
  own->defects = NULL;
  own->repair = NULL;
  *whole = own;
  return WAFER_OK;
}

wafer_status compile_machine_open(const wafer_diag *diag, const compile_machine *asked,
                                  wafer_arena *arena, const wafer_machine **out,
                                  const wafer_machine **whole) {
  wafer_defects defects;
  *whole = NULL;
  WAFER_TRY(wafer_machine_open(diag, arena, asked->name, out));
  if (asked->repair && !asked->defects)
    return (wafer_status)cli_usage("compile", "--repair goes with --defects");
  if (asked->edge) WAFER_TRY(set_edge(asked->edge, arena, out));
  if (asked->defects) {
    WAFER_TRY(parse_defects(diag, asked, arena, &defects));
    WAFER_TRY(wafer_machine_apply(diag, arena, asked->defects, *out, &defects, out));
  }
  return (*out)->defects ? find_whole(*out, arena, whole) : WAFER_OK;
}

static wafer_status compile_again(const wafer_ctx *ctx, const char *model, bool fast,
                                  report_whole *out) {
  wafer_ir *ir = NULL, *other = NULL;
  wafer_options own = *ctx->options;
  wafer_ctx with = *ctx;
  const wafer_plan *plan;
  const char *told;
  report r;
  with.options = &own;
  wafer_status status = compile_first(ctx, model, &own, &ir, &plan);
  if (status == WAFER_OK) status = compile_settle(&with, model, fast, &other, &plan, &told);
  if (status == WAFER_OK) status = report_make(NULL, plan, &r);
  if (status == WAFER_OK)
    *out =
        (report_whole){r.interval_cycles, r.latency_cycles, wafer_rect_area(ctx->machine->usable)};
  compile_drop(other);
  wafer_ir_destroy(ir);
  return status;
}

wafer_status compile_whole(const char *model, const wafer_machine *whole,
                           const wafer_options *options, bool fast, report_whole *out) {
  wafer_options own = *options;
  own.pin_count = 0;
  own.refused = NULL;
  own.print_after = NULL; /* programs stay: a plan's times are theirs where it has them */
  compile_held held = {.to = cli_diag(), .arena = wafer_arena_create(), .aside = "a whole wafer"};
  const wafer_diag quiet = compile_hold(&held);
  wafer_ctx ctx = {.arena = held.arena, .diag = &quiet, .machine = whole, .options = &own};
  if (!ctx.arena) return cli_no_memory();
  ctx.curves = wafer_curves_create(ctx.arena, whole); /* NULL will do */
  *out = (report_whole){0};
  wafer_status status = compile_again(&ctx, model, fast, out);
  wafer_arena_destroy(ctx.arena);
  return status == WAFER_NO_MEMORY ? cli_no_memory() : WAFER_OK;
}
