#!/bin/sh
# Options that change nothing in a plan are accepted with a word, and it is true: the plan is the one without them.
# usage: unread.sh WAFER SOURCE
. "${0%/*}/../lib.sh"
wafer=$1 source=$2
cd "$work" || exit 1
"$wafer" zoo mlp --widths 64,32,10 -o net.onnx -q || fail "zoo"

# says_so WORDS OPTION...: beside the options in $with
says_so() {
  words=$1
  shift
  # shellcheck disable=SC2086
  "$wafer" compile net.onnx -q --dim batch=4 $with -o base.wplan 2>base.err || fail "compile $with: $(head -1 base.err)"
  # shellcheck disable=SC2086
  "$wafer" compile net.onnx -q --dim batch=4 $with -o other.wplan "$@" 2>err || { fail "$with $*: $(head -1 err)"; return; }
  cmp -s base.wplan other.wplan || fail "$with $*: another plan"
  says err "$words"
  grep -qF -- "$words" base.err && fail "$with: says '$words' without $*"
}
with="--train --loss cross-entropy --machine small64"
says_so "--optimizer changed nothing: in weight streaming" --optimizer adam
says_so "--objective latency changed nothing" --objective latency
says_so "--relays none changed nothing" --relays none
with="--train --loss mse --machine small64"
says_so "--class-axis changed nothing: loss mse has no classes" --class-axis 1
says_so "--ignore-index changed nothing" --ignore-index 3
with="--train --loss mse --machine small64 --evaluate"
says_so "--recompute changed nothing" --recompute all
with="--train --loss mse --machine small64 --evaluate --mode pipelined"
says_so "--optimizer changed nothing: --evaluate" --optimizer adam
with="--train --loss cross-entropy --machine small64 --mode pipelined"
says_so "--programs always: the plan has none: made when they are needed" --programs always
with="--train --loss mse --mode pipelined"
says_so "--sides changed nothing: this pipeline has one band" --sides 2

with="--machine small64"
says_so "--sparse-shapes changed nothing" --sparse-shapes fast

# What is heeded says nothing.
"$wafer" compile net.onnx -q --dim batch=4 -o p.wplan --train --loss cross-entropy --class-axis -1 --ignore-index 3 \
  --optimizer adam --mode pipelined --machine small64 2>err || fail "compile: $(head -1 err)"
[ ! -s err ] || fail "a warning without reason: $(cat err)"

# `wafer scale` has no use for two options of a training plan: it took the one, and failed at the other without a word.
gives 1 "a step that trains is what is scaled" "$wafer" scale net.onnx --loss mse --evaluate
gives 1 "--state-bytes says" "$wafer" scale net.onnx --loss mse --optimizer adam
gives 0 "--class-axis changed nothing" "$wafer" scale net.onnx --loss mse --class-axis 1 --systems 1
octal 1024 'i % 50' | npy x.npy '<f4' '(4, 64)'
octal 160 0 | npy y.npy '<f4' '(4, 10)'
gives 0 "--ignore-index changed nothing" "$wafer" train net.onnx --data x.npy,y.npy --loss mse --ignore-index 3 --steps 1 \
  --batch 4 --compile-only --machine small64
# A pipeline that can have no programs says what refuses it: nobody knew before `wafer check` failed.
steps=$source/test/data/steps.onnx
"$wafer" compile "$steps" -q -o none.wplan 2>err || fail "steps: $(head -1 err)"
says err "\`wafer check\` and \`wafer run --fidelity fabric\` refuse it; with --mode streaming there may be some"
gives 4 "no programs for fabric fidelity" "$wafer" check none.wplan
"$wafer" compile "$steps" -q -o some.wplan --machine small64 --mode pipelined 2>err || fail "steps: $(head -1 err)"
grep -q "refuse it" err && fail "a pipeline with programs has none: $(cat err)"
gives 0 "^total" "$wafer" check some.wplan
finish "unread: ok"
