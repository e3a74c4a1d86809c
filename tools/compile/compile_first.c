/* The first plan of a compilation. Sizing does not know whether the streams of a layout find
 * colours; `route` does, and where one finds none, what was left open is tried otherwise: kernels
 * of fewer streams for a search, shelves in place of its layout, fewer bands, weight streaming. */
#include <string.h>

#include "compile_thoughts.h"
#include "wafer/ir.h"

/* One way to make it. *unrouted: it is a pipeline that has no room for its streams. */
static wafer_status make(const wafer_ctx *ctx, const char *model, wafer_ir **ir,
                         const wafer_plan **plan, bool *unrouted) {
  wafer_mode mode;
  *unrouted = false;
  WAFER_TRY(wafer_import(ctx, model, ir));
  wafer_status status = wafer_transform(ctx, *ir, WAFER_DEFAULT_PASSES);
  if (status == WAFER_OK) return wafer_lower(ctx, *ir, plan);
  *unrouted = status == WAFER_NO_FIT && wafer_ir_get_mode(*ir, &mode) && /* it was chosen */
              mode == WAFER_MODE_pipelined;
  return status;
}

/* The next way to try, which `*how` names; false: none is left. */
static bool next_way(wafer_arena *arena, wafer_options *o, bool asked_for_bands, const wafer_ir *ir,
                     const char **how) {
  const wafer_cut cut = wafer_ir_get_cut(ir);
  const bool searched = o->placer == WAFER_PLACER_best && o->objective != WAFER_OBJECTIVE_wire;
  if (searched && ir->scattered && !o->whole_concats) {
    o->whole_concats = true;
    *how = "laid out with concatenations of many parts in one kernel each";
    return true;
  }
  o->whole_concats = false;
  if (searched) {
    o->placer = WAFER_PLACER_shelf;
    o->replicas = 0;
    *how = "laid out on shelves in place of the search's layout";
    return true;
  }
  if (!asked_for_bands && !o->pin_count && cut.bands > 1) {
    o->bands = cut.bands / cut.sides / 2 * cut.sides;
    o->sides = cut.sides;
    if (!o->bands) o->bands = o->sides = 1;
    *how = wafer_arena_printf(arena, "tried with %u of %u bands", o->bands, cut.bands);
    return *how;
  }
  if (o->mode != WAFER_MODE_auto || o->pin_count || asked_for_bands || o->training) return false;
  o->mode = WAFER_MODE_streaming;
  *how = "weight streaming takes its place";
  return true;
}

/* Second thoughts look at what programs take where they are free to change it. */
static bool may_hasten(const wafer_options *o) {
  return thoughts_is_open(o) && o->placer == WAFER_PLACER_shelf && !o->bands;
}

wafer_status compile_first(const wafer_ctx *ctx, const char *model, wafer_options *options,
                           wafer_ir **ir, const wafer_plan **plan) {
  compile_held errors = {.to = ctx->diag, .arena = ctx->arena};
  compile_held held = {.to = ctx->diag, .arena = ctx->arena, .aside = "another plan"};
  const wafer_diag holds = compile_hold(&errors), quiet = compile_hold(&held);
  const bool asked_for_bands = options->bands > 0;
  wafer_ctx with = *ctx;
  const char *how;
  bool unrouted;
  options->hasty = may_hasten(options);
  with.diag = &holds;
  with.options = options;
  wafer_status status = make(&with, model, ir, plan, &unrouted);
  const compile_error *why = unrouted ? errors.first : NULL;
  with.diag = &quiet;
  while (why && status == WAFER_NO_FIT &&
         next_way(ctx->arena, options, asked_for_bands, *ir, &how)) {
    wafer_note(ctx->diag, why->loc, "%.*s: %s", (int)strcspn(why->text, ":"), why->text, how);
    wafer_ir_destroy(*ir);
    *ir = NULL;
    status = make(&with, model, ir, plan, &unrouted);
  }
  if (why && status == WAFER_NO_MEMORY) return cli_no_memory();
  if (status != WAFER_OK) compile_tell(&errors);
  return status;
}
