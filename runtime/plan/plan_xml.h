/* plan.xml: every element is a row of fields, which the writer and the reader both walk. A field is
 * an XML attribute that stands for one member of a struct. Private to plan_xml*.c and plan_file.c.
 */
#ifndef PLAN_XML_H
#define PLAN_XML_H

#include "wafer/plan.h"

#define PLAN_XML_FORMAT "1" /* of the plan element; a reader refuses any other */

/* A string that grows. `failed` remembers that the host ran out of memory. */
typedef struct xml_text {
  char *at;
  size_t count, capacity;
  bool failed;
} xml_text;

void xml_put(xml_text *out, const char *bytes, size_t count);
void xml_printf(xml_text *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

typedef struct xml_field xml_field;

/* How a kind of member is spelt. parse() gives BAD_INPUT without a message (its caller knows the
 * line), or NO_MEMORY; it never trusts `text`. */
typedef struct xml_codec {
  const char *expected; /* what parse() wants, for messages */
  void (*print)(xml_text *out, const xml_field *field, const void *owner);
  wafer_status (*parse)(wafer_arena *arena, const char *text, const xml_field *field, void *owner);
} xml_codec;

struct xml_field {
  const char *name;
  const xml_codec *codec;
  size_t at;    /* offset of the member in its struct */
  size_t count; /* lists: offset of their uint32_t count; fixed arrays: their length */
  const char
      *fallback; /* what a missing attribute means and the writer leaves out; NULL: mandatory */
};

typedef struct xml_element {
  const char *name;
  uint32_t field_count;
  const xml_field *fields;
} xml_element;

/* What stands in the file in one element, in memory in several arrays. */
typedef struct xml_weight {
  const char *name;
  wafer_type type;
  uint64_t digest;
  bool absent, trained;
  const char *expected;
  bool sparse;
  uint64_t nonzeros;
} xml_weight;

typedef struct xml_input {
  uint32_t value, depth; /* plan value; samples held */
  wafer_type type;
  bool weight;
  wafer_sparsity is;
} xml_input;

typedef struct xml_output {
  uint32_t value, of; /* plan value; value number of the body */
  bool summed;
} xml_output;

typedef struct xml_host_attr {
  const char *name;
  wafer_host_attr_kind kind;
  const char *value; /* as it is spelt */
} xml_host_attr;

typedef struct xml_node {
  wafer_node node;
  bool splat;
} xml_node;

extern const xml_element xml_plan_element;       /* wafer_plan */
extern const xml_element xml_cost_elements[2];   /* wafer_mode_cost: pipelined, streaming */
extern const xml_element xml_weight_element;     /* xml_weight */
extern const xml_element xml_value_element;      /* wafer_value */
extern const xml_element xml_kernel_element;     /* wafer_kernel */
extern const xml_element xml_input_element;      /* xml_input */
extern const xml_element xml_node_element;       /* xml_node */
extern const xml_element xml_output_element;     /* xml_output */
extern const xml_element xml_split_cost_element; /* wafer_cost */
extern const xml_element xml_memory_element;     /* wafer_memory_item */
extern const xml_element xml_stream_element;     /* wafer_stream */
extern const xml_element xml_phase_element;      /* wafer_phase */
extern const xml_element xml_function_element;   /* wafer_function */
extern const xml_element xml_step_element;       /* wafer_step */
extern const xml_element xml_attr_element;       /* xml_host_attr */
extern const xml_element xml_launch_element;     /* wafer_launch */
extern const xml_element xml_training_element;   /* wafer_training */
extern const xml_element xml_trained_element;    /* wafer_trained */
extern const xml_element xml_noise_element;      /* wafer_noise */

/* Attributes of an op, spelt by their kind. `type` is the node's result type (the size of `data`).
 */
void xml_attr_print(xml_text *out, const wafer_attr *attr, const wafer_type *type);
wafer_status xml_attr_parse(wafer_arena *arena, const char *text, const wafer_type *type,
                            bool splat, wafer_attr *attr);
const char *xml_attr_expected(wafer_attr_kind kind);
void xml_print_float(xml_text *out, double value);
/* A list separated by single spaces: `floats`, else integers. */
wafer_status xml_parse_list(wafer_arena *arena, const char *text, bool floats, wafer_attr *attr);

/* The list of a host attribute as text, and back. Entries are separated by spaces; in a text every
 * byte that is no graphic character of ASCII, and a backslash, is \xHH, and no text at all is \e.
 */
void xml_host_attr_print(xml_text *out, const wafer_host_attr *attr);
wafer_status xml_host_attr_parse(wafer_arena *arena, const xml_host_attr *item,
                                 wafer_host_attr *attr);

/* Spells strings that XML cannot hold: a byte that is no XML character becomes \xHH, a backslash
 * \\. */
void xml_print_string(xml_text *out, const char *text);
wafer_status xml_parse_string(wafer_arena *arena, const char *text, const char **out);

/* The plan as plan.xml; free() it. Weight digests must be there already. */
wafer_status plan_xml_write(const wafer_diag *diag, const wafer_plan *plan, char **text,
                            size_t *bytes);
/* Reads plan.xml into `plan` (mlir and file untouched), everything in the arena. A weight that is
 * not absent points to something that is not its data: plan_file.c puts the data there. `file` is
 * for messages. */
wafer_status plan_xml_read(const wafer_diag *diag, wafer_arena *arena, const char *file,
                           const char *text, size_t bytes, wafer_plan *plan);
/* Against runtime/plan/plan.rng, with the line of what is wrong. */
wafer_status plan_xml_validate(const wafer_diag *diag, const char *file, const char *text,
                               size_t bytes);

#endif
