/* The table of `wafer conform`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conform.h"
#include "wafer/file.h"

static const char *verdict_name(conform_verdict verdict) {
  return verdict == CONFORM_PASSED ? "passed" : verdict == CONFORM_SKIPPED ? "skipped" : "failed";
}

/* Text as one cell. */
static void print_cell(FILE *to, const char *text) {
  for (; *text; text++) fputc((unsigned char)*text < ' ' ? ' ' : *text, to);
}

static void print_row(FILE *to, const conform_case *c, const conform_result *r) {
  print_cell(to, c->name);
  fprintf(to, "\t%s\t%s\t%.4g\t%.3g\t%.1f\t%.1f\t", verdict_name(r->verdict), r->operators,
          r->difference.ulp, r->difference.relative, r->compile_ms, r->run_ms);
  print_cell(to, r->bound);
  fputc('\t', to);
  print_cell(to, r->message);
  fputc('\n', to);
}

wafer_status conform_write_tsv(const char *path, const conform_cases *cases,
                               const conform_result *results) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *to = open_memstream(&text, &bytes);
  if (!to) return cli_no_memory();
  fputs("test\tresult\toperators\tmax_ulp\tmax_relative\tcompile_ms\trun_ms\tbound\tmessage\n", to);
  for (size_t i = 0; i < cases->count; i++) print_row(to, &cases->at[i], &results[i]);
  if (fclose(to) != 0) {
    free(text);
    return cli_no_memory();
  }
  wafer_status status = wafer_file_save(cli_diag(), path, text, bytes);
  free(text);
  return status;
}
