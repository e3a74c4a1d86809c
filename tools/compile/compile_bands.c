/* Other numbers, sides and heights of bands than sizing chose, by the plans that they give. */
#include "compile_thoughts.h"

#define FEW 16       /* bands: where more are fastest one alone is not */
#define LEAST_ROWS 2 /* of a band whose height is tried */

/* Of each side. */
static uint32_t bands_each(const thoughts *t) {
  wafer_cut cut = thoughts_cut_of(&t->now);
  return cut.bands / cut.sides;
}

static wafer_options cut_so(wafer_options own, wafer_cut cut, bool relays) {
  thoughts_ask_for(&own, cut);
  own.relays = relays ? WAFER_RELAYS_auto : WAFER_RELAYS_none;
  return own;
}

/* Fewer bands than there are need not gain as much: a sample is through them sooner. */
wafer_status thoughts_try_cut(thoughts *t, wafer_options own, wafer_cut cut, bool relays,
                              bool *taken) {
  wafer_cut now = thoughts_cut_of(&t->now);
  uint32_t gain = cut.bands < now.bands ? UINT32_MAX : PLAN_GAIN;
  return thoughts_try_pipeline(t, cut_so(own, cut, relays), gain, taken);
}

/* So many bands at each side. */
static wafer_status try_so_many(thoughts *t, wafer_options own, uint32_t each, bool relays,
                                bool *taken) {
  uint32_t asked = t->ctx->options->sides, sides = asked ? asked : thoughts_cut_of(&t->now).sides;
  wafer_cut cut = {each * sides, sides, false};
  return thoughts_try_cut(t, own, wafer_machine_fill(t->ctx->machine, cut), relays, taken);
}

/* As many of whole rows in place of halves, or the other way: predictions for one and the other do
 * not compare well. In place of one band, a half of the wafer each. */
wafer_status thoughts_try_sides(thoughts *t) {
  wafer_cut cut = thoughts_cut_of(&t->now);
  wafer_options own = t->now.options;
  uint32_t other = 3 - cut.sides, gain = cut.bands == 1 ? PLAN_GAIN : SMALL_GAIN;
  bool taken, open = !t->ctx->options->bands && !t->ctx->options->sides;
  if (!open || !wafer_machine_half_columns(t->ctx->machine) || !thoughts_may_change(&t->now))
    return WAFER_OK;
  cut = (wafer_cut){(cut.bands + 1) / 2 * 2, other, false};
  thoughts_ask_for(&own, wafer_machine_fill(t->ctx->machine, cut));
  own.relays = thoughts_has_relays(t->now.plan) ? WAFER_RELAYS_auto : WAFER_RELAYS_none;
  WAFER_TRY(thoughts_try_pipeline(t, own, gain, &taken));
  if (taken) thoughts_leave_open(t);
  return WAFER_OK;
}

/* One at each side, where relays may have more room than in more, and one in all, without and with
 * relays. */
static wafer_status try_fewest(thoughts *t, bool tried) {
  wafer_cut cut = thoughts_cut_of(&t->now);
  bool taken, soon = cut.bands <= FEW || thoughts_have_time_for(t, cut.sides);
  if (!tried && soon && thoughts_may_change(&t->now))
    WAFER_TRY(try_so_many(t, t->now.options, 1, thoughts_may_relay(t), &taken));
  wafer_cut now = thoughts_cut_of(&t->now);
  if (t->ctx->options->sides || now.sides == 1 || now.bands > FEW || !thoughts_may_change(&t->now))
    return WAFER_OK;
  const wafer_cut one = {1, 1, false};
  WAFER_TRY(thoughts_try_cut(t, t->now.options, one, false, &taken));
  return thoughts_may_relay(t) && thoughts_may_change(&t->now)
             ? thoughts_try_cut(t, t->now.options, one, true, &taken)
             : WAFER_OK;
}

/* Twice as many bands until that was no faster twice, for heights that suit a network's shapes come
 * with luck; then half as many, and the fewest. */
