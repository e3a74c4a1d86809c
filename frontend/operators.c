#include "operators.h"

#include <string.h>

static const onnx_op rows[] = {
#define WAFER_OP_none NO_OP
#define ONNX_IN(domain, type, since, least, most, how, op)                                         \
  {domain, #type, since, least, most, import_##how, WAFER_OP_##op},
#include "onnx.def"
#undef WAFER_OP_none
};

/* Rows rise by name, then by domain, then by opset. */
const onnx_op *onnx_op_find(const char *domain, const char *type, int64_t opset) {
  size_t low = 0, high = WAFER_COUNT(rows);
  while (low < high) { /* the first row behind (type, domain, opset) */
    size_t middle = low + (high - low) / 2;
    int order = strcmp(rows[middle].type, type);
    if (order == 0) order = strcmp(rows[middle].domain, domain);
    if (order < 0 || (order == 0 && rows[middle].since <= opset))
      low = middle + 1;
    else
      high = middle;
  }
  const onnx_op *row = low ? &rows[low - 1] : NULL;
  return row && !strcmp(row->type, type) && !strcmp(row->domain, domain) ? row : NULL;
}

int64_t onnx_newest(const char *domain) {
  int64_t newest = 0;
  for (size_t i = 0; i < WAFER_COUNT(rows); i++)
    if (rows[i].since > newest && !strcmp(rows[i].domain, domain)) newest = rows[i].since;
  return newest;
}

const onnx_op *onnx_op_row(size_t index) {
  return index < WAFER_COUNT(rows) ? &rows[index] : NULL;
}

bool wafer_onnx_operator_at(size_t index, wafer_onnx_operator *out) {
  const onnx_op *row = index < WAFER_COUNT(rows) ? onnx_op_row(index) : NULL;
  if (row)
    *out = (wafer_onnx_operator){*row->domain ? row->domain : "ai.onnx", row->type, row->since};
  return row != NULL;
}
