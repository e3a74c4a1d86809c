#include "runtime/zip.h"

#include <CUnit/CUnit.h>
#include <stdlib.h>
#include <string.h>

#include "caught.h"
#include "scratch.h"

static const char text[] = "a plan, say", weights[] = "sixteen bytes ..";

typedef struct archive {
  wafer_arena *arena;
  unsigned char *bytes;
  size_t size;
} archive;

/* Two members, the second of two pieces and aligned to 64, and a comment "0123". */
static archive build(uint64_t zip64_from) {
  wafer_bytes one[] = {{text, sizeof text}};
  wafer_bytes two[] = {{weights, 16}, {weights, 5}};
  zip_member members[] = {{"plan.xml", 0, 1, one}, {"weights", 64, 2, two}, {"empty", 0, 0, NULL}};
  archive a = {.arena = wafer_arena_create()};
  zip_archive z;
  zip_options options = {.comment_bytes = 4, .zip64_from = zip64_from};
  CU_ASSERT_EQUAL_FATAL(zip_build(NULL, (wafer_loc){0}, a.arena, members, 3, options, &z),
                        WAFER_OK);
  memcpy(z.comment, "0123", 4);
  for (size_t i = 0; i < z.part_count; i++) a.size += z.parts[i].size;
  unsigned char *to = a.bytes = WAFER_NEW(a.arena, unsigned char, a.size);
  for (size_t i = 0; i < z.part_count; to += z.parts[i++].size)
    if (z.parts[i].size) memcpy(to, z.parts[i].data, z.parts[i].size);
  return a;
}

static wafer_status reads(const archive *a, size_t size, zip_entry **entries, size_t *count,
                          wafer_bytes *comment) {
  caught last;
  wafer_diag diag = caught_diag(&last);
  wafer_loc loc = wafer_at_file("p.wplan");
  wafer_status status =
      zip_read(&diag, loc, a->arena, (wafer_bytes){a->bytes, size}, entries, count, comment);
  CU_ASSERT_EQUAL(last.count, status != WAFER_OK);
  return status;
}

static void check_members(uint64_t zip64_from) {
  archive a = build(zip64_from);
  zip_entry *e;
  size_t count;
  wafer_bytes comment;
  CU_ASSERT_EQUAL_FATAL(reads(&a, a.size, &e, &count, &comment), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(count, 3);
  CU_ASSERT_STRING_EQUAL(e[0].name, "plan.xml");
  CU_ASSERT_EQUAL(e[0].data.size, sizeof text);
  CU_ASSERT(!memcmp(e[0].data.data, text, sizeof text));
  CU_ASSERT_EQUAL(((const unsigned char *)e[1].data.data - a.bytes) % 64, 0);
  CU_ASSERT_EQUAL(e[1].data.size, 21);
  CU_ASSERT(!memcmp(e[1].data.data, "sixteen bytes ..sixte", 21));
  CU_ASSERT_EQUAL(e[2].data.size, 0);
  CU_ASSERT_EQUAL(comment.size, 4);
  CU_ASSERT(!memcmp(comment.data, "0123", 4));
  wafer_arena_destroy(a.arena);
}

static void test_members_come_back(void) {
  check_members(0);
}
static void test_large_files_use_zip64(void) {
  check_members(1);  /* every size and offset but 0 */
  check_members(15); /* the second member, the later offsets, the directory */
}

/* What others think of it. */
static void test_unzip_reads_it(void) {
  for (uint64_t zip64_from = 0; zip64_from < 2; zip64_from++) {
    archive a = build(zip64_from);
    scratch in = scratch_create();
    char command[600];
    snprintf(command, sizeof command,
             "python3 -c 'import sys, zipfile; sys.exit(zipfile.ZipFile(sys.argv[1]).testzip() is "
             "not None)' %s",
             scratch_save(&in, "a.zip", a.bytes, a.size));
    if (!system("python3 -c pass")) CU_ASSERT_EQUAL(system(command), 0);
    scratch_remove(&in);
    wafer_arena_destroy(a.arena);
  }
}

static void test_equal_contents_are_equal_bytes(void) {
  archive a = build(0), b = build(0);
  CU_ASSERT_EQUAL_FATAL(a.size, b.size);
  CU_ASSERT(!memcmp(a.bytes, b.bytes, a.size));
  wafer_arena_destroy(a.arena);
  wafer_arena_destroy(b.arena);
}

static void test_truncated_is_refused(void) {
  for (uint64_t zip64_from = 0; zip64_from < 2; zip64_from++) {
    archive a = build(zip64_from);
    zip_entry *e;
    size_t count;
    wafer_bytes comment;
    for (size_t size = 0; size < a.size; size++) {
      unsigned char *cut = malloc(size ? size : 1); /* so that a sanitizer sees what lies beyond */
      if (size) memcpy(cut, a.bytes, size);
      archive shorter = {a.arena, cut, size};
      CU_ASSERT_EQUAL(reads(&shorter, size, &e, &count, &comment), WAFER_BAD_INPUT);
      free(cut);
    }
    wafer_arena_destroy(a.arena);
  }
}

/* Whatever a damaged header says, the entries lie inside the file. */
static void test_damage_stays_inside(void) {
  for (uint64_t zip64_from = 0; zip64_from < 2; zip64_from++) {
    archive a = build(zip64_from);
    for (size_t i = 0; i < a.size; i++) {
      for (int flip = 1; flip < 256; flip = flip == 1 ? 0x80 : flip == 0x80 ? 0xff : 256) {
        zip_entry *e;
        size_t count = 0;
        wafer_bytes comment;
        a.bytes[i] ^= (unsigned char)flip;
        if (reads(&a, a.size, &e, &count, &comment) == WAFER_OK)
          for (size_t k = 0; k < count; k++) {
            const unsigned char *at = e[k].data.data;
            CU_ASSERT(at >= a.bytes && e[k].data.size <= (size_t)(a.bytes + a.size - at));
          }
        a.bytes[i] ^= (unsigned char)flip;
      }
    }
    wafer_arena_destroy(a.arena);
  }
}

CU_TestInfo tests_zip[] = {
    {"members come back", test_members_come_back},
    {"large files use ZIP64", test_large_files_use_zip64},
    {"Python reads it", test_unzip_reads_it},
    {"equal contents are equal bytes", test_equal_contents_are_equal_bytes},
    {"a truncated archive is refused", test_truncated_is_refused},
    {"damage stays inside the file", test_damage_stays_inside},
    CU_TEST_INFO_NULL,
};
