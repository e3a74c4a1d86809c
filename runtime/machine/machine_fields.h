/* The rows of machine_fields.def, as the checks and the XML see them. */
#ifndef MACHINE_FIELDS_H
#define MACHINE_FIELDS_H

#include <stddef.h>

#include "wafer/machine.h"

typedef enum machine_field_kind {
  FIELD_u32,
  FIELD_optional,
  FIELD_u64,
  FIELD_bandwidth
} machine_field_kind;

typedef struct machine_field {
  const char *element, *attribute;
  size_t offset; /* in wafer_machine */
  machine_field_kind kind;
  uint64_t minimum, maximum;
} machine_field;

#define MACHINE_MAX_RATE 65536u /* elements or cycles of a throughput */
#define MACHINE_MAX_QUEUE_WORDS 65536u

extern const machine_field machine_fields[];
extern const size_t machine_field_count;

uint64_t machine_field_get(const wafer_machine *machine, const machine_field *field);
void machine_field_set(wafer_machine *machine, const machine_field *field, uint64_t value);
bool machine_field_allows(const machine_field *field, uint64_t value);

#endif
