#include "size_room.h"

#include <string.h>

static uint32_t min_u32(uint32_t a, uint32_t b) {
  return a < b ? a : b;
}

void room_cover(room *r, wafer_rect rect, bool taken) {
  uint32_t end_x = min_u32(rect.x + rect.width, r->width),
           end_y = min_u32(rect.y + rect.height, r->height);
  for (uint32_t y = rect.y; y < end_y && rect.x < end_x; y++)
    memset(r->taken + (size_t)y * r->width + rect.x, taken, end_x - rect.x);
}

void room_count(room *r) {
  uint32_t row = r->width + 1;
  for (uint32_t y = 0; y < r->height; y++) {
    uint32_t sum = 0, *above = r->sums + (size_t)y * row;
    for (uint32_t x = 0; x < r->width; x++) {
      sum += r->taken[(size_t)y * r->width + x];
      above[row + x + 1] = above[x + 1] + sum;
    }
  }
}

static bool is_free(const room *r, wafer_rect rect) {
  uint32_t row = r->width + 1;
  const uint32_t *top = r->sums + (size_t)rect.y * row + rect.x,
                 *end = top + (size_t)rect.height * row;
  return end[rect.width] - end[0] - top[rect.width] + top[0] == 0;
}

bool room_find(const room *r, uint32_t width, uint32_t height, wafer_rect near, wafer_rect *out) {
  if (width > r->width || height > r->height) return false;
  uint32_t rows = r->height - height, cols = r->width - width;
  for (uint32_t away = 0; away <= r->height; away++)
    for (int side = 0; side < (away ? 2 : 1); side++) {
      uint32_t y = side ? near.y - away : near.y + away, best = UINT32_MAX;
      if ((side && away > near.y) || y > rows) continue;
      for (uint32_t x = 0; x <= cols; x++) {
        uint32_t far = x > near.x ? x - near.x : near.x - x;
        if (far >= best || !is_free(r, (wafer_rect){x, y, width, height})) continue;
        best = far;
        *out = (wafer_rect){x, y, width, height};
      }
      if (best < UINT32_MAX) return true;
    }
  return false;
}

bool room_open(wafer_arena *arena, const wafer_machine *m, room *r) {
  *r = (room){.width = m->usable.x + m->usable.width, .height = m->usable.y + m->usable.height};
  r->sums = WAFER_NEW(arena, uint32_t, ((size_t)r->width + 1) * (r->height + 1));
  r->taken = WAFER_NEW(arena, uint8_t, (size_t)r->width * r->height);
  if (!r->sums || !r->taken) return false;
  room_cover(r, (wafer_rect){0, 0, r->width, r->height}, true);
  room_cover(r, m->usable, false);
  for (uint32_t i = 0; i < m->dead_count; i++)
    room_cover(r, (wafer_rect){m->dead[i].x, m->dead[i].y, 1, 1}, true);
  for (uint32_t i = 0; i < m->reserved_count; i++) room_cover(r, m->reserved[i], true);
  return true;
}
