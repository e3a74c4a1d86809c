/* A core's memory: bounds, which bytes have been written, and the elements of a descriptor. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core_value.h"

/* ---- written bits: one per byte, in words of 64 ---- */

static uint64_t mask_of(uint32_t from, uint32_t count) {
  return (count < 64 ? (1ull << count) - 1 : ~0ull) << from;
}

static bool all_written(const uint64_t *bits, uint32_t from, uint32_t count) {
  uint32_t first = count < 64 - from % 64 ? count : 64 - from % 64;
  uint64_t missing = 0;
  bits += from / 64;
  missing |= ~*bits++ & mask_of(from % 64, first);
  for (count -= first; count >= 64; count -= 64) missing |= ~*bits++;
  if (count) missing |= ~*bits & mask_of(0, count);
  return !missing;
}

static void mark_written(uint64_t *bits, uint32_t from, uint32_t count) {
  for (bits += from / 64, from %= 64; count; bits++, from = 0) {
    uint32_t here = count < 64 - from ? count : 64 - from;
    *bits |= mask_of(from, here);
    count -= here;
  }
}

static uint64_t *written_in(const fabric_image *image) {
  return (uint64_t *)(image->data + image->bytes);
}

/* ---- images: as long as what has been written in them, for most of a wafer is empty ---- */

#define GRAIN 64 /* bytes */

/* Makes room for `end` bytes; at least half as much again as there is, so that programs that write
 * upwards seldom move. */
static bool grow(const wafer_fabric *f, fabric_image *image, uint32_t end) {
  uint32_t bytes = image->bytes + image->bytes / 2;
  if (bytes > f->machine->core_bytes) bytes = f->machine->core_bytes;
  if (bytes < end) bytes = end;
  bytes = (bytes + GRAIN - 1) / GRAIN * GRAIN;
  fabric_image more = {.data = malloc((size_t)bytes + bytes / 8), .bytes = bytes};
  if (!more.data) return false;
  if (image->bytes) {
    memcpy(more.data, image->data, image->bytes);
    memcpy(written_in(&more), written_in(image), image->bytes / 8);
  }
  memset((unsigned char *)written_in(&more) + image->bytes / 8, 0, (bytes - image->bytes) / 8);
  free(image->data);
  *image = more;
  return true;
}

static bool has_room(const wafer_fabric *f, fabric_image *image, uint32_t end) {
  return end <= image->bytes || grow(f, image, end);
}

static bool is_written(const fabric_image *image, uint32_t from, uint32_t count) {
  return !count || (from + count <= image->bytes && all_written(written_in(image), from, count));
}

static fabric_image *image_of(const wafer_fabric *f, uint32_t at) {
  return &f->images[f->cores[at].router];
}

static inline void fetch_operands(const wafer_fabric *f, uint32_t at, const core_thread *t) {
  uint32_t inputs = t->quick ? t->inputs : core_inputs(t->code);
  for (uint32_t k = 0; k <= inputs; k++) {
    uint8_t kind = t->quick ? t->there >> k & 1 ? WAFER_OPERAND_fabric : WAFER_OPERAND_memory
                            : core_operand(t->code, k)->kind;
    if (kind == WAFER_OPERAND_fabric) {
      __builtin_prefetch(&f->nodes[t->queue[k]], 1);
    } else if (kind == WAFER_OPERAND_memory) {
      const fabric_image *image = image_of(f, at);
      if (t->address[k] < 0 || t->address[k] >= image->bytes) continue;
      __builtin_prefetch(image->data + t->address[k], 1);
      __builtin_prefetch(written_in(image) + t->address[k] / 64, 1);
    }
  }
}

void core_fetch(const wafer_fabric *f, uint32_t at) {
  const fabric_core *core = &f->cores[at];
  for (uint32_t left = core->running; left; left &= left - 1)
    fetch_operands(f, at, &core->threads[__builtin_ctz(left)]);
  if (core->state == CORE_RUN) __builtin_prefetch(&core->program->code[core->pc]);
}

/* ---- from outside ---- */

static bool in_data(const wafer_fabric *f, uint32_t router, uint32_t address, uint32_t bytes) {
  uint32_t core = f->core_of[router];
  uint32_t limit =
      core == FABRIC_NONE ? wafer_machine_core_budget(f->machine) : f->cores[core].limit;
  return address <= limit && bytes <= limit - address;
}

bool wafer_fabric_write(wafer_fabric *f, uint32_t x, uint32_t y, uint32_t address, const void *data,
                        uint32_t bytes) {
  if (x >= f->program->width || y >= f->program->height) return false;
  uint32_t router = y * f->program->width + x;
  if (!in_data(f, router, address, bytes)) return false;
  fabric_image *image = &f->images[router];
  if (!bytes) return true;
  if (!has_room(f, image, address + bytes)) return false;
  memcpy(image->data + address, data, bytes);
  mark_written(written_in(image), address, bytes);
  return true;
}

