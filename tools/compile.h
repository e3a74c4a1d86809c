/* What the parts of `wafer compile` share. */
#ifndef WAFER_COMPILE_H
#define WAFER_COMPILE_H

#include "cli.h"
#include "report.h"

/* The machine as the command line describes it; NULL where an option is not given. */
typedef struct compile_machine {
  const char *name, *defects, *repair, *edge;
} compile_machine;

/* The machine; *whole is the same one without its defects, NULL when it has none. */
wafer_status compile_machine_open(const compile_machine *asked, wafer_arena *arena,
                                  const wafer_machine **out, const wafer_machine **whole);
/* What the model would take on a whole machine: compiled there, and thrown away. Zeros where it does
 * not compile. */
wafer_status compile_whole(const char *model, const wafer_machine *whole,
                           const wafer_options *options, report_whole *out);

#endif
