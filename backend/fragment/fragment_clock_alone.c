/* The time of fragments that have their cores to themselves. */
#include <string.h>

#include "fragment_clock.h"

static void reset_cores(fragment_clock *c, wafer_rect r) {
  for (uint32_t y = r.y; y < r.y + r.height; y++)
    memset(&c->cores[(size_t)y * c->machine->width + r.x], 0, r.width * sizeof *c->cores);
  for (int back = 0; back < 2; back++) {
    for (uint32_t y = r.y; y < r.y + r.height; y++)
      memset(fragment_clock_link(c, false, back, r.x, y), 0, r.width * sizeof *c->links);
    for (uint32_t x = r.x; x < r.x + r.width; x++)
      memset(fragment_clock_link(c, true, back, x, r.y), 0, r.height * sizeof *c->links);
  }
}

static void reset(fragment_clock *c, const fragment *f) {
  reset_cores(c, f->rect);
  for (uint32_t i = 0; i < f->line_count; i++)
    for (uint32_t s = 0; s < f->lines[i].span_count; s++) {
      const fragment_line *line = &f->lines[i];
      const fragment_span *span = &line->spans[s];
      uint32_t length = line->length - line->border;
      reset_cores(c, line->columns ? (wafer_rect){span->first, line->first, span->count, length}
                                   : (wafer_rect){line->first, span->first, length, span->count});
    }
  c->edge = c->left = 0;
  c->out = (fragment_border){0};
  c->last = 0;
}

bool fragment_clock_alone(fragment_clock *c, const fragment *const *f, uint32_t count,
                          uint32_t opening, uint64_t *cycles, uint64_t *crossed) {
  fragment_past **past = WAFER_NEW(c->arena, fragment_past *, count);
  bool made = past != NULL;
  c->train = false;
  for (uint32_t round = 0; made && round < 2; round++) { /* the first one is rehearsed */
    c->edge = opening;
    for (uint32_t i = 0; made && i < count; i++) {
      if (round) past[i]->times = 0;
      made = fragment_clock_pass(c, f[i], &past[i]);
    }
    uint64_t last = c->left > (int64_t)c->last ? (uint64_t)c->left : c->last;
    *cycles = last > opening ? last - opening : 0;
    *crossed = (uint64_t)c->edge - opening;
    for (uint32_t i = 0; i < count; i++) reset(c, f[i]);
  }
  return made;
}
