/* runtime/machine/machine_repair.c: wafers with dead cores and links. */
#include <CUnit/CUnit.h>
#include <stdlib.h>
#include <string.h>

#include "caught.h"
#include "wafer/machine.h"

static bool is_dead(const wafer_repair *p, wafer_core_at at) {
  for (uint32_t i = 0; i < p->dead_count; i++)
    if (p->dead[i].x == at.x && p->dead[i].y == at.y) return true;
  return false;
}

static uint64_t hops_of(wafer_core_at a, wafer_core_at b) {
  return (uint64_t)(a.x > b.x ? a.x - b.x : b.x - a.x) + (a.y > b.y ? a.y - b.y : b.y - a.y);
}

/* No straight run takes longer than its hops and the detour say. */
static void check_runs(const wafer_machine *m, uint32_t x, uint32_t y, bool south) {
  uint64_t hops = 0, links = 0;
  while ((south ? y : x) + 1 < (south ? m->height : m->width)) {
    wafer_core_at a = wafer_machine_made_at(m, x, y);
    *(south ? &y : &x) += 1;
    hops += hops_of(a, wafer_machine_made_at(m, x, y));
    links++;
    CU_ASSERT(hops * m->repair->hop_cycles <= links * m->hop_cycles + m->detour_cycles);
  }
}

static const wafer_machine *apply(wafer_arena *arena, const char *name, const wafer_defects *d,
                                  wafer_status want) {
  const wafer_machine *whole, *left = NULL;
  caught last;
  wafer_diag diag = caught_diag(&last);
  CU_ASSERT_EQUAL_FATAL(wafer_machine_open(NULL, arena, name, &whole), WAFER_OK);
  CU_ASSERT_EQUAL(wafer_machine_apply(&diag, arena, "defects", whole, d, &left), want);
  CU_ASSERT_EQUAL(last.count, want != WAFER_OK);
  return left;
}

static void spares_make_a_rectangle(void) {
  for (uint64_t seed = 1; seed < 6; seed++) {
    wafer_arena *arena = wafer_arena_create();
    wafer_defects d = {.per_million = 20000, .seed = seed, .policy = WAFER_REPAIR_spares};
    const wafer_machine *m = apply(arena, "small64", &d, WAFER_OK);
    CU_ASSERT_FATAL(m->repair != NULL && m->dead_count == 0);
    CU_ASSERT(m->repair->dead_count > 40 && m->repair->dead_count < 130);
    CU_ASSERT(m->repair->lost > 0 && m->repair->lost < 10);
    CU_ASSERT_EQUAL((uint64_t)m->width * m->height, 64 * (64 - m->repair->lost));
    for (uint32_t y = 0; y < m->height; y++)
      for (uint32_t x = 0; x < m->width; x++) {
        CU_ASSERT_FALSE(is_dead(m->repair, wafer_machine_made_at(m, x, y)));
        if (x == 0 || x % 9 == 1) check_runs(m, x, y, false);
        if (y == 0 || y % 9 == 1) check_runs(m, x, y, true);
      }
    wafer_arena_destroy(arena);
  }
}

/* A column that is dead from top to bottom leaves no row whole, but every row as long. */
static void columns_where_rows_cannot(void) {
  wafer_core_at dead[16];
  for (uint32_t y = 0; y < 16; y++) dead[y] = (wafer_core_at){5, y};
  wafer_defects d = {.dead_count = 16, .dead = dead, .policy = WAFER_REPAIR_spares};
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *m = apply(arena, "small16", &d, WAFER_OK);
  CU_ASSERT_TRUE(m->repair->columns);
  CU_ASSERT(m->width == 15 && m->height == 16 && m->usable.width == 15);
  CU_ASSERT_EQUAL(wafer_machine_made_at(m, 4, 3).x, 4);
  CU_ASSERT_EQUAL(wafer_machine_made_at(m, 5, 3).x, 6);
  d.policy = WAFER_REPAIR_avoid;
  apply(arena, "small16", &d, WAFER_NO_FIT); /* in two */
  wafer_arena_destroy(arena);
}

