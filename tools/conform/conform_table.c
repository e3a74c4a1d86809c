/* The support table of `wafer conform`: Markdown, a line per operator, from the results of a suite.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "conform.h"
#include "wafer/file.h"

typedef struct row {
  char name[96];   /* with its domain unless that is the default one */
  int64_t since;   /* the first opset we have it for; 0: we do not have it */
  uint64_t types;  /* a bit per element type, of passed tests of this operator alone */
  uint32_t places; /* a bit per entry of `places`, of passed tests */
  size_t passed, tests;
  bool measured;
  double ulp; /* of passed tests of this operator alone */
} row;

static const char *const places[] = {"cores", "host", "folded"};

typedef struct table {
  row *rows;
  size_t count, room;
} table;

static row *find_row(table *t, const char *name, size_t length) {
  for (size_t i = 0; i < t->count; i++)
    if (!strncmp(t->rows[i].name, name, length) && !t->rows[i].name[length]) return &t->rows[i];
  if (t->count == t->room) {
    size_t room = t->room ? 2 * t->room : 256;
    row *grown = realloc(t->rows, room * sizeof *grown);
    if (!grown) return NULL;
    t->rows = grown;
    t->room = room;
  }
  row *made = &t->rows[t->count++];
  *made = (row){0};
  snprintf(made->name, sizeof made->name, "%.*s", (int)length, name);
  return made;
}

/* ---- Gathering ---- */

static bool add_known(table *t) {
  wafer_onnx_operator known;
  for (size_t i = 0; wafer_onnx_operator_at(i, &known); i++) {
    char name[96];
    bool is_default = !strcmp(known.domain, "ai.onnx");
    snprintf(name, sizeof name, "%s%s%s", is_default ? "" : known.domain, is_default ? "" : ".",
             known.type);
    row *r = find_row(t, name, strlen(name));
    if (!r) return false;
    if (!r->since || known.since < r->since) r->since = known.since;
  }
  return true;
}

static uint64_t types_of(const char *words) {
  uint64_t types = 0;
  for (int d = WAFER_DTYPE_none + 1; d < WAFER_DTYPE_COUNT; d++) {
    const char *name = wafer_dtype_name((wafer_dtype)d);
    size_t length = strlen(name);
    for (const char *at = words; (at = strstr(at, name)); at += length)
      if ((at == words || at[-1] == ' ') && (!at[length] || at[length] == ' '))
        types |= UINT64_C(1) << d;
  }
  return types;
}

/* A word of a result's operators, such as "Add@14:cores". */
static bool add_word(table *t, const conform_result *r, const char *word, size_t length,
                     bool alone) {
  const char *at = memchr(word, '@', length), *colon = at ? memchr(at, ':', length) : NULL;
  if (!colon) return true; /* "...": the list is cut */
  row *to = find_row(t, word, (size_t)(at - word));
  if (!to) return false;
  to->tests++;
  if (r->verdict != CONFORM_PASSED) return true;
  to->passed++;
  for (size_t p = 0; p < WAFER_COUNT(places); p++)
    if (!strncmp(colon + 1, places[p], strlen(places[p]))) to->places |= 1u << p;
  if (!alone) return true;
  to->types |= types_of(r->types);
  to->measured = true;
  if (r->difference.ulp > to->ulp) to->ulp = r->difference.ulp;
  return true;
}

static bool add_result(table *t, const conform_result *r) {
  bool alone = !strchr(r->operators, ' ');
  for (const char *at = r->operators; *at;) {
    size_t length = strcspn(at, " ");
    if (!add_word(t, r, at, length, alone)) return false;
    at += length;
    at += *at == ' ';
  }
  return true;
}

/* ---- The suite's checksum ---- */

static wafer_status hash_file(XXH3_state_t *hash, const char *name, const char *path) {
  wafer_arena *arena = wafer_arena_create();
  wafer_bytes bytes = {0};
  wafer_status status = arena ? wafer_file_map(cli_diag(), arena, path, &bytes) : WAFER_NO_MEMORY;
  if (status == WAFER_OK) {
    XXH3_64bits_update(hash, name, strlen(name) + 1);
    XXH3_64bits_update(hash, &bytes.size, sizeof bytes.size);
    XXH3_64bits_update(hash, bytes.data, bytes.size);
  }
  wafer_arena_destroy(arena);
  return status;
}

static wafer_status hash_case(XXH3_state_t *hash, const conform_case *c) {
  static const char *const kinds[] = {"input", "output"};
  WAFER_TRY(hash_file(hash, c->name, c->model));
  for (size_t set = 0; set < c->set_count; set++)
    for (size_t kind = 0; kind < WAFER_COUNT(kinds); kind++)
      for (size_t i = 0;; i++) {
        char path[4096], name[32];
        snprintf(name, sizeof name, "%s_%zu.pb", kinds[kind], i);
        int length = snprintf(path, sizeof path, "%s%s", c->sets[set], name);
        if (length >= (int)sizeof path || access(path, F_OK) != 0) break;
        WAFER_TRY(hash_file(hash, name, path));
      }
  return WAFER_OK;
}

