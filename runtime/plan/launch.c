/* Program files: a magic, how long the rest is, the rest deflated. The rest: parts, ports and
 * constants of a launch as LEB128 numbers (signed ones folded: 0, -1, 1, -2 ...), then the bytes of
 * its fabric program. */
#include "wafer/launch.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define MOST_BYTES (1u << 31) /* of one launch, inflated */
#define MOST_RATIO 1032       /* of deflate */

static const char magic[8] = {'w', 'l', 'a', 'u', 'n', 'c', 'h', '2'};

/* ---- writing ---- */

typedef struct writer {
  unsigned char *at; /* NULL: bytes are only counted */
  size_t count;
} writer;

static void put(writer *w, uint64_t value) {
  do {
    unsigned char byte = (unsigned char)(value & 127);
    value >>= 7;
    if (w->at) w->at[w->count] = value ? byte | 128 : byte;
    w->count++;
  } while (value);
}

static void put_signed(writer *w, int64_t value) {
  put(w, value < 0 ? ~(uint64_t)value << 1 | 1 : (uint64_t)value << 1);
}

static void put_box(writer *w, const wafer_port_box *box) {
  put_signed(w, box->first);
  for (int k = 0; k < 4; k++) {
    put(w, box->shape[k]);
    put_signed(w, box->stride[k]);
  }
}

static void put_port(writer *w, const wafer_port_use *port) {
  const uint32_t fields[] = {port->value,   port->x,   port->y,     port->side,  port->color,
                             port->control, port->out, port->first, port->every, port->box_count};
  for (size_t i = 0; i < WAFER_COUNT(fields); i++) put(w, fields[i]);
  for (uint32_t i = 0; i < port->box_count; i++) put_box(w, &port->boxes[i]);
}

static void put_bytes(writer *w, const void *bytes, size_t count) {
  if (w->at) memcpy(w->at + w->count, bytes, count);
  w->count += count;
}

static void put_data(writer *w, const wafer_launch_data *data) {
  const wafer_rect *r = &data->cores;
  const size_t fields[] = {r->x, r->y, r->width, r->height, data->address, data->bytes.size};
  for (size_t i = 0; i < WAFER_COUNT(fields); i++) put(w, fields[i]);
  put_bytes(w, data->bytes.data, data->bytes.size);
}

static size_t put_body(unsigned char *at, const wafer_launch_body *body) {
  writer w = {.at = at};
  put(&w, body->part_count);
  for (uint32_t i = 0; i < body->part_count; i++) put(&w, body->parts[i]);
  put(&w, body->port_count);
  for (uint32_t i = 0; i < body->port_count; i++) put_port(&w, &body->ports[i]);
  put(&w, body->data_count);
  for (uint32_t i = 0; i < body->data_count; i++) put_data(&w, &body->data[i]);
  put_bytes(&w, body->program.data, body->program.size);
  return w.count;
}

/* Programs are mostly alike from core to core: the fastest level finds that. */
bool wafer_launch_write(wafer_arena *arena, const wafer_launch_body *body, wafer_bytes *out) {
  size_t size = put_body(NULL, body), head = sizeof magic + 10;
  unsigned char *bytes = size <= MOST_BYTES ? malloc(size ? size : 1) : NULL;
  if (!bytes) return false;
  put_body(bytes, body);
  uLongf packed = compressBound(size);
  unsigned char *file = malloc(head + packed);
  writer w = {.at = file};
  bool done = file != NULL;
  if (done) {
    put_bytes(&w, magic, sizeof magic);
    put(&w, size);
    done = compress2(file + w.count, &packed, bytes, size, 1) == Z_OK;
  }
  void *kept = done ? wafer_arena_copy(arena, file, w.count + packed) : NULL;
  if (kept) *out = (wafer_bytes){kept, w.count + packed};
  free(bytes);
  free(file);
  return kept != NULL;
}

/* ---- reading ---- */

typedef struct reader {
  const wafer_diag *diag;
  const char *file;
  wafer_arena *arena;
  const unsigned char *at, *end;
  bool bad;
} reader;

static uint64_t get(reader *r) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (r->at == r->end) break;
    unsigned char byte = *r->at++;
    if (shift == 63 && byte > 1) break;
    value |= (uint64_t)(byte & 127) << shift;
    if (!(byte & 128)) return value;
  }
  r->bad = true;
  return 0;
}

static uint32_t get_u32(reader *r) {
  uint64_t value = get(r);
  r->bad |= value > UINT32_MAX;
  return (uint32_t)value;
}

static uint8_t get_below(reader *r, uint32_t end) {
  uint32_t value = get_u32(r);
  r->bad |= value >= end;
  return (uint8_t)value;
}

static int64_t get_signed(reader *r) {
  uint64_t value = get(r);
  return (int64_t)(value >> 1 ^ (~(value & 1) + 1));
}

static wafer_status damaged(const reader *r, const char *what) {
  return wafer_fail(r->diag, wafer_at_file(r->file), WAFER_BAD_INPUT, "not a launch: %s", what);
}

/* `count` items of at least `least` bytes each cannot be more than what is left. */
static bool too_many(const reader *r, uint32_t count, size_t least) {
  return count > (size_t)(r->end - r->at) / least;
}

