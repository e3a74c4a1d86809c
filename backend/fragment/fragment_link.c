/* From fragments to one program: real colours and queues, code put together, a program for each
 * different sequence of codes. */
#include <string.h>

#include "fragment_sequence.h"

/* ---- programs ---- */

/* Of a core's program; `ahead`: of the sample that its last step is at. */
typedef struct step {
  uint32_t sequence, ahead;
} step;

#define GUARD_REGISTER 2 /* of those that hold nothing between fragments */

typedef struct writer {
  const linker *l;
  uint32_t begins; /* the step with which the first sample begins */
  uint32_t ahead;  /* the most samples that a step is ahead */
  wafer_instruction *code;
  uint32_t count, first; /* instructions; where the first sample begins */
  wafer_core_binding *bindings;
  uint32_t binding_count;
  uint32_t fragment;  /* at hand */
  uint32_t queues[2]; /* sets of input and of output queues that its colours have so far */
  fragment_under_way under_way; /* on as many microthreads from the first one for sends on */
  bool alone;                   /* none goes on beyond its sample */
} writer;

/* The deepest queue that is not in the set; of all, when that is full: they are shared anew. */
static uint8_t queue_of(const wafer_machine *m, bool output, uint32_t *set) {
  const uint32_t *words = output ? m->output_queue_words : m->input_queue_words;
  uint32_t queues = output ? m->output_queues : m->input_queues, best = UINT32_MAX;
  if (*set == (1u << queues) - 1) *set = 0;
  for (uint32_t q = 0; q < queues; q++)
    if (!(*set >> q & 1) && (best == UINT32_MAX || words[q] > words[best])) best = q;
  *set |= 1u << best;
  return (uint8_t)best;
}

/* Colours of one code have queues of their own as long as there are some; those of different
 * fragments share them: a core is at one fragment at a time. */
static bool bind(writer *w, uint8_t color, bool output) {
  for (uint32_t i = 0; i < w->binding_count; i++)
    if (w->bindings[i].color == color && w->bindings[i].output == output) {
      w->queues[output] |= 1u << w->bindings[i].queue;
      return true;
    }
  if (w->binding_count == WAFER_CORE_BINDINGS) return false;
  w->bindings[w->binding_count++] =
      (wafer_core_binding){color, queue_of(w->l->machine, output, &w->queues[output]), output};
  return true;
}

static bool link_operand(writer *w, wafer_operand *o, bool output) {
  if (o->kind != WAFER_OPERAND_fabric) return true;
  o->color = w->l->colors.of[w->fragment][o->color];
  return bind(w, o->color, output);
}

static bool link_code(writer *w, const fragment_code *from, uint32_t entry) {
  bool fits = true;
  for (uint32_t i = 0; i < from->count; i++) {
    wafer_instruction *to = &w->code[entry + i];
    *to = from->code[i];
    if (to->op == WAFER_CORE_branch) to->target = (uint16_t)(to->target + entry);
    if (to->op >= WAFER_CORE_VECTORS) continue;
    fits &= link_operand(w, &to->out, true);
    for (uint32_t k = 0; k < WAFER_COUNT(to->in); k++) fits &= link_operand(w, &to->in[k], false);
  }
  return fits;
}

static void put_mark(writer *w, uint32_t value) {
  if (w->l->link->marks)
    w->code[w->count++] = (wafer_instruction){.op = WAFER_CORE_mark, .value = (int32_t)value};
}

/* ---- sends that go on ---- */

static void put_joins(writer *w, uint32_t first, uint32_t count) {
  for (uint32_t t = 0; t < count; t++)
    w->code[w->count++] =
        (wafer_instruction){.op = WAFER_CORE_join, .thread = (uint8_t)(first + t)};
}

static void end_sends(writer *w, uint32_t count) {
  put_joins(w, fragment_waited_for(w->l->machine), count);
}

/* Beside what is under way: the code at `entry` on the other microthreads, pass by pass, all but
 * the sends at its end. */
static void use_others(writer *w, uint32_t entry, uint32_t end) {
  uint32_t threads = fragment_waited_for(w->l->machine), moves = 0, from = entry;
  w->count = entry;
  while (from < end) {
    wafer_instruction code = w->code[from++];
    if (code.op != WAFER_CORE_join) {
      if (code.async) code.thread = (uint8_t)(moves++ % threads);
      w->code[w->count++] = code;
      continue;
    }
    while (from < end && w->code[from].op == WAFER_CORE_join) from++;
    put_joins(w, 0, moves < threads ? moves : threads);
    moves = 0;
  }
}

