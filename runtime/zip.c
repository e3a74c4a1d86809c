/* The ZIP format (APPNOTE 6.3.9), of which plan files use: stored members, ZIP64, the alignment
 * field. */
#include "zip.h"

#include <string.h>
#include <zlib.h>

enum {
  LOCAL = 0x04034b50,
  CENTRAL = 0x02014b50,
  END = 0x06054b50,
  END64 = 0x06064b50,
  LOCATOR64 = 0x07064b50,
  LOCAL_BYTES = 30,
  CENTRAL_BYTES = 46,
  END_BYTES = 22,
  END64_BYTES = 56,
  LOCATOR64_BYTES = 20,
  EXTRA_ZIP64 = 0x0001,
  EXTRA_ALIGN = 0xd935, /* alignment (2 bytes), zeros */
  VERSION = 10,         /* needed to read stored members */
  VERSION64 = 45,
  MADE_BY = 3 << 8, /* UNIX, for the mode below */
  DATE = 1 << 5 | 1 /* 1980-01-01, the first one there is; the time is 0 */
};
#define MODE (0100644u << 16)
#define LOCAL_EXTRA64 20u   /* both sizes */
#define CENTRAL_EXTRA64 28u /* both sizes and the offset */

/* ---- writing: little endian, one after the other ---- */

typedef struct cursor {
  unsigned char *at;
} cursor;

static void put(cursor *c, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) *c->at++ = (unsigned char)(value >> (8 * i));
}

static void put_bytes(cursor *c, const char *bytes, size_t count) {
  memcpy(c->at, bytes, count);
  c->at += count;
}

typedef struct placed {
  uint64_t offset, size;
  uint32_t crc;
  bool zip64;
} placed;

static uint64_t data_bytes(const zip_member *m) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < m->part_count; i++) bytes += m->parts[i].size;
  return bytes;
}

static uint32_t checksum(const zip_member *m) {
  uLong crc = crc32_z(0, NULL, 0);
  for (size_t i = 0; i < m->part_count; i++) crc = crc32_z(crc, m->parts[i].data, m->parts[i].size);
  return (uint32_t)crc;
}

/* Bytes of the alignment field that puts the data behind a header which ends at `end`. */
static uint32_t align_field(const zip_member *m, uint64_t end) {
  if (m->align < 2 || !(end & (m->align - 1))) return 0;
  uint32_t bytes = 6;
  while ((end + bytes) & (m->align - 1)) bytes++;
  return bytes;
}

/* The fields that local header and directory share, from `version needed` to `name length`. */
static void put_common(cursor *c, const zip_member *m, const placed *p) {
  put(c, p->zip64 ? VERSION64 : VERSION, 2);
  put(c, 0, 2); /* flags */
  put(c, 0, 2); /* stored */
  put(c, 0, 2); /* time */
  put(c, DATE, 2);
  put(c, p->crc, 4);
  put(c, p->zip64 ? UINT32_MAX : p->size, 4);
  put(c, p->zip64 ? UINT32_MAX : p->size, 4);
  put(c, strlen(m->name), 2);
}

static bool put_local(wafer_arena *arena, const zip_member *m, const placed *p, wafer_bytes *out) {
  size_t name = strlen(m->name), extra = p->zip64 ? LOCAL_EXTRA64 : 0;
  uint32_t align = align_field(m, p->offset + LOCAL_BYTES + name + extra);
  size_t bytes = LOCAL_BYTES + name + extra + align;
  cursor c = {WAFER_NEW(arena, unsigned char, bytes)};
  if (!c.at) return false;
  *out = (wafer_bytes){c.at, bytes};
  put(&c, LOCAL, 4);
  put_common(&c, m, p);
  put(&c, extra + align, 2);
  put_bytes(&c, m->name, name);
  if (p->zip64) {
    put(&c, EXTRA_ZIP64, 2);
    put(&c, LOCAL_EXTRA64 - 4, 2);
    put(&c, p->size, 8);
    put(&c, p->size, 8);
  }
  if (align) {
    put(&c, EXTRA_ALIGN, 2);
    put(&c, align - 4, 2);
    put(&c, m->align, 2);
  }
  return true;
}

