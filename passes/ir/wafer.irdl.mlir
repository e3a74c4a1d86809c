// The dialect `wafer`: where and when. docs/dialects.md says what each operation means; the encodings of
// holdings and routes are written and read by passes/ir/ir_wafer.c alone.
// Loads in stock MLIR: mlir-opt --irdl-file=wafer.irdl.mlir.
irdl.dialect @wafer {
  // Carries a value from one holding to another. The result is the value at `to`: hence one type.
  irdl.operation @stream {
    %type = irdl.base "!builtin.tensor"
    %from = irdl.base "#builtin.dense_array"
    %to = irdl.base "#builtin.dense_array"
    %route = irdl.base "#builtin.dense_array"
    %color = irdl.base "#builtin.integer"
    %words = irdl.base "#builtin.integer"
    %cycles = irdl.base "#builtin.integer"
    %latency = irdl.base "#builtin.integer"
    %depth = irdl.base "#builtin.integer"
    irdl.operands(value: %type)
    irdl.results(result: %type)
    irdl.attributes {"from" = %from, "to" = %to, "route" = %route, "color" = %color,
                     "words" = %words, "cycles" = %cycles, "latency" = %latency, "depth" = %depth}
  }
  // Brings the weights of a phase to their cores, ahead of it.
  irdl.operation @load {
    %phase = irdl.base "#builtin.integer"
    irdl.attributes {"phase" = %phase}
  }
  // Starts a phase: streams and calls up to the next one belong to it.
  irdl.operation @phase {
    %index = irdl.base "#builtin.integer"
    %name = irdl.base "#builtin.string"
    irdl.attributes {"index" = %index, "name" = %name}
  }
  // Ends every holding of a value on the wafer when its phase ends.
  irdl.operation @free {
    %type = irdl.base "!builtin.tensor"
    irdl.operands(value: %type)
  }
}
