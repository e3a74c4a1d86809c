/* Where kernels shall lie: --pin, --reserve, --placement, --keep; and how that is searched for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compile.h"

bool compile_control_init(compile_control *c, wafer_arena *arena, size_t most) {
  *c = (compile_control){.pins = WAFER_NEW(arena, wafer_pin, most),
                         .reserved = WAFER_NEW(arena, wafer_rect, most)};
  return c->pins && c->reserved;
}

/* "x,y,width,height" */
static wafer_status parse_rect(const char *option, const char *text, wafer_rect *out) {
  uint32_t at[4];
  const char *next = text;
  for (int i = 0; i < 4; i++) {
    char *end;
    unsigned long value = *next >= '0' && *next <= '9' ? strtoul(next, &end, 10) : 100000;
    if (value > 16384 || *end != (i < 3 ? ',' : '\0'))
      return (wafer_status)cli_usage(
          "compile", "%s wants X,Y,WIDTH,HEIGHT in cores, each at most 16384, got '%s'", option,
          text);
    at[i] = (uint32_t)value;
    next = end + 1;
  }
  *out = (wafer_rect){at[0], at[1], at[2], at[3]};
  return WAFER_OK;
}

wafer_status compile_parse_pin(compile_control *c, wafer_arena *arena, const char *text) {
  const char *name, *rect;
  wafer_pin *pin = &c->pins[c->pin_count];
  if (!cli_parse_pair("compile", "--pin", text, arena, &name, &rect)) return WAFER_USAGE;
  *pin = (wafer_pin){.kernel = name};
  WAFER_TRY(parse_rect("--pin", rect, &pin->rect));
  if (!wafer_rect_area(pin->rect))
    return (wafer_status)cli_usage("compile", "--pin wants at least one core, got '%s'", rect);
  c->pin_count++;
  return WAFER_OK;
}

wafer_status compile_parse_reserve(compile_control *c, const char *text) {
  WAFER_TRY(parse_rect("--reserve", text, &c->reserved[c->reserved_count]));
  c->reserved_count++;
  return WAFER_OK;
}

/* One placement behind the other. */
static void append(wafer_pins *to, wafer_pin *pins, wafer_rect *reserved, const wafer_pins *more) {
  if (more->pin_count) memcpy(pins + to->pin_count, more->pins, more->pin_count * sizeof *pins);
  if (more->reserved_count)
    memcpy(reserved + to->reserved_count, more->reserved, more->reserved_count * sizeof *reserved);
  to->pin_count += more->pin_count;
  to->reserved_count += more->reserved_count;
}

/* Why nothing of a plan can stay; NULL: some of it may. In streaming every kernel lies at the
 * wafer's corner: only a pipeline's places can be kept, for a pipeline. */
static const char *why_not_kept(const wafer_options *o, const wafer_plan *plan) {
  if (plan->mode == WAFER_MODE_streaming)
    return "is a plan of streaming, where each kernel has the whole wafer in turn: there is "
           "nothing "
           "to keep";
  if (o->mode == WAFER_MODE_streaming)
    return "is a plan of a pipeline: nothing of it is kept in streaming, where each kernel has the "
           "whole wafer in turn";
  if (o->training && !plan->training)
    return "is no plan of a training step: nothing of it is kept in one";
  return NULL;
}

static wafer_status read_kept(const char *path, wafer_arena *arena, const wafer_options *o,
                              const wafer_machine *machine, const wafer_plan **plan,
                              wafer_pins *out) {
  WAFER_TRY(wafer_plan_open(cli_diag(), path, plan));
  const char *why = why_not_kept(o, *plan), *made_for = (*plan)->machine->name;
  if (why) {
    wafer_note(cli_diag(), wafer_at_file(path), "%s", why);
    return WAFER_OK;
  }
  WAFER_TRY(wafer_pins_of(cli_diag(), arena, *plan, out));
  out->reserved_count = 0; /* asked for anew, or not */
  if (strcmp(made_for, machine->name) != 0)
    wafer_note(cli_diag(), wafer_at_file(path),
               "was made for machine '%s': its rectangles are taken as they are on '%s'", made_for,
               machine->name);
  return WAFER_OK;
}

