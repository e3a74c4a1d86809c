/* Host operators on strings: UTF-8, compared byte by byte. */
#define _GNU_SOURCE
#define PCRE2_CODE_UNIT_WIDTH 8
#include <locale.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>
#include <wctype.h>

#include "host.h"
#include "reference/reference.h"

static wafer_status strings(const host_site *site, uint32_t input, const wafer_view **out) {
  return host_typed(site, input, WAFER_DTYPE_string, out);
}

static const char *text_at(const wafer_view *view, int64_t i) {
  return ((const char *const *)view->data)[i];
}

/* Pointers to text that the caller owns, as an output of their own. */
static wafer_status give_texts(host_site *site, uint32_t output, const wafer_shape *shape,
                               const char **texts) {
  wafer_view view = wafer_view_of(WAFER_DTYPE_string, shape, texts);
  return host_give(site, output, wafer_item_copy(&view));
}

/* ---- two operands, broadcast ---- */

/* The elements of a and b that belong together, as a walk. */
static wafer_status walk_two(const host_site *site, const wafer_view *a, const wafer_view *b,
                             walk *w, wafer_shape *shape) {
  *shape = a->shape.rank >= b->shape.rank ? a->shape : b->shape;
  for (uint32_t i = 1; i <= shape->rank; i++) {
    int64_t x = i <= a->shape.rank ? a->shape.dims[a->shape.rank - i] : 1;
    int64_t y = i <= b->shape.rank ? b->shape.dims[b->shape.rank - i] : 1;
    if (x != y && x != 1 && y != 1)
      return host_fail(site, "%" PRId64 " against %" PRId64 " do not broadcast", x, y);
    shape->dims[shape->rank - i] = x == 1 ? y : x;
  }
  *w = (walk){.rank = shape->rank, .tensors = 2};
  memcpy(w->dims, shape->dims, sizeof w->dims);
  walk_broadcast(a, shape, w->strides[0]);
  walk_broadcast(b, shape, w->strides[1]);
  int64_t elements;
  if (!wafer_shape_elements(shape, &elements)) return host_fail(site, "too many elements");
  return WAFER_OK;
}

wafer_status host_equal(host_site *site) {
  const wafer_view *a, *b;
  wafer_view *y;
  wafer_shape shape;
  walk w;
  WAFER_TRY(host_tensor(site, 0, &a));
  if (a->dtype != WAFER_DTYPE_string) {
    WAFER_TRY(host_tensor(site, 1, &b));
    return host_core_op(site, WAFER_OP_equal, &(wafer_attrs){0}, 2, (wafer_view[]){*a, *b});
  }
  WAFER_TRY(strings(site, 1, &b));
  WAFER_TRY(walk_two(site, a, b, &w, &shape));
  WAFER_TRY(host_new(site, 0, WAFER_DTYPE_bool, &shape, &y));
  if (!host_elements(y)) return WAFER_OK;
  uint8_t *out = y->data;
  for (walk_begin(&w); w.more; walk_next(&w))
    for (int64_t i = 0; i < w.n; i++)
      *out++ = !strcmp(text_at(a, w.at[0] + i * w.step[0]), text_at(b, w.at[1] + i * w.step[1]));
  return WAFER_OK;
}

wafer_status host_string_concat(host_site *site) {
  const wafer_view *a, *b;
  wafer_shape shape;
  walk w;
  WAFER_TRY(strings(site, 0, &a));
  WAFER_TRY(strings(site, 1, &b));
  WAFER_TRY(walk_two(site, a, b, &w, &shape));
  int64_t elements, made = 0;
  wafer_shape_elements(&shape, &elements);
  char **texts = calloc((size_t)elements + 1, sizeof *texts);
  if (!texts) return host_no_memory(site);
  bool whole = true;
  for (elements ? walk_begin(&w) : (void)(w.more = false); w.more; walk_next(&w))
    for (int64_t i = 0; i < w.n; i++) {
      const char *x = text_at(a, w.at[0] + i * w.step[0]), *z = text_at(b, w.at[1] + i * w.step[1]);
      char *text = malloc(strlen(x) + strlen(z) + 1);
      if (text) stpcpy(stpcpy(text, x), z);
      whole = whole && text;
      texts[made++] = text;
    }
  wafer_status status =
      whole ? give_texts(site, 0, &shape, (const char **)texts) : host_no_memory(site);
  for (int64_t i = 0; i < made; i++) free(texts[i]);
  free(texts);
  return status;
}

/* ---- StringSplit ---- */

static bool is_space(char c) {
  return c && strchr(" \t\n\v\f\r", c);
}

/* The next part of *at, moved behind it; false at the end. `last`: the rest is one part. An empty
 * delimiter stands for any run of white space, and leading ones are passed over. */