static void what_is_cut_off_is_dead(void) {
  static const wafer_core_at corner[] = {{1, 0}, {0, 1}};
  wafer_defects d = {.dead_count = 2, .dead = corner};
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *m = apply(arena, "small16", &d, WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(m->dead_count, 3);
  CU_ASSERT(m->dead[0].x == 0 && m->dead[0].y == 0);
  wafer_arena_destroy(arena);
}

static void links_take_a_core(void) {
  static const wafer_link_at links[] = {{3, 4, false}, {15, 14, true}}, beyond[] = {{15, 3, false}};
  wafer_defects d = {.link_count = 2, .links = links};
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *m = apply(arena, "small16", &d, WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(m->dead_count, 2);
  CU_ASSERT(m->dead[0].x == 3 && m->dead[0].y == 4);
  d.link_count = 1;
  d.links = beyond;
  apply(arena, "small16", &d, WAFER_BAD_INPUT);
  wafer_arena_destroy(arena);
}

/* The printed machine names the defects, not what became of them; read again it is the same. */
static void prints_and_reads(void) {
  static const wafer_core_at dead[] = {{7, 7}};
  static const wafer_link_at links[] = {{3, 4, true}};
  static const wafer_rect reserved = {2, 3, 4, 5};
  wafer_defects d = {1, 1, 30000, 9, dead, links, WAFER_REPAIR_spares};
  wafer_arena *arena = wafer_arena_create();
  wafer_machine m = *apply(arena, "small64", &d, WAFER_OK);
  const wafer_machine *again;
  char *text, *more;
  size_t bytes, size;
  m.reserved = &reserved;
  m.reserved_count = 1;
  CU_ASSERT_EQUAL_FATAL(wafer_machine_print(NULL, arena, &m, &text, &bytes), WAFER_OK);
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "<random-dead per-million=\"30000\" seed=\"9\"/>"));
  CU_ASSERT_EQUAL_FATAL(wafer_machine_parse(NULL, arena, "m", text, bytes, &again), WAFER_OK);
  CU_ASSERT(again->width == m.width && again->height == m.height);
  CU_ASSERT(again->hop_cycles == m.hop_cycles && again->detour_cycles == m.detour_cycles);
  CU_ASSERT_EQUAL(memcmp(again->repair->moved, m.repair->moved, 2 * (size_t)m.width * m.height), 0);
  CU_ASSERT_EQUAL_FATAL(again->reserved_count, 1);
  CU_ASSERT_EQUAL(again->reserved[0].height, 5);
  CU_ASSERT_EQUAL_FATAL(wafer_machine_print(NULL, arena, again, &more, &size), WAFER_OK);
  CU_ASSERT_STRING_EQUAL(text, more);
  wafer_arena_destroy(arena);
}

static void checks_what_is_claimed(void) {
  wafer_defects d = {.per_million = 20000, .seed = 3, .policy = WAFER_REPAIR_spares};
  wafer_arena *arena = wafer_arena_create();
  wafer_machine m = *apply(arena, "small64", &d, WAFER_OK);
  wafer_repair lie = *m.repair;
  uint16_t *moved = wafer_arena_copy(arena, lie.moved, 2 * (size_t)m.width * m.height);
  CU_ASSERT_PTR_NOT_NULL_FATAL(moved);
  lie.moved = moved;
  m.repair = &lie;
  CU_ASSERT_EQUAL(wafer_machine_check(NULL, "m", &m), WAFER_OK);
  size_t x = lie.dead[0].x; /* the first one dead goes into use again */
  CU_ASSERT_FALSE_FATAL(lie.columns);
  for (uint32_t y = 0; y < m.height; y++)
    if (moved[y * m.width + x] > lie.dead[0].y) {
      moved[y * m.width + x] = (uint16_t)lie.dead[0].y;
      break;
    }
  CU_ASSERT_EQUAL(wafer_machine_check(NULL, "m", &m), WAFER_BAD_INPUT);
  wafer_arena_destroy(arena);
}

CU_TestInfo tests_repair[] = {
    {"spares make a full rectangle", spares_make_a_rectangle},
    {"columns where rows cannot", columns_where_rows_cannot},
    {"what is cut off is dead", what_is_cut_off_is_dead},
    {"dead links take a core", links_take_a_core},
    {"prints and reads", prints_and_reads},
    {"checks what is claimed", checks_what_is_claimed},
    CU_TEST_INFO_NULL,
};
