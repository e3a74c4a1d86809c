/* The code of a core in a pass: sends, receives, copies. Neighbouring boxes of a list become one
 * instruction where their addresses go on evenly and their wavelets are full.
 *
 * Transfers take turns on the microthreads, so that several are under way. Their order is one in
 * which each can end without a later one: one direction after the other, sends first, since the
 * words of the core at the end wait for nobody. */
#include <string.h>

#include "exchange_line.h"
#include "fragment/fragment_clock.h"

static uint64_t elements_of(const side *s) {
  uint64_t n = 1;
  for (uint32_t i = 0; i < s->levels; i++) n *= s->shape[i];
  return n;
}

/* Without levels of one index, and with levels that continue each other merged. */
static side side_of(const line_box *box, bool source) {
  side s = {.address = source ? box->src : box->dst};
  for (uint32_t i = 0; i < box->levels; i++) {
    uint32_t n = box->shape[i];
    int32_t stride = source ? box->src_stride[i] : box->dst_stride[i];
    if (n == 1) continue;
    if (s.levels && s.stride[s.levels - 1] == stride * (int32_t)n) {
      s.shape[s.levels - 1] *= n;
      s.stride[s.levels - 1] = stride;
      continue;
    }
    s.shape[s.levels] = n;
    s.stride[s.levels++] = stride;
  }
  return s;
}

static bool alike(const side *a, const side *b) {
  return a->levels == b->levels && memcmp(a->shape, b->shape, a->levels * sizeof *a->shape) == 0 &&
         memcmp(a->stride, b->stride, a->levels * sizeof *a->stride) == 0;
}

/* An outermost level of 1, which may grow. */
static void open_level(side *s, int32_t stride) {
  memmove(s->shape + 1, s->shape, s->levels * sizeof *s->shape);
  memmove(s->stride + 1, s->stride, s->levels * sizeof *s->stride);
  s->shape[0] = 1;
  s->stride[0] = stride;
  s->levels++;
}

typedef struct sides {
  side *at;
  uint32_t count;
} sides;

/* The sides of a list of boxes, as few as there can be by merging neighbours; put to `at`. */
static sides merge(wafer_dtype dtype, const line_ops *list, bool source, side *at) {
  uint32_t per = 4 / (uint32_t)wafer_dtype_bytes(dtype), merged = 0;
  side unit = {0}; /* what the last of `all` repeats */
  sides all = {at, 0}, *out = &all;
  for (uint32_t i = 0; i < list->count; i++) {
    side s = side_of(list->at[i], source);
    side *last = out->count ? &out->at[out->count - 1] : NULL;
    bool full = per < 2 || elements_of(&s) % per == 0;
    if (last && full && alike(&s, &unit) && unit.levels < WAFER_LEVELS) {
      int32_t step =
          s.address - (last->address + (int32_t)(merged - 1) * (merged > 1 ? last->stride[0] : 0));
      if (merged == 1) open_level(last, step);
      if (step == last->stride[0]) {
        last->shape[0]++;
        merged++;
        continue;
      }
    }
    out->at[out->count++] = unit = s;
    merged = 1;
  }
  return all;
}

static wafer_operand memory(wafer_dtype dtype, const side *s) {
  int32_t stride[WAFER_LEVELS] = {0};
  for (uint32_t i = 0; i < s->levels; i++) stride[WAFER_LEVELS - s->levels + i] = s->stride[i];
  return fragment_memory(dtype, s->address, stride);
}

static wafer_instruction move(const side *s) {
  wafer_instruction code = {.op = WAFER_CORE_move,
                            .load_descriptors = true,
                            .count_reg = WAFER_NO_REGISTER,
                            .shape = {1, 1, 1, 1}};
  for (uint32_t i = 0; i < s->levels; i++) code.shape[WAFER_LEVELS - s->levels + i] = s->shape[i];
  return code;
}

static wafer_instruction copy(wafer_dtype dtype, const line_box *box) {
  side src = {box->levels, .address = box->src}, dst = {box->levels, .address = box->dst};
  memcpy(src.shape, box->shape, sizeof box->shape);
  memcpy(src.stride, box->src_stride, sizeof box->src_stride);
  memcpy(dst.stride, box->dst_stride, sizeof box->dst_stride);
  wafer_instruction code = move(&src);
  code.in[0] = memory(dtype, &src);
  code.out = memory(dtype, &dst);
  return code;
}

static bool in_place(const line_box *box) {
  return box->src == box->dst &&
         memcmp(box->src_stride, box->dst_stride, box->levels * sizeof *box->src_stride) == 0;
}

typedef struct writer {
  wafer_dtype dtype;
  wafer_instruction *code;
  uint32_t count;
  uint32_t threads; /* microthreads for transfers */
} writer;

static void put(writer *w, wafer_instruction code) {
  code.async = true;
  code.thread = (uint8_t)(w->count % w->threads);
  w->code[w->count++] = code;
}

static void put_sends(writer *w, const sides *list, uint8_t color, uint8_t control) {
  for (uint32_t i = 0; i < list->count; i++) {
    wafer_instruction code = move(&list->at[i]);
    code.in[0] = memory(w->dtype, &list->at[i]);
    code.out = fragment_wire(w->dtype, color);
    code.control = i + 1 == list->count ? control : WAFER_CONTROL_none;
    put(w, code);
  }
}

