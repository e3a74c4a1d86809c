/* Routers and colours: candidate routes between two holdings, and the colours that are still free
 * along one. Plain structs, no IR.
 *
 * A colour has one input direction at a router. Two streams of one colour that meet would merge, so
 * a colour is given to streams that share no router; when all are taken, to one that comes from the
 * same side
 * (*shared*: such streams take turns). */
#ifndef WAFER_PASSES_FABRIC_H
#define WAFER_PASSES_FABRIC_H

#include "wafer/plan.h"

#define FABRIC_MAX_COLORS 32
#define FABRIC_MAX_SEGMENTS 5
#define FABRIC_MAX_DETOUR 64 /* segments of a way round */
#define FABRIC_MAX_PATHS 96
/* Some paths are looked at even when the first would do: a low colour is worth a few hops, since it
 * keeps the others free. */
#define FABRIC_WEIGHED 12

typedef struct fabric_path {
  uint32_t count; /* segments */
  wafer_route_segment at[FABRIC_MAX_SEGMENTS];
} fabric_path;

/* Where a route begins or ends: a holding, and how often its rectangle stands side by side, each so
 * many columns east of the one before. A route passes every replica, in one row: it begins at the
 * one farthest from where it leaves them, and ends at the one farthest from where it comes to them.
 */
typedef struct fabric_end {
  wafer_holding at;
  uint32_t replicas, columns;
} fabric_end;

typedef struct fabric fabric; /* dies with its arena */

fabric *fabric_create(wafer_arena *arena, const wafer_machine *machine);
/* Forgets every stream: the next phase starts. */
void fabric_clear(fabric *fabric);

const wafer_machine *fabric_machine(const fabric *fabric);
/* No router of the route is dead. */
bool fabric_alive(const fabric *fabric, uint32_t count, const wafer_route_segment *route);

/* Routes that avoid dead cores, best first; their number, at most FABRIC_MAX_PATHS. `at` is a place
 * of the edge or MemoryX: the border of the fabric. */
uint32_t fabric_paths(const fabric *fabric, const fabric_end *from, const fabric_end *to,
                      fabric_path *paths);
/* Of the shortest of those that are weighed while every colour is free and no core is dead; 0:
 * there is none. */
uint64_t fabric_likely_hops(const wafer_machine *m, const fabric_end *from, const fabric_end *to);
/* Makes a route that joins two ends pass all their replicas; there is room for two segments more.
 * False when it leaves or enters between the first and the last. */
bool fabric_reach(const fabric_end *from, const fabric_end *to, uint32_t *count,
                  wafer_route_segment *route);
/* The way of fewest hops around what is dead, and around routers where a colour is taken unless
 * color is FABRIC_MAX_COLORS: breadth first over all routers, into `route`, which has room for
 * FABRIC_MAX_DETOUR. count is 0 when there is none of so few segments; WAFER_NO_MEMORY alone fails.
 */
wafer_status fabric_detour(fabric *fabric, const fabric_end *from, const fabric_end *to,
                           uint32_t color, wafer_route_segment *route, uint32_t *count);

/* Takes a path with a colour of `join`, a bit each, if there is one to share; else with a colour of
 * its own, if there is one none of those in `avoid`; else one with a colour to share; of the first
 * few a short one with a low colour. False when none has; *congested is then a router where every
 * colour is taken. */
bool fabric_assign(fabric *fabric, uint32_t count, const fabric_path *paths, uint32_t join,
                   uint32_t avoid, uint32_t *chosen, uint32_t *color, wafer_core_at *congested);
/* Routers that most colours enter, the busiest first; their number, at most `room`. */
uint32_t fabric_busiest(const fabric *fabric, uint32_t room, wafer_core_at *at, uint32_t *colors);
/* Claims a colour along a route; false when a router already receives it from another side: *clash,
 * which is at WAFER_NONE where memory is out. So is *congested above. */
bool fabric_claim(fabric *fabric, uint32_t count, const wafer_route_segment *route, uint32_t color,
                  wafer_core_at *clash);

#endif
