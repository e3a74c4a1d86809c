/* The elements of plan.xml and their fields. docs/plan-format.md explains them, plan.rng restates
 * them for other tools; a unit test compares. */
#include "plan_xml_codec.h"

#define AT(type, member) .at = offsetof(type, member)
#define COUNTED(type, member, counter)                                                             \
  .at = offsetof(type, member), .count = offsetof(type, counter)
#define ELEMENT(tag, fields) {tag, WAFER_COUNT(fields), fields}

#define T wafer_plan
static const xml_field plan_fields[] = {
    {"format", &xml_format, 0, 0, NULL},
    {"model", &xml_string, AT(T, model)},
    {"producer", &xml_string, AT(T, producer)},
    {"mode", &xml_mode, AT(T, mode)},
    {"storage", &xml_dtype, AT(T, storage)},
    {"batch", &xml_u32, AT(T, batch)},
    {"stripes", &xml_u32, AT(T, stripes), .fallback = "1"},
    {"stripe-columns", &xml_u32, AT(T, stripe_columns), .fallback = "0"},
    {"flip-batch", &xml_u32, AT(T, flip_batch)},
    {"onnx-nodes", &xml_u32, AT(T, node_count)},
    {"no-programs", &xml_string, AT(T, no_programs), .fallback = ""},
};
const xml_element xml_plan_element = ELEMENT("plan", plan_fields);
#undef T

#define T wafer_mode_cost
static const xml_field mode_cost_fields[] = {
    {"fits", &xml_flag, AT(T, fits)},
    {"why-not", &xml_string, AT(T, why_not), .fallback = ""},
    {"latency-cycles", &xml_u64, AT(T, latency_cycles)},
    {"interval-cycles", &xml_u64, AT(T, interval_cycles)},
    {"cores", &xml_u64, AT(T, cores)},
    {"peak-core-bytes", &xml_u64, AT(T, peak_core_bytes)},
};
const xml_element xml_cost_elements[2] = {ELEMENT("pipelined", mode_cost_fields),
                                          ELEMENT("streaming", mode_cost_fields)};
#undef T

#define T xml_weight
static const xml_field weight_fields[] = {
    {"name", &xml_string, AT(T, name)},
    {"type", &xml_type, AT(T, type)},
    {"digest", &xml_hex64, AT(T, digest), .fallback = "0000000000000000"},
    {"absent", &xml_flag, AT(T, absent), .fallback = "false"},
    {"trained", &xml_flag, AT(T, trained), .fallback = "false"},
    {"expected", &xml_string, AT(T, expected), .fallback = ""},
    {"sparse", &xml_flag, AT(T, sparse), .fallback = "false"},
    {"nonzeros", &xml_u64, AT(T, nonzeros), .fallback = "0"},
};
const xml_element xml_weight_element = ELEMENT("weight", weight_fields);
#undef T

#define T wafer_value
static const xml_field value_fields[] = {
    {"name", &xml_string, AT(T, name)},
    {"node", &xml_string, AT(T, node), .fallback = ""},
    {"owner", &xml_owner, AT(T, owner), .fallback = "activation"},
    {"type", &xml_value_type, AT(T, type), .fallback = "none"},
    {"weight", &xml_index, AT(T, weight), .fallback = "none"},
    {"kind", &xml_value_kind, AT(T, kind), .fallback = "tensor"},
};
const xml_element xml_value_element = ELEMENT("value", value_fields);
#undef T

#define T wafer_kernel
static const xml_field kernel_fields[] = {
    {"name", &xml_string, AT(T, name)},
    {"family", &xml_family, AT(T, body.family)},
    {"anchor", &xml_u32, AT(T, body.anchor), .fallback = "0"},
    {"storage", &xml_dtype, AT(T, body.storage)},
    {"output-depth", &xml_u32, AT(T, body.output_depth), .fallback = "1"},
    {"state", &xml_u32, AT(T, body.state), .fallback = "0"},
    {"rect", &xml_rect, AT(T, rect)},
    {"rows", &xml_parts, AT(T, split.rows), WAFER_MAX_LOOPS, .fallback = ""},
    {"cols", &xml_parts, AT(T, split.cols), WAFER_MAX_LOOPS, .fallback = ""},
    {"replicas", &xml_u32, AT(T, replicas), .fallback = "1"},
    {"slabs", &xml_u32, AT(T, slabs), .fallback = "1"},
    {"bound", &xml_bound, AT(T, bound)},
    {"program-cycles", &xml_u64, AT(T, program_cycles), .fallback = "0"},
};
const xml_element xml_kernel_element = ELEMENT("kernel", kernel_fields);
#undef T

