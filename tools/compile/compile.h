/* What the parts of `wafer compile` share. */
#ifndef WAFER_COMPILE_H
#define WAFER_COMPILE_H

#include "cli.h"
#include "report/report.h"

/* The machine as the command line describes it; NULL where an option is not given. */
typedef struct compile_machine {
  const char *name, *defects, *repair, *edge;
} compile_machine;

/* Pins and reserved rectangles in the order they are asked for; room for as many as arguments. */
typedef struct compile_control {
  uint32_t pin_count, reserved_count;
  wafer_pin *pins;
  wafer_rect *reserved;
  const char *placement, *keep; /* a file, a plan; NULL: none */
} compile_control;

bool compile_control_init(compile_control *control, wafer_arena *arena, size_t most);
/* --pin KERNEL=X,Y,WIDTH,HEIGHT; --reserve X,Y,WIDTH,HEIGHT */
wafer_status compile_parse_pin(compile_control *control, wafer_arena *arena, const char *text);
wafer_status compile_parse_reserve(compile_control *control, const char *text);
/* Rectangles on which no kernel shall lie, beside those of a machine. */
typedef struct compile_reserved {
  uint32_t count;
  const wafer_rect *at;
} compile_reserved;
wafer_status compile_reserve(const wafer_diag *diag, const compile_reserved *more,
                             wafer_arena *arena, const wafer_machine **machine);
/* Hands all of it to options and machine, *added the rectangles among it; *kept must stay open as
 * long as they: their names are its (NULL: there is none). */
wafer_status compile_take_control(const compile_control *control, wafer_arena *arena,
                                  wafer_options *options, const wafer_machine **machine,
                                  compile_reserved *added, const wafer_plan **kept);

/* What was said of the search for a layout, and of shapes for sparse weights, as far as the options
 * do not tell. */
typedef struct compile_search {
  bool placer, best, copies, moves, seconds, seed, shapes;
} compile_search;
/* Copies of kernels are found by the search alone: it is taken where no placer was named. Where no
 * pipeline is wanted, nothing is searched. */
wafer_status compile_settle_search(compile_search *said, wafer_options *options);
/* Warns of what changed nothing in a plan, and of what it has not though it was asked for. */
void compile_warn_unread(const compile_search *said, const wafer_options *options,
                         const wafer_plan *plan);

/* Where a refusal goes: a file of --report, NULL for none; and what was said of the machine. */
typedef struct compile_refusal {
  const char *model, *report;
  const compile_machine *machine;
  compile_reserved reserved;
} compile_refusal;
/* wafer_options.refused and .other_machine; self is a compile_refusal. */
void compile_refused(void *self, const wafer_refusal *refusal);
wafer_status compile_other_machine(void *self, wafer_arena *arena, const char *name,
                                   const char *repair, const wafer_machine **out);

/* The machine; *whole is the same one without its defects, NULL when it has none. */
wafer_status compile_machine_open(const wafer_diag *diag, const compile_machine *asked,
                                  wafer_arena *arena, const wafer_machine **out,
                                  const wafer_machine **whole);
/* What the model would take on a whole machine: compiled there in the same way, and thrown away.
 * Zeros where it does not compile. */
wafer_status compile_whole(const char *model, const wafer_machine *whole,
                           const wafer_options *options, bool fast, report_whole *out);

/* Before anything large is allocated. */
void compile_keep_heap(void);

/* Errors that are held back, in the order they came; the rest goes to another sink at once. Of work
 * that nobody asked for by itself progress alone goes on, as that of `aside`; without a way for
 * errors no remedies are looked for. */
typedef struct compile_error {
  wafer_status status;
  wafer_loc loc;
  const char *text;
  struct compile_error *next;
} compile_error;
typedef struct compile_held {
  const wafer_diag *to; /* NULL: drops all */
  wafer_arena *arena;
  const char *aside;    /* "another plan"; NULL: it was asked for */
  compile_error *first; /* NULL: none */
} compile_held;
/* The sink; lives as long as `held`. */
wafer_diag compile_hold(compile_held *held);
void compile_tell(const compile_held *held);

/* The model's plan, by the default passes, before second thoughts. Where streams of a pipeline find
 * no colours and something was left open, *options become those of a plan that has some, with a
 * note. The caller destroys *ir, whatever is returned. */
wafer_status compile_first(const wafer_ctx *ctx, const char *model, wafer_options *options,
                           wafer_ir **ir, const wafer_plan **plan);
/* Another plan of the model with these options; `programs` says whether it is to have some, the
 * options what it is laid out for. Without a word, but for what passes say if `aloud`. *plan NULL:
 * there is none, which is no failure; NO_MEMORY. The caller drops *ir, NULL where there is none. */
wafer_status compile_other(const wafer_ctx *ctx, const char *model, wafer_options *options,
                           wafer_programs programs, bool aloud, wafer_ir **ir,
                           const wafer_plan **plan, report *told);
/* Destroys it with the plan, and all memory of both; NULL is fine. */
void compile_drop(wafer_ir *other);
/* Whether a pipeline has no programs because they cannot be made. */
bool compile_lacks_programs(const wafer_plan *plan);
/* Another plan in place of *plan where core programs tell that it is faster: a pipeline with
 * relays, unless options have none, with other bands, or on shelves; weight streaming, where
 * nothing was said of the mode. The caller drops *ir, NULL where the plan stays. *told: which
 * placer's plan it is and why, NULL where no two were compared. */
wafer_status compile_reconsider(const wafer_ctx *ctx, const char *model, wafer_ir **ir,
                                const wafer_plan **plan, const char **told);
/* The same, and then, of sparse weights, a plan that wastes fewer multiply cycles or, if it shall
 * be `fast`, is no slower than with dense ones (compile_sparse.c). *told: of the plan left. */
wafer_status compile_settle(const wafer_ctx *ctx, const char *model, bool fast, wafer_ir **ir,
                            const wafer_plan **plan, const char **told);

#endif
