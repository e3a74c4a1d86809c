#include "exchange_scene.h"

#include <CUnit/CUnit.h>
#include <stdlib.h>

/* ---- random spreads ---- */

uint32_t dice_roll(dice *d, uint32_t sides) {
  uint64_t z = d->state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return (uint32_t)((z ^ z >> 31) % sides);
}

#define MOST_CORES 24

/* Cuts some dims and leaves replicas between: digits from the innermost on. */
static uint32_t random_cuts(dice *d, uint32_t rank, uint32_t *parts, uint32_t *stride) {
  uint32_t extent = 1;
  bool cut[WAFER_MAX_RANK] = {false};
  for (uint32_t digit = 0; digit < 3; digit++) {
    uint32_t n = 1 + dice_roll(d, 6), at = dice_roll(d, rank + 1);
    if (extent * n > MOST_CORES) break;
    if (n > 1 && at < rank && !cut[at]) {
      cut[at] = true;
      parts[at] = n;
      stride[at] = extent;
    }
    extent *= n;
  }
  return extent;
}

wafer_layout dice_layout(dice *d, uint32_t rank, wafer_rect *rect) {
  wafer_layout layout = {.rank = rank};
  for (uint32_t i = 0; i < WAFER_MAX_RANK; i++)
    layout.rows[i] = layout.cols[i] = layout.row_stride[i] = layout.col_stride[i] = 1;
  rect->height = random_cuts(d, rank, layout.rows, layout.row_stride);
  rect->width = random_cuts(d, rank, layout.cols, layout.col_stride);
  return layout;
}

wafer_dtype dice_dtype(dice *d) {
  static const wafer_dtype dtypes[] = {WAFER_DTYPE_f32, WAFER_DTYPE_f16, WAFER_DTYPE_i8,
                                       WAFER_DTYPE_i64};
  return dtypes[dice_roll(d, WAFER_COUNT(dtypes))];
}

/* ---- a fabric with a tensor on it ---- */

void scene_begin(scene *s) {
  const wafer_machine *wse2;
  s->others = NULL;
  s->other_count = 0;
  s->arena = wafer_arena_create();
  s->diag = caught_diag(&s->caught);
  s->fabric = NULL;
  s->times = 0;
  CU_ASSERT_FATAL(wafer_machine_open(NULL, s->arena, "wse2", &wse2) == WAFER_OK);
  s->machine = *wse2;
  fragment_begin(&s->f, s->arena, "exchange", "node",
                 (wafer_rect){0, 0, SCENE_WIDTH, SCENE_HEIGHT});
}

void scene_end(scene *s) {
  wafer_fabric_destroy(s->fabric);
  wafer_arena_destroy(s->arena);
}

/* Every core does all of its code `times` times, as in a train of samples. */
static void repeat(scene *s, int32_t times) {
  wafer_core_program *programs = wafer_arena_copy(
      s->arena, s->program.programs, s->program.program_count * sizeof *s->program.programs);
  for (uint32_t i = 0; i < s->program.program_count; i++) {
    uint32_t n = programs[i].code_count;
    wafer_instruction *code = WAFER_NEW(s->arena, wafer_instruction, n + 3);
    code[0] = (wafer_instruction){.op = WAFER_CORE_set, .a = 2, .value = times};
    memcpy(code + 1, programs[i].code, n * sizeof *code);
    code[n + 1] = (wafer_instruction){
        .op = WAFER_CORE_plus, .a = 2, .b = 2, .c = WAFER_NO_REGISTER, .value = -1};
    code[n + 2] =
        (wafer_instruction){.op = WAFER_CORE_branch, .a = WAFER_NO_REGISTER, .b = 2, .target = 1};
    programs[i].code = code;
    programs[i].code_count = n + 3;
  }
  s->program.programs = programs;
}

bool scene_load(scene *s) {
  const fragment *at = &s->f;
  fragment_link link = {.name = "exchange",
                        .width = SCENE_WIDTH,
                        .height = SCENE_HEIGHT,
                        .count = 1,
                        .at = &at,
                        .ports = &s->ports};
  if (fragment_link_program(&s->diag, s->arena, &s->machine, &link, &s->program) != WAFER_OK)
    return false;
  if (s->times > 1) repeat(s, s->times);
  return wafer_fabric_create(&s->diag, &s->machine, &s->program, NULL, &s->fabric) == WAFER_OK;
}

uint64_t scene_element(int64_t index) {
  uint64_t z = (uint64_t)index * 0x9e3779b97f4a7c15u + 12345;
  return z ^ z >> 29;
}

static bool for_dim(scene *s, const spread *t, uint32_t row, uint32_t col, uint32_t d,
                    int32_t address, int32_t *index, scene_each *each, const void *with) {
  if (d == t->rank) return each(s, t, t->rect.x + col, t->rect.y + row, address, index, with);
  const spread_part *part = spread_part_at(t, d, row, col);
  for (uint32_t r = 0; r < part->count; r++)
    for (int32_t i = part->runs[r].lo; i < part->runs[r].hi; i++) {
      index[d] = i;
      int32_t at = part->runs[r].at + i - part->runs[r].lo;
      if (!for_dim(s, t, row, col, d + 1, address + at * t->dim[d].stride, index, each, with))
        return false;
    }
  return true;
}