static wafer_status read_placement(const char *path, wafer_arena *arena,
                                   const wafer_machine *machine, wafer_pins *out) {
  WAFER_TRY(wafer_pins_read(cli_diag(), arena, path, out));
  if (out->mode && out->pin_count && !strcmp(out->mode, wafer_mode_name(WAFER_MODE_streaming)))
    return wafer_fail(cli_diag(), wafer_at_file(path), WAFER_USAGE,
                      "has places of weight streaming, where each kernel has the whole wafer in "
                      "turn: they pin nothing; take those of a pipeline");
  if (out->machine && strcmp(out->machine, machine->name) != 0)
    wafer_note(cli_diag(), wafer_at_file(path),
               "was made for machine '%s': its rectangles are taken as they are on '%s'",
               out->machine, machine->name);
  return WAFER_OK;
}

wafer_status compile_reserve(const wafer_diag *diag, const compile_reserved *more,
                             wafer_arena *arena, const wafer_machine **machine) {
  const wafer_machine *m = *machine;
  wafer_machine *own = wafer_arena_copy(arena, m, sizeof *m);
  uint32_t count = m->reserved_count + more->count;
  wafer_rect *rects = WAFER_NEW(arena, wafer_rect, count);
  if (!own || !rects) return cli_no_memory();
  if (m->reserved_count) memcpy(rects, m->reserved, m->reserved_count * sizeof *rects);
  memcpy(rects + m->reserved_count, more->at, more->count * sizeof *rects);
  own->reserved = rects;
  own->reserved_count = count;
  *machine = own;
  return wafer_machine_check(diag, "--reserve", own);
}

/* Whether what was asked for, and the machine, leave room for bands as an earlier layout has. */
static bool takes_cut(const wafer_options *o, const wafer_machine *m, wafer_cut cut) {
  if (!cut.bands || o->bands || o->mode == WAFER_MODE_streaming || m->dead_count || o->training)
    return false;
  if (o->sides && o->sides != cut.sides) return false;
  return (cut.sides == 1 || wafer_machine_half_columns(m)) &&
         cut.bands / cut.sides <= m->usable.height;
}

/* Whether what was pinned lies in the first of the bands that an earlier plan had, in which pins
 * are meant then. */
static bool have_room(const wafer_pins *pins, const wafer_machine *m, wafer_cut cut) {
  if (cut.bands < 2) return true;
  const uint32_t half = wafer_machine_half_columns(m), rows = cut.bands / cut.sides,
                 west = cut.sides > 1 ? m->width / 2 - half : m->usable.x,
                 width = cut.sides > 1 ? half : m->usable.width;
  for (uint32_t i = 0; i < pins->pin_count; i++) {
    const wafer_rect r = pins->pins[i].rect;
    if (r.x < west || (uint64_t)r.x + r.width > west + width ||
        (uint64_t)r.y + r.height > m->usable.height / rows)
      return false;
  }
  return true;
}

wafer_status compile_take_control(const compile_control *c, wafer_arena *arena,
                                  wafer_options *options, const wafer_machine **machine,
                                  compile_reserved *added, const wafer_plan **kept) {
  wafer_pins file = {0}, earlier = {0}, all = {0},
             own = {.pin_count = c->pin_count,
                    .reserved_count = c->reserved_count,
                    .pins = c->pins,
                    .reserved = c->reserved};
  *kept = NULL;
  if (c->placement) WAFER_TRY(read_placement(c->placement, arena, *machine, &file));
  if (c->keep) WAFER_TRY(read_kept(c->keep, arena, options, *machine, kept, &earlier));
  wafer_pin *pins =
      WAFER_NEW(arena, wafer_pin, (size_t)own.pin_count + file.pin_count + earlier.pin_count);
  wafer_rect *reserved =
      WAFER_NEW(arena, wafer_rect, (size_t)own.reserved_count + file.reserved_count);
  if (!pins || !reserved) return cli_no_memory();
  append(&all, pins, reserved, &own);
  append(&all, pins, reserved, &file);
  append(&all, pins, reserved, &earlier);
  options->pin_count = all.pin_count;
  options->pins = pins;
  all.reserved = reserved;
  if (all.pin_count && options->mode == WAFER_MODE_auto) options->mode = WAFER_MODE_pipelined;
  wafer_cut cut = file.cut.bands ? file.cut : earlier.cut;
  if (!file.cut.bands && !have_room(&own, *machine, cut)) cut = (wafer_cut){0};
  if (!all.reserved_count && takes_cut(options, *machine, cut)) {
    options->bands = cut.bands;
    options->sides = cut.sides;
    options->bands_kept = true;
  }
  bool behind = file.reductions_behind || earlier.reductions_behind;
  if (behind && options->reductions == WAFER_REDUCTIONS_auto)
    options->reductions = WAFER_REDUCTIONS_behind;
  *added = (compile_reserved){all.reserved_count, reserved};
  return added->count ? compile_reserve(cli_diag(), added, arena, machine) : WAFER_OK;
}

