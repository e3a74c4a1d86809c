/* A fabric program as text: docs/assembly.md has the grammar. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assembly.h"

static void print_string(FILE *out, const char *text) {
  fputc('"', out);
  for (const unsigned char *at = (const unsigned char *)(text ? text : ""); *at; at++)
    if (*at < 32 || *at == '"' || *at == '\\' || *at == 127)
      fprintf(out, "\\x%02x", *at);
    else
      fputc(*at, out);
  fputc('"', out);
}

/* The shortest digits that give the same number. */
static void print_real(FILE *out, double value) {
  char text[40];
  for (int digits = 6; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  fputs(text, out);
}

static void print_register(FILE *out, uint8_t r) {
  if (r == WAFER_NO_REGISTER)
    fputs(" _", out);
  else
    fprintf(out, " r%u", r);
}

/* ---- instructions ---- */

static void print_attributes(FILE *out, const wafer_attrs *attrs) {
  fputs(" {", out);
  for (uint32_t i = 0; i < attrs->count; i++) {
    const wafer_attr *a = &attrs->at[i];
    fprintf(out, "%s%s=", i ? " " : "", wafer_attr_name(a->id));
    switch (wafer_attr_kind_of(a->id)) {
    case WAFER_ATTR_KIND_int: fprintf(out, "%" PRId64, a->i); break;
    case WAFER_ATTR_KIND_float: print_real(out, a->f); break;
    default: print_string(out, a->s);
    }
  }
  fputc('}', out);
}

static void print_memory(FILE *out, const wafer_operand *o, uint32_t levels) {
  fprintf(out, "@%" PRId32, o->address);
  if (o->reg != WAFER_NO_REGISTER) fprintf(out, "+r%u", o->reg);
  for (uint32_t k = WAFER_LEVELS - levels; k < WAFER_LEVELS; k++)
    fprintf(out, "%c%" PRId32, k == WAFER_LEVELS - levels ? '(' : ',', o->stride[k]);
  fputc(')', out);
}

static void print_operand(FILE *out, const wafer_operand *o, uint32_t levels) {
  if (o->kind == WAFER_OPERAND_null) {
    fputs("null", out);
    return;
  }
  fputs(wafer_dtype_name(o->dtype), out);
  if (o->kind == WAFER_OPERAND_memory)
    print_memory(out, o, levels);
  else if (o->kind == WAFER_OPERAND_fabric)
    fprintf(out, "#%u", o->color);
  else
    fputc('=', out), print_real(out, o->value);
}

static void print_shape(FILE *out, const wafer_instruction *code, uint32_t levels) {
  bool counted = code->count_reg != WAFER_NO_REGISTER;
  fputs(" [", out);
  for (uint32_t k = WAFER_LEVELS - levels; k < WAFER_LEVELS; k++) {
    if (k > WAFER_LEVELS - levels) fputc(',', out);
    if (counted && k == WAFER_LEVELS - 1)
      fprintf(out, "r%u", code->count_reg);
    else
      fprintf(out, "%" PRIu32, code->shape[k]);
  }
  fputs("] ", out);
}

static void print_vector(FILE *out, const wafer_instruction *code) {
  static const char *const controls[] = {"", " advance", " reset"};
  uint32_t levels = assembly_levels(code);
  if (code->op == WAFER_CORE_apply) {
    fprintf(out, " %s", wafer_op_get((wafer_op)code->function)->name);
    if (code->attrs && code->attrs->count) print_attributes(out, code->attrs);
  }
  print_shape(out, code, levels);
  print_operand(out, &code->out, levels);
  for (uint32_t k = 0; k < 3 && code->in[k].kind != WAFER_OPERAND_none; k++) {
    fputs(", ", out);
    print_operand(out, &code->in[k], levels);
  }
  if (code->thread) fprintf(out, " thread %u", code->thread);
  if (code->after) fprintf(out, " after %u", code->after - 1u);
  if (code->then) fprintf(out, " then T%u", code->then - 1u);
  if (code->async) fputs(" async", out);
  if (code->load_descriptors) fputs(" load", out);
  fputs(controls[code->control], out);
}

static void print_scalar(FILE *out, const wafer_instruction *code) {
  for (const char *field = assembly_fields(code->op); *field; field++) switch (*field) {
    case 'a': print_register(out, code->a); break;
    case 'b': print_register(out, code->b); break;
    case 'c': print_register(out, code->c); break;
    case 'v': fprintf(out, " %" PRId32, code->value); break;
    case 'm': fprintf(out, " %u", code->thread); break;
    case 't': fprintf(out, " T%u", code->target); break;
    case 'd': fprintf(out, " %s", wafer_dtype_name((wafer_dtype)code->function)); break;
    default: fprintf(out, " L%u", code->target);
    }
}

/* ---- core programs ---- */

static bool is_entered(const wafer_core_program *p, uint32_t at) {
  for (uint32_t i = 0; i < p->task_count; i++)
    if (p->tasks[i].entry == at) return true;
  return false;
}

/* Which instructions branches lead to; NULL: no memory. */
static unsigned char *branch_targets(const wafer_core_program *p) {
  unsigned char *is_target = calloc(p->code_count + 1u, 1);
  for (uint32_t i = 0; is_target && i < p->code_count; i++)
    if (p->code[i].op == WAFER_CORE_branch && p->code[i].target < p->code_count)
      is_target[p->code[i].target] = 1;
  return is_target;
}

static bool print_code(FILE *out, const wafer_core_program *p) {
  unsigned char *is_target = branch_targets(p);
  if (!is_target) return false;
  for (uint32_t i = 0; i < p->code_count; i++) {
    const wafer_instruction *code = &p->code[i];
    if (is_target[i] || is_entered(p, i)) fprintf(out, "L%" PRIu32 ":\n", i);
    fprintf(out, "    %s", wafer_core_op_name(code->op));
    if (assembly_fields(code->op))
      print_scalar(out, code);
    else
      print_vector(out, code);
    fputc('\n', out);
  }
  free(is_target);
  return true;
}

static bool print_program(FILE *out, const wafer_core_program *p, uint32_t number) {
  static const char *const kinds[] = {"start", "local", "data", "control"};
  fputs("\nprogram ", out);
  print_string(out, p->name);
  if (p->node) fputs(" node ", out), print_string(out, p->node);
  fprintf(out, " ; %" PRIu32 ", %" PRIu32 " bytes\n", number, wafer_core_program_bytes(p));
  for (uint32_t i = 0; i < p->binding_count; i++)
    fprintf(out, "  %s %u #%u\n", p->bindings[i].output ? "out" : "in", p->bindings[i].queue,
            p->bindings[i].color);
  for (uint32_t i = 0; i < p->task_count; i++) {
    const wafer_core_task *t = &p->tasks[i];
    fprintf(out, "  task %s", kinds[t->kind]);
    if (t->kind == WAFER_TASK_data || t->kind == WAFER_TASK_control) fprintf(out, " #%u", t->color);
    fprintf(out, " L%" PRIu32 "%s ; T%" PRIu32 "\n", t->entry, t->blocked ? " blocked" : "", i);
  }
  return print_code(out, p);
}

/* ---- where they run ---- */

static bool same_row(const wafer_fabric_program *p, uint32_t y, uint32_t other) {
  return !memcmp(&p->core[(size_t)y * p->width], &p->core[(size_t)other * p->width],
                 p->width * sizeof *p->core);
}

/* Equal rows together, in each a run of cores after the other. */
static void print_cores(FILE *out, const wafer_fabric_program *p) {
  fputc('\n', out);
  for (uint32_t y = 0, rows; y < p->height; y += rows) {
    for (rows = 1; y + rows < p->height && same_row(p, y, y + rows); rows++) continue;
    const uint32_t *row = &p->core[(size_t)y * p->width];
    for (uint32_t x = 0, run; x < p->width; x += run) {
      for (run = 1; x + run < p->width && row[x + run] == row[x]; run++) continue;
      if (row[x] != WAFER_NO_PROGRAM)
        fprintf(out, "at %" PRIu32 ",%" PRIu32 " %" PRIu32 "x%" PRIu32 " program %" PRIu32 "\n", x,
                y, run, rows, row[x]);
    }
  }
}

static void print_rect(FILE *out, wafer_rect r) {
  fprintf(out, " %" PRIu32 ",%" PRIu32 " %" PRIu32 "x%" PRIu32, r.x, r.y, r.width, r.height);
}

static void print_route(FILE *out, const wafer_route *r) {
  static const char *const ports[] = {"north", "east", "south", "west", "ramp"};
  fprintf(out, "route #%u", r->color);
  print_rect(out, r->cores);
  for (uint32_t i = 0; i < r->positions; i++) {
    fprintf(out, "%s %s ->", i ? " |" : "", ports[r->at[i].from]);
    for (uint32_t port = 0; port < WAFER_PORTS; port++)
      if (r->at[i].to >> port & 1) fprintf(out, " %s", ports[port]);
  }
  fputs(r->wrap ? " wrap\n" : "\n", out);
}

static void print_filters(FILE *out, const wafer_fabric_program *p) {
  for (uint32_t i = 0; i < p->filter_count; i++) {
    const wafer_filter *f = &p->filters[i];
    fputs("filter", out);
    for (uint32_t k = 0; k < f->run_count; k++)
      fprintf(out, " %s %" PRIu32, k % 2 ? "keep" : "skip", f->runs[k]);
    fprintf(out, "%s ; %" PRIu32 "\n", f->repeat ? " repeat" : "", i);
  }
  for (uint32_t i = 0; i < p->filter_use_count; i++) {
    fprintf(out, "ramp #%u", p->filter_uses[i].color);
    print_rect(out, p->filter_uses[i].cores);
    fprintf(out, " filter %" PRIu32 "\n", p->filter_uses[i].filter);
  }
}

static bool print_all(FILE *out, const wafer_fabric_program *p) {
  fputs("fabric ", out);
  print_string(out, p->name);
  fprintf(out, " %" PRIu32 "x%" PRIu32 "\n", p->width, p->height);
  for (uint32_t i = 0; i < p->program_count; i++)
    if (!print_program(out, &p->programs[i], i)) return false;
  print_cores(out, p);
  for (uint32_t i = 0; i < p->route_count; i++) print_route(out, &p->routes[i]);
  print_filters(out, p);
  return !ferror(out);
}

wafer_status wafer_assembly_print(const wafer_diag *diag, const wafer_fabric_program *program,
                                  char **text, size_t *bytes) {
  *text = NULL;
  FILE *out = open_memstream(text, bytes);
  bool printed = out && print_all(out, program);
  if (out && fclose(out)) printed = false;
  if (printed) return WAFER_OK;
  if (out) free(*text);
  *text = NULL;
  return wafer_fail(diag, wafer_at_file(program->name), WAFER_NO_MEMORY,
                    "no room for the program's text");
}