wafer_status thoughts_try_bands(thoughts *t) {
  uint32_t first = bands_each(t), misses = 0, n;
  bool taken = true;
  if (t->now.options.bands) return WAFER_OK;
  for (n = 2 * first; misses < 2 && n <= WAFER_SEARCHED_BANDS && thoughts_may_change(&t->now);
       n *= 2) {
    WAFER_TRY(try_so_many(t, t->now.options, n, thoughts_may_relay(t), &taken));
    misses = taken ? 0 : misses + 1;
  }
  taken = true;
  for (n = first / 2; taken && n && thoughts_may_change(&t->now); n /= 2)
    WAFER_TRY(try_so_many(t, t->now.options, n, thoughts_may_relay(t), &taken));
  return try_fewest(t, n == 0);
}

/* A quarter of the bands, or half, as long as they keep the edge's pace. Sizing does not tell well
 * how many do, and a sample is through few bands sooner. */
static wafer_status try_fewer(thoughts *t) {
  bool taken = false;
  for (uint32_t part = 4; part > 1; part = taken ? part : part / 2) {
    uint32_t each = bands_each(t) / part;
    taken = false;
    if (each * thoughts_cut_of(&t->now).sides > 1 && thoughts_are_soon_done(t, part))
      WAFER_TRY(try_so_many(t, t->now.options, each, thoughts_has_relays(t->now.plan), &taken));
  }
  return WAFER_OK;
}

/* A quarter more, where sizing trusted programs to keep the edge's pace and these just do not. */
static wafer_status try_more(thoughts *t) {
  uint32_t each = bands_each(t) + bands_each(t) / 4 + 1, sides = thoughts_cut_of(&t->now).sides;
  wafer_cut cut = wafer_machine_fill(t->ctx->machine, (wafer_cut){each * sides, sides, false});
  wafer_options own = cut_so(t->now.options, cut, thoughts_has_relays(t->now.plan));
  bool taken;
  return thoughts_try_pipeline(t, own, UINT32_MAX, &taken);
}

wafer_status thoughts_keep_pace(thoughts *t) {
  if (t->ctx->options->bands || !thoughts_is_open(&t->now.options)) return WAFER_OK;
  if (t->now.interval <= t->now.edge) return try_fewer(t);
  return t->now.flow <= t->now.edge ? try_more(t) : WAFER_OK;
}

/* A row, two or three more, or less, of each band: how well a network's shapes suit a height no
 * other height tells. Of a single row predictions are not good. */
wafer_status thoughts_try_heights(thoughts *t) {
  static const int steps[] = {1, -1, 2, -2, 3, -3};
  const wafer_machine *m = t->ctx->machine;
  uint32_t rows = m->usable.height / bands_each(t);
  bool relays = thoughts_has_relays(t->now.plan), taken, open = !t->ctx->options->bands;
  for (size_t i = 0; open && i < WAFER_COUNT(steps) && thoughts_may_change(&t->now); i++) {
    int64_t height = (int64_t)rows + steps[i];
    if (height < LEAST_ROWS || 2 * height > m->usable.height) continue;
    WAFER_TRY(try_so_many(t, t->now.options, m->usable.height / (uint32_t)height, relays, &taken));
  }
  return WAFER_OK;
}

/* Kernels of higher bands are narrower: there reductions may be faster behind what they reduce
 * although they are not on those at hand. */
static wafer_status try_near(thoughts *t, uint32_t each, bool relays, bool *taken) {
  wafer_options own;
  WAFER_TRY(try_so_many(t, t->now.options, each, relays, taken));
  if (*taken || !thoughts_may_reduce(&t->now, &own)) return WAFER_OK;
  return try_so_many(t, own, each, relays, taken);
}

/* For a search: as many as lie about a third above and below, as long as that is faster. */
wafer_status thoughts_try_near_bands(thoughts *t) {
  uint32_t first = bands_each(t), n;
  bool taken = true, relays = thoughts_has_relays(t->now.plan);
  if (t->ctx->options->bands) return WAFER_OK;
  for (n = (4 * first + 2) / 3; taken && n <= WAFER_SEARCHED_BANDS && thoughts_may_change(&t->now);
       n = (4 * n + 2) / 3)
    WAFER_TRY(try_near(t, n, relays, &taken));
  if (bands_each(t) != first) return WAFER_OK;
  taken = true;
  for (n = 2 * first / 3; taken && n && thoughts_may_change(&t->now); n = 2 * n / 3)
    WAFER_TRY(try_near(t, n, relays, &taken));
  return WAFER_OK;
}
