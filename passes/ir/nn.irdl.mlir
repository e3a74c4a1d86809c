// The dialect `nn`: what to compute. An operation per row of include/wafer/ops.def; docs/dialects.md says what
// each one means. Loads in stock MLIR: mlir-opt --irdl-file=nn.irdl.mlir.
//
// One %variable is one value in IRDL, so every operand, result and attribute has its own.
irdl.dialect @nn {
  irdl.operation @constant {
    %result = irdl.base "!builtin.tensor"
    %_value = irdl.base "#builtin.dense_int_or_fp_elements"
    irdl.results(result: %result)
    irdl.attributes {"value" = %_value}
  }
  irdl.operation @weight {
    %result = irdl.base "!builtin.tensor"
    %_name = irdl.base "#builtin.string"
    irdl.results(result: %result)
    irdl.attributes {"name" = %_name}
  }
  irdl.operation @abs {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(result: %result)
  }
  irdl.operation @neg {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(result: %result)
  }
  irdl.operation @sign {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(result: %result)
  }
  irdl.operation @relu {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(result: %result)
  }
  irdl.operation @floor {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(result: %result)
  }
  irdl.operation @ceil {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(result: %result)
  }
  irdl.operation @round {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(result: %result)
  }
  irdl.operation @sqrt {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(result: %result)
  }
  irdl.operation @reciprocal {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(result: %result)
  }
  irdl.operation @exp {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(result: %result)
  }
  irdl.operation @log {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(result: %result)
  }
  irdl.operation @sin {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(result: %result)
  }
  irdl.operation @cos {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(result: %result)
  }
  irdl.operation @tan {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(result: %result)
  }
  irdl.operation @asin {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(result: %result)
  }
  irdl.operation @acos {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(result: %result)
  }
  irdl.operation @atan {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(result: %result)
  }
  irdl.operation @sinh {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(result: %result)
  }
  irdl.operation @cosh {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(result: %result)
  }
  irdl.operation @asinh {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(result: %result)
  }
  irdl.operation @acosh {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(result: %result)
  }
  irdl.operation @atanh {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(result: %result)
  }
  irdl.operation @tanh {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(result: %result)
  }
  irdl.operation @erf {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(result: %result)
  }
  irdl.operation @sigmoid {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(result: %result)
  }
  irdl.operation @softplus {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(result: %result)
  }
  irdl.operation @not {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(result: %result)
  }
  irdl.operation @isnan {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(x: %x)
    irdl.results(result: %result)
  }
  irdl.operation @isinf {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %_negative = irdl.base "#builtin.integer"
    %_positive = irdl.base "#builtin.integer"
    irdl.operands(x: %x)
    irdl.results(result: %result)
    irdl.attributes {"negative" = %_negative, "positive" = %_positive}
  }
  irdl.operation @clip {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %_min = irdl.base "#builtin.float"
    %_max = irdl.base "#builtin.float"
    irdl.operands(x: %x)
    irdl.results(result: %result)
    irdl.attributes {"min" = %_min, "max" = %_max}
  }
  irdl.operation @cast {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %_to = irdl.base "#builtin.string"
    irdl.operands(x: %x)
    irdl.results(result: %result)
    irdl.attributes {"to" = %_to}
  }
  irdl.operation @bitcast {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %_to = irdl.base "#builtin.string"
    irdl.operands(x: %x)
    irdl.results(result: %result)
    irdl.attributes {"to" = %_to}
  }
  irdl.operation @add {
    %a = irdl.base "!builtin.tensor"
    %b = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(a: %a, b: %b)
    irdl.results(result: %result)
  }
  irdl.operation @sub {
    %a = irdl.base "!builtin.tensor"
    %b = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(a: %a, b: %b)
    irdl.results(result: %result)
  }
  irdl.operation @mul {
    %a = irdl.base "!builtin.tensor"
    %b = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(a: %a, b: %b)
    irdl.results(result: %result)
  }
  irdl.operation @div {
    %a = irdl.base "!builtin.tensor"
    %b = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(a: %a, b: %b)
    irdl.results(result: %result)
  }
  irdl.operation @mod {
    %a = irdl.base "!builtin.tensor"
    %b = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %_truncate = irdl.base "#builtin.integer"
    irdl.operands(a: %a, b: %b)
    irdl.results(result: %result)
    irdl.attributes {"truncate" = %_truncate}
  }
  irdl.operation @pow {
    %x = irdl.base "!builtin.tensor"
    %exponent = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(x: %x, exponent: %exponent)
    irdl.results(result: %result)
  }
  irdl.operation @max {
    %a = irdl.base "!builtin.tensor"
    %b = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(a: %a, b: %b)
    irdl.results(result: %result)
  }
  irdl.operation @min {
    %a = irdl.base "!builtin.tensor"
    %b = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(a: %a, b: %b)
    irdl.results(result: %result)
  }
  irdl.operation @equal {
    %a = irdl.base "!builtin.tensor"
    %b = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(a: %a, b: %b)
    irdl.results(result: %result)
  }
  irdl.operation @less {
    %a = irdl.base "!builtin.tensor"
    %b = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(a: %a, b: %b)
    irdl.results(result: %result)
  }
  irdl.operation @less_equal {
    %a = irdl.base "!builtin.tensor"
    %b = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(a: %a, b: %b)
    irdl.results(result: %result)
  }
  irdl.operation @and {
    %a = irdl.base "!builtin.tensor"
    %b = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(a: %a, b: %b)
    irdl.results(result: %result)
  }
  irdl.operation @or {
    %a = irdl.base "!builtin.tensor"
    %b = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(a: %a, b: %b)
    irdl.results(result: %result)
  }
  irdl.operation @xor {
    %a = irdl.base "!builtin.tensor"
    %b = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(a: %a, b: %b)
    irdl.results(result: %result)
  }
  irdl.operation @select {
    %condition = irdl.base "!builtin.tensor"
    %a = irdl.base "!builtin.tensor"
    %b = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(condition: %condition, a: %a, b: %b)
    irdl.results(result: %result)
  }
  irdl.operation @reshape {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %_shape = irdl.base "#builtin.dense_array"
    irdl.operands(x: %x)
    irdl.results(result: %result)
    irdl.attributes {"shape" = %_shape}
  }
  irdl.operation @transpose {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %_perm = irdl.base "#builtin.dense_array"
    irdl.operands(x: %x)
    irdl.results(result: %result)
    irdl.attributes {"perm" = %_perm}
  }
  irdl.operation @expand {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %_shape = irdl.base "#builtin.dense_array"
    irdl.operands(x: %x)
    irdl.results(result: %result)
    irdl.attributes {"shape" = %_shape}
  }
  irdl.operation @slice {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %_starts = irdl.base "#builtin.dense_array"
    %_steps = irdl.base "#builtin.dense_array"
    %_shape = irdl.base "#builtin.dense_array"
    irdl.operands(x: %x)
    irdl.results(result: %result)
    irdl.attributes {"starts" = %_starts, "steps" = %_steps, "shape" = %_shape}
  }
  irdl.operation @concat {
    %a = irdl.base "!builtin.tensor"
    %b = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %_axis = irdl.base "#builtin.integer"
    irdl.operands(a: %a, b: %b)
    irdl.results(result: %result)
    irdl.attributes {"axis" = %_axis}
  }
  irdl.operation @pad {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %_pads = irdl.base "#builtin.dense_array"
    %_mode = irdl.base "#builtin.string"
    %_fill = irdl.base "#builtin.float"
    irdl.operands(x: %x)
    irdl.results(result: %result)
    irdl.attributes {"pads" = %_pads, "mode" = %_mode, "fill" = %_fill}
  }
  irdl.operation @resize {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %_shape = irdl.base "#builtin.dense_array"
    %_scales = irdl.base "#builtin.dense_array"
    %_mode = irdl.base "#builtin.string"
    %_coordinates = irdl.base "#builtin.string"
    %_rounding = irdl.base "#builtin.string"
    %_cubic_a = irdl.base "#builtin.float"
    %_exclude_outside = irdl.base "#builtin.integer"
    irdl.operands(x: %x)
    irdl.results(result: %result)
    irdl.attributes {"shape" = %_shape, "scales" = %_scales, "mode" = %_mode,
                     "coordinates" = %_coordinates, "rounding" = %_rounding, "cubic_a" = %_cubic_a,
                     "exclude_outside" = %_exclude_outside}
  }
  irdl.operation @gather {
    %x = irdl.base "!builtin.tensor"
    %indices = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %_axis = irdl.base "#builtin.integer"
    irdl.operands(x: %x, indices: %indices)
    irdl.results(result: %result)
    irdl.attributes {"axis" = %_axis}
  }
  irdl.operation @gather_batched {
    %x = irdl.base "!builtin.tensor"
    %indices = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %_axis = irdl.base "#builtin.integer"
    irdl.operands(x: %x, indices: %indices)
    irdl.results(result: %result)
    irdl.attributes {"axis" = %_axis}
  }
  irdl.operation @scatter {
    %x = irdl.base "!builtin.tensor"
    %indices = irdl.base "!builtin.tensor"
    %updates = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %_mode = irdl.base "#builtin.string"
    irdl.operands(x: %x, indices: %indices, updates: %updates)
    irdl.results(result: %result)
    irdl.attributes {"mode" = %_mode}
  }
  irdl.operation @arg_sort {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %_axis = irdl.base "#builtin.integer"
    %_descending = irdl.base "#builtin.integer"
    irdl.operands(x: %x)
    irdl.results(result: %result)
    irdl.attributes {"axis" = %_axis, "descending" = %_descending}
  }
  irdl.operation @reduce_sum {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %_axes = irdl.base "#builtin.dense_array"
    %_keepdims = irdl.base "#builtin.integer"
    irdl.operands(x: %x)
    irdl.results(result: %result)
    irdl.attributes {"axes" = %_axes, "keepdims" = %_keepdims}
  }
  irdl.operation @reduce_mean {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %_axes = irdl.base "#builtin.dense_array"
    %_keepdims = irdl.base "#builtin.integer"
    irdl.operands(x: %x)
    irdl.results(result: %result)
    irdl.attributes {"axes" = %_axes, "keepdims" = %_keepdims}
  }
  irdl.operation @reduce_max {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %_axes = irdl.base "#builtin.dense_array"
    %_keepdims = irdl.base "#builtin.integer"
    irdl.operands(x: %x)
    irdl.results(result: %result)
    irdl.attributes {"axes" = %_axes, "keepdims" = %_keepdims}
  }
  irdl.operation @reduce_min {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %_axes = irdl.base "#builtin.dense_array"
    %_keepdims = irdl.base "#builtin.integer"
    irdl.operands(x: %x)
    irdl.results(result: %result)
    irdl.attributes {"axes" = %_axes, "keepdims" = %_keepdims}
  }
  irdl.operation @reduce_prod {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %_axes = irdl.base "#builtin.dense_array"
    %_keepdims = irdl.base "#builtin.integer"
    irdl.operands(x: %x)
    irdl.results(result: %result)
    irdl.attributes {"axes" = %_axes, "keepdims" = %_keepdims}
  }
  irdl.operation @arg_max {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %_axis = irdl.base "#builtin.integer"
    %_keepdims = irdl.base "#builtin.integer"
    %_last = irdl.base "#builtin.integer"
    irdl.operands(x: %x)
    irdl.results(result: %result)
    irdl.attributes {"axis" = %_axis, "keepdims" = %_keepdims, "last" = %_last}
  }
  irdl.operation @arg_min {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %_axis = irdl.base "#builtin.integer"
    %_keepdims = irdl.base "#builtin.integer"
    %_last = irdl.base "#builtin.integer"
    irdl.operands(x: %x)
    irdl.results(result: %result)
    irdl.attributes {"axis" = %_axis, "keepdims" = %_keepdims, "last" = %_last}
  }
  irdl.operation @softmax {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %_axis = irdl.base "#builtin.integer"
    irdl.operands(x: %x)
    irdl.results(result: %result)
    irdl.attributes {"axis" = %_axis}
  }
  irdl.operation @normalize {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %_axes = irdl.base "#builtin.dense_array"
    %_epsilon = irdl.base "#builtin.float"
    %_center = irdl.base "#builtin.integer"
    irdl.operands(x: %x)
    irdl.results(result: %result)
    irdl.attributes {"axes" = %_axes, "epsilon" = %_epsilon, "center" = %_center}
  }
  irdl.operation @matmul {
    %a = irdl.base "!builtin.tensor"
    %b = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    irdl.operands(a: %a, b: %b)
    irdl.results(result: %result)
  }
  irdl.operation @conv {
    %x = irdl.base "!builtin.tensor"
    %w = irdl.base "!builtin.tensor"
    %bias = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %_group = irdl.base "#builtin.integer"
    %_strides = irdl.base "#builtin.dense_array"
    %_dilations = irdl.base "#builtin.dense_array"
    %_pads = irdl.base "#builtin.dense_array"
    irdl.operands(x: %x, w: %w, bias: optional %bias)
    irdl.results(result: %result)
    irdl.attributes {"group" = %_group, "strides" = %_strides, "dilations" = %_dilations,
                     "pads" = %_pads}
  }
  irdl.operation @conv_transpose {
    %x = irdl.base "!builtin.tensor"
    %w = irdl.base "!builtin.tensor"
    %bias = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %_group = irdl.base "#builtin.integer"
    %_strides = irdl.base "#builtin.dense_array"
    %_dilations = irdl.base "#builtin.dense_array"
    %_pads = irdl.base "#builtin.dense_array"
    %_output_padding = irdl.base "#builtin.dense_array"
    irdl.operands(x: %x, w: %w, bias: optional %bias)
    irdl.results(result: %result)
    irdl.attributes {"group" = %_group, "strides" = %_strides, "dilations" = %_dilations,
                     "pads" = %_pads, "output_padding" = %_output_padding}
  }
  irdl.operation @max_pool {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %_kernel = irdl.base "#builtin.dense_array"
    %_strides = irdl.base "#builtin.dense_array"
    %_dilations = irdl.base "#builtin.dense_array"
    %_pads = irdl.base "#builtin.dense_array"
    %_ceil_mode = irdl.base "#builtin.integer"
    irdl.operands(x: %x)
    irdl.results(result: %result)
    irdl.attributes {"kernel" = %_kernel, "strides" = %_strides, "dilations" = %_dilations,
                     "pads" = %_pads, "ceil_mode" = %_ceil_mode}
  }
  irdl.operation @average_pool {
    %x = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %_kernel = irdl.base "#builtin.dense_array"
    %_strides = irdl.base "#builtin.dense_array"
    %_dilations = irdl.base "#builtin.dense_array"
    %_pads = irdl.base "#builtin.dense_array"
    %_ceil_mode = irdl.base "#builtin.integer"
    %_count_include_pad = irdl.base "#builtin.integer"
    irdl.operands(x: %x)
    irdl.results(result: %result)
    irdl.attributes {"kernel" = %_kernel, "strides" = %_strides, "dilations" = %_dilations,
                     "pads" = %_pads, "ceil_mode" = %_ceil_mode,
                     "count_include_pad" = %_count_include_pad}
  }
  irdl.operation @batch_norm {
    %x = irdl.base "!builtin.tensor"
    %scale = irdl.base "!builtin.tensor"
    %bias = irdl.base "!builtin.tensor"
    %mean = irdl.base "!builtin.tensor"
    %variance = irdl.base "!builtin.tensor"
    %result = irdl.base "!builtin.tensor"
    %_epsilon = irdl.base "#builtin.float"
    irdl.operands(x: %x, scale: %scale, bias: %bias, mean: %mean, variance: %variance)
    irdl.results(result: %result)
    irdl.attributes {"epsilon" = %_epsilon}
  }
}