static void put_central(cursor *c, const zip_member *m, const placed *p) {
  put(c, CENTRAL, 4);
  put(c, MADE_BY | (p->zip64 ? VERSION64 : VERSION), 2);
  put_common(c, m, p);
  put(c, p->zip64 ? CENTRAL_EXTRA64 : 0, 2);
  put(c, 0, 2); /* comment */
  put(c, 0, 2); /* disk */
  put(c, 0, 2); /* internal attributes */
  put(c, MODE, 4);
  put(c, p->zip64 ? UINT32_MAX : p->offset, 4);
  put_bytes(c, m->name, strlen(m->name));
  if (!p->zip64) return;
  put(c, EXTRA_ZIP64, 2);
  put(c, CENTRAL_EXTRA64 - 4, 2);
  put(c, p->size, 8);
  put(c, p->size, 8);
  put(c, p->offset, 8);
}

/* `start`: offset of the directory, of `size` bytes. */
static void put_end64(cursor *c, size_t count, uint64_t start, uint64_t size) {
  put(c, END64, 4);
  put(c, END64_BYTES - 12, 8);
  put(c, MADE_BY | VERSION64, 2);
  put(c, VERSION64, 2);
  put(c, 0, 8); /* this disk, the directory's disk */
  put(c, count, 8);
  put(c, count, 8);
  put(c, size, 8);
  put(c, start, 8);
  put(c, LOCATOR64, 4);
  put(c, 0, 4);
  put(c, start + size, 8);
  put(c, 1, 4);
}

static void put_end(cursor *c, size_t count, uint64_t start, uint64_t size, bool zip64,
                    uint16_t comment) {
  put(c, END, 4);
  put(c, 0, 4);
  put(c, count, 2);
  put(c, count, 2);
  put(c, zip64 ? UINT32_MAX : size, 4);
  put(c, zip64 ? UINT32_MAX : start, 4);
  put(c, comment, 2);
}

static bool put_directory(wafer_arena *arena, const zip_member *members, const placed *at,
                          size_t count, uint64_t start, zip_options options, wafer_bytes *out) {
  uint64_t size = 0;
  bool zip64 = start >= options.zip64_from;
  for (size_t i = 0; i < count; i++) {
    size += CENTRAL_BYTES + strlen(members[i].name) + (at[i].zip64 ? CENTRAL_EXTRA64 : 0);
    zip64 |= at[i].zip64;
  }
  size_t tail = (zip64 ? END64_BYTES + LOCATOR64_BYTES : 0u) + END_BYTES + options.comment_bytes;
  cursor c = {WAFER_NEW(arena, unsigned char, size + tail)};
  if (!c.at) return false;
  *out = (wafer_bytes){c.at, size + tail};
  for (size_t i = 0; i < count; i++) put_central(&c, &members[i], &at[i]);
  if (zip64) put_end64(&c, count, start, size);
  put_end(&c, count, start, size, zip64, options.comment_bytes);
  return true;
}

wafer_status zip_build(const wafer_diag *diag, wafer_loc loc, wafer_arena *arena,
                       const zip_member *members, size_t count, zip_options options,
                       zip_archive *out) {
  size_t part_count = count + 1, next = 0;
  uint64_t offset = 0;
  bool made = true;
  for (size_t i = 0; i < count; i++) part_count += members[i].part_count;
  wafer_bytes *parts = WAFER_NEW(arena, wafer_bytes, part_count);
  placed *at = WAFER_NEW(arena, placed, count);
  if (!options.zip64_from) options.zip64_from = UINT32_MAX;
  for (size_t i = 0; i < count && (made = made && parts && at); i++) {
    at[i] =
        (placed){.offset = offset, .size = data_bytes(&members[i]), .crc = checksum(&members[i])};
    at[i].zip64 = at[i].size >= options.zip64_from || offset >= options.zip64_from;
    made = put_local(arena, &members[i], &at[i], &parts[next]);
    if (!made) break;
    offset += parts[next++].size + at[i].size;
    if (members[i].part_count)
      memcpy(&parts[next], members[i].parts, members[i].part_count * sizeof *parts);
    next += members[i].part_count;
  }
  if (!made || !parts || !put_directory(arena, members, at, count, offset, options, &parts[next]))
    return wafer_fail(diag, loc, WAFER_NO_MEMORY, "no memory for the archive's headers");
  const char *end = (const char *)parts[next].data + parts[next].size;
  *out = (zip_archive){part_count, parts, (char *)(uintptr_t)(end - options.comment_bytes)};
  return WAFER_OK;
}

