/* Host operators by themselves: strings, lists, results that depend on elements. */
#include "../../runtime/host/host.h"

#include <CUnit/CUnit.h>
#include <stdio.h>
#include <string.h>

static wafer_item *texts(uint32_t rank, int64_t count, const char **at) {
  wafer_shape shape = {rank, {count}};
  wafer_view view = wafer_view_of(WAFER_DTYPE_string, &shape, at);
  return wafer_item_copy(&view);
}

/* "2: a b", "2: 1 0" */
static void format(const wafer_item *item, char *out, size_t room) {
  int64_t count;
  wafer_shape_format(&item->tensor.shape, out, room);
  wafer_shape_elements(&item->tensor.shape, &count);
  strcat(out, ":");
  for (int64_t i = 0; i < count; i++) {
    size_t used = strlen(out);
    if (item->tensor.dtype == WAFER_DTYPE_string)
      snprintf(out + used, room - used, " %s", ((const char **)item->tensor.data)[i]);
    else
      snprintf(out + used, room - used, " %g",
               wafer_element_f64(item->tensor.dtype, item->tensor.data, i));
  }
}

#define TEXT(key, ...)                                                                             \
  {                                                                                                \
    .name = key, .kind = WAFER_HOST_ATTR_texts,                                                    \
    .count = sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *), .texts = (const char *[]) {   \
      __VA_ARGS__                                                                                  \
    }                                                                                              \
  }
#define INTS(key, ...)                                                                             \
  {                                                                                                \
    .name = key, .kind = WAFER_HOST_ATTR_ints,                                                     \
    .count = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), .ints = (int64_t[]) {             \
      __VA_ARGS__                                                                                  \
    }                                                                                              \
  }