/* The sends that end the code, each behind those before it, on microthreads of their own. */
static void go_on(writer *w, const wafer_instruction *sends, uint32_t count, uint32_t before) {
  uint32_t first = fragment_waited_for(w->l->machine);
  for (uint32_t i = 0; i < count; i++) {
    wafer_instruction code = sends[i];
    code.after = (uint8_t)(before + i ? first + before + i : 0);
    code.thread = (uint8_t)(first + before + i);
    w->code[w->count++] = code;
  }
}

/* The set of real colours on which instructions first .. end - 1 of a fragment's code send. */
static uint32_t sent_by(const writer *w, uint32_t of, const fragment_code *code, uint32_t first,
                        uint32_t end) {
  uint32_t set = 0;
  for (uint32_t i = first; i < end; i++)
    if (code->code[i].op < WAFER_CORE_VECTORS && code->code[i].out.kind == WAFER_OPERAND_fabric)
      set |= 1u << w->l->colors.of[of][code->code[i].out.color];
  return set;
}

/* Must what is under way end before the code begins? Where fragments share colours, also so that
 * words keep their order: those that go on do so behind it. */
static bool waits(writer *w, const sequence *s, const fragment_code *code) {
  const fragment *f = w->l->link->at[s->fragment];
  const wafer_machine *m = w->l->machine;
  uint32_t end = fragment_goes_on(m, f, code) ? code->last : code->count;
  bool again = (sent_by(w, s->fragment, code, 0, end) & w->under_way.colors) != 0;
  if (again) w->under_way = (fragment_under_way){0};
  again |= fragment_waits(m, f, code, &w->under_way);
  w->under_way.colors |= sent_by(w, s->fragment, code, end, code->count);
  return again;
}

/* For as many samples as the train has at least, the code that comes next; what it returns goes to
 * end_guard behind that. */
static uint32_t put_guard(writer *w, uint32_t least) {
  if (least <= 1) return NOTHING;
  w->code[w->count++] =
      (wafer_instruction){.op = WAFER_CORE_set, .a = GUARD_REGISTER, .value = (int32_t)least};
  w->code[w->count] =
      (wafer_instruction){.op = WAFER_CORE_branch, .a = FRAGMENT_SAMPLES, .b = GUARD_REGISTER};
  return w->count++;
}

static void end_guard(writer *w, uint32_t guard) {
  if (guard != NOTHING) w->code[guard].target = (uint16_t)w->count;
}

/* `least`: it comes while so many samples are still to do. */
static wafer_status write_fragment(writer *w, const sequence *s, uint32_t least) {
  const fragment *f = w->l->link->at[s->fragment];
  const fragment_code *code = &f->codes[s->code];
  uint32_t before = w->under_way.count;
  if (w->l->link->steps && waits(w, s, code)) {
    end_sends(w, before);
    before = 0;
  }
  w->fragment = s->fragment;
  w->queues[0] = w->queues[1] = 0;
  uint32_t guard = put_guard(w, f->makes_room ? 1 : least);
  put_mark(w, s->fragment);
  uint32_t entry = w->count;
  if (!link_code(w, code, entry)) {
    if (w->l->link->lacks_colors) *w->l->link->lacks_colors = true;
    return wafer_fail(w->l->diag, fragment_loc(w->l->link, s->fragment), WAFER_NO_FIT,
                      "a core uses more than %u colors in one launch", WAFER_CORE_BINDINGS);
  }
  w->count += code->count;
  bool on = w->under_way.count > before;
  if (before || on) use_others(w, entry, on ? entry + code->last : w->count);
  if (on) go_on(w, &w->code[entry + code->last], code->sends, before);
  end_guard(w, guard);
  return WAFER_OK;
}

