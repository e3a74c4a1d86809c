/* A line of cores on which words move in both directions, and the code, routes and filters that do
 * it: the ordered buses of exchange.h. Private to the exchange. */
#ifndef BACKEND_EXCHANGE_LINE_H
#define BACKEND_EXCHANGE_LINE_H

#include "exchange.h"

/* Elements that go from one buffer to another: outermost level first, addresses and strides in
 * bytes. */
typedef struct line_box {
  uint32_t levels, shape[WAFER_LEVELS];
  int32_t src, dst, src_stride[WAFER_LEVELS], dst_stride[WAFER_LEVELS];
} line_box;

/* Words first .. first + count - 1 of what is sent. */
typedef struct line_run {
  uint32_t first, count;
} line_run;

/* What one core sends to another, or copies. */
typedef struct line_parcel {
  uint32_t from;         /* kind of sender */
  uint32_t first, count; /* boxes */
  uint32_t words;
  uint32_t send; /* the first parcel with the same elements in the same order: they are sent once;
                    or one that has these among others: */
  uint32_t run_count; /* 0: it is all of that; */
  const line_run *runs;
} line_parcel;

typedef struct line_move {
  uint32_t from, to; /* positions; equal: a copy */
  uint32_t parcel;
} line_move;

typedef struct line {
  uint32_t length; /* cores */
  wafer_dtype dtype;
  const line_box *boxes;
  const line_parcel *parcels;
  const line_move *moves;
  uint32_t move_count;
} line;

/* Position 0 is the host, behind the west border of the fabric: what it sends and takes are ports,
 * boxes of the tensor in `base` + addresses of its side, in elements. */
typedef struct line_border {
  uint32_t value;      /* of the plan */
  uint32_t first;      /* line that base[0] is of */
  const int64_t *base; /* of each line */
} line_border;
typedef struct line_place {
  bool columns;
  bool trunks; /* words run along the middle row of each span, and in every column off to the rest
                  of it, which takes the same */
  uint32_t first; /* coordinate of position 0; with a border, of position 1 */
  uint32_t span_count;
  const fragment_span *spans; /* coordinates of the lines */
  const line_border *border;  /* NULL: there are cores alone */
} line_place;

/* Colours of a pass, made when they are needed: by direction and segment. */
typedef struct line_colors {
  bool made[2][2];
  uint8_t at[2][2];
} line_colors;

uint32_t line_words(wafer_dtype dtype, uint64_t elements);

/* Adds the lines to the fragment; the cycles that they take. False: out of memory. */
bool line_add(const wafer_machine *machine, wafer_arena *scratch, const line *l,
              const line_place *place, line_colors *colors, fragment *f, uint64_t *cycles);

/* ---- between exchange_line.c and exchange_core.c ---- */

enum {
  LINE_SEND,
  LINE_SEND_BACK,
  LINE_TAKE,
  LINE_TAKE_B,
  LINE_TAKE_BACK,
  LINE_TAKE_BACK_B,
  LINE_COPY,
  LINE_LISTS
};

typedef struct line_ops {
  const line_box **at;
  uint32_t count, room;
} line_ops;

/* What a core does in a pass. */
typedef struct line_core {
  line_ops list[LINE_LISTS];
  uint8_t segment[2];  /* on which it sends, by direction */
  uint8_t control[2];  /* of the last word that it sends */
  uint64_t sending[2]; /* cycles from its first word to its last, by direction */
  fragment_transfers transfers;
} line_core;

/* exchange_trunk.c. The cores at positions p .. p + n - 1 of the lines of a span. */
wafer_rect line_rect(const line_place *place, const fragment_span *span, uint32_t p, uint32_t n);
/* Adds the route there, of all spans; `route` has everything but the cores. */
void line_route(fragment *f, const line_place *place, wafer_route route, uint32_t p, uint32_t n);
/* Rows from a trunk to the farthest that takes its words; 0: there are no trunks. */
uint32_t line_branches(const line_place *place);

/* exchange_ports.c. What the host sends, or takes, at the border of the lines. */
void line_ports(const line *l, const line_place *place, const line_core *host, bool out,
                uint8_t color, fragment *f);

/* Of the lines being added: the buses so far. */
typedef struct line_order {
  fragment *f;
  uint32_t bus_count, bus_room;
  fragment_bus *buses;
} line_order;
/* exchange_order.c. Keeps a copy, without takers of no words, the others brought in order. False:
 * out of memory. */
bool line_order_bus(line_order *o, const fragment_bus *bus);
/* Says of the blocks how long their cores send, and of the takers whose colour it is, when those
 * have their code. */
void line_order_pace(const line_order *o, const line *l, const line_core *cores);
/* Gives the fragment the lines with these buses. False: out of memory. */
bool line_order_end(const line_order *o, const line *l, const line_place *place,
                    const line_core *cores, const uint64_t *busy);

/* One side of a box, or of several. */
typedef struct side {
  uint32_t levels, shape[WAFER_LEVELS + 1];
  int32_t address, stride[WAFER_LEVELS + 1];
} side;

/* Room for the code of any core of a line, one after the other. */
typedef struct line_work {
  side *sides;
  wafer_instruction *code;
} line_work;
/* False: out of memory. */
bool line_work_create(wafer_arena *scratch, const line_core *cores, uint32_t count,
                      line_work *work);
/* The core's code in the fragment, FRAGMENT_IDLE when there is none, and the cycles in which its
 * vector unit is busy. `late`: percent of the transfers forth that keep those back waiting for
 * microthreads. */
uint32_t line_core_code(const wafer_machine *machine, const line_work *work, wafer_dtype dtype,
                        line_core *core, const line_colors *colors, fragment *f, uint64_t *cycles,
                        uint32_t *late);

#endif
