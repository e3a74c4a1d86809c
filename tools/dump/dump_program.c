/* What the cores of one kernel execute at fabric fidelity, as assembly. */
#include <stdlib.h>

#include "dump.h"
#include "wafer/assembly.h"

/* Behind a comment, one line: names may hold anything. */
static void print_line(FILE *to, const char *text) {
  for (; *text; text++) fputc((unsigned char)*text < ' ' ? '?' : *text, to);
}

wafer_status dump_program(FILE *to, const wafer_diag *diag, const wafer_plan *plan,
                          uint32_t kernel) {
  wafer_arena *arena = wafer_arena_create();
  if (!arena) return cli_no_memory();
  const wafer_kernel *k = &plan->kernels[kernel];
  wafer_ctx ctx = {.machine = plan->machine, .arena = arena, .diag = diag};
  const wafer_plan *whole = plan;
  const wafer_fabric_program *program;
  char *text = NULL;
  size_t bytes;
  wafer_status status = wafer_plan_add_programs(&ctx, plan, false, &whole);
  if (status == WAFER_OK) status = wafer_plan_kernel_program(diag, arena, whole, kernel, &program);
  if (status == WAFER_OK) status = wafer_assembly_print(diag, program, &text, &bytes);
  if (status == WAFER_OK) {
    fprintf(to, "; kernel k%u '", kernel);
    print_line(to, k->name);
    fprintf(to, "', %ux%u cores at %u,%u%s\n", k->rect.width, k->rect.height, k->rect.x, k->rect.y,
            plan->mode == WAFER_MODE_pipelined ? "; its part of the pipeline's program" : "");
    fwrite(text, 1, bytes, to);
  }
  free(text);
  wafer_arena_destroy(arena);
  return status;
}
