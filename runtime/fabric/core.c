/* A core: a cycle is for one of the microthreads in turn, else for control; beside it, for one of
 * those that only move words to the fabric. */
#include "core_value.h"

#define MOST_AHEAD 16 /* instructions of control in a visit */

uint32_t core_binding(const wafer_core_program *program, uint8_t color, bool output) {
  uint32_t i = 0;
  while (i < program->binding_count &&
         (program->bindings[i].color != color || program->bindings[i].output != output))
    i++;
  return i;
}

uint32_t core_queue(const fabric_core *core, uint8_t color, bool output) {
  uint32_t i = core_binding(core->program, color, output);
  return i < core->program->binding_count ? core->queue[i] : FABRIC_NONE;
}

static void sooner(uint64_t *next, uint64_t cycle) {
  if (cycle < *next) *next = cycle;
}

static int32_t reg(const fabric_core *core, uint8_t r) {
  return r == WAFER_NO_REGISTER ? 0 : core->r[r];
}
static void set_reg(fabric_core *core, uint8_t r, uint32_t value) {
  if (r != WAFER_NO_REGISTER) core->r[r] = (int32_t)value;
}

/* The task that can start now, or -1; `*next` becomes the cycle of a wavelet under way. */
static int ready_task(wafer_fabric *f, fabric_core *core, uint64_t *next) {
  const wafer_core_program *p = core->program;
  for (uint32_t i = 0; i < p->task_count; i++) {
    uint32_t at = (core->task_turn + i) % p->task_count;
    const wafer_core_task *task = &p->tasks[at];
    if (core->blocked >> at & 1) continue;
    if (core->activated >> at & 1) {
      if (!(core->due >> at & 1) || core->due_at <= f->now) return (int)at;
      if (core->due_at < *next) *next = core->due_at;
      continue;
    }
    if (task->kind != WAFER_TASK_data && task->kind != WAFER_TASK_control) continue;
    const fabric_node *q = &f->nodes[core_queue(core, task->color, false)];
    if (!q->count || fabric_front(q)->control != (task->kind == WAFER_TASK_control)) continue;
    uint32_t wait = fabric_wait(f, q);
    if (!wait) return (int)at;
    if (f->now + wait < *next) *next = f->now + wait;
  }
  return -1;
}

/* Starting takes the task switch; a data task takes its wavelet along. */
static void start_task(wafer_fabric *f, fabric_core *core, uint32_t at) {
  const wafer_core_task *task = &core->program->tasks[at];
  bool first = f->now == 0;
  if (task->kind == WAFER_TASK_data || task->kind == WAFER_TASK_control) {
    fabric_node *q = &f->nodes[core_queue(core, task->color, false)];
    core->r[WAFER_CORE_REGISTERS - 1] = (int32_t)fabric_front(q)->word;
    fabric_pop(f, q);
  }
  core->activated &= ~(1u << at);
  core->due &= ~(1u << at);
  core->task_turn = (uint8_t)((at + 1) % core->program->task_count);
  core->pc = task->entry;
  core->state = CORE_RUN;
  core->resume = f->now + (first ? 0 : f->machine->task_switch_cycles);
  f->moved = true;
}

/* Has its instruction ended by now? */
static bool is_free(const wafer_fabric *f, const core_thread *t, uint64_t *next) {
  if (t->state != THREAD_FREE) return false;
  if (t->ready > f->now && t->ready < *next) *next = t->ready;
  return t->ready <= f->now;
}

static wafer_status issue_vector(wafer_fabric *f, uint32_t at, const wafer_instruction *code,
                                 bool *issued, uint64_t *next) {
  fabric_core *core = &f->cores[at];
  *issued = is_free(f, &core->threads[code->thread], next);
  if (!*issued) return WAFER_OK;
  WAFER_TRY(core_issue(f, at, code));
  core->pc++;
  if (code->async) return WAFER_OK;
  core->state = CORE_JOIN;
  core->joined = code->thread;
  core_send_ahead(f, at, &core->threads[code->thread]);
  return WAFER_OK;
}