static void put_takes(writer *w, const sides *list, uint8_t color) {
  for (uint32_t i = 0; i < list->count; i++) {
    wafer_instruction code = move(&list->at[i]);
    code.in[0] = fragment_wire(w->dtype, color);
    code.out = memory(w->dtype, &list->at[i]);
    put(w, code);
  }
}

/* Own segment first: its words wait for nobody else's. */
static void put_direction(writer *w, line_core *core, const line_colors *colors, const sides *lists,
                          uint32_t back) {
  uint32_t own = core->segment[back], *count = &core->transfers.count[back * FRAGMENT_BACK];
  put_sends(w, &lists[LINE_SEND + back], colors->at[back][own], core->control[back]);
  count[FRAGMENT_SEND] = lists[LINE_SEND + back].count;
  for (uint32_t i = 0; i < 2; i++) {
    const sides *list = &lists[LINE_TAKE + 2 * back + (own ^ i)];
    put_takes(w, list, colors->at[back][own ^ i]);
    count[FRAGMENT_TAKE + i] = list->count;
  }
}

static uint64_t load_of(const wafer_machine *m, wafer_dtype dtype, const wafer_instruction *code,
                        bool copies) {
  uint64_t n = 1;
  for (uint32_t i = 0; i < WAFER_LEVELS; i++) n *= code->shape[i];
  return copies ? wafer_machine_cycles(m, WAFER_RATE_move, dtype, n) : line_words(dtype, n);
}

static uint64_t most(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

/* Sends run beside receives and copies. Descriptors are loaded meanwhile, as far as there are
 * microthreads; a copy, for which control waits, loads its own when the one before has ended. */
static uint64_t cycles_of(const wafer_machine *m, const writer *w, uint32_t transfers) {
  uint64_t sends = 0, computes = 0, copies = transfers;
  uint64_t setup = m->vector_setup_cycles + m->descriptor_load_cycles;
  for (uint32_t i = 0; i < w->count; i++) {
    const wafer_instruction *code = &w->code[i];
    uint64_t load = load_of(m, w->dtype, code, i >= transfers);
    *(code->out.kind == WAFER_OPERAND_fabric ? &sends : &computes) += load;
    if (i >= transfers) copies += setup - 1 + load;
  }
  uint64_t moves = transfers ? most(sends, computes) + setup + transfers : 0;
  if (transfers > w->threads) moves += (transfers - w->threads) * setup / w->threads;
  return most(moves, copies);
}

/* From the first word to the last. What queues have room for has left while the core waited for its
 * turn, and as many further sends as there are microthreads were set up; each other one is when the
 * microthread's last has ended. */
static uint64_t sending(const wafer_machine *m, wafer_dtype dtype, const sides *list,
                        uint32_t threads) {
  uint64_t ends[WAFER_CORE_THREADS] = {0}, time = 0, words = 0, room = fragment_sender_room(m);
  uint64_t setup = m->vector_setup_cycles + m->descriptor_load_cycles;
  for (uint32_t i = 0; i < list->count; i++) {
    uint64_t *end = &ends[i % threads], own = line_words(dtype, elements_of(&list->at[i]));
    if (*end) time = most(time, *end + setup);
    time += own;
    words += own;
    *end = words > room ? time - room : 0;
  }
  return time;
}

bool line_work_create(wafer_arena *scratch, const line_core *cores, uint32_t count,
                      line_work *work) {
  uint32_t sides_most = 0, code_most = 0;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t all = 0;
    for (uint32_t k = 0; k < LINE_COPY; k++) all += cores[i].list[k].count;
    if (all > sides_most) sides_most = all;
    all += cores[i].list[LINE_COPY].count;
    if (all > code_most) code_most = all;
  }
  work->sides = WAFER_NEW(scratch, side, sides_most);
  work->code = WAFER_NEW(scratch, wafer_instruction, code_most + WAFER_CORE_THREADS);
  return work->sides && work->code;
}

uint32_t line_core_code(const wafer_machine *machine, const line_work *work, wafer_dtype dtype,
                        line_core *core, const line_colors *colors, fragment *f, uint64_t *cycles,
                        uint32_t *late) {
  sides lists[LINE_COPY];
  const line_ops *copies = &core->list[LINE_COPY];
  side *at = work->sides;
  for (uint32_t i = 0; i < LINE_COPY; i++) {
    lists[i] = merge(dtype, &core->list[i], i <= LINE_SEND_BACK, at);
    at += lists[i].count;
  }
  writer w = {.dtype = dtype, .threads = machine->microthreads - 1, .code = work->code};
  for (uint32_t back = 0; back < 2; back++)
    core->sending[back] = sending(machine, dtype, &lists[LINE_SEND + back], w.threads);
  put_direction(&w, core, colors, lists, 0);
  uint32_t forth = w.count;
  put_direction(&w, core, colors, lists, 1);
  uint32_t transfers = w.count;
  for (uint32_t i = 0; i < copies->count; i++) {
    if (in_place(copies->at[i])) continue;
    w.code[w.count] = copy(dtype, copies->at[i]);
    w.code[w.count++].thread = (uint8_t)w.threads;
  }
  *cycles = cycles_of(machine, &w, transfers);
  *late = forth > w.threads ? (forth - w.threads) * 100 / forth : 0;
  for (uint32_t t = 0; t < w.threads && t < transfers; t++)
    w.code[w.count++] = (wafer_instruction){.op = WAFER_CORE_join, .thread = (uint8_t)t};
  return w.count ? fragment_code_add(f, w.code, w.count) : FRAGMENT_IDLE;
}
