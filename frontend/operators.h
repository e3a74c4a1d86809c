/* The functions that onnx.def names. */
#ifndef FRONTEND_OPERATORS_H
#define FRONTEND_OPERATORS_H

#include "expand/compose.h"
#include "import.h"

#define ONNX_IN(domain, type, since, least, most, how, op) import_fn import_##how;
#include "onnx.def"

#endif