static bool next_part(const char **at, const char *delimiter, bool last, size_t *length,
                      const char **part) {
  const char *s = *at;
  if (!s) return false;
  if (!*delimiter) {
    while (is_space(*s)) s++;
    if (!*s) return false;
  }
  *part = s;
  if (last) {
    *length = strlen(s);
    *at = NULL;
    return true;
  }
  if (*delimiter) {
    const char *end = strstr(s, delimiter);
    *length = end ? (size_t)(end - s) : strlen(s);
    *at = end ? end + strlen(delimiter) : NULL;
    return true;
  }
  while (*s && !is_space(*s)) s++;
  *length = (size_t)(s - *part);
  *at = s;
  return true;
}

/* The parts of one string; each is a copy at `out` when that is not NULL. */
static int64_t split_text(const char *text, const char *delimiter, int64_t most, char **out,
                          bool *whole) {
  const char *part;
  size_t length;
  int64_t count = 0;
  while (next_part(&text, delimiter, most >= 0 && count == most, &length, &part)) {
    if (out && !(out[count] = strndup(part, length))) *whole = false;
    count++;
  }
  return count;
}

wafer_status host_string_split(host_site *site) {
  const wafer_view *x;
  wafer_view *lengths;
  const char *delimiter = host_text(site, "delimiter", "");
  int64_t cut = host_int(site, "maxsplit", -1), longest = 0, all;
  WAFER_TRY(strings(site, 0, &x));
  int64_t count = host_elements(x);
  wafer_shape shape = x->shape;
  if (shape.rank == WAFER_MAX_RANK) return host_fail(site, "the result has too many dims");
  for (int64_t i = 0; i < count; i++) {
    int64_t parts = split_text(text_at(x, i), delimiter, cut, NULL, NULL);
    longest = parts > longest ? parts : longest;
  }
  shape.dims[shape.rank++] = longest;
  if (!wafer_shape_elements(&shape, &all)) return host_fail(site, "too many parts");
  if (site->output_count > 1) {
    WAFER_TRY(host_new(site, 1, WAFER_DTYPE_i64, &x->shape, &lengths));
    for (int64_t i = 0; i < count; i++)
      ((int64_t *)lengths->data)[i] = split_text(text_at(x, i), delimiter, cut, NULL, NULL);
  }
  char **texts = calloc((size_t)all + 1, sizeof *texts);
  if (!texts) return host_no_memory(site);
  bool whole = true;
  for (int64_t i = 0; i < count; i++)
    split_text(text_at(x, i), delimiter, cut, texts + i * longest, &whole);
  const char **view = calloc((size_t)all + 1, sizeof *view);
  for (int64_t i = 0; view && i < all; i++) view[i] = texts[i] ? texts[i] : "";
  wafer_status status = whole && view ? give_texts(site, 0, &shape, view) : host_no_memory(site);
  for (int64_t i = 0; i < all; i++) free(texts[i]);
  free(view);
  free(texts);
  return status;
}

/* ---- StringNormalizer ---- */

/* The text with every letter in the other case, by Unicode; NULL: out of memory. */
static char *change_case(const char *text, bool upper) {
  size_t room = MB_CUR_MAX * strlen(text) + 1, used = 0;
  char *out = malloc(room + MB_CUR_MAX);
  mbstate_t in = {0}, to = {0};
  for (const char *end = text + strlen(text); out && text < end;) {
    wchar_t c;
    size_t bytes = mbrtowc(&c, text, (size_t)(end - text), &in);
    if (bytes == 0 || bytes > (size_t)(end - text)) { /* no UTF-8: as it is */
      out[used++] = *text++;
      in = (mbstate_t){0};
      continue;
    }
    size_t made =
        wcrtomb(out + used, (wchar_t)(upper ? towupper((wint_t)c) : towlower((wint_t)c)), &to);
    if (made != (size_t)-1) used += made;
    text += bytes;
  }
  if (out) out[used] = 0;
  return out;
}

typedef struct normalizer {
  const wafer_host_attr *stopwords;
  bool sensitive, lower, upper;
} normalizer;

/* Whether a word stays: it is no stopword. */
static bool stays(const normalizer *n, const char *word, bool *whole) {
  char *mine = n->sensitive ? NULL : change_case(word, false);
  bool found = false;
  if (!n->sensitive && !mine) return *whole = false;
  for (uint32_t i = 0; n->stopwords && i < n->stopwords->count && !found; i++) {
    char *other = n->sensitive ? NULL : change_case(n->stopwords->texts[i], false);
    if (!n->sensitive && !other) *whole = false;
    found = n->sensitive ? !strcmp(word, n->stopwords->texts[i]) : other && !strcmp(mine, other);
    free(other);
  }
  free(mine);
  return !found;
}