/* ---- The search ---- */

wafer_status compile_settle_search(compile_search *said, wafer_options *o) {
  bool streams = o->mode == WAFER_MODE_streaming;
  said->best = o->placer == WAFER_PLACER_best;
  said->copies = o->replicas > 1;
  if (said->placer && !said->best && said->copies)
    return (wafer_status)cli_usage("compile", "--replicas %u goes with --placer best", o->replicas);
  o->placer = (said->best || said->copies) && !streams ? WAFER_PLACER_best : WAFER_PLACER_shelf;
  if (streams) o->replicas = 0;
  return WAFER_OK;
}

/* A plan whose programs cannot be made is worth its streams alone, and fabric fidelity refuses it.
 */
static void tell_no_programs(const wafer_options *o, const wafer_plan *plan) {
  const bool other = plan->mode == WAFER_MODE_pipelined && !o->training && plan->streaming.fits;
  if (o->programs == WAFER_PROGRAMS_always && !plan->launch_count)
    wafer_warn(cli_diag(), (wafer_loc){0}, "--programs always: the plan has none: %s",
               plan->no_programs);
  if (!compile_lacks_programs(plan)) return;
  wafer_note(cli_diag(), wafer_at_file(plan->model),
             "its times are those of streams, since no core programs of this pipeline can be made: "
             "`wafer check` and `wafer run --fidelity fabric` refuse it%s",
             other ? "; with --mode streaming there may be some" : "");
}

static bool has_sparse(const wafer_plan *plan) {
  for (size_t i = 0; i < wafer_weights_count(plan->weights); i++)
    if (wafer_weights_at(plan->weights, i)->sparse) return true;
  return false;
}

/* What a plan has not, though it was asked for. */
static void warn_missing(const compile_search *said, const wafer_options *o,
                         const wafer_plan *plan) {
  const bool pipelined = plan->mode == WAFER_MODE_pipelined;
  if (pipelined && o->sides && o->sides != wafer_machine_cut(plan->machine).sides)
    wafer_warn(cli_diag(), (wafer_loc){0},
               "--sides changed nothing: this pipeline has one band, on whole rows%s",
               o->training ? ", as all have that train" : "");
  tell_no_programs(o, plan);
  if (said->shapes && !has_sparse(plan))
    wafer_warn(cli_diag(), (wafer_loc){0},
               "--sparse-shapes changed nothing: no weight has zeros that pay; give --sparsity or "
               "--mask");
  if (o->mode == WAFER_MODE_pipelined && o->batch && plan->function_count == 1)
    wafer_warn(cli_diag(), (wafer_loc){0},
               "--batch changed nothing: samples follow each other through a pipeline");
}

void compile_warn_unread(const compile_search *said, const wafer_options *o,
                         const wafer_plan *plan) {
  bool streams = plan->mode == WAFER_MODE_streaming, searches = o->placer == WAFER_PLACER_best;
  bool unread = streams || !searches, cuts = streams && o->sides;
  const char *why = streams     ? "weight streaming gives each kernel the whole wafer in turn"
                    : !searches ? "shelves search for nothing, --placer best does"
                                : "kernels are copied for --objective throughput";
  const struct {
    bool said;
    const char *name;
  } options[] = {
      {streams && said->best, "--placer best"},
      {unread && o->objective == WAFER_OBJECTIVE_wire, "--objective wire"},
      {cuts, "--sides"},
      {streams && o->relays == WAFER_RELAYS_none, "--relays none"},
      {streams && o->training && o->objective == WAFER_OBJECTIVE_latency, "--objective latency"},
      {said->copies && (streams || o->objective != WAFER_OBJECTIVE_throughput), "--replicas"},
      {unread && said->moves, "--place-moves"},
      {unread && said->seconds, "--place-seconds"},
      {unread && said->seed, "--seed"}};
  char names[128] = "";
  for (size_t i = 0; i < WAFER_COUNT(options); i++)
    if (options[i].said)
      snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", *names ? ", " : "",
               options[i].name);
  if (*names) wafer_warn(cli_diag(), (wafer_loc){0}, "%s changed nothing: %s", names, why);
  warn_missing(said, o, plan);
}