bool wafer_fabric_read(const wafer_fabric *f, uint32_t x, uint32_t y, uint32_t address, void *data,
                       uint32_t bytes) {
  if (x >= f->program->width || y >= f->program->height) return false;
  uint32_t router = y * f->program->width + x;
  if (!in_data(f, router, address, bytes) || !is_written(&f->images[router], address, bytes))
    return false;
  if (bytes) memcpy(data, f->images[router].data + address, bytes);
  return true;
}

/* ---- runs of a descriptor's innermost level ---- */

/* The bytes that n elements from the operand's present address cover. */
static void span(const core_thread *t, uint32_t k, uint32_t n, int64_t *low, int64_t *high) {
  const wafer_operand *o = core_operand(t->code, k);
  int64_t last = t->address[k] + (int64_t)(n - 1) * o->stride[3];
  *low = t->address[k] < last ? t->address[k] : last;
  *high = (t->address[k] < last ? last : t->address[k]) + t->bytes[k];
}

static bool inside(const wafer_fabric *f, uint32_t at, const core_thread *t, uint32_t k,
                   uint32_t n) {
  const wafer_operand *o = core_operand(t->code, k);
  int64_t low, high;
  span(t, k, n, &low, &high);
  bool even = t->bytes[k] == 1 || !((t->address[k] | (n > 1 ? o->stride[3] : 0)) & 1);
  return low >= 0 && high <= f->cores[at].limit && even;
}

bool core_box(const core_thread *t, uint32_t k, int32_t bytes[2]) {
  const wafer_operand *o = core_operand(t->code, k);
  int64_t low = t->address[k], high;
  for (uint32_t level = 0; level < WAFER_LEVELS; level++)
    low -= (int64_t)t->index[level] * o->stride[level];
  high = low;
  for (uint32_t level = 0; level < WAFER_LEVELS; level++) {
    uint32_t extent = level == 3 ? t->inner : t->code->shape[level];
    int64_t way = extent ? (int64_t)(extent - 1) * o->stride[level] : 0;
    low += way < 0 ? way : 0;
    high += way < 0 ? 0 : way;
  }
  bytes[0] = (int32_t)low;
  bytes[1] = (int32_t)(high + t->bytes[k]);
  return low >= 0 && high <= INT32_MAX - t->bytes[k];
}

bool core_box_inside(const wafer_fabric *f, uint32_t at, const core_thread *t, uint32_t k) {
  const wafer_operand *o = core_operand(t->code, k);
  int32_t bytes[2];
  if (!core_box(t, k, bytes) || bytes[1] > (int64_t)f->cores[at].limit) return false;
  int64_t bits = bytes[0];
  for (uint32_t level = 0; level < WAFER_LEVELS; level++)
    if ((level == 3 ? t->inner : t->code->shape[level]) > 1) bits |= o->stride[level];
  return t->bytes[k] == 1 || !(bits & 1);
}

static bool run_written(const wafer_fabric *f, uint32_t at, const core_thread *t, uint32_t k,
                        uint32_t n) {
  const wafer_operand *o = core_operand(t->code, k);
  const fabric_image *image = image_of(f, at);
  uint32_t bytes = t->bytes[k];
  if (o->stride[3] == (int32_t)bytes) return is_written(image, (uint32_t)t->address[k], n * bytes);
  if (!o->stride[3]) n = 1;
  int64_t address = t->address[k];
  for (uint32_t i = 0; i < n; i++, address += o->stride[3])
    if (!is_written(image, (uint32_t)address, bytes)) return false;
  return true;
}

bool core_run_there(const wafer_fabric *f, uint32_t at, const core_thread *t, uint32_t k,
                    uint32_t n) {
  return inside(f, at, t, k, n) && (k == 0 || run_written(f, at, t, k, n));
}

/* The colour of an instruction that moves words of the fabric, for messages. */
static const char *with_color(const core_thread *t, char *text, size_t bytes) {
  *text = 0;
  for (uint32_t k = 0; k <= core_inputs(t->code); k++)
    if (core_operand(t->code, k)->kind == WAFER_OPERAND_fabric)
      snprintf(text, bytes, " (of color %u)", core_operand(t->code, k)->color);
  return text;
}

static wafer_status outside(const wafer_fabric *f, uint32_t at, const core_thread *t, uint32_t k,
                            uint32_t n, const char *what) {
  int64_t address = t->address[k];
  core_thread one = *t;
  for (uint32_t i = 0; i < n && inside(f, at, &one, k, 1); i++)
    one.address[k] = address += core_operand(t->code, k)->stride[3];
  char color[32];
  return fabric_trap(f, f->cores[at].router,
                     "%s %s %u bytes at address %lld%s; data is from 0 to %u, in steps of 2",
                     wafer_core_op_name(t->code->op), what, t->bytes[k], (long long)address,
                     with_color(t, color, sizeof color), f->cores[at].limit);
}