/* ---- reading ---- */

typedef struct archive {
  const wafer_diag *diag;
  wafer_loc loc;
  const unsigned char *bytes;
  uint64_t size;
} archive;

static uint64_t get(const unsigned char *at, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; i++) value |= (uint64_t)at[i] << (8 * i);
  return value;
}

static wafer_status bad(const archive *a, const char *what) {
  return wafer_fail(a->diag, a->loc, WAFER_BAD_INPUT, "not a plan file: %s", what);
}

static bool has(const archive *a, uint64_t offset, uint64_t bytes) {
  return offset <= a->size && bytes <= a->size - offset;
}

static bool is(const archive *a, uint64_t offset, uint64_t bytes, uint32_t signature) {
  return has(a, offset, bytes) && get(a->bytes + offset, 4) == signature;
}

typedef struct directory {
  uint64_t start, size, count;
  bool zip64;
} directory;

/* The end record is the one whose comment ends with the file. */
static wafer_status find_end(const archive *a, uint64_t *end) {
  if (a->size < END_BYTES) return bad(a, "the file is too short for a ZIP archive");
  for (uint64_t comment = 0; comment <= UINT16_MAX && comment + END_BYTES <= a->size; comment++) {
    *end = a->size - END_BYTES - comment;
    if (is(a, *end, END_BYTES, END) && get(a->bytes + *end + 20, 2) == comment) return WAFER_OK;
  }
  return bad(a, "a ZIP archive has an end record, this is cut off or no archive");
}

static wafer_status find_directory64(const archive *a, uint64_t end, directory *d) {
  uint64_t behind = end - LOCATOR64_BYTES, at = behind - END64_BYTES;
  if (end < LOCATOR64_BYTES + END64_BYTES || !is(a, behind, LOCATOR64_BYTES, LOCATOR64) ||
      get(a->bytes + behind + 8, 8) != at || !is(a, at, END64_BYTES, END64))
    return bad(a, "its ZIP64 end record is not where it belongs");
  const unsigned char *r = a->bytes + at;
  *d = (directory){get(r + 48, 8), get(r + 40, 8), get(r + 32, 8), true};
  if (d->count != get(r + 24, 8) || d->size > at || d->start != at - d->size)
    return bad(a, "its directory is not where it belongs");
  return WAFER_OK;
}

static wafer_status find_directory(const archive *a, uint64_t end, directory *d) {
  const unsigned char *r = a->bytes + end;
  *d = (directory){get(r + 16, 4), get(r + 12, 4), get(r + 10, 2), false};
  if (d->start == UINT32_MAX) return find_directory64(a, end, d);
  if (get(r + 4, 4) || get(r + 8, 2) != d->count || d->size > end || d->start != end - d->size)
    return bad(a, "its directory is not where it belongs");
  return WAFER_OK;
}

/* One line of the directory. */
typedef struct record {
  const unsigned char *common; /* from `version needed` on */
  const char *name;
  uint64_t size, offset, bytes; /* bytes: of the line itself */
  uint32_t name_bytes;
} record;

