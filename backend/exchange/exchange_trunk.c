/* Where a route of a line lies: on every line of its place alike, or on the trunks, off which words
 * branch to the lines beside them. */
#include "exchange_line.h"

wafer_rect line_rect(const line_place *place, const fragment_span *span, uint32_t p, uint32_t n) {
  uint32_t at = place->first + p - (place->border != NULL);
  return place->columns ? (wafer_rect){span->first, at, span->count, n}
                        : (wafer_rect){at, span->first, n, span->count};
}

/* In the rows first .. first + count - 1 beside a trunk, away from it to the `last` of them. */
static void add_branch(fragment *f, wafer_route route, uint32_t first, uint32_t count,
                       uint32_t last, bool down) {
  wafer_rect cores = route.cores;
  if (!count) return;
  route.at[0].from = down ? WAFER_PORT_north : WAFER_PORT_south;
  route.at[0].to = WAFER_TO(ramp);
  route.cores = (wafer_rect){cores.x, last, cores.width, 1};
  fragment_route(f, &route);
  if (count == 1) return;
  route.at[0].to |= down ? WAFER_TO(south) : WAFER_TO(north);
  route.cores = (wafer_rect){cores.x, down ? first : first + 1, cores.width, count - 1};
  fragment_route(f, &route);
}

/* The trunk's part of a span's rows, and what branches off. */
static void add_trunk(fragment *f, wafer_route route, const fragment_span *span) {
  uint32_t above = span->count / 2, below = span->count - 1 - above, row = route.cores.y + above;
  wafer_route trunk = route;
  trunk.cores.y = row;
  trunk.cores.height = 1;
  if (route.at[0].to & WAFER_TO(ramp)) {
    if (above) trunk.at[0].to |= WAFER_TO(north);
    if (below) trunk.at[0].to |= WAFER_TO(south);
    add_branch(f, route, span->first, above, span->first, false);
    add_branch(f, route, row + 1, below, row + below, true);
  }
  fragment_route(f, &trunk);
}

void line_route(fragment *f, const line_place *place, wafer_route route, uint32_t p, uint32_t n) {
  for (uint32_t i = 0; i < place->span_count; i++) {
    route.cores = line_rect(place, &place->spans[i], p, n);
    if (place->trunks)
      add_trunk(f, route, &place->spans[i]);
    else
      fragment_route(f, &route);
  }
}

uint32_t line_branches(const line_place *place) {
  uint32_t most = 0;
  for (uint32_t i = 0; i < place->span_count && place->trunks; i++)
    if (place->spans[i].count / 2 > most) most = place->spans[i].count / 2;
  return most;
}