static wafer_status unwritten(const wafer_fabric *f, uint32_t at, const core_thread *t,
                              uint32_t k) {
  const fabric_image *image = image_of(f, at);
  int64_t address = t->address[k];
  while (is_written(image, (uint32_t)address, t->bytes[k]))
    address += core_operand(t->code, k)->stride[3];
  while (is_written(image, (uint32_t)address, 1)) address++;
  char color[32];
  return fabric_trap(f, f->cores[at].router, "%s reads address %u%s, which nobody has written",
                     wafer_core_op_name(t->code->op), (uint32_t)address,
                     with_color(t, color, sizeof color));
}

#define PICK(T)                                                                                    \
  for (uint32_t i = 0; i < n; i++, from += stride) {                                               \
    T one;                                                                                         \
    memcpy(&one, from, sizeof one);                                                                \
    ((T *)dense)[i] = one;                                                                         \
  }
#define STREW(T)                                                                                   \
  for (uint32_t i = 0; i < n; i++, to += stride) memcpy(to, &((const T *)dense)[i], sizeof(T));

wafer_status core_gather(const wafer_fabric *f, uint32_t at, const core_thread *t, uint32_t k,
                         uint32_t n, void *dense) {
  int32_t stride = core_operand(t->code, k)->stride[3];
  if (!inside(f, at, t, k, n)) return outside(f, at, t, k, n, "reads");
  if (!run_written(f, at, t, k, n)) return unwritten(f, at, t, k);
  const unsigned char *from = image_of(f, at)->data + t->address[k];
  if (stride == t->bytes[k])
    memcpy(dense, from, (size_t)n * t->bytes[k]);
  else if (t->bytes[k] == 4)
    PICK(uint32_t)
  else if (t->bytes[k] == 2)
    PICK(uint16_t)
  else if (t->bytes[k] == 1)
    PICK(uint8_t)
  else
    PICK(uint64_t)
  return WAFER_OK;
}

wafer_status core_view(const wafer_fabric *f, uint32_t at, const core_thread *t, uint32_t k,
                       uint32_t n, void *dense, const void **elements) {
  const unsigned char *from = image_of(f, at)->data + t->address[k];
  bool lies =
      core_operand(t->code, k)->stride[3] == t->bytes[k] && t->address[k] % t->bytes[k] == 0;
  *elements = dense;
  if (!lies || !core_run_there(f, at, t, k, n)) return core_gather(f, at, t, k, n, dense);
  *elements = from;
  return WAFER_OK;
}

wafer_status core_scatter(wafer_fabric *f, uint32_t at, const core_thread *t, uint32_t n,
                          const void *dense) {
  int32_t stride = t->code->out.stride[3];
  if (!inside(f, at, t, 0, n)) return outside(f, at, t, 0, n, "writes");
  int64_t low, high;
  span(t, 0, n, &low, &high);
  fabric_image *image = image_of(f, at);
  if (!has_room(f, image, (uint32_t)high))
    return wafer_fail(f->diag, wafer_at_file(f->program->name), WAFER_NO_MEMORY,
                      "the memories of %u cores do not fit the host", f->count);
  unsigned char *to = image->data + t->address[0];
  uint64_t *bits = written_in(image);
  if (stride == t->bytes[0]) {
    mark_written(bits, (uint32_t)t->address[0], n * t->bytes[0]);
    memcpy(to, dense, (size_t)n * t->bytes[0]);
    return WAFER_OK;
  }
  for (uint32_t i = 0; i < n; i++)
    mark_written(bits, (uint32_t)(t->address[0] + (int64_t)i * stride), t->bytes[0]);
  if (t->bytes[0] == 4)
    STREW(uint32_t)
  else if (t->bytes[0] == 2)
    STREW(uint16_t)
  else if (t->bytes[0] == 1)
    STREW(uint8_t)
  else
    STREW(uint64_t)
  return WAFER_OK;
}

bool core_runs_apart(const core_thread *t, uint32_t k, uint32_t n) {
  const wafer_operand *in = core_operand(t->code, k), *out = &t->code->out;
  int64_t low, high, to_low, to_high;
  if (in->kind != WAFER_OPERAND_memory || out->kind != WAFER_OPERAND_memory || n == 1) return true;
  if (t->address[k] == t->address[0] && in->stride[3] == out->stride[3] &&
      t->bytes[k] == t->bytes[0] && (in->stride[3] >= t->bytes[k] || in->stride[3] <= -t->bytes[k]))
    return true;
  span(t, k, n, &low, &high);
  span(t, 0, n, &to_low, &to_high);
  return high <= to_low || to_high <= low;
}
