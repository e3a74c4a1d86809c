/* Elements of ONNX tensors as views: of the model file, of an external data file (both mapped), or
 * of the arena when the file's form cannot be used directly (varints). */
#ifndef FRONTEND_DATA_H
#define FRONTEND_DATA_H

#include "onnx.h"
#include "wafer/file.h"
#include "wafer/wafer.h"

typedef struct data_file data_file;
typedef struct dense_tensor dense_tensor;

/* Where tensors come from: one model and the external files read so far. Zero but for the first
 * three and the masks: a tensor of that name is zero where its mask is. */
typedef struct data_store {
  const wafer_diag *diag;
  wafer_arena *arena;
  const char *file; /* the model's path; external data lie in its folder or below */
  char *folder;     /* its real path, once needed */
  data_file *files;
  dense_tensor *dense; /* made so far of sparse ones */
  bool may_lack; /* external files that are not there are no error of data_find */
  size_t mask_count;
  const wafer_value_binding *masks;
  bool *mask_used; /* by a tensor */
} data_store;

/* A view of the elements, dense, not necessarily aligned, for as long as the arena lives. BAD_INPUT
 * names the tensor and what does not add up; UNSUPPORTED: an element type or a rank that we have
 * not; IO: a missing external file. */
WAFER_MUST_USE wafer_status data_view(data_store *store, const onnx_tensor *tensor,
                                      wafer_view *out);

/* The same; but where the store may lack files, a tensor of one that is not there is a view without
 * data, and *expected says where they should lie, else it is NULL. */
WAFER_MUST_USE wafer_status data_find(data_store *store, const onnx_tensor *tensor, wafer_view *out,
                                      const char **expected);

/* A sparse tensor as a dense one of the name of its values, made once. */
WAFER_MUST_USE wafer_status data_dense(data_store *store, const onnx_sparse *of,
                                       const onnx_tensor **out);

#endif
