/* Heights of bands that suit a network. Rows that divide the dims of its values leave no row of
 * cores with more than its share, and kernels next to each other cut their values alike; of other
 * heights programs take up to twice as long. Powers of two suit most. */
#include "compile_thoughts.h"

#define OCTAVES 6u /* 2 to 63 rows; higher bands are tried by their number */
#define FEWEST_ROWS 2u
#define SUITED 4 /* it divides no fewer than all but one in so many of the dims */

/* Words that pass between kernels, as often as the height divides a dim of their value. */
static uint64_t words_divided(const wafer_plan *plan, uint32_t height) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < plan->stream_count; i++) {
    const wafer_stream *s = &plan->streams[i];
    const wafer_shape *shape = &plan->values[s->value].type.shape;
    if (s->from_kernel == WAFER_NONE || s->to_kernel == WAFER_NONE) continue;
    for (uint32_t d = 0; d < shape->rank; d++)
      sum += shape->dims[d] > 1 && shape->dims[d] % height == 0 ? s->words : 0;
  }
  return sum;
}

/* The one of the octave that divides most, the higher of equals; 0: none divides enough. */
static uint32_t best_height(const wafer_plan *plan, uint32_t octave) {
  uint64_t all = words_divided(plan, 1), most = all - all / SUITED;
  uint32_t best = 0;
  for (uint32_t h = 1u << octave; h < 2u << octave; h++) {
    uint64_t words = h < FEWEST_ROWS ? 0 : words_divided(plan, h);
    if (!words || words < most) continue;
    most = words;
    best = h;
  }
  return best;
}

/* Whether there can be several. */
static bool has_bands(const thoughts *t) {
  const wafer_machine *m = t->ctx->machine;
  return !t->ctx->options->bands && !m->dead_count && !m->reserved_count &&
         t->now.plan->function_count == 1;
}

static bool is_cut_so(const candidate *c, wafer_cut cut) {
  wafer_cut now = thoughts_cut_of(c);
  return now.bands == cut.bands && now.sides == cut.sides;
}

/* Bands of such heights, from the highest, at both sides of the wafer and at one. */
wafer_status thoughts_try_suited(thoughts *t, bool *taken) {
  const wafer_options *asked = t->ctx->options;
  const wafer_machine *m = t->ctx->machine;
  uint32_t most = wafer_machine_half_columns(m) && asked->sides != 1 ? 2 : 1;
  uint32_t least = asked->sides ? asked->sides : 1;
  bool relays = thoughts_has_relays(t->now.plan);
  *taken = false;
  if (!has_bands(t)) return WAFER_OK;
  for (uint32_t octave = OCTAVES; octave-- > 0;) {
    uint32_t height = best_height(t->now.plan, octave);
    uint32_t each = height ? m->usable.height / height : 0;
    for (uint32_t sides = most; each > 1 && sides >= least && thoughts_may_change(&t->now);
         sides--) {
      bool gained;
      const wafer_cut cut = {each * sides, sides, false};
      if (is_cut_so(&t->now, cut)) continue;
      WAFER_TRY(thoughts_try_cut(t, t->now.options, cut, relays, &gained));
      *taken |= gained;
    }
  }
  return WAFER_OK;
}
