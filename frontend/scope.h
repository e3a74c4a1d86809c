/* Names of one graph and what they stand for; a subgraph's scope sees its outer ones. */
#ifndef FRONTEND_SCOPE_H
#define FRONTEND_SCOPE_H

#include "onnx/onnx.h"
#include "wafer/ir.h"

typedef enum name_state {
  NAME_KNOWN,   /* value is set; null: an input that the caller of a function leaves out */
  NAME_TENSOR,  /* an initializer that nobody has used yet: tensor is set, value is not */
  NAME_UNKNOWN, /* made by a node that cannot be compiled; that has been reported */
} name_state;

typedef struct name_entry {
  const char *name; /* NULL: a free slot */
  name_state state;
  MlirValue value; /* of the piece; null: a value of the program that no piece has taken yet */
  const onnx_tensor *tensor;
  struct assembly *fn; /* the function that it belongs to */
  struct piece *piece; /* where `value` is */
  bool host;           /* no tensor of static type: the host alone has it */
  bool numbered;       /* `number` is set: it is a value of the program */
  uint32_t number;
  struct name_entry *parts; /* of a sequence that is known when compiling; NULL: it is none */
  uint32_t part_count;
  size_t maker; /* index of the node that makes it, where a scope serves to look that up */
} name_entry;

/* Where the nodes of a scope come from: the model's graph, or the body of a model-local function,
 * whose attributes are those of the node that calls it. */
typedef struct frame {
  const onnx_opsets *opsets;
  const onnx_function *function; /* NULL: the model's graph */
  const onnx_node *call;
  const struct frame *caller;
  const char *label; /* of the call, put before the names of its nodes */
  uint32_t depth;
} frame;

typedef struct scope {
  const struct scope *outer; /* NULL for the main graph and functions */
  const frame *frame;
  const onnx_graph *graph; /* NULL: the body of a function */
  name_entry *slots;
  size_t mask; /* slots - 1 */
} scope;

/* An empty scope with room for `names` names. False: out of memory. */
bool scope_init(scope *s, wafer_arena *arena, const scope *outer, const frame *f, size_t names);
/* The entry of a name here or in an outer scope; NULL: none. */
name_entry *scope_find(const scope *s, const char *name);
/* A new entry, NULL when this scope has the name already. */
name_entry *scope_add(scope *s, const char *name);

#endif
