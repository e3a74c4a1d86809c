#include <inttypes.h>
#include <string.h>

#include "machine_fields.h"
#include "wafer/file.h"

/* ---- the shipped ones: static const unsigned char text_<name>[], and the table ---- */

typedef struct shipped {
  const char *name;
  const unsigned char *text;
  size_t bytes;
} shipped;

#include "machines.inc"

const char *const *wafer_machine_names(void) {
  return shipped_names;
}

static const shipped *find_shipped(const char *name) {
  for (size_t i = 0; i < WAFER_COUNT(shipped_machines); i++)
    if (strcmp(shipped_machines[i].name, name) == 0) return &shipped_machines[i];
  return NULL;
}

const char *wafer_machine_text(const char *name, size_t *bytes) {
  const shipped *found = find_shipped(name);
  *bytes = found ? found->bytes : 0;
  return found ? (const char *)found->text : NULL;
}

static wafer_status unknown_name(const wafer_diag *diag, wafer_arena *arena, const char *name) {
  const char *known = "";
  for (const char *const *at = shipped_names; *at && known; at++)
    known = wafer_arena_printf(arena, "%s %s", known, *at);
  return wafer_fail(diag, (wafer_loc){0}, WAFER_USAGE,
                    "there is no machine '%s'; shipped are%s, or give the path of an XML file",
                    name, known ? known : " some");
}

wafer_status wafer_machine_open(const wafer_diag *diag, wafer_arena *arena,
                                const char *name_or_path, const wafer_machine **out) {
  size_t bytes;
  wafer_bytes file;
  *out = NULL;
  const char *text = wafer_machine_text(name_or_path, &bytes);
  if (text) return wafer_machine_parse(diag, arena, name_or_path, text, bytes, out);
  if (!strpbrk(name_or_path, "/.")) return unknown_name(diag, arena, name_or_path);
  WAFER_TRY(wafer_file_map(diag, arena, name_or_path, &file));
  WAFER_TRY(wafer_machine_parse(diag, arena, name_or_path, file.data, file.size, out));
  if (!(*out)->whole) return WAFER_OK;
  *out = NULL;
  return wafer_fail(diag, wafer_at_file(name_or_path), WAFER_BAD_INPUT,
                    "a machine file with <bands>: how many there are is a plan's; take the element "
                    "out and compile with --bands");
}

/* ---- numbers ---- */