static wafer_status read_record(const archive *a, const directory *d, uint64_t at, record *r) {
  uint64_t end = d->start + d->size;
  if (!is(a, at, CENTRAL_BYTES, CENTRAL) || at + CENTRAL_BYTES > end)
    return bad(a, "its directory is damaged");
  const unsigned char *c = a->bytes + at;
  uint32_t extra = (uint32_t)get(c + 30, 2);
  *r = (record){c + 6, (const char *)c + CENTRAL_BYTES, get(c + 24, 4), get(c + 42, 4),
                0,     (uint32_t)get(c + 28, 2)};
  r->bytes = CENTRAL_BYTES + (uint64_t)r->name_bytes + extra;
  if (at + r->bytes > end || get(c + 32, 2) || get(c + 34, 2))
    return bad(a, "its directory is damaged");
  if (r->size == UINT32_MAX) {
    const unsigned char *x = c + CENTRAL_BYTES + r->name_bytes;
    if (extra != CENTRAL_EXTRA64 || get(x, 4) != (EXTRA_ZIP64 | (CENTRAL_EXTRA64 - 4) << 16))
      return bad(a, "its directory is damaged");
    r->size = get(x + 4, 8);
    r->offset = get(x + 20, 8);
  } else if (extra) {
    return bad(a, "its directory is damaged");
  }
  if (get(c + 8, 2) || get(c + 10, 2) || get(c + 20, 4) != get(c + 24, 4))
    return bad(a, "a member is compressed or encrypted");
  return WAFER_OK;
}

/* The member starts at `at`, where the one before it ended; *next is where it ends. */
static wafer_status read_member(const archive *a, const record *r, uint64_t at, wafer_bytes *data,
                                uint64_t *next) {
  if (r->offset != at || !is(a, at, LOCAL_BYTES, LOCAL))
    return bad(a, "there is a gap between members");
  const unsigned char *l = a->bytes + at;
  uint64_t start = at + LOCAL_BYTES + r->name_bytes + get(l + 28, 2);
  /* version, flags, method, date, checksum, sizes, name length: as in the directory */
  if (memcmp(l + 4, r->common, 24) || !has(a, at + LOCAL_BYTES, r->name_bytes) ||
      memcmp(l + LOCAL_BYTES, r->name, r->name_bytes))
    return bad(a, "a member's header disagrees with the directory");
  if (!has(a, start, r->size)) return bad(a, "a member reaches beyond the end of the file");
  *data = (wafer_bytes){a->bytes + start, r->size};
  *next = start + r->size;
  return WAFER_OK;
}

static wafer_status read_entries(const archive *a, wafer_arena *arena, const directory *d,
                                 zip_entry *entries) {
  uint64_t line = d->start, at = 0;
  for (uint64_t i = 0; i < d->count; i++) {
    record r = {0};
    WAFER_TRY(read_record(a, d, line, &r));
    WAFER_TRY(read_member(a, &r, at, &entries[i].data, &at));
    line += r.bytes;
    entries[i].name = wafer_arena_strndup(arena, r.name, r.name_bytes);
    if (!entries[i].name)
      return wafer_fail(a->diag, a->loc, WAFER_NO_MEMORY, "no memory for a name");
  }
  if (at != d->start || line != d->start + d->size) return bad(a, "its directory is damaged");
  return WAFER_OK;
}

wafer_status zip_read(const wafer_diag *diag, wafer_loc loc, wafer_arena *arena, wafer_bytes file,
                      zip_entry **entries, size_t *count, wafer_bytes *comment) {
  archive a = {diag, loc, file.data, file.size};
  uint64_t end = 0;
  directory d = {0};
  WAFER_TRY(find_end(&a, &end));
  WAFER_TRY(find_directory(&a, end, &d));
  if (d.count > d.size / CENTRAL_BYTES) return bad(&a, "its directory is damaged");
  *entries = WAFER_NEW(arena, zip_entry, d.count);
  if (!*entries) return wafer_fail(diag, loc, WAFER_NO_MEMORY, "no memory for the directory");
  WAFER_TRY(read_entries(&a, arena, &d, *entries));
  *count = d.count;
  *comment = (wafer_bytes){a.bytes + end + END_BYTES, a.size - end - END_BYTES};
  return WAFER_OK;
}
