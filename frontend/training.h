/* Import for training: float initializers become arguments of @main, dropout takes noise, and the
 * leading dim of the inputs is another one than the model's constants may say. */
#ifndef FRONTEND_TRAINING_H
#define FRONTEND_TRAINING_H

#include "onnx/onnx.h"
#include "parameters.h"
#include "wafer/ir.h"

struct importer;
struct import_node;
struct name_entry;

/* An argument of @main behind the model's inputs. */
typedef struct extra_argument {
  wafer_role role;           /* parameter or noise */
  const char *of;            /* the weight, the node */
  const onnx_tensor *tensor; /* parameter: where it comes from */
  wafer_view view;           /* its initial value; data NULL: absent */
  MlirValue value;
  MlirValue next; /* of a statistic of the model: its value after this micro-batch; else null */
  bool known;     /* its value is part of what was compiled: it stays a constant */
  bool kept;      /* a statistic of the model, which changes without a gradient */
} extra_argument;

typedef struct training_state {
  const wafer_training_options *options; /* NULL: inference */
  extra_argument *at;
  uint32_t count, room;
  wafer_ir_map *numbers; /* value, and a parameter's tensor -> where it is in `at` */
  bool *fits;            /* of each pattern that freezes: it has frozen something */
  parameter_list told;   /* what the file says of its initializers */
  int64_t declared;      /* leading dim of the model's inputs as it says; 0: it leaves it open */
} training_state;

wafer_status training_start(struct importer *im, const wafer_training_options *options);
/* Reads what the file says of its initializers. */
wafer_status training_read(struct importer *im);
/* The initializer as a parameter in the open piece: *out is null when it is none. A parameter is a
 * float tensor without infinities and NaNs that no pattern freezes: one that the file names as
 * such, or, where it names none, one of at least one dim. */
wafer_status training_parameter(struct importer *im, const onnx_tensor *tensor, const char *name,
                                MlirValue *out);
/* The initial value of a parameter; with `use` it is a constant from now on. */
bool training_known(struct importer *im, MlirValue value, bool use, wafer_view *view);
/* After a micro-batch the parameter that `value` is becomes `next`, which is no gradient's
 * business. Of others nothing happens; in evaluation it stays, and is bound like a parameter. */
bool training_keeps(struct importer *im, MlirValue value, MlirValue next);
/* A new input of draws from [0, 1), f32, named after the node. */
MlirValue emit_noise(struct import_node *n, const wafer_shape *shape);
/* The constant target of a node that changes shapes: its entry that holds the declared batch holds
 * the micro-batch then, wherever x has it. */
void training_rebatch(const struct import_node *n, const wafer_shape *x, uint32_t count,
                      int64_t *dims);
/* A length that a constant gives to dim `axis` of x: of the leading dim, where that is the
 * micro-batch, the declared batch becomes it too. */
int64_t training_length(const struct import_node *n, const wafer_shape *x, uint32_t axis,
                        int64_t length);
/* A constant with the declared batch along `axis`: where its entries there are all alike it gets as
 * many as the micro-batch has. Anything else is left as it is. */
MlirValue training_rebatch_along(struct import_node *n, MlirValue value, uint32_t axis);
/* Constant indices into dim `axis` of x, which holds the samples one behind the other (as_strided of
 * PyTorch): those of the declared batch, each sample's a sample further on, become those of the
 * micro-batch. Others that lie outside x are refused. */
MlirValue training_rebatch_index(struct import_node *n, MlirValue x, MlirValue index,
                                 uint32_t axis);
/* Constant operands that hold the declared batch while another one has the micro-batch: where their
 * rows are all alike they get as many as that. Of nodes that want operands of one shape, and of
 * what Gemm adds. */
void training_rebatch_operands(struct import_node *n);
/* Says behind a failure that the model may hold its batch in a constant. */
void training_hint(const struct import_node *n);
/* Names the arguments, and gives constants the place of parameters that are known. */
wafer_status training_finish(struct importer *im);
/* Refuses what a training plan cannot hold. */
wafer_status training_check(const struct importer *im);

#endif
