#!/bin/sh
# Models of the zoo: drawn ones run, absent ones compile and say what is missing.
# usage: zoo.sh WAFER
set -u
wafer=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
cd "$work" || exit 1

# expect STATUS TEXT COMMAND...: the exit code, and a text that is printed
expect() {
  status=$1 text=$2
  shift 2
  "$@" >out 2>&1
  got=$?
  if [ $got != "$status" ] || { [ -n "$text" ] && ! grep -q -- "$text" out; }; then
    echo "FAILED: $*: exit code $got, not $status, or no '$text' in:" >&2
    head -5 out >&2
    failed=1
  fi
}

small="--layers 2 --d-model 32 --heads 2 --vocab 50 --sequence 8"
expect 0 "parameters, drawn" "$wafer" zoo gpt $small --init 1 -o drawn.onnx
expect 0 "" "$wafer" compile drawn.onnx -q -o drawn.wplan --dim batch=1 --machine small64
expect 0 "" "$wafer" run drawn.wplan
for kind in "--position rotary --norm rms --activation swiglu --untied" "--parts 2 --parallel --position none"; do
  expect 0 "drawn" "$wafer" zoo gpt $small $kind --init 1 -o kind.onnx
  expect 0 "" "$wafer" compile kind.onnx -q -o kind.wplan --dim batch=2 --machine small64
done
expect 0 "drawn" "$wafer" zoo bert $small --init 1 --masked-head -o bert.onnx
expect 0 "" "$wafer" compile bert.onnx -q -o bert.wplan --dim batch=1 --machine small64

# Absent weights: the plan is small, can be dumped, and does not run.
expect 0 "absent" "$wafer" zoo gpt $small -o absent.onnx
expect 0 "" "$wafer" compile absent.onnx -q -o absent.wplan --dim batch=1 --machine small64
expect 0 "weights" "$wafer" dump absent.wplan
expect 2 "weight 'tokens.weight' .*expected in gpt.weights, bytes 0 to 6400" "$wafer" run absent.wplan

# A file where they were expected: the same model runs.
head -c 200000 /dev/zero >gpt.weights
expect 0 "" "$wafer" compile absent.onnx -q -o there.wplan --dim batch=1 --machine small64
expect 0 "" "$wafer" run there.wplan

# A layer far larger than the wafer's share of it streams in slices.
if [ "${2-}" != small ]; then
  expect 0 "6658404352 parameters" "$wafer" zoo gpt3-6.7b -o large.onnx
  expect 0 "" "$wafer" compile large.onnx -q -o large.wplan --dim batch=1 --dtype f16 --mode streaming
  [ "$(stat -c %s large.wplan)" -lt 10000000 ] || { echo "FAILED: large.wplan is large" >&2; failed=1; }
fi

# The edge's bytes of a micro-batch: gradients of 64 x 10 weights and 10 biases, in f32.
expect 0 "650 parameters" "$wafer" zoo mlp --widths 64,10 -o mlp.onnx
expect 0 "efficiency" "$wafer" scale mlp.onnx --loss cross-entropy --dtype f32 --json scale.json
expect 0 '"gradients_bytes":	2600' cat scale.json
expect 0 '"held_bytes"' cat scale.json

expect 1 "there is no model 'gpt5'" "$wafer" zoo gpt5 -o x.onnx
expect 1 "the heads do not divide" "$wafer" zoo gpt --layers 1 --d-model 10 --heads 3 -o x.onnx
expect 1 "wants absent" "$wafer" zoo gpt2 --weights there -o x.onnx
[ $failed = 0 ] && echo "zoo: ok"
exit $failed
