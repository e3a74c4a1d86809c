/* Functions of the host being put together while the walk goes on. The ops of static shape of one
 * function collect in its open piece, a module of its own; a host step that needs one of their
 * results closes it. When only the first piece of the model's graph comes of it, the model is one
 * function of the wafer and nothing here shows. */
#ifndef FRONTEND_ASSEMBLY_H
#define FRONTEND_ASSEMBLY_H

#include "scope.h"
#include "wafer/program.h"

typedef struct number_list {
  uint32_t count, room;
  uint32_t *at;
} number_list;

/* A module under construction: its arguments and results stand for values of the program. */
typedef struct piece {
  wafer_ir *ir;
  wafer_builder b;
  uint32_t function;
  number_list inputs, outputs; /* values */
  MlirValue *results;          /* per output */
  uint32_t result_room;
  struct piece *next;
} piece;

typedef struct assembly_step {
  wafer_step step;
  piece *piece; /* of a call; its values are those of the piece */
  struct assembly_step *next;
} assembly_step;

/* A function of the host. */
typedef struct assembly {
  struct assembly *outer; /* whose values it captures; NULL for the model's graph */
  uint32_t function;
  piece *open;
  assembly_step *first, *last;
  number_list inputs, outputs;
  number_list captures; /* values of `outer`, one per captured input, which are the last ones */
  wafer_ir_map *locals; /* entry of an outer function -> index of `local` */
  name_entry **local;
  uint32_t local_count, local_room;
} assembly;

/* All functions, pieces and values so far. */
typedef struct program_state {
  wafer_value *values;
  uint32_t value_count, value_room;
  wafer_function *functions;
  wafer_ir **pieces; /* per function; NULL: of the host */
  bool *used;        /* per function */
  uint32_t function_count, function_room;
  wafer_weights *weights;
  bool host; /* there are host steps or host values */
} program_state;

struct importer;

/* ---- Functions ---- */

/* Starts a function inside the one being imported (or the first one); its names have prefix `name`.
 */
wafer_status assembly_begin(struct importer *im, const char *name, assembly *a);
/* An input of the function being imported. */
wafer_status assembly_input(struct importer *im, const char *name, wafer_value_kind kind,
                            const wafer_type *type, name_entry *entry);
/* Ends it: `entries` are its results. The function before it is the current one again. */
wafer_status assembly_end(struct importer *im, uint32_t count, name_entry *const *entries);
/* Gives the function up: nothing calls it. */
void assembly_abandon(struct importer *im);
/* The inputs of two functions that follow what each captures become the same; `count` values of
 * the function being imported. */
wafer_status assembly_unify(struct importer *im, assembly *a, assembly *b, number_list *out);

/* ---- Values ---- */

/* The entry as the function being imported sees it: captured when it belongs to an outer one. */
wafer_status assembly_local(struct importer *im, name_entry *entry, name_entry **out);
/* A static value in the open piece. `entry` is local. */
wafer_status assembly_use(struct importer *im, name_entry *entry, MlirValue *out);
/* The number of a value that a step may take. `entry` is local. */
wafer_status assembly_value(struct importer *im, name_entry *entry, uint32_t *out);
/* A new value, and an entry for it. */
wafer_status assembly_new(struct importer *im, const char *name, const char *node,
                          wafer_value_kind kind, const wafer_type *type, name_entry *entry);
static inline bool entry_on_host(const name_entry *e) {
  return e->state == NAME_KNOWN && e->host;
}

/* ---- Steps ---- */

wafer_status assembly_step_add(struct importer *im, const wafer_step *step);
/* The open piece, which is there from now on, is where ops go. */
wafer_status assembly_open(struct importer *im);

/* The open piece, made by the importer, as a function of its own. */
wafer_status assembly_first_piece(struct importer *im);

/* ---- The program ---- */

/* Destroys every module but the first piece's. */
void assembly_discard(struct importer *im);

wafer_status assembly_finish(struct importer *im, wafer_program **out);

bool number_add(wafer_arena *arena, number_list *list, uint32_t number);

#endif
