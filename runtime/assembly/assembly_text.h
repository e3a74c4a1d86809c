/* Reading assembly: a cursor over the text, lines and words. Private to assembly_read*.c */
#ifndef RUNTIME_ASSEMBLY_TEXT_H
#define RUNTIME_ASSEMBLY_TEXT_H

#include "assembly.h"

#define ASSEMBLY_LABELS 65536 /* L0 to L65535 */

/* A label that is used, and where it goes once the program is read. */
typedef struct assembly_use {
  uint32_t label, line, column;
  uint32_t at; /* instruction whose target it is; or the task whose entry it is */
  bool task;
} assembly_use;

typedef struct assembly_text {
  const wafer_diag *diag;
  wafer_arena *arena;
  const char *file;
  const char *at, *end, *line_start;
  uint32_t line;

  /* The program being read. */
  wafer_instruction *code;
  wafer_core_task *tasks;
  wafer_core_binding *bindings;
  assembly_use *uses;
  uint32_t code_count, code_room, task_count, task_room, binding_count, binding_room;
  uint32_t use_count, use_room;
  uint32_t *label;        /* 1 + instruction */
  uint32_t *label_of;     /* the program (1 + its number) that set the label */
  uint32_t program_count; /* with this one */
} assembly_text;

wafer_status assembly_wrong(const assembly_text *t, const char *expected);
wafer_status assembly_no_memory(const assembly_text *t);

/* Past blanks; the text ends with a zero. */
void assembly_skip(assembly_text *t);
bool assembly_at_end(assembly_text *t);     /* of the line, or at a comment */
bool assembly_is(assembly_text *t, char c); /* then past it */
/* A word of letters, digits and underscores; then past it. */
bool assembly_word(assembly_text *t, const char *word);
/* The next such word, not past it: its bytes. */
size_t assembly_peek(assembly_text *t);

wafer_status assembly_number(assembly_text *t, uint64_t most, const char *what, uint64_t *out);
wafer_status assembly_integer(assembly_text *t, int64_t least, int64_t most, const char *what,
                              int64_t *out);
wafer_status assembly_real(assembly_text *t, double *out);
wafer_status assembly_string(assembly_text *t, const char **out);
wafer_status assembly_color(assembly_text *t, uint8_t *out); /* #N */

/* Room for one more in a list of the arena, doubling. */
wafer_status assembly_grow(assembly_text *t, void *list, uint32_t count, uint32_t *room,
                           size_t size);
wafer_status assembly_label(assembly_text *t, uint32_t at, bool task);

/* A line of code; the cursor is at its mnemonic. */
wafer_status assembly_code(assembly_text *t);

#endif