static wafer_status normalize(host_site *site, const normalizer *n, const wafer_view *x) {
  int64_t count = host_elements(x), kept = 0;
  char **texts = calloc((size_t)count + 1, sizeof *texts);
  if (!texts) return host_no_memory(site);
  bool whole = true;
  for (int64_t i = 0; i < count && whole; i++) {
    if (!stays(n, text_at(x, i), &whole)) continue;
    texts[kept] =
        n->lower || n->upper ? change_case(text_at(x, i), n->upper) : strdup(text_at(x, i));
    whole = whole && texts[kept++];
  }
  wafer_shape shape = x->shape;
  const char *nothing = "";
  shape.dims[shape.rank - 1] = kept ? kept : 1;
  wafer_status status = !whole
                            ? host_no_memory(site)
                            : give_texts(site, 0, &shape, kept ? (const char **)texts : &nothing);
  for (int64_t i = 0; i < kept; i++) free(texts[i]);
  free(texts);
  return status;
}

wafer_status host_string_normalizer(host_site *site) {
  const wafer_view *x;
  const char *action = host_text(site, "case_change_action", "NONE");
  normalizer n = {.stopwords = host_attr(site, "stopwords", WAFER_HOST_ATTR_texts),
                  .sensitive = host_int(site, "is_case_sensitive", 0) != 0,
                  .lower = !strcmp(action, "LOWER"),
                  .upper = !strcmp(action, "UPPER")};
  WAFER_TRY(strings(site, 0, &x));
  if (x->shape.rank < 1 || x->shape.rank > 2 || (x->shape.rank == 2 && x->shape.dims[0] != 1))
    return host_fail(site, "the operand must be (words) or (1, words)");
  locale_t unicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
  if (!unicode) return host_fail(site, "the host has no locale C.UTF-8");
  locale_t before = uselocale(unicode);
  wafer_status status = normalize(site, &n, x);
  uselocale(before);
  freelocale(unicode);
  return status;
}

/* ---- RegexFullMatch ---- */

/* By PCRE2's DFA matcher: as RE2 it takes time linear in the text, and it has no back references.
 * Patterns of RE2 are patterns of PCRE2. */
wafer_status host_regex_full_match(host_site *site) {
  const wafer_view *x;
  wafer_view *y;
  int error;
  PCRE2_SIZE at;
  const char *pattern = host_text(site, "pattern", "");
  WAFER_TRY(strings(site, 0, &x));
  WAFER_TRY(host_new(site, 0, WAFER_DTYPE_bool, &x->shape, &y));
  pcre2_code *code =
      pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                    PCRE2_UTF | PCRE2_ANCHORED | PCRE2_ENDANCHORED, &error, &at, NULL);
  if (!code)
    return host_fail(site, "the pattern is malformed at byte %zu: '%.80s'", (size_t)at, pattern);
  enum { PLACES = 1000 };
  int *places = malloc(PLACES * sizeof *places);
  pcre2_match_data *match = pcre2_match_data_create(8, NULL);
  wafer_status status = match && places ? WAFER_OK : host_no_memory(site);
  for (int64_t i = 0, n = host_elements(x); i < n && status == WAFER_OK; i++) {
    int got = pcre2_dfa_match(code, (PCRE2_SPTR)text_at(x, i), PCRE2_ZERO_TERMINATED, 0, 0, match,
                              NULL, places, PLACES);
    if (got < 0 && got != PCRE2_ERROR_NOMATCH)
      status = host_fail(site, "string %" PRId64 " cannot be matched with '%.80s'", i, pattern);
    ((uint8_t *)y->data)[i] = got >= 0;
  }
  pcre2_match_data_free(match);
  free(places);
  pcre2_code_free(code);
  return status;
}

/* ---- constants ---- */

wafer_status host_strings(host_site *site) {
  const wafer_host_attr *dims = host_attr(site, "shape", WAFER_HOST_ATTR_ints);
  const wafer_host_attr *texts = host_attr(site, "value", WAFER_HOST_ATTR_texts);
  wafer_shape shape = {.rank = dims ? dims->count : 0};
  int64_t elements;
  if (shape.rank > WAFER_MAX_RANK) return host_fail(site, "too many dims");
  if (dims) memcpy(shape.dims, dims->ints, dims->count * sizeof *dims->ints);
  if (!wafer_shape_elements(&shape, &elements) || elements != (texts ? texts->count : 0))
    return host_fail(site, "the shape has another number of elements than are given");
  wafer_view view =
      wafer_view_of(WAFER_DTYPE_string, &shape, texts ? (void *)(uintptr_t)texts->texts : NULL);
  return host_give(site, 0, wafer_item_copy(&view));
}