static wafer_status hash_suite(const conform_cases *cases, uint64_t *out) {
  XXH3_state_t *hash = XXH3_createState();
  if (!hash) return cli_no_memory();
  XXH3_64bits_reset(hash);
  wafer_status status = WAFER_OK;
  for (size_t i = 0; i < cases->count && status == WAFER_OK; i++)
    status = hash_case(hash, &cases->at[i]);
  *out = XXH3_64bits_digest(hash);
  XXH3_freeState(hash);
  return status;
}

/* ---- Printing ---- */

static int by_name(const void *a, const void *b) {
  return strcmp(((const row *)a)->name, ((const row *)b)->name);
}

static void print_words(FILE *to, uint64_t set, const char *(*name)(size_t), size_t count) {
  const char *before = "";
  for (size_t i = 0; i < count; i++) {
    if (!(set >> i & 1)) continue;
    fprintf(to, "%s%s", before, name(i));
    before = ", ";
  }
  if (!set) fputc('-', to);
}

static const char *type_name(size_t i) {
  return wafer_dtype_name((wafer_dtype)i);
}

static const char *place_name(size_t i) {
  return places[i];
}

static void print_row(FILE *to, const row *r) {
  fprintf(to, "| %s | ", r->name);
  bool of_domain = strchr(r->name, '.');
  if (r->since && of_domain)
    fprintf(to, "%lld | ", (long long)r->since);
  else if (r->since)
    fprintf(to, "%lld-%d | ", (long long)r->since, WAFER_ONNX_NEWEST_OPSET);
  else
    fputs("- | ", to);
  print_words(to, r->types, type_name, WAFER_DTYPE_COUNT);
  fputs(" | ", to);
  print_words(to, r->places, place_name, WAFER_COUNT(places));
  fprintf(to, " | %zu of %zu | ", r->passed, r->tests);
  if (r->measured)
    fprintf(to, "%.2g |\n", r->ulp);
  else
    fputs("- |\n", to);
}

/* Names of the tests for which `wanted` holds, as a list; nothing when there are none. */
static void print_tests(FILE *to, const char *title, const conform_cases *cases,
                        const conform_result *results, bool (*wanted)(const conform_result *)) {
  size_t count = 0;
  for (size_t i = 0; i < cases->count; i++) count += wanted(&results[i]);
  if (!count) return;
  fprintf(to, "\n## %s: %zu\n\n", title, count);
  for (size_t i = 0; i < cases->count; i++)
    if (wanted(&results[i])) fprintf(to, "- %s\n", cases->at[i].name);
}

static bool not_passed(const conform_result *r) {
  return r->verdict != CONFORM_PASSED;
}

static bool on_host(const conform_result *r) {
  return r->verdict == CONFORM_PASSED && strstr(r->operators, ":host");
}

static void print_table(FILE *to, const table *t, const conform_cases *cases,
                        const conform_result *results, uint64_t checksum) {
  size_t passed = 0;
  for (size_t i = 0; i < cases->count; i++) passed += results[i].verdict == CONFORM_PASSED;
  fprintf(to,
          "# ONNX operators\n\nMade by `wafer conform SUITE --table`, not by hand. Each test is "
          "compiled to a plan for a wafer, and the plan is\nrun.\n\n"
          "- suite: %zu tests, XXH3 %016llx\n- passed: %zu\n\n"
          "Versions are the opsets whose meaning of the operator is implemented. Types and largest "
          "ULP (units in the last place\nof the output's type, largest over all outputs) are "
          "those of passed tests whose model has this operator alone. Folded\nmeans that nothing "
          "was left to run: computed when compiling, or only a change of names.\n\n"
          "| operator | versions | types | where | tests passed | largest ULP |\n"
          "|---|---|---|---|---|---|\n",
          cases->count, (unsigned long long)checksum, passed);
  for (size_t i = 0; i < t->count; i++) print_row(to, &t->rows[i]);
  print_tests(to, "Tests with an operator on the host", cases, results, on_host);
  print_tests(to, "Tests that do not pass", cases, results, not_passed);
}

wafer_status conform_write_table(const char *path, const conform_cases *cases,
                                 const conform_result *results) {
  table t = {0};
  uint64_t checksum = 0;
  char *text = NULL;
  size_t bytes = 0;
  WAFER_TRY(hash_suite(cases, &checksum));
  bool fits = add_known(&t);
  for (size_t i = 0; i < cases->count && fits; i++) fits = add_result(&t, &results[i]);
  FILE *to = fits ? open_memstream(&text, &bytes) : NULL;
  if (to) {
    qsort(t.rows, t.count, sizeof *t.rows, by_name);
    print_table(to, &t, cases, results, checksum);
  }
  free(t.rows);
  wafer_status status =
      to && fclose(to) == 0 ? wafer_file_save(cli_diag(), path, text, bytes) : cli_no_memory();
  free(text);
  return status;
}
