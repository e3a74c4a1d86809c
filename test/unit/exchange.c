/* Exchanges on the emulator: every element arrives, whatever the spreads, and about when predicted.
 */
#include "backend/exchange.h"

#include <CUnit/CUnit.h>
#include <stdlib.h>

#include "caught.h"

/* ---- random spreads ---- */

typedef struct dice {
  uint64_t state;
} dice;

static uint32_t roll(dice *d, uint32_t sides) {
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
    uint32_t n = 1 + roll(d, 6), at = roll(d, rank + 1);
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

static wafer_layout random_layout(dice *d, uint32_t rank, wafer_rect *rect) {
  wafer_layout layout = {.rank = rank};
  for (uint32_t i = 0; i < WAFER_MAX_RANK; i++)
    layout.rows[i] = layout.cols[i] = layout.row_stride[i] = layout.col_stride[i] = 1;
  rect->height = random_cuts(d, rank, layout.rows, layout.row_stride);
  rect->width = random_cuts(d, rank, layout.cols, layout.col_stride);
  return layout;
}

/* ---- a fabric with a tensor on it ---- */

typedef struct scene {
  wafer_arena *arena;
  wafer_machine machine;
  caught caught;
  wafer_diag diag;
  fragment f;
  fragment_ports ports;
  int32_t times; /* that all is done; 0: once */
  wafer_fabric_program program;
  wafer_fabric *fabric;
  wafer_fabric_stats stats;
  const wafer_rect *others;
  uint32_t other_count;
} scene;

#define WIDTH 32
#define HEIGHT 32

static void scene_begin(scene *s) {
  const wafer_machine *wse2;
  s->others = NULL;
  s->other_count = 0;
  s->arena = wafer_arena_create();
  s->diag = caught_diag(&s->caught);
  s->fabric = NULL;
  s->times = 0;
  CU_ASSERT_FATAL(wafer_machine_open(NULL, s->arena, "wse2", &wse2) == WAFER_OK);
  s->machine = *wse2;
  fragment_begin(&s->f, s->arena, "exchange", "node", (wafer_rect){0, 0, WIDTH, HEIGHT});
}

static void scene_end(scene *s) {
  wafer_fabric_destroy(s->fabric);
  wafer_arena_destroy(s->arena);
}

static void repeat(scene *s, int32_t times);

static bool scene_load(scene *s) {
  const fragment *at = &s->f;
  fragment_link link = {"exchange", WIDTH, HEIGHT, 1, &at, &s->ports, false, false};
  if (fragment_link_program(&s->diag, s->arena, &s->machine, &link, &s->program) != WAFER_OK)
    return false;
  if (s->times > 1) repeat(s, s->times);
  return wafer_fabric_create(&s->diag, &s->machine, &s->program, &s->fabric) == WAFER_OK;
}

/* The element with that row-major index. */
static uint64_t element(int64_t index) {
  uint64_t z = (uint64_t)index * 0x9e3779b97f4a7c15u + 12345;
  return z ^ z >> 29;
}

/* Calls `each` for every element that a core holds: indices of the tensor. */
typedef bool each_element(scene *s, const spread *t, uint32_t x, uint32_t y, int32_t address,
                          const int32_t *index, const void *with);

static bool for_dim(scene *s, const spread *t, uint32_t row, uint32_t col, uint32_t d,
                    int32_t address, int32_t *index, each_element *each, const void *with) {
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

static bool for_all(scene *s, const spread *t, each_element *each, const void *with) {
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

static bool fill(scene *s, const spread *t, uint32_t x, uint32_t y, int32_t address,
                 const int32_t *index, const void *with) {
  uint64_t value = element(linear(t, index));
  (void)with;
  return wafer_fabric_write(s->fabric, x, y, (uint32_t)address, &value,
                            (uint32_t)wafer_dtype_bytes(t->dtype));
}

typedef struct wanted {
  const spread *from;
  const index_map *map;
} wanted;

/* Index of the source; false: there is none. */
static bool source_index(const wanted *w, const int32_t *index, int32_t *source) {
  for (uint32_t p = 0; p < w->from->rank; p++) {
    const index_dim *m = &w->map->dim[p];
    int64_t at = m->dim == INDEX_CONSTANT ? m->b
                 : m->table               ? m->table[index[m->dim]]
                                          : m->a * index[m->dim] + m->b;
    if (at < 0 || at >= w->from->dim[p].extent) return false;
    source[p] = (int32_t)at;
  }
  return true;
}

static bool check(scene *s, const spread *t, uint32_t x, uint32_t y, int32_t address,
                  const int32_t *index, const void *with) {
  const wanted *w = with;
  int32_t source[WAFER_MAX_RANK];
  uint32_t bytes = (uint32_t)wafer_dtype_bytes(t->dtype);
  uint64_t got = 0, want = 0;
  if (!source_index(w, index, source))
    return !wafer_fabric_read(s->fabric, x, y, (uint32_t)address, &got, bytes);
  uint64_t value = element(linear(w->from, source));
  memcpy(&want, &value, bytes);
  return wafer_fabric_read(s->fabric, x, y, (uint32_t)address, &got, bytes) && got == want;
}

/* ---- runs ---- */

typedef struct accuracy {
  uint32_t runs, worst_run;
  double sum, worst; /* |predicted - counted| / counted */
  uint64_t counted, predicted;
} accuracy;

static void note(accuracy *a, uint32_t run, uint64_t predicted, uint64_t counted) {
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

static const wafer_dtype dtypes[] = {WAFER_DTYPE_f32, WAFER_DTYPE_f16, WAFER_DTYPE_i8,
                                     WAFER_DTYPE_i64};

static int32_t after(const spread *t) {
  return (int32_t)((t->address + (int64_t)spread_bytes(t) + 7) / 8 * 8);
}

/* Adds the exchange, runs it, checks every element; false with a message of what went wrong. */
static bool run(scene *s, const spread *from, const spread *to, const index_map *map, uint32_t seed,
                accuracy *a) {
  exchange x = {.diag = &s->diag,
                .machine = &s->machine,
                .from = from,
                .to = to,
                .map = *map,
                .scratch = after(to->address > from->address ? to : from),
                .scratch_room = 20000,
                .others = s->others,
                .other_count = s->other_count};
  wanted w = {from, map};
  bool done = exchange_add(&x, &s->f) == WAFER_OK && scene_load(s) &&
              for_all(s, from, fill, NULL) && wafer_fabric_run(s->fabric, &s->stats) == WAFER_OK &&
              for_all(s, to, check, &w);
  if (!done) printf("\n  seed %u: %s %s", seed, s->caught.place, s->caught.text);
  if (done && s->stats.cycles) note(a, seed, s->f.cycles, s->stats.cycles);
  return done;
}

/* What the prediction may be off by, on average; WAFER_EXCHANGE_ERRORS=1 prints it. */
static void judge(const char *what, const accuracy *a, double most) {
  if (getenv("WAFER_EXCHANGE_ERRORS"))
    printf("\n  %s: %u runs, mean error %.3f, worst %.3f (seed %u), sums %llu for %llu", what,
           a->runs, a->sum / a->runs, a->worst, a->worst_run, (unsigned long long)a->predicted,
           (unsigned long long)a->counted);
  CU_ASSERT(a->sum / a->runs < most);
}

/* A tensor in one random layout goes to another; some have few elements and many dims, some the
 * other way about. */
static void exchange_random(uint32_t seed, bool large, int32_t times, accuracy *a) {
  dice d = {seed + 1000 * large};
  scene s;
  spread from, to;
  wafer_shape shape = {.rank = 1 + roll(&d, large ? 2 : 4)};
  wafer_rect rect = {0};
  scene_begin(&s);
  s.times = times;
  wafer_dtype dtype = dtypes[roll(&d, WAFER_COUNT(dtypes))];
  for (uint32_t i = 0; i < shape.rank; i++) shape.dims[i] = 1 + roll(&d, large ? 40 : 9);
  wafer_layout one = random_layout(&d, shape.rank, &rect);
  CU_ASSERT(spread_of_layout(s.arena, rect, &one, &shape, dtype, 0, &from));
  wafer_layout other = random_layout(&d, shape.rank, &rect);
  CU_ASSERT(spread_of_layout(s.arena, rect, &other, &shape, dtype, after(&from), &to));
  index_map map = index_identity();
  CU_ASSERT(run(&s, &from, &to, &map, seed, a));
  scene_end(&s);
}

/* Apart: side by side, one above the other, or neither. */
static void exchange_apart(uint32_t seed, bool large, accuracy *a) {
  dice d = {seed};
  scene s;
  spread from, to;
  wafer_shape shape = {.rank = 1 + roll(&d, 3)};
  wafer_rect one = {0}, other = {0};
  scene_begin(&s);
  for (uint32_t i = 0; i < shape.rank; i++) shape.dims[i] = 1 + roll(&d, large ? 24 : 12);
  wafer_layout from_layout = random_layout(&d, shape.rank, &one);
  wafer_layout to_layout = random_layout(&d, shape.rank, &other);
  bool fits = one.width + other.width <= WIDTH || one.height + other.height <= HEIGHT;
  if (one.width + other.width <= WIDTH) {
    one.x = roll(&d, WIDTH - one.width - other.width + 1);
    other.x = one.x + one.width + roll(&d, WIDTH - one.x - one.width - other.width + 1);
    one.y = roll(&d, HEIGHT - one.height + 1);
    other.y = roll(&d, HEIGHT - other.height + 1);
  } else if (fits) {
    one.y = roll(&d, HEIGHT - one.height - other.height + 1);
    other.y = one.y + one.height + roll(&d, HEIGHT - one.y - one.height - other.height + 1);
    one.x = roll(&d, WIDTH - one.width + 1);
    other.x = roll(&d, WIDTH - other.width + 1);
  }
  CU_ASSERT(spread_of_layout(s.arena, one, &from_layout, &shape, WAFER_DTYPE_f32, 0, &from));
  CU_ASSERT(
      spread_of_layout(s.arena, other, &to_layout, &shape, WAFER_DTYPE_f32, after(&from), &to));
  index_map map = index_identity();
  bool back = roll(&d, 2) == 1;
  if (fits)
    CU_ASSERT(back ? run(&s, &to, &from, &map, seed, a) : run(&s, &from, &to, &map, seed, a));
  scene_end(&s);
}

/* Rectangles that share rows: the cores of other rows and columns do nothing. */
static void test_between(void) {
  scene s;
  spread from, to;
  wafer_shape shape = {2, {12, 8}};
  wafer_layout tall = {2, {6, 1}, {1, 4}, {1, 1}, {1, 1}, {0}},
               flat = {2, {1, 3}, {4, 1}, {1, 1}, {1, 1}, {0}};
  scene_begin(&s);
  CU_ASSERT(spread_of_layout(s.arena, (wafer_rect){2, 3, 4, 6}, &tall, &shape, WAFER_DTYPE_f32, 0,
                             &from));
  CU_ASSERT(spread_of_layout(s.arena, (wafer_rect){20, 7, 4, 3}, &flat, &shape, WAFER_DTYPE_f32,
                             after(&from), &to));
  exchange x = {.machine = &s.machine, .from = &from, .to = &to, .map = index_identity()};
  wafer_rect where;
  CU_ASSERT(exchange_scratch_at(&x, &where) > 0);
  CU_ASSERT(where.x == 2 && where.width == 22 && where.y >= 3 && where.y + where.height <= 10);
  index_map map = index_identity();
  accuracy a = {0};
  CU_ASSERT(run(&s, &from, &to, &map, 0, &a));
  for (uint32_t y = 0; y < HEIGHT; y++)
    for (uint32_t x_at = 0; x_at < WIDTH; x_at++) {
      bool in_from = x_at >= 2 && x_at < 6 && y >= 3 && y < 9;
      bool in_to = x_at >= 20 && x_at < 24 && y >= 7 && y < 10;
      CU_ASSERT(in_from || in_to || s.f.variant[y * WIDTH + x_at] == FRAGMENT_IDLE);
    }
  scene_end(&s);
}

/* Does a core outside of both rectangles take part? */
static bool uses_others(const scene *s, wafer_rect from, wafer_rect to) {
  bool uses = false;
  for (uint32_t y = 0; y < HEIGHT; y++)
    for (uint32_t x = 0; x < WIDTH; x++) {
      wafer_rect core = {x, y, 1, 1};
      bool own = wafer_rect_overlaps(core, from) || wafer_rect_overlaps(core, to);
      uses |= !own && s->f.variant[y * WIDTH + x] != FRAGMENT_IDLE;
    }
  return uses;
}

/* A low source beside a tall target of which each column needs everything: in how many cycles. */
static uint64_t exchange_beside(bool turned, const wafer_rect *other, accuracy *a) {
  scene s;
  spread from, to;
  wafer_shape shape = {3, {12, 24, 24}};
  wafer_layout low = {3, {2, 4, 1}, {1, 1, 4}, {4, 1, 1}, {1, 1, 1}, {0}},
               tall = {3, {1, 24, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0}};
  wafer_rect one = {2, 10, 4, 8}, two = {6, 4, 8, 24};
  if (turned) {
    low = (wafer_layout){3, {1, 1, 4}, {2, 4, 1}, {1, 1, 1}, {4, 1, 1}, {0}};
    tall = (wafer_layout){3, {1, 1, 1}, {1, 24, 1}, {1, 1, 1}, {1, 1, 1}, {0}};
    one = (wafer_rect){10, 2, 8, 4};
    two = (wafer_rect){4, 6, 24, 8};
  }
  scene_begin(&s);
  s.others = other;
  s.other_count = other != NULL;
  index_map map = index_identity();
  CU_ASSERT(spread_of_layout(s.arena, one, &low, &shape, WAFER_DTYPE_f32, 0, &from));
  CU_ASSERT(spread_of_layout(s.arena, two, &tall, &shape, WAFER_DTYPE_f32, after(&from), &to));
  CU_ASSERT(run(&s, &from, &to, &map, 0, a));
  CU_ASSERT(uses_others(&s, one, two) == !other);
  uint64_t cycles = s.stats.cycles;
  scene_end(&s);
  return cycles;
}

/* Cores beside the source pass words on where they are free; else they are sorted in the source, so
 * that each goes into the target near its place. */
static void test_beside(void) {
  accuracy a = {0};
  for (int turned = 0; turned < 2; turned++) {
    static const wafer_rect above[] = {{3, 0, 2, 5}, {0, 3, 5, 2}};
    uint64_t around = exchange_beside(turned, NULL, &a);
    uint64_t within = exchange_beside(turned, &above[turned], &a);
    CU_ASSERT(around < 3500);
    CU_ASSERT(within < 5500 && within > around);
  }
  judge("beside", &a, 0.06);
}

static void test_apart(void) {
  accuracy a = {0}, large = {0};
  for (uint32_t seed = 0; seed < 200; seed++) exchange_apart(seed, false, &a);
  for (uint32_t seed = 1000; seed < 1100; seed++) exchange_apart(seed, true, &large);
  judge("apart", &a, 0.06);
  judge("apart, many elements", &large, 0.06);
}

static void test_identity(void) {
  accuracy small = {0}, large = {0};
  for (uint32_t seed = 0; seed < 200; seed++) exchange_random(seed, false, 1, &small);
  for (uint32_t seed = 0; seed < 100; seed++) exchange_random(seed, true, 1, &large);
  judge("few elements", &small, 0.06);
  judge("many elements", &large, 0.07);
}

/* The same buses serve sample after sample: switches and filters are back where they began. */
static void test_train(void) {
  accuracy a = {0};
  for (uint32_t seed = 0; seed < 80; seed++) exchange_random(seed, seed % 4 == 0, 5, &a);
}

/* ---- maps ---- */

/* A target and its map from `shape`; tables are the arena's. */
typedef struct mapped {
  wafer_shape shape;
  index_map map;
} mapped;

static mapped transposed(scene *s, dice *d, const wafer_shape *shape) {
  mapped m = {.shape = {.rank = shape->rank}};
  int64_t perm[WAFER_MAX_RANK];
  (void)s;
  for (uint32_t i = 0; i < shape->rank; i++) {
    uint32_t j = roll(d, i + 1);
    perm[i] = perm[j];
    perm[j] = i;
  }
  for (uint32_t i = 0; i < shape->rank; i++) m.shape.dims[i] = shape->dims[perm[i]];
  m.map = index_transpose(shape->rank, perm);
  return m;
}

/* Slices with steps either way, pads, parts of concatenations: a * i + b. */
static mapped sliced(scene *s, dice *d, const wafer_shape *shape) {
  mapped m = {.shape = *shape, .map = index_identity()};
  (void)s;
  for (uint32_t i = 0; i < shape->rank; i++) {
    int64_t a = (int64_t)roll(d, 5) - 2, over = (int64_t)roll(d, 4) - 2;
    m.shape.dims[i] = 1 + roll(d, 10);
    m.map.dim[i].a = a ? a : 1;
    m.map.dim[i].b = a < 0 ? shape->dims[i] - 1 - over : over;
  }
  return m;
}

/* Dims of one index repeat, others are picked out; ranks differ. */
static mapped expanded(scene *s, dice *d, const wafer_shape *shape) {
  mapped m = {.map = index_identity()};
  (void)s;
  for (uint32_t i = 0; i < shape->rank; i++) {
    if (roll(d, 4) == 0) m.shape.dims[m.shape.rank++] = 1 + roll(d, 5);
    if (m.shape.rank == 5) break;
    if (roll(d, 3) == 0) {
      m.map.dim[i] = (index_dim){INDEX_CONSTANT, 0, roll(d, (uint32_t)shape->dims[i]), NULL};
      continue;
    }
    m.map.dim[i].dim = (int)m.shape.rank;
    m.shape.dims[m.shape.rank++] = shape->dims[i];
  }
  for (uint32_t i = 0; i < shape->rank; i++)
    if (m.map.dim[i].dim >= (int)m.shape.rank)
      m.map.dim[i] = (index_dim){INDEX_CONSTANT, 0, 0, NULL};
  if (!m.shape.rank) m.shape = (wafer_shape){1, {3}};
  return m;
}

static mapped gathered(scene *s, dice *d, const wafer_shape *shape) {
  mapped m = {.shape = *shape, .map = index_identity()};
  uint32_t axis = roll(d, shape->rank);
  m.shape.dims[axis] = 1 + roll(d, 14);
  int64_t *table = WAFER_NEW(s->arena, int64_t, (size_t)m.shape.dims[axis]);
  for (int64_t i = 0; i < m.shape.dims[axis]; i++)
    table[i] = (int64_t)roll(d, (uint32_t)shape->dims[axis] + 1) - 1;
  m.map.dim[axis].table = table;
  return m;
}

typedef mapped make_map(scene *s, dice *d, const wafer_shape *shape);

static void exchange_mapped(uint32_t seed, make_map *make, accuracy *a) {
  dice d = {seed + 77};
  scene s;
  spread from, to;
  wafer_shape shape = {.rank = 1 + roll(&d, 4)};
  wafer_rect rect = {0};
  scene_begin(&s);
  wafer_dtype dtype = dtypes[roll(&d, WAFER_COUNT(dtypes))];
  for (uint32_t i = 0; i < shape.rank; i++) shape.dims[i] = 1 + roll(&d, 7);
  wafer_layout one = random_layout(&d, shape.rank, &rect);
  CU_ASSERT(spread_of_layout(s.arena, rect, &one, &shape, dtype, 0, &from));
  mapped m = make(&s, &d, &shape);
  wafer_layout other = random_layout(&d, m.shape.rank, &rect);
  CU_ASSERT(spread_of_layout(s.arena, rect, &other, &m.shape, dtype, after(&from), &to));
  CU_ASSERT(run(&s, &from, &to, &m.map, seed, a));
  scene_end(&s);
}

static void test_maps(void) {
  static const struct {
    const char *name;
    make_map *make;
  } maps[] = {
      {"transpose", transposed}, {"slice", sliced}, {"expand", expanded}, {"gather", gathered}};
  for (size_t i = 0; i < WAFER_COUNT(maps); i++) {
    accuracy a = {0};
    for (uint32_t seed = 0; seed < 80; seed++) exchange_mapped(seed, maps[i].make, &a);
    judge(maps[i].name, &a, 0.08);
  }
}

/* ---- over the border ---- */

/* Elements of a port in its order; `words`: of its wavelets, filled (into the fabric) or read. */
static uint32_t port_words(const wafer_port_use *use, uint32_t bytes, uint32_t *words,
                           int64_t *seen) {
  uint32_t at = 0, per = bytes < 4 ? 4 / bytes : 1;
  for (uint32_t b = 0; b < use->box_count; b++) {
    const wafer_port_box *box = &use->boxes[b];
    uint32_t count = 0;
    for (uint32_t i = 0; i < box->shape[0]; i++)
      for (uint32_t j = 0; j < box->shape[1]; j++)
        for (uint32_t k = 0; k < box->shape[2]; k++)
          for (uint32_t l = 0; l < box->shape[3]; l++, count++) {
            int64_t index = box->first + i * box->stride[0] + j * box->stride[1] +
                            k * box->stride[2] + l * box->stride[3];
            uint64_t value = element(index);
            unsigned char *place = (unsigned char *)&words[at] + (size_t)count * bytes;
            if (!use->out)
              memcpy(place, &value, bytes);
            else if (memcmp(place, &value, bytes) != 0)
              return UINT32_MAX;
            if (seen) seen[index]++;
          }
    at += bytes < 8 ? (count + per - 1) / per : 2 * count;
  }
  return at;
}

static uint32_t port_count_words(const wafer_port_use *use, uint32_t bytes) {
  uint32_t at = 0, per = bytes < 4 ? 4 / bytes : 1;
  for (uint32_t b = 0; b < use->box_count; b++) {
    const uint32_t *n = use->boxes[b].shape;
    uint32_t count = n[0] * n[1] * n[2] * n[3];
    at += bytes < 8 ? (count + per - 1) / per : 2 * count;
  }
  return at;
}

static bool run_border(scene *s, const spread *t, bool out, int64_t *seen) {
  uint32_t bytes = (uint32_t)wafer_dtype_bytes(t->dtype);
  exchange x = {.diag = &s->diag,
                .machine = &s->machine,
                .from = out ? t : NULL,
                .to = out ? NULL : t,
                .map = index_identity(),
                .scratch = after(t),
                .scratch_room = 20000,
                .value = 7};
  if (exchange_border(&x, &s->f) != WAFER_OK || !scene_load(s)) return false;
  uint32_t **words = WAFER_NEW(s->arena, uint32_t *, s->ports.count);
  for (uint32_t i = 0; i < s->ports.count; i++) {
    const wafer_port_use *use = &s->ports.at[i];
    uint32_t count = port_count_words(use, bytes);
    words[i] = WAFER_NEW(s->arena, uint32_t, count);
    CU_ASSERT(use->value == 7 && use->x == 0 && use->out == out);
    if (!out) port_words(use, bytes, words[i], seen);
    wafer_status status =
        out ? wafer_fabric_drain(s->fabric, use->x, use->y, (wafer_port)use->side, use->color,
                                 words[i], count, 0)
            : wafer_fabric_feed(s->fabric, use->x, use->y, (wafer_port)use->side, use->color,
                                words[i], count, WAFER_CONTROL_none, 0);
    if (status != WAFER_OK) return false;
  }
  if (out && !for_all(s, t, fill, NULL)) return false;
  if (wafer_fabric_run(s->fabric, &s->stats) != WAFER_OK) return false;
  for (uint32_t i = 0; out && i < s->ports.count; i++)
    if (port_words(&s->ports.at[i], bytes, words[i], seen) == UINT32_MAX) return false;
  index_map same = index_identity();
  wanted w = {t, &same};
  return out || for_all(s, t, check, &w);
}

static void cross_border(uint32_t seed, bool out, accuracy *a) {
  dice d = {seed + 5000 * out};
  scene s;
  spread t;
  wafer_shape shape = {.rank = roll(&d, 4)};
  wafer_rect rect = {0};
  int64_t elements = 1;
  scene_begin(&s);
  wafer_dtype dtype = dtypes[roll(&d, WAFER_COUNT(dtypes))];
  for (uint32_t i = 0; i < shape.rank; i++) elements *= shape.dims[i] = 1 + roll(&d, 12);
  wafer_layout layout = random_layout(&d, shape.rank, &rect);
  rect.x = roll(&d, WIDTH - rect.width + 1);
  rect.y = roll(&d, HEIGHT - rect.height + 1);
  CU_ASSERT(spread_of_layout(s.arena, rect, &layout, &shape, dtype, 0, &t));
  int64_t *seen = WAFER_NEW(s.arena, int64_t, (size_t)elements);
  bool done = run_border(&s, &t, out, seen);
  if (!done) printf("\n  seed %u: %s %s", seed, s.caught.place, s.caught.text);
  CU_ASSERT(done);
  for (int64_t i = 0; i < elements; i++) CU_ASSERT_EQUAL(seen[i], 1); /* each crosses once */
  if (done) note(a, seed, s.f.cycles, s.stats.cycles);
  scene_end(&s);
}

static void test_border(void) {
  accuracy in = {0}, out = {0};
  for (uint32_t seed = 0; seed < 120; seed++) {
    cross_border(seed, false, &in);
    cross_border(seed, true, &out);
  }
  judge("in", &in, 0.1);
  judge("out", &out, 0.05);
}

/* ---- halos ---- */

/* Windows over tiles: every core takes from cores near to it, at the same time. */
static void test_windows(void) {
  accuracy a = {0};
  for (uint32_t seed = 0; seed < 60; seed++) {
    dice d = {seed};
    scene s;
    spread from, to;
    uint32_t rows = 1 + roll(&d, 12), cols = 1 + roll(&d, 12), taps = 1 + roll(&d, 5);
    wafer_shape shape = {
        3, {1 + roll(&d, 3), rows * (1 + roll(&d, 3)) - roll(&d, 2), 1 + roll(&d, 40)}};
    wafer_layout layout = {3, {1, rows, 1}, {1, 1, cols}, {1, 1, 1}, {1, 1, 1}, {0}};
    wafer_rect rect = {0, 0, cols, rows};
    scene_begin(&s);
    CU_ASSERT(spread_of_layout(s.arena, rect, &layout, &shape, WAFER_DTYPE_f32, 0, &from));
    CU_ASSERT(spread_of_layout(s.arena, rect, &layout, &shape, WAFER_DTYPE_f32, after(&from), &to));
    for (uint32_t i = 1; i < 3; i++) {
      spread_window w = {shape.dims[i], 1, 1, taps / 2, taps - 1 - taps / 2};
      CU_ASSERT(spread_set_window(s.arena, &to, i, &w));
    }
    index_map map = index_identity();
    CU_ASSERT(run(&s, &from, &to, &map, seed, &a));
    CU_ASSERT(s.f.colors <= 8);
    scene_end(&s);
  }
  judge("windows", &a, 0.05);
}

CU_TestInfo tests_exchange[] = {{"identity", test_identity},
                                {"apart", test_apart},
                                {"between", test_between},
                                {"beside each other", test_beside},
                                {"train", test_train},
                                {"maps", test_maps},
                                {"border", test_border},
                                {"windows", test_windows},
                                CU_TEST_INFO_NULL};