/* The integer at an address, read as a move of one element would. */
static wafer_status load(wafer_fabric *f, uint32_t at, const wafer_instruction *code) {
  fabric_core *core = &f->cores[at];
  wafer_dtype dtype = (wafer_dtype)code->function;
  const wafer_instruction one = {.op = WAFER_CORE_move,
                                 .in = {{.kind = WAFER_OPERAND_memory, .dtype = (uint8_t)dtype}}};
  core_thread t = {.code = &one};
  uint64_t raw = 0;
  t.bytes[1] = (uint8_t)wafer_dtype_bytes(dtype);
  t.address[1] = (int64_t)reg(core, code->b) + code->value;
  WAFER_TRY(core_gather(f, at, &t, 1, 1, &raw));
  int64_t value = wafer_element_i64(dtype, &raw, 0);
  if (dtype == WAFER_DTYPE_u64 && value < 0) value = INT32_MAX;
  if (value > INT32_MAX) value = INT32_MAX;
  if (value < INT32_MIN) value = INT32_MIN;
  set_reg(core, code->a, (uint32_t)(int32_t)value);
  return WAFER_OK;
}

/* Is what the instruction does between it and the registers of its core? */
static bool is_private(uint8_t op) {
  return op == WAFER_CORE_set || op == WAFER_CORE_plus || op == WAFER_CORE_minus ||
         op == WAFER_CORE_times || op == WAFER_CORE_branch || op == WAFER_CORE_time;
}

static int64_t delay_of(const fabric_core *core, const core_scalar *code) {
  int64_t cycles = (int64_t)reg(core, code->a) + code->value;
  return cycles > 1 ? cycles : 1;
}

/* A private instruction or a delay, in the cycle in which control resumes. */
static void run_private(fabric_core *core) {
  const core_scalar *code = &core->scalars[core->pc++];
  uint64_t now = core->resume++;
  switch ((wafer_core_op)code->op) {
  case WAFER_CORE_set: set_reg(core, code->a, (uint32_t)code->value); break;
  case WAFER_CORE_plus:
    set_reg(core, code->a,
            (uint32_t)reg(core, code->b) + (uint32_t)reg(core, code->c) + (uint32_t)code->value);
    break;
  case WAFER_CORE_minus:
    set_reg(core, code->a,
            (uint32_t)reg(core, code->b) - (uint32_t)reg(core, code->c) + (uint32_t)code->value);
    break;
  case WAFER_CORE_times:
    set_reg(core, code->a, (uint32_t)reg(core, code->b) * (uint32_t)reg(core, code->c));
    break;
  case WAFER_CORE_branch:
    if (reg(core, code->a) < reg(core, code->b)) core->pc = code->target;
    break;
  case WAFER_CORE_time: set_reg(core, code->a, (uint32_t)now); break;
  default: core->resume = now + (uint64_t)delay_of(core, code); break; /* delay */
  }
}

/* Of the cycle in which it resumes. */
static wafer_status run_scalar(wafer_fabric *f, uint32_t at, const wafer_instruction *code) {
  fabric_core *core = &f->cores[at];
  if (code->op == WAFER_CORE_delay) {
    int64_t cycles = delay_of(core, &core->scalars[core->pc]);
    if (cycles > FABRIC_LONGEST_DELAY)
      return fabric_trap(f, core->router, "waits %lld cycles; %d at most", (long long)cycles,
                         FABRIC_LONGEST_DELAY);
  }
  if (code->op == WAFER_CORE_delay || is_private(code->op)) {
    run_private(core);
    return WAFER_OK;
  }
  core->resume++;
  core->pc++;
  switch ((wafer_core_op)code->op) {
  case WAFER_CORE_load: return load(f, at, code);
  case WAFER_CORE_bound:
    if (reg(core, code->a) < 0 || reg(core, code->a) >= code->value)
      return fabric_trap(f, core->router, "index %d is out of range, there are %d",
                         reg(core, code->a), code->value);
    break;
  case WAFER_CORE_activate: core->activated |= 1u << code->target; break;
  case WAFER_CORE_block: core->blocked |= 1u << code->target; break;
  case WAFER_CORE_unblock: core->blocked &= ~(1u << code->target); break;
  case WAFER_CORE_join:
    core->state = CORE_JOIN;
    core->joined = code->thread;
    break;
  default: core->state = CORE_IDLE; break; /* end */
  }
  return WAFER_OK;
}