/* One sample less; on while there are any, and sends with it. */
static void write_end(writer *w, bool again) {
  uint32_t under_way = w->alone ? 0 : w->under_way.count;
  if (w->alone) {
    end_sends(w, w->under_way.count);
    w->under_way = (fragment_under_way){0};
  }
  put_mark(w, w->l->link->count);
  w->code[w->count++] = (wafer_instruction){.op = WAFER_CORE_plus,
                                            .a = FRAGMENT_SAMPLES,
                                            .b = FRAGMENT_SAMPLES,
                                            .c = WAFER_NO_REGISTER,
                                            .value = -1};
  w->code[w->count] =
      (wafer_instruction){.op = WAFER_CORE_branch,
                          .a = WAFER_NO_REGISTER,
                          .b = FRAGMENT_SAMPLES,
                          .target = (uint16_t)(again ? w->first : w->count + under_way + 2)};
  w->count++;
  end_sends(w, under_way);
  if (!again) w->code[w->count++] = (wafer_instruction){.op = WAFER_CORE_end};
}

/* For messages: the first fragment that the core runs. */
static const fragment *first_of(const linker *l, const step *order) {
  while (l->sequences[order->sequence].fragment >= STARTS) order++;
  return l->link->at[l->sequences[order->sequence].fragment];
}

static int64_t due_of(const linker *l, const step *s) {
  return l->link->due[l->sequences[s->sequence].fragment];
}

/* Is `a` due before `b`, of the samples that they come with? */
static bool comes_before(const linker *l, const step *a, const step *b) {
  return due_of(l, a) + (int64_t)a->ahead * l->link->period <
         due_of(l, b) + (int64_t)b->ahead * l->link->period;
}

/* By how many samples each step is ahead of the last one, and in their order with that; the most.
 */
static uint32_t go_ahead(const linker *l, step *own, uint32_t count) {
  uint32_t most = 0;
  int64_t last = count ? due_of(l, &own[count - 1]) : 0;
  for (uint32_t i = 0; i < count; i++) {
    own[i].ahead = (uint32_t)((last - due_of(l, &own[i])) / l->link->period);
    most = own[i].ahead > most ? own[i].ahead : most;
  }
  for (uint32_t i = 1; i < count; i++)
    for (uint32_t k = i; k > 0 && comes_before(l, &own[k], &own[k - 1]); k--) {
      step other = own[k];
      own[k] = own[k - 1];
      own[k - 1] = other;
    }
  return most;
}

/* What a core does of samples that it is ahead with, before it comes to the last fragment of the
 * first one: `order` from the first fragment of a sample on. */
static wafer_status write_ahead(writer *w, const step *order, uint32_t count, uint32_t most) {
  w->under_way = (fragment_under_way){0};
  for (uint32_t left = most; left > 0; left--)
    for (uint32_t i = 0; i < count; i++)
      if (order[i].ahead >= left)
        WAFER_TRY(
            write_fragment(w, &w->l->sequences[order[i].sequence], order[i].ahead - left + 1));
  end_sends(w, w->under_way.count);
  return WAFER_OK;
}

/* `before`: what is under way where the first sample begins. What comes once is no stream. */
static wafer_status write_sample(writer *w, const step *order, uint32_t depth,
                                 fragment_under_way before) {
  w->under_way = before;
  for (uint32_t i = 0; i < depth; i++) {
    const sequence *s = &w->l->sequences[order[i].sequence];
    if (i == w->begins) {
      if (w->ahead) WAFER_TRY(write_ahead(w, order + i, depth - i, w->ahead));
      w->first = w->count;
      w->under_way = before;
    }
    if (s->fragment == FRAGMENT_ENDS)
      write_end(w, s->code);
    else if (s->fragment != STARTS)
      WAFER_TRY(write_fragment(w, s, order[i].ahead + 1));
  }
  return WAFER_OK;
}

/* Sends of a sample are under way when the next one begins: the same code, which knows of them. */
static wafer_status write_again(writer *w, const step *order, uint32_t depth) {
  fragment_under_way before = w->under_way;
  w->count = 0;
  WAFER_TRY(write_sample(w, order, depth, before));
  if (memcmp(&w->under_way, &before, sizeof before) == 0) return WAFER_OK;
  w->alone = true;
  w->count = 0;
  return write_sample(w, order, depth, (fragment_under_way){0});
}