static wafer_status read_port(reader *r, wafer_port_use *port) {
  *port = (wafer_port_use){.value = get_u32(r), .x = get_u32(r)};
  port->y = get_u32(r);
  port->side = get_below(r, WAFER_PORT_ramp);
  port->color = get_below(r, 256);
  port->control = get_below(r, 256);
  port->out = get_below(r, 2);
  port->first = get_u32(r);
  port->every = get_u32(r);
  r->bad |= port->first >= port->every;
  port->box_count = get_u32(r);
  if (r->bad || too_many(r, port->box_count, 9)) return damaged(r, "a port is cut off");
  wafer_port_box *boxes = WAFER_NEW(r->arena, wafer_port_box, port->box_count);
  if (!boxes)
    return wafer_fail(r->diag, wafer_at_file(r->file), WAFER_NO_MEMORY, "no memory for a launch");
  port->boxes = boxes;
  for (uint32_t i = 0; i < port->box_count; i++) {
    boxes[i].first = get_signed(r);
    for (int k = 0; k < 4; k++) {
      boxes[i].shape[k] = get_u32(r);
      boxes[i].stride[k] = get_signed(r);
    }
  }
  return r->bad ? damaged(r, "a port is cut off") : WAFER_OK;
}

static wafer_status read_data(reader *r, wafer_launch_data *data) {
  *data = (wafer_launch_data){.cores.x = get_u32(r)};
  data->cores.y = get_u32(r);
  data->cores.width = get_u32(r);
  data->cores.height = get_u32(r);
  data->address = get_u32(r);
  uint64_t bytes = get(r);
  if (r->bad || bytes > (size_t)(r->end - r->at)) return damaged(r, "a constant is cut off");
  data->bytes = (wafer_bytes){r->at, bytes};
  r->at += bytes;
  return WAFER_OK;
}

/* The reader stands on what was deflated, afterwards. */
static wafer_status inflate_rest(reader *r, wafer_bytes bytes) {
  if (bytes.size < sizeof magic || memcmp(r->at, magic, sizeof magic) != 0)
    return damaged(r, "it does not begin like one");
  r->at += sizeof magic;
  uint64_t size = get(r), left = (uint64_t)(r->end - r->at);
  if (r->bad || size > MOST_BYTES || size / MOST_RATIO > left)
    return damaged(r, "it cannot be as long as it says");
  unsigned char *rest = WAFER_NEW(r->arena, unsigned char, size);
  if (!rest)
    return wafer_fail(r->diag, wafer_at_file(r->file), WAFER_NO_MEMORY, "no memory for a launch");
  uLongf inflated = size;
  if (uncompress(rest, &inflated, r->at, left) != Z_OK || inflated != size)
    return damaged(r, "it does not inflate to what it says");
  r->at = rest;
  r->end = rest + size;
  return WAFER_OK;
}

wafer_status wafer_launch_read(const wafer_diag *diag, const char *file, wafer_arena *arena,
                               wafer_bytes bytes, wafer_launch_body *body) {
  reader r = {.diag = diag, .file = file, .arena = arena, .at = bytes.data};
  r.end = r.at + bytes.size;
  *body = (wafer_launch_body){0};
  WAFER_TRY(inflate_rest(&r, bytes));
  body->part_count = get_u32(&r);
  if (r.bad || too_many(&r, body->part_count, 1)) return damaged(&r, "its parts are cut off");
  uint32_t *parts = WAFER_NEW(arena, uint32_t, body->part_count);
  if (!parts) return wafer_fail(diag, wafer_at_file(file), WAFER_NO_MEMORY, "no memory");
  body->parts = parts;
  for (uint32_t i = 0; i < body->part_count; i++) parts[i] = get_u32(&r);
  body->port_count = get_u32(&r);
  if (r.bad || too_many(&r, body->port_count, 10)) return damaged(&r, "its ports are cut off");
  wafer_port_use *ports = WAFER_NEW(arena, wafer_port_use, body->port_count);
  if (!ports) return wafer_fail(diag, wafer_at_file(file), WAFER_NO_MEMORY, "no memory");
  body->ports = ports;
  for (uint32_t i = 0; i < body->port_count; i++) WAFER_TRY(read_port(&r, &ports[i]));
  body->data_count = get_u32(&r);
  if (r.bad || too_many(&r, body->data_count, 6)) return damaged(&r, "its constants are cut off");
  wafer_launch_data *data = WAFER_NEW(arena, wafer_launch_data, body->data_count);
  if (!data) return wafer_fail(diag, wafer_at_file(file), WAFER_NO_MEMORY, "no memory");
  body->data = data;
  for (uint32_t i = 0; i < body->data_count; i++) WAFER_TRY(read_data(&r, &data[i]));
  body->program = (wafer_bytes){r.at, (size_t)(r.end - r.at)};
  return WAFER_OK;
}

/* ---- what a port carries ---- */

/* First and last element that a box touches; false: beyond 64 bits. */
static bool box_span(const wafer_port_box *box, int64_t *low, int64_t *high) {
  *low = *high = box->first;
  for (int k = 0; k < 4; k++) {
    int64_t reach;
    if (box->shape[k] == 0) return true;
    if (__builtin_mul_overflow((int64_t)box->shape[k] - 1, box->stride[k], &reach)) return false;
    if (__builtin_add_overflow(reach < 0 ? *low : *high, reach, reach < 0 ? low : high))
      return false;
  }
  return true;
}

bool wafer_port_fits(const wafer_port_use *port, int64_t elements, uint64_t *count) {
  *count = 0;
  for (uint32_t i = 0; i < port->box_count; i++) {
    const wafer_port_box *box = &port->boxes[i];
    int64_t low, high;
    uint64_t all = 1;
    for (int k = 0; k < 4; k++)
      if (__builtin_mul_overflow(all, (uint64_t)box->shape[k], &all)) return false;
    if (all && (!box_span(box, &low, &high) || low < 0 || high >= elements)) return false;
    if (__builtin_add_overflow(*count, all, count) || *count > UINT32_MAX) return false;
  }
  return true;
}