bool scene_for_all(scene *s, const spread *t, scene_each *each, const void *with) {
  int32_t index[WAFER_MAX_RANK];
  for (uint32_t row = 0; row < t->rect.height; row++)
    for (uint32_t col = 0; col < t->rect.width; col++)
      if (!for_dim(s, t, row, col, 0, t->address, index, each, with)) return false;
  return true;
}

static int64_t linear(const spread *t, const int32_t *index) {
  int64_t at = 0;
  for (uint32_t d = 0; d < t->rank; d++) at = at * t->dim[d].extent + index[d];
  return at;
}

bool scene_fill(scene *s, const spread *t, uint32_t x, uint32_t y, int32_t address,
                const int32_t *index, const void *with) {
  uint64_t value = scene_element(linear(t, index));
  (void)with;
  return wafer_fabric_write(s->fabric, x, y, (uint32_t)address, &value,
                            (uint32_t)wafer_dtype_bytes(t->dtype));
}

/* Index of the source; false: there is none. */
static bool source_index(const scene_wanted *w, const int32_t *index, int32_t *source) {
  for (uint32_t p = 0; p < w->from->rank; p++) {
    const index_dim *m = &w->map->dim[p];
    int64_t at = m->dim == INDEX_CONSTANT ? m->b
                 : m->table               ? m->table->at[index[m->dim]]
                                          : m->a * index[m->dim] + m->b;
    if (at < 0 || at >= w->from->dim[p].extent) return false;
    source[p] = (int32_t)at;
  }
  return true;
}

bool scene_check(scene *s, const spread *t, uint32_t x, uint32_t y, int32_t address,
                 const int32_t *index, const void *with) {
  const scene_wanted *w = with;
  int32_t source[WAFER_MAX_RANK];
  uint32_t bytes = (uint32_t)wafer_dtype_bytes(t->dtype);
  uint64_t got = 0, want = 0;
  if (!source_index(w, index, source))
    return !wafer_fabric_read(s->fabric, x, y, (uint32_t)address, &got, bytes);
  uint64_t value = scene_element(linear(w->from, source));
  memcpy(&want, &value, bytes);
  return wafer_fabric_read(s->fabric, x, y, (uint32_t)address, &got, bytes) && got == want;
}

/* ---- runs ---- */

void accuracy_note(accuracy *a, uint32_t run, uint64_t predicted, uint64_t counted) {
  double off = predicted > counted ? (double)(predicted - counted) : (double)(counted - predicted);
  off /= counted ? (double)counted : 1;
  a->runs++;
  a->sum += off;
  a->counted += counted;
  a->predicted += predicted;
  if (off > a->worst) {
    a->worst = off;
    a->worst_run = run;
  }
}

int32_t scene_after(const spread *t) {
  return (int32_t)((t->address + (int64_t)spread_bytes(t) + 7) / 8 * 8);
}

bool scene_exchange(scene *s, const spread *from, const spread *to, const index_map *map,
                    uint32_t seed, accuracy *a) {
  exchange x = {.diag = &s->diag,
                .machine = &s->machine,
                .from = from,
                .to = to,
                .map = *map,
                .scratch = scene_after(to->address > from->address ? to : from),
                .scratch_room = 20000,
                .others = s->others,
                .other_count = s->other_count};
  scene_wanted w = {from, map};
  bool done = exchange_add(&x, &s->f) == WAFER_OK && scene_load(s) &&
              scene_for_all(s, from, scene_fill, NULL) &&
              wafer_fabric_run(s->fabric, &s->stats) == WAFER_OK &&
              scene_for_all(s, to, scene_check, &w);
  if (!done) printf("\n  seed %u: %s %s", seed, s->caught.place, s->caught.text);
  if (done && s->stats.cycles) accuracy_note(a, seed, scene_predicted(s), s->stats.cycles);
  return done;
}

uint64_t scene_predicted(scene *s) {
  uint64_t cycles = 0, crossed;
  fragment_clock c;
  const fragment *f = &s->f;
  CU_ASSERT(fragment_clock_init(&c, s->arena, &s->machine) &&
            fragment_clock_alone(&c, &f, 1, 0, &cycles, &crossed));
  return cycles;
}

void accuracy_judge(const char *what, const accuracy *a, double most) {
  if (getenv("WAFER_EXCHANGE_ERRORS"))
    printf("\n  %s: %u runs, mean error %.3f, worst %.3f (seed %u), sums %llu for %llu", what,
           a->runs, a->sum / a->runs, a->worst, a->worst_run, (unsigned long long)a->predicted,
           (unsigned long long)a->counted);
  CU_ASSERT(a->sum / a->runs < most);
}