static void pass_marks(wafer_fabric *f, uint32_t at) {
  fabric_core *core = &f->cores[at];
  for (; core->pc < core->program->code_count; core->pc++) {
    const wafer_instruction *code = &core->program->code[core->pc];
    if (code->op != WAFER_CORE_mark) return;
    if (f->mark) fabric_pass_mark(f, core->router, code->value);
  }
}

/* Uses the cycle when control has something for it. */
static wafer_status run_control(wafer_fabric *f, uint32_t at, bool *issued, uint64_t *next) {
  fabric_core *core = &f->cores[at];
  *issued = false;
  if (core->state == CORE_JOIN) {
    if (!is_free(f, &core->threads[core->joined], next)) return WAFER_OK;
    core->state = CORE_RUN;
  }
  if (core->state == CORE_IDLE) {
    int task = ready_task(f, core, next);
    if (task < 0) return WAFER_OK;
    start_task(f, core, (uint32_t)task);
  }
  if (core->resume > f->now) {
    if (core->resume < *next) *next = core->resume;
    return WAFER_OK;
  }
  pass_marks(f, at);
  if (core->pc >= core->program->code_count) {
    core->state = CORE_IDLE; /* code ends like a task */
    *next = f->now + 1;
    return WAFER_OK;
  }
  const wafer_instruction *code = &core->program->code[core->pc];
  if (code->op < WAFER_CORE_VECTORS) return issue_vector(f, at, code, issued, next);
  *issued = true;
  core->resume = f->now;
  return run_scalar(f, at, code);
}

/* The next instruction, if it is private or a delay; NULL: another, or nobody knows when. */
static const core_scalar *next_private(const fabric_core *core) {
  bool waits = core->state == CORE_JOIN && core->threads[core->joined].state == THREAD_FREE;
  if ((core->state != CORE_RUN && !waits) || core->pc >= core->program->code_count) return NULL;
  const core_scalar *code = &core->scalars[core->pc];
  bool delays = code->op == WAFER_CORE_delay && delay_of(core, code) <= FABRIC_LONGEST_DELAY;
  return delays || is_private(code->op) ? code : NULL;
}

/* When control has a cycle for its next instruction, if no microthread takes it. */
static uint64_t control_at(const fabric_core *core) {
  uint64_t at = core->state == CORE_JOIN ? core->threads[core->joined].ready : core->resume;
  return at > core->busy[CORE_COMPUTES] ? at : core->busy[CORE_COMPUTES];
}

uint64_t core_lags_at(fabric_core *core) {
  core->lags = core->lags && next_private(core);
  return core->lags ? control_at(core) : FABRIC_NEVER;
}

uint64_t core_control_late(fabric_core *core, uint64_t cycle, uint64_t before) {
  core->state = CORE_RUN;
  for (; cycle < before; cycle = core_lags_at(core)) {
    core->resume = cycle;
    core_works(core, cycle, cycle + 1);
    run_private(core);
  }
  return cycle;
}

/* The first cycle in which control can do something that others see. */
static uint64_t seen_at(const fabric_core *core, const core_scalar *code) {
  const core_scalar *end = core->scalars + core->program->code_count;
  uint64_t cycle = control_at(core);
  cycle += code->op == WAFER_CORE_delay ? (uint64_t)delay_of(core, code) : 1;
  for (bool on = code->op != WAFER_CORE_branch; on && ++code < end; cycle++) {
    if (!is_private(code->op) && code->op != WAFER_CORE_delay) break;
    on = code->op != WAFER_CORE_branch;
  }
  return cycle;
}