static const struct {
  wafer_host_op op;
  const char *in[4];
  wafer_host_attr attrs[6];
  const char *want;
} rows[] = {
    {WAFER_HOST_StringConcat, {"a", "b"}, {{.name = NULL}}, "2: aa bb"},
    {WAFER_HOST_StringNormalizer,
     {"Straße", "the", "ÉTÉ"},
     {TEXT("case_change_action", "LOWER"), TEXT("stopwords", "THE")},
     "2: straße été"},
    {WAFER_HOST_StringNormalizer, {"a"}, {TEXT("stopwords", "A")}, "1: "},
    {WAFER_HOST_StringNormalizer,
     {"a"},
     {TEXT("stopwords", "A"), INTS("is_case_sensitive", 1)},
     "1: a"},
    {WAFER_HOST_StringSplit, {" a  b c "}, {{.name = NULL}}, "1x3: a b c"},
    {WAFER_HOST_StringSplit, {"a  b c "}, {INTS("maxsplit", 1)}, "1x2: a b c "},
    {WAFER_HOST_StringSplit, {"a,,b", "c"}, {TEXT("delimiter", ",")}, "2x3: a  b c  "},
    {WAFER_HOST_RegexFullMatch, {"ab12", "ab12x"}, {TEXT("pattern", "[a-z]+\\d+")}, "2: 1 0"},
    {WAFER_HOST_RegexFullMatch,
     {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"},
     {TEXT("pattern", "(a+)+")},
     "1: 0"},
    {WAFER_HOST_LabelEncoder,
     {"a", "z"},
     {TEXT("keys_strings", "a", "b"), INTS("values_int64s", 7, 8)},
     "2: 7 -1"},
    {WAFER_HOST_TfIdfVectorizer,
     {"a", "b", "a", "b"},
     {TEXT("pool_strings", "a", "a", "b"), INTS("ngram_counts", 0, 1), INTS("ngram_indexes", 1, 0),
      INTS("max_gram_length", 2), INTS("max_skip_count", 1)},
     "2: 2 2"},
    {WAFER_HOST_Unique, {"b", "a", "b"}, {{.name = NULL}}, "2: a b"},
    {WAFER_HOST_Unique, {"b", "a", "b"}, {INTS("sorted", 0)}, "2: b a"},
    {WAFER_HOST_Equal, {"a", "b"}, {{.name = NULL}}, "2: 1 1"},
};

static wafer_status run(size_t i, wafer_item **out) {
  uint32_t count = 0, attrs = 0;
  while (count < 4 && rows[i].in[count]) count++;
  while (attrs < 6 && rows[i].attrs[attrs].name) attrs++;
  wafer_item *in = texts(1, count, (const char **)(uintptr_t)rows[i].in);
  wafer_item *both[] = {in, in};
  host_site site = {.attr_count = attrs,
                    .attrs = rows[i].attrs,
                    .input_count = wafer_host_get(rows[i].op)->least,
                    .output_count = 1,
                    .inputs = both,
                    .outputs = out};
  wafer_status status = host_run(&site, rows[i].op);
  wafer_item_release(in);
  return status;
}

static void test_strings(void) {
  for (size_t i = 0; i < WAFER_COUNT(rows); i++) {
    wafer_item *out = NULL;
    char got[160] = "";
    wafer_status status = run(i, &out);
    if (status == WAFER_OK) format(out, got, sizeof got);
    bool right = status == WAFER_OK && !strcmp(got, rows[i].want);
    if (!right) printf("\n  row %zu: %s, expected %s\n", i, got, rows[i].want);
    CU_ASSERT(right);
    wafer_item_release(out);
  }
}

/* Of two strings. */
static const struct {
  wafer_host_op op;
  wafer_host_attr attrs[6];
} wrong[] = {
    {WAFER_HOST_RegexFullMatch, {TEXT("pattern", "(")}},
    {WAFER_HOST_LabelEncoder, {TEXT("keys_strings", "a"), INTS("values_int64s", 1, 2)}},
    {WAFER_HOST_TfIdfVectorizer,
     {TEXT("pool_strings", "a"), INTS("ngram_counts", 5), INTS("ngram_indexes", 0)}},
    {WAFER_HOST_TfIdfVectorizer,
     {TEXT("pool_strings", "a"), INTS("ngram_counts", 0), INTS("ngram_indexes", -1)}},
    {WAFER_HOST_ImageDecoder, {{.name = NULL}}},
    {WAFER_HOST_SequenceLength, {{.name = NULL}}},
    {WAFER_HOST_core, {TEXT("op", "exp")}},
    {WAFER_HOST_core, {TEXT("op", "constant")}},
    {WAFER_HOST_strings, {INTS("shape", 1), TEXT("value", "a", "b")}},
    {WAFER_HOST_Reshape, {{.name = NULL}}},
    {WAFER_HOST_NonMaxSuppression, {{.name = NULL}}},
    {WAFER_HOST_ScatterElements, {{.name = NULL}}},
    {WAFER_HOST_Range, {{.name = NULL}}},
    {WAFER_HOST_LabelEncoder,
     {TEXT("keys_tensor", "a"), INTS("values_int64s", 1), TEXT("keys_tensor.dtype", "i64")}},
};

/* What a model or a plan may get wrong is refused, and no result is left behind. */
static void test_refusals(void) {
  const char *words[] = {"a", "b"};
  for (size_t i = 0; i < WAFER_COUNT(wrong); i++) {
    uint32_t attrs = 0;
    while (attrs < 6 && wrong[i].attrs[attrs].name) attrs++;
    wafer_item *in = texts(1, 2, words), *both[] = {in, in}, *out = NULL;
    host_site site = {.attr_count = attrs,
                      .attrs = wrong[i].attrs,
                      .input_count = wafer_host_get(wrong[i].op)->least,
                      .output_count = 1,
                      .inputs = both,
                      .outputs = &out};
    wafer_status status = host_run(&site, wrong[i].op);
    if (status == WAFER_OK) printf("\n  refusal %zu is taken\n", i);
    CU_ASSERT(status == WAFER_BAD_INPUT);
    wafer_item_release(out);
    wafer_item_release(in);
  }
}

/* Lists count references: what was shared outlives its first owner. */
static void test_references(void) {
  const char *words[] = {"one", "two"};
  wafer_item *item = texts(1, 2, words);
  wafer_item *list = wafer_item_list(WAFER_ITEM_sequence, 1, &item);
  wafer_item_release(item);
  wafer_item *outer = wafer_item_list(WAFER_ITEM_optional, 1, &list);
  wafer_item_release(list);
  CU_ASSERT_STRING_EQUAL(((const char **)outer->items[0]->items[0]->tensor.data)[1], "two");
  wafer_item_release(outer);
}

CU_TestInfo tests_host[] = {
    {"strings", test_strings},
    {"refusals", test_refusals},
    {"references", test_references},
    CU_TEST_INFO_NULL,
};