static wafer_status write_program(const linker *l, uint32_t last, wafer_core_program *out) {
  static const wafer_core_task start = {.kind = WAFER_TASK_start};
  uint32_t depth = 0, length = l->sequences[last].length + l->link->marks;
  for (uint32_t s = last; s != NOTHING; s = l->sequences[s].before) depth++;
  step *order = WAFER_NEW(l->arena, step, depth);
  if (!order) return link_no_memory(l);
  for (uint32_t s = last, i = depth; s != NOTHING; s = l->sequences[s].before)
    order[--i] = (step){s, 0};
  uint32_t begins = 0;
  for (uint32_t i = 0; i < depth; i++)
    if (l->sequences[order[i].sequence].fragment == STARTS) begins = i + 1;
  uint32_t ahead = l->link->due ? go_ahead(l, order + begins, depth - begins - 1) : 0;
  if (l->link->steps) length += depth * fragment_sends_room(l->machine);
  if (ahead) length = (ahead + 1) * (length + 2 * depth) + fragment_sends_room(l->machine);
  writer w = {.l = l,
              .begins = begins,
              .ahead = ahead,
              .code = WAFER_NEW(l->arena, wafer_instruction, length),
              .bindings = WAFER_NEW(l->arena, wafer_core_binding, WAFER_CORE_BINDINGS)};
  if (!w.code || !w.bindings) return link_no_memory(l);
  WAFER_TRY(write_sample(&w, order, depth, (fragment_under_way){0}));
  if (l->link->steps && w.under_way.count) WAFER_TRY(write_again(&w, order, depth));
  if (!l->link->steps) put_mark(&w, l->link->count);
  const fragment *first = first_of(l, order);
  *out = (wafer_core_program){.name = first->name,
                              .node = first->node,
                              .code = w.code,
                              .code_count = w.count,
                              .tasks = &start,
                              .task_count = 1,
                              .bindings = w.bindings,
                              .binding_count = w.binding_count};
  return WAFER_OK;
}

static wafer_status write_programs(linker *l, wafer_fabric_program *out) {
  size_t cores = (size_t)l->link->width * l->link->height;
  uint32_t *program = WAFER_NEW(l->arena, uint32_t, l->count);
  wafer_core_program *programs = WAFER_NEW(l->arena, wafer_core_program, l->count);
  if (!program || !programs) return link_no_memory(l);
  memset(program, 0xff, l->count * sizeof *program);
  for (size_t i = 0; i < cores; i++) {
    uint32_t s = l->last[i];
    if (s == NOTHING) continue;
    if (program[s] == NOTHING) {
      program[s] = out->program_count++;
      WAFER_TRY(write_program(l, s, &programs[program[s]]));
    }
    l->last[i] = program[s];
  }
  out->programs = programs;
  out->core = l->last; /* NOTHING is WAFER_NO_PROGRAM */
  return WAFER_OK;
}

/* ---- ports ---- */

static wafer_status write_ports(const linker *l, fragment_ports *out) {
  size_t count = 0;
  for (uint32_t i = 0; i < l->link->count; i++) count += l->link->at[i]->port_count;
  *out = (fragment_ports){.at = WAFER_NEW(l->arena, wafer_port_use, count)};
  if (!out->at) return link_no_memory(l);
  for (uint32_t i = 0; i < l->link->count; i++)
    for (uint32_t p = 0; p < l->link->at[i]->port_count; p++) {
      out->at[out->count] = l->link->at[i]->ports[p];
      out->at[out->count].color = l->colors.of[i][out->at[out->count].color];
      out->count++;
    }
  return WAFER_OK;
}

wafer_status fragment_link_program(const wafer_diag *diag, wafer_arena *arena,
                                   const wafer_machine *machine, const fragment_link *link,
                                   wafer_fabric_program *out) {
  linker l = {.diag = diag, .arena = arena, .machine = machine, .link = link};
  *out = (wafer_fabric_program){.name = link->name, .width = link->width, .height = link->height};
  l.colors = (fragment_coloring){.diag = diag, .arena = arena, .machine = machine, .link = link};
  WAFER_TRY(fragment_color_all(&l.colors));
  link = l.link = l.colors.link; /* fragments may have become others */
  WAFER_TRY(link_sequences(&l));
  WAFER_TRY(write_programs(&l, out));
  WAFER_TRY(fragment_color_write(&l.colors, out));
  return link->ports ? write_ports(&l, link->ports) : WAFER_OK;
}