/* Control of which only its own registers know does not have to be visited for that: what it would
 * have done is done when the core is looked at (core_catch_up). No other microthread than one that
 * is patient may run beside it. */
static void core_lag(wafer_fabric *f, uint32_t at, uint64_t *next) {
  fabric_core *core = &f->cores[at];
  const core_scalar *code = next_private(core);
  uint32_t patient = core->patient ? 1u << (core->patient - 1) : 0;
  core->lags = code && core->running == patient && !core->pairs;
  if (!core->lags || *next < control_at(core)) return;
  *next = seen_at(core, code);
  if (patient) sooner(next, core_patience_due(f, core));
}

/* Control goes on ahead of time with what nobody else sees, as far as all cycles are its own. */
static void run_ahead(wafer_fabric *f, fabric_core *core) {
  if (core->state != CORE_RUN || f->plain || f->faults) return;
  uint64_t end = core_free_until(f, core);
  if (core->resume <= f->now) core->resume = f->now + 1;
  for (uint32_t i = 0; i < MOST_AHEAD && core->resume < end; i++) {
    if (core->pc >= core->program->code_count || !is_private(core->scalars[core->pc].op)) return;
    core_works(core, core->resume, core->resume + 1);
    run_private(core);
  }
}

/* A vector instruction in the cycle in which control resumes; its microthread is free by then. */
static bool issue_late(wafer_fabric *f, uint32_t at, const wafer_instruction *code) {
  fabric_core *core = &f->cores[at];
  core_thread *t = &core->threads[code->thread];
  bool surely = code->count_reg == WAFER_NO_REGISTER &&
                core->decoded[core->pc].type != CORE_PAIRS; /* it does not trap */
  uint64_t cycle = core->resume < t->ready ? t->ready : core->resume;
  if (!surely || core_issue(f, at, code) != WAFER_OK) return false;
  t->ready += cycle - f->now;
  core_works(core, cycle, cycle + 1);
  core->resume = cycle + 1;
  core->pc++;
  return true;
}

void core_issue_ahead(wafer_fabric *f, uint32_t at) {
  fabric_core *core = &f->cores[at];
  bool joins = core->state == CORE_JOIN, issued = false;
  uint64_t from = control_at(core), end = FABRIC_NEVER;
  if (core->running || core->pairs || core->stuck || f->plain || f->faults) return;
  if ((!joins && core->state != CORE_RUN) || from < f->now + !joins) return;
  if (core->patient) f->nodes[core->source].patience = 0; /* its instruction has ended */
  core->patient = 0;
  core->state = CORE_RUN;
  core->resume = from;
  for (uint32_t i = 0; i < MOST_AHEAD && core->pc < core->program->code_count; i++) {
    const wafer_instruction *code = &core->program->code[core->pc];
    if (core->resume >= end) return;
    if (is_private(code->op)) {
      core_works(core, core->resume, core->resume + 1);
      run_private(core);
    } else if (code->op < WAFER_CORE_VECTORS && !issued) {
      if (!issue_late(f, at, code)) return;
      issued = true;
      end = core->threads[code->thread].ready;
      if (code->async) continue;
    } else if (code->op == WAFER_CORE_join && issued) {
      core_works(core, core->resume, core->resume + 1);
      core->resume++;
      core->pc++;
    } else {
      return;
    }
    if (!issued || is_private(code->op)) continue;
    core->state = CORE_JOIN;
    core->joined = code->thread;
    return;
  }
}

/* Who has taken the last word of a queue is still until the next one comes. Is the core, for which
 * it alone computes, not to be visited before? */