#define T xml_input
static const xml_field input_fields[] = {
    {"value", &xml_u32, AT(T, value)},
    {"type", &xml_type, AT(T, type)},
    {"weight", &xml_flag, AT(T, weight), .fallback = "false"},
    {"depth", &xml_u32, AT(T, depth), .fallback = "1"},
    {"sparse", &xml_flag, AT(T, is.sparse), .fallback = "false"},
    {"nonzeros", &xml_u64, AT(T, is.nonzeros), .fallback = "0"},
    {"fullest", &xml_u64, AT(T, is.fullest), .fallback = "0"},
    {"filled", &xml_u64, AT(T, is.filled), .fallback = "0"},
    {"order", &xml_u32, AT(T, is.order), .fallback = "0"},
    {"late-list", &xml_flag, AT(T, is.late_list), .fallback = "false"},
};
const xml_element xml_input_element = ELEMENT("input", input_fields);
#undef T

/* Beside these a node carries one XML attribute for each attribute of its op, named as in
 * attrs.def. */
#define T xml_node
static const xml_field node_fields[] = {
    {"op", &xml_op, AT(T, node.op)},
    {"onnx", &xml_string, AT(T, node.name), .fallback = ""},
    {"operands", &xml_operands, COUNTED(T, node.operands, node.operand_count), .fallback = ""},
    {"type", &xml_type, AT(T, node.type)},
    {"splat", &xml_flag, AT(T, splat), .fallback = "false"},
};
const xml_element xml_node_element = ELEMENT("node", node_fields);
#undef T

#define T xml_output
static const xml_field output_fields[] = {
    {"value", &xml_u32, AT(T, value)},
    {"of", &xml_u32, AT(T, of)},
    {"summed", &xml_flag, AT(T, summed), .fallback = "false"},
};
const xml_element xml_output_element = ELEMENT("output", output_fields);
#undef T

#define T wafer_cost
static const xml_field split_cost_fields[] = {
    {"cycles", &xml_u64, AT(T, cycles)},
    {"compute-cycles", &xml_u64, AT(T, compute_cycles)},
    {"fabric-cycles", &xml_u64, AT(T, fabric_cycles), .fallback = "0"},
    {"operations", &xml_u64, AT(T, operations), .fallback = "0"},
    {"code-bytes", &xml_u64, AT(T, code_bytes), .fallback = "0"},
    {"weight-bytes", &xml_u64, AT(T, weight_bytes), .fallback = "0"},
    {"input-bytes", &xml_u64, AT(T, input_bytes), .fallback = "0"},
    {"output-bytes", &xml_u64, AT(T, output_bytes), .fallback = "0"},
    {"scratch-bytes", &xml_u64, AT(T, scratch_bytes), .fallback = "0"},
};
const xml_element xml_split_cost_element = ELEMENT("cost", split_cost_fields);
#undef T

#define T wafer_memory_item
static const xml_field memory_fields[] = {
    {"what", &xml_string, AT(T, what)},
    {"node", &xml_string, AT(T, node), .fallback = ""},
    {"bytes", &xml_u64, AT(T, bytes)},
};
const xml_element xml_memory_element = ELEMENT("memory", memory_fields);
#undef T

#define T wafer_stream
static const xml_field stream_fields[] = {
    {"value", &xml_u32, AT(T, value)},
    {"from", &xml_holding, AT(T, from)},
    {"to", &xml_holding, AT(T, to)},
    {"from-kernel", &xml_index, AT(T, from_kernel), .fallback = "none"},
    {"to-kernel", &xml_index, AT(T, to_kernel), .fallback = "none"},
    {"color", &xml_u32, AT(T, color)},
    {"route", &xml_route, COUNTED(T, route, route_count), .fallback = ""},
    {"words", &xml_u64, AT(T, words)},
    {"cycles", &xml_u64, AT(T, cycles)},
    {"latency", &xml_u64, AT(T, latency)},
    {"depth", &xml_u32, AT(T, depth), .fallback = "1"},
};
const xml_element xml_stream_element = ELEMENT("stream", stream_fields);
#undef T

