/* A few words that one core of a fragment sends to another. */
#ifndef TEST_FRAGMENT_WORDS_H
#define TEST_FRAGMENT_WORDS_H

#include "backend/fragment/fragment.h"

#define WORDS 4

/* A move of WORDS words, whose ends are to be said. */
static inline wafer_instruction move_words(void) {
  return (wafer_instruction){
      .op = WAFER_CORE_move, .count_reg = WAFER_NO_REGISTER, .shape = {1, 1, 1, WORDS}};
}

static inline wafer_operand words_at(int32_t address) {
  static const int32_t stride[WAFER_LEVELS] = {0, 0, 0, 4};
  return fragment_memory(WAFER_DTYPE_f32, address, stride);
}

static inline wafer_instruction send_words(uint8_t color, int32_t from) {
  wafer_instruction code = move_words();
  code.out = fragment_wire(WAFER_DTYPE_f32, color);
  code.in[0] = words_at(from);
  return code;
}

static inline wafer_instruction take_words(uint8_t color, int32_t to) {
  wafer_instruction code = move_words();
  code.out = words_at(to);
  code.in[0] = fragment_wire(WAFER_DTYPE_f32, color);
  return code;
}

/* Core (x, y) of the pair sends WORDS words at `from` to its eastern neighbour, or its southern
 * one, which puts them at `to`. */
static inline void send_beside(fragment *f, uint32_t x, uint32_t y, bool south, int32_t from,
                               int32_t to) {
  uint8_t c = fragment_color(f);
  wafer_instruction code = send_words(c, from);
  wafer_route route = {.cores = {x, y, 1, 1}, .color = c, .positions = 1};
  fragment_run(f, route.cores, fragment_code_add(f, &code, 1));
  route.at[0].from = WAFER_PORT_ramp;
  route.at[0].to = south ? WAFER_TO(south) : WAFER_TO(east);
  fragment_route(f, &route);
  route.cores.x += !south;
  route.cores.y += south;
  code = take_words(c, to);
  fragment_run(f, route.cores, fragment_code_add(f, &code, 1));
  route.at[0].from = south ? WAFER_PORT_north : WAFER_PORT_west;
  route.at[0].to = WAFER_TO(ramp);
  fragment_route(f, &route);
}

static inline void send_east(fragment *f, uint32_t x, uint32_t y, int32_t from, int32_t to) {
  send_beside(f, x, y, false, from, to);
}

#endif