static bool is_drained(const wafer_fabric *f, fabric_core *core, const core_thread *t,
                       uint64_t *next) {
  if (!t->quick || t->state != THREAD_BUSY || core->pairs) return false;
  bool empty = false;
  for (uint32_t left = t->there & ~1u; left; left &= left - 1)
    empty |= !f->nodes[t->queue[__builtin_ctz(left)]].count;
  if (!empty) return false;
  core->still |= (uint8_t)(1u << t->code->thread);
  return core_control_waits(f, core, next);
}

/* One step of the first in turn that can go on, of those in `set`. */
static wafer_status run_threads(wafer_fabric *f, uint32_t at, core_unit unit, uint32_t set,
                                uint64_t *next) {
  fabric_core *core = &f->cores[at];
  uint32_t later = set >> core->turn[unit] << core->turn[unit];
  for (uint64_t left = later | (uint64_t)(set & ~later) << 32; left; left &= left - 1) {
    uint32_t turn = (uint32_t)__builtin_ctzll(left) % 32;
    bool stepped;
    WAFER_TRY(core_step(f, at, &core->threads[turn], unit, &stepped, next));
    if (!stepped && f->deferred) return WAFER_OK;
    if (!stepped) continue;
    core->turn[unit] = (uint8_t)(turn + 1);
    f->moved = true;
    core_works(core, f->now, core->busy[unit]);
    bool alone = unit == CORE_COMPUTES && !(set & (set - 1));
    if (!alone || !is_drained(f, core, &core->threads[turn], next)) sooner(next, core->busy[unit]);
    return WAFER_OK;
  }
  return WAFER_OK;
}

/* When control, which has used this cycle, may have something for one again: not before it resumes,
 * or before what it waits for could take its first step. */
static uint64_t control_next(const wafer_fabric *f, const fabric_core *core) {
  if (core->state == CORE_RUN) return core->resume > f->now ? core->resume : f->now + 1;
  const core_thread *t = &core->threads[core->joined];
  return core->state == CORE_JOIN && t->ready > f->now ? t->ready : f->now + 1;
}

static wafer_status compute(wafer_fabric *f, uint32_t at, uint64_t *next) {
  fabric_core *core = &f->cores[at];
  uint32_t set = core->running & ~core->sending & ~(uint32_t)core->still;
  bool stepped;
  if (core->patient)
    WAFER_TRY(core_compute_patiently(f, at, &stepped, next));
  else if (set)
    WAFER_TRY(run_threads(f, at, CORE_COMPUTES, set, next));
  if (core->busy[CORE_COMPUTES] > f->now) return WAFER_OK;
  bool issued;
  WAFER_TRY(run_control(f, at, &issued, next));
  if (!issued) return WAFER_OK;
  f->moved = true;
  core_works(core, f->now, f->now + 1);
  run_ahead(f, core);
  sooner(next, control_next(f, core));
  return WAFER_OK;
}

wafer_status core_visit(wafer_fabric *f, uint32_t at, uint64_t *next) {
  fabric_core *core = &f->cores[at];
  *next = FABRIC_NEVER;
  if (core->stuck) return WAFER_OK;
  if (core->patient || core->lags) core_catch_up(f, at);
  if (core->pairs) WAFER_TRY(core_take_pairs(f, at, next));
  if (core->busy[CORE_COMPUTES] <= f->now)
    WAFER_TRY(compute(f, at, next));
  else
    sooner(next, core->busy[CORE_COMPUTES]);
  return core_visit_sends(f, at, next);
}

wafer_status core_visit_sends(wafer_fabric *f, uint32_t at, uint64_t *next) {
  fabric_core *core = &f->cores[at];
  if (core->sending && core->busy[CORE_SENDS] > f->now)
    sooner(next, core->busy[CORE_SENDS]);
  else if (core->sending)
    WAFER_TRY(run_threads(f, at, CORE_SENDS, core->sending & ~(uint32_t)core->still, next));
  if (f->deferred) return WAFER_OK;
  if (!f->plain && (core->running || core->patient)) core_wait_patiently(f, at, next);
  if (f->single && !f->plain && !f->faults) core_lag(f, at, next);
  return WAFER_OK;
}