#define T wafer_phase
static const xml_field phase_fields[] = {
    {"name", &xml_string, AT(T, name)},
    {"actions", &xml_actions, COUNTED(T, actions, action_count)},
    {"frees", &xml_u32s, COUNTED(T, frees, free_count), .fallback = ""},
    {"peak-core-bytes", &xml_u64, AT(T, peak_core_bytes)},
};
const xml_element xml_phase_element = ELEMENT("phase", phase_fields);
#undef T

#define T wafer_function
static const xml_field function_fields[] = {
    {"name", &xml_string, AT(T, name)},
    {"inputs", &xml_u32s, COUNTED(T, inputs, input_count)},
    {"outputs", &xml_u32s, COUNTED(T, outputs, output_count)},
};
const xml_element xml_function_element = ELEMENT("function", function_fields);
#undef T

#define T wafer_step
static const xml_field step_fields[] = {
    {"kind", &xml_step, AT(T, kind)},
    {"phase", &xml_index, AT(T, phase), .fallback = "none"},
    {"op", &xml_host_op, AT(T, op), .fallback = "none"},
    {"onnx", &xml_string, AT(T, node), .fallback = ""},
    {"carried", &xml_u32, AT(T, carried), .fallback = "0"},
    {"inputs", &xml_indexes, COUNTED(T, inputs, input_count), .fallback = ""},
    {"outputs", &xml_indexes, COUNTED(T, outputs, output_count), .fallback = ""},
    {"bodies", &xml_u32s, COUNTED(T, bodies, body_count), .fallback = ""},
};
const xml_element xml_step_element = ELEMENT("step", step_fields);
#undef T

#define T xml_host_attr
static const xml_field attr_fields[] = {
    {"name", &xml_string, AT(T, name)},
    {"kind", &xml_host_kind, AT(T, kind)},
    {"value", &xml_plain, AT(T, value)},
};
const xml_element xml_attr_element = ELEMENT("attr", attr_fields);
#undef T

#define T wafer_launch
static const xml_field launch_fields[] = {
    {"kind", &xml_launch_kind, AT(T, kind)},
    {"phase", &xml_u32, AT(T, phase)},
    {"action", &xml_u32, AT(T, action), .fallback = "0"},
    {"sample", &xml_u32, AT(T, sample), .fallback = "0"},
    {"program", &xml_u32, AT(T, program)},
    {"predicted-cycles", &xml_u64, AT(T, predicted)},
    {"predicted-interval", &xml_u64, AT(T, interval), .fallback = "0"},
    {"predicted-fill", &xml_u64, AT(T, fill), .fallback = "0"},
    {"short-trains", &xml_u64s, COUNTED(T, short_trains, short_train_count), .fallback = ""},
    {"leaving", &xml_u64s, COUNTED(T, leaving, leaving_count), .fallback = ""},
    {"slowest-kernel", &xml_index, AT(T, slowest), .fallback = "none"},
};
const xml_element xml_launch_element = ELEMENT("launch", launch_fields);
#undef T

#define T wafer_training
static const xml_field training_fields[] = {
    {"loss", &xml_u32, AT(T, loss)},
    {"count", &xml_u32, AT(T, count)},
    {"correct", &xml_index, AT(T, correct), .fallback = "none"},
    {"labels", &xml_u32, AT(T, labels)},
    {"seed", &xml_index, AT(T, seed), .fallback = "none"},
    {"micro-batch", &xml_u32, AT(T, micro_batch)},
    {"classes", &xml_u32, AT(T, classes), .fallback = "0"},
    {"optimizer", &xml_optimizer, AT(T, optimizer), .fallback = "sgd"},
};
const xml_element xml_training_element = ELEMENT("training", training_fields);
#undef T

#define T wafer_trained
static const xml_field trained_fields[] = {
    {"weight", &xml_u32, AT(T, weight)},
    {"gradient", &xml_index, AT(T, gradient), .fallback = "none"},
    {"statistic", &xml_flag, AT(T, statistic), .fallback = "false"},
};
const xml_element xml_trained_element = ELEMENT("trained", trained_fields);
#undef T

#define T wafer_noise
static const xml_field noise_fields[] = {
    {"input", &xml_u32, AT(T, input)},
    {"key", &xml_hex64, AT(T, key)},
};
const xml_element xml_noise_element = ELEMENT("noise", noise_fields);
#undef T