const machine_field machine_fields[] = {
#define FIELD(element, attribute, member, kind, minimum, maximum)                                  \
  {element, attribute, offsetof(wafer_machine, member), FIELD_##kind, minimum, maximum},
#include "machine_fields.def"
};
const size_t machine_field_count = WAFER_COUNT(machine_fields);

uint64_t machine_field_get(const wafer_machine *machine, const machine_field *field) {
  const void *at = (const char *)machine + field->offset;
  uint32_t narrow;
  uint64_t wide;
  if (field->kind <= FIELD_optional) return memcpy(&narrow, at, sizeof narrow), narrow;
  return memcpy(&wide, at, sizeof wide), wide;
}

void machine_field_set(wafer_machine *machine, const machine_field *field, uint64_t value) {
  void *at = (char *)machine + field->offset;
  uint32_t narrow = (uint32_t)value;
  if (field->kind <= FIELD_optional)
    memcpy(at, &narrow, sizeof narrow);
  else
    memcpy(at, &value, sizeof value);
}

bool machine_field_allows(const machine_field *field, uint64_t value) {
  if (field->kind == FIELD_bandwidth && value == UINT64_MAX) return true;
  return value >= field->minimum && value <= field->maximum;
}

/* ceil(a * b / c), UINT64_MAX when it is more. */
static uint64_t scaled_up(uint64_t a, uint64_t b, uint64_t c) {
  unsigned __int128 product = (unsigned __int128)a * b, result = product / c + (product % c != 0);
  return result > UINT64_MAX ? UINT64_MAX : (uint64_t)result;
}

uint64_t wafer_machine_cycles(const wafer_machine *m, wafer_rate rate, wafer_dtype dtype,
                              uint64_t count) {
  uint32_t bits = wafer_dtype_bits(dtype);
  wafer_throughput t = m->rate[rate][bits <= 16];
  return scaled_up(count, (uint64_t)t.cycles * (bits > 32 ? 2 : 1), t.elements);
}

uint64_t wafer_machine_transfer_cycles(const wafer_machine *m, uint64_t bytes,
                                       uint64_t bytes_per_second) {
  if (bytes_per_second == UINT64_MAX) return 0;
  return scaled_up(bytes, m->clock_hz, bytes_per_second);
}

/* ---- checks ---- */

static wafer_status check_name(const wafer_diag *diag, wafer_loc loc, const char *name) {
  static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  size_t length = name ? strlen(name) : 0;
  if (length > 0 && length <= 64 && strspn(name, allowed) == length) return WAFER_OK;
  return wafer_fail(diag, loc, WAFER_BAD_INPUT,
                    "a machine's name has 1 to 64 of A-Z a-z 0-9 . _ -, not '%s'",
                    name ? name : "");
}

static wafer_status check_fields(const wafer_diag *diag, wafer_loc loc, const wafer_machine *m) {
  for (size_t i = 0; i < machine_field_count; i++) {
    const machine_field *field = &machine_fields[i];
    uint64_t value = machine_field_get(m, field);
    if (!machine_field_allows(field, value))
      return wafer_fail(diag, loc, WAFER_BAD_INPUT,
                        "%s %s is %" PRIu64 "; allowed are %" PRIu64 " to %" PRIu64, field->element,
                        field->attribute, value, field->minimum, field->maximum);
  }
  return WAFER_OK;
}

static wafer_status check_rates(const wafer_diag *diag, wafer_loc loc, const wafer_machine *m) {
  for (int rate = 0; rate < WAFER_RATE_COUNT; rate++)
    for (int narrow = 0; narrow < 2; narrow++) {
      wafer_throughput t = m->rate[rate][narrow];
      if (t.elements < 1 || t.cycles < 1 || t.elements > MACHINE_MAX_RATE ||
          t.cycles > MACHINE_MAX_RATE)
        return wafer_fail(
            diag, loc, WAFER_BAD_INPUT, "rate %s is %" PRIu32 "/%" PRIu32 "; both must be 1 to %u",
            wafer_rate_name((wafer_rate)rate), t.elements, t.cycles, MACHINE_MAX_RATE);
    }
  return WAFER_OK;
}

static wafer_status check_queues(const wafer_diag *diag, wafer_loc loc, const char *element,
                                 uint32_t count, const uint32_t *words) {
  if (count < 1 || count > WAFER_MACHINE_QUEUES)
    return wafer_fail(diag, loc, WAFER_BAD_INPUT, "%s: %" PRIu32 " queues; allowed are 1 to %d",
                      element, count, WAFER_MACHINE_QUEUES);
  for (uint32_t i = 0; i < count; i++)
    if (words[i] < 1 || words[i] > MACHINE_MAX_QUEUE_WORDS)
      return wafer_fail(diag, loc, WAFER_BAD_INPUT,
                        "%s: queue %" PRIu32 " has %" PRIu32 " words; allowed are 1 to %u", element,
                        i, words[i], MACHINE_MAX_QUEUE_WORDS);
  return WAFER_OK;
}

static wafer_status check_dead(const wafer_diag *diag, wafer_loc loc, const wafer_machine *m) {
  uint64_t live = wafer_rect_area(m->usable);
  for (uint32_t i = 0; i < m->dead_count; i++) {
    wafer_core_at core = m->dead[i], before = i ? m->dead[i - 1] : core;
    if (core.x >= m->width || core.y >= m->height)
      return wafer_fail(diag, loc, WAFER_BAD_INPUT,
                        "dead core (%" PRIu32 ",%" PRIu32 ") is outside the fabric of %" PRIu32
                        " x %" PRIu32 " cores",
                        core.x, core.y, m->width, m->height);
    if (i && core.x == before.x && core.y == before.y)
      return wafer_fail(diag, loc, WAFER_BAD_INPUT,
                        "dead core (%" PRIu32 ",%" PRIu32 ") is listed twice", core.x, core.y);
    if (core.y < before.y || (core.y == before.y && core.x < before.x))
      return wafer_fail(diag, loc, WAFER_BAD_INPUT, "dead cores are not sorted by y, then x");
    live -= wafer_rect_has(m->usable, core.x, core.y);
  }
  return live
             ? WAFER_OK
             : wafer_fail(diag, loc, WAFER_BAD_INPUT, "every core of the usable rectangle is dead");
}

/* Every core of a repaired fabric is a live one, and none is there twice: along a line they rise.
 */
static wafer_status check_repair(const wafer_diag *diag, wafer_loc loc, const wafer_machine *m) {
  const wafer_repair *p = m->repair;
  size_t step = p->columns ? 1 : m->width;
  for (size_t i = 0; i < (size_t)m->width * m->height; i++) {
    bool first = p->columns ? i % m->width == 0 : i < m->width;
    if (!first && p->moved[i] <= p->moved[i - step])
      return wafer_fail(diag, loc, WAFER_BAD_INPUT, "two cores of the repaired fabric are one");
  }
  for (uint32_t i = 0; i < p->dead_count; i++) {
    uint32_t line = p->columns ? p->dead[i].y : p->dead[i].x,
             length = p->columns ? m->width : m->height;
    uint32_t moved = p->columns ? p->dead[i].x : p->dead[i].y, low = 0, high = length;
    size_t start = p->columns ? (size_t)line * m->width : line;
    while (low < high) {
      uint32_t middle = low + (high - low) / 2;
      if (p->moved[start + middle * step] < moved)
        low = middle + 1;
      else
        high = middle;
    }
    if (low < length && p->moved[start + low * step] == moved)
      return wafer_fail(diag, loc, WAFER_BAD_INPUT, "dead core (%" PRIu32 ",%" PRIu32 ") is in use",
                        p->dead[i].x, p->dead[i].y);
  }
  return WAFER_OK;
}

static wafer_status check_reserved(const wafer_diag *diag, wafer_loc loc, const wafer_machine *m) {
  for (uint32_t i = 0; i < m->reserved_count; i++) {
    wafer_rect r = m->reserved[i];
    if (!r.width || !r.height || (uint64_t)r.x + r.width > m->width ||
        (uint64_t)r.y + r.height > m->height)
      return wafer_fail(diag, loc, WAFER_BAD_INPUT,
                        "the reserved rectangle of %" PRIu32 " x %" PRIu32 " cores at (%" PRIu32
                        ",%" PRIu32 ") is empty or leaves the fabric of %" PRIu32 " x %" PRIu32,
                        r.width, r.height, r.x, r.y, m->width, m->height);
  }
  return WAFER_OK;
}

wafer_status wafer_machine_check(const wafer_diag *diag, const char *file, const wafer_machine *m) {
  wafer_loc loc = wafer_at_file(file);
  WAFER_TRY(check_name(diag, loc, m->name));
  WAFER_TRY(check_fields(diag, loc, m));
  WAFER_TRY(check_rates(diag, loc, m));
  WAFER_TRY(check_queues(diag, loc, "input-queues", m->input_queues, m->input_queue_words));
  WAFER_TRY(check_queues(diag, loc, "output-queues", m->output_queues, m->output_queue_words));
  if (m->usable.x + m->usable.width > m->width || m->usable.y + m->usable.height > m->height)
    return wafer_fail(diag, loc, WAFER_BAD_INPUT,
                      "the usable rectangle, %" PRIu32 " x %" PRIu32 " cores at (%" PRIu32
                      ",%" PRIu32 "), leaves the fabric of %" PRIu32 " x %" PRIu32,
                      m->usable.width, m->usable.height, m->usable.x, m->usable.y, m->width,
                      m->height);
  if (m->reserved_bytes >= m->core_bytes)
    return wafer_fail(diag, loc, WAFER_BAD_INPUT,
                      "core reserved-bytes, %" PRIu32 ", leaves nothing of %" PRIu32 " bytes",
                      m->reserved_bytes, m->core_bytes);
  WAFER_TRY(check_reserved(diag, loc, m));
  if (m->repair) WAFER_TRY(check_repair(diag, loc, wafer_machine_whole(m)));
  return check_dead(diag, loc, m);
}
