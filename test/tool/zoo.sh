#!/bin/sh
# Models of the zoo: drawn ones run, absent ones compile and say what is missing.
# usage: zoo.sh WAFER
. "${0%/*}/../lib.sh"
wafer=$1
cd "$work" || exit 1


small="--layers 2 --d-model 32 --heads 2 --vocab 50 --sequence 8"
gives 0 "parameters, drawn" "$wafer" zoo gpt $small --init 1 -o drawn.onnx
gives 0 "" "$wafer" compile drawn.onnx -q -o drawn.wplan --dim batch=1 --machine small64
gives 0 "" "$wafer" run drawn.wplan
for kind in "--position rotary --norm rms --activation swiglu --untied" "--parts 2 --parallel --position none"; do
  gives 0 "drawn" "$wafer" zoo gpt $small $kind --init 1 -o kind.onnx
  gives 0 "" "$wafer" compile kind.onnx -q -o kind.wplan --dim batch=2 --machine small64
done
for position in learned rotary none; do
  gives 0 "drawn" "$wafer" zoo bert $small --init 1 --masked-head --position $position -o bert.onnx
  gives 0 "" "$wafer" compile bert.onnx -q -o bert.wplan --dim batch=1 --machine small64
done

# Absent weights: the plan is small, can be dumped, and does not run.
gives 0 "absent" "$wafer" zoo gpt $small -o absent.onnx
gives 0 "" "$wafer" compile absent.onnx -q -o absent.wplan --dim batch=1 --machine small64
gives 0 "weights" "$wafer" dump absent.wplan
gives 2 "weight 'tokens.weight' .*expected in gpt.weights, bytes 0 to 6400" "$wafer" run absent.wplan

# A file where they were expected: the same model runs.
head -c 200000 /dev/zero >gpt.weights
gives 0 "" "$wafer" compile absent.onnx -q -o there.wplan --dim batch=1 --machine small64
gives 0 "" "$wafer" run there.wplan

# A layer far larger than the wafer's share of it streams in slices.
if [ "${2-}" != small ]; then
  gives 0 "6658404352 parameters" "$wafer" zoo gpt3-6.7b -o large.onnx
  gives 0 "" "$wafer" compile large.onnx -q -o large.wplan --dim batch=1 --dtype f16 --mode streaming
  [ "$(stat -c %s large.wplan)" -lt 10000000 ] || fail "large.wplan is large"
fi

# A table whose gradient the wafer has no room to make row by row: it is one product, with the losses of a wafer with room.
gives 0 "drawn" "$wafer" zoo gpt --layers 1 --d-model 128 --heads 2 --vocab 1400 --sequence 16 --init 1 -o table.onnx
octal 600 'i * i * 7 % 251' | npy tokens.npy '|u1' '(600,)'
for machine in small16 small64; do
  gives 0 "" "$wafer" train table.onnx --execution streaming --machine $machine --data tokens.npy --lm --loss cross-entropy \
    --steps 3 --batch 2 --optimizer adam --metrics $machine.jsonl -q
  sed -n 's/.*"loss":\([-+.e0-9]*\).*/\1/p' $machine.jsonl >$machine.loss
done
paste small16.loss small64.loss | awk '{ d = $1 - $2; if (d * d > 1e-10 * $1 * $1) bad = 1 } END { exit bad || NR != 3 }' ||
  fail "losses of a table as one product: $(paste small16.loss small64.loss)"

# Weights that several rows apart want take a word a cycle down the columns: shapes, and when weights leave MemoryX, know
# of it. It took 86,631 cycles before they did.
gives 0 "" "$wafer" zoo gpt --layers 1 --d-model 64 --heads 4 --vocab 256 --sequence 64 --init 1 -q -o apart.onnx
gives 0 "" "$wafer" compile apart.onnx -q -o apart.wplan --mode streaming --dim batch=4 --report apart.json
python3 -c "import json; assert json.load(open('apart.json'))['interval_cycles'] < 30000" || fail "weights come late"

# The edge's bytes of a micro-batch: gradients of 64 x 10 weights and 10 biases, in f32.
gives 0 "650 parameters" "$wafer" zoo mlp --widths 64,10 -o mlp.onnx
gives 0 "efficiency" "$wafer" scale mlp.onnx --loss cross-entropy --dtype f32 --json scale.json
gives 0 '"gradients_bytes":	2600' cat scale.json
gives 0 '"held_bytes"' cat scale.json
gives 0 "inputs in 140 B, gradients out 1.300 kB" "$wafer" scale mlp.onnx --loss cross-entropy --machine small64
gives 0 "" "$wafer" compile mlp.onnx -o sizes.wplan --machine wse2 --mode pipelined --dim batch=1..2 # of one band each
gives 0 "" "$wafer" compile mlp.onnx -o sizes.wplan --machine small16 --dim batch=1..2
for tool in run check; do # crashed
  gives 1 "has no one shape that random values could be of" "$wafer" $tool sizes.wplan
done
gives 0 "4 of 8 systems have no micro-batch" "$wafer" scale mlp.onnx --loss cross-entropy --systems 1..8 --global-batch 4
"$wafer" zoo cnn --widths 1,16,32,10 --side 16 -o wide.onnx -q || fail "zoo cnn"
for batch in 8 64 4096; do # the largest that fits, and the next one, whatever else divides the batch
  words="micro-batch 8, 16 does not fit"
  [ $batch -eq 8 ] && words="micro-batch 8, no larger"
  gives 0 "$words" "$wafer" scale wide.onnx --loss cross-entropy --machine small16 --batch $batch
done
gives 1 "it is N or A..B" "$wafer" scale mlp.onnx --loss cross-entropy --systems 1,16
gives 1 "it is N or A..B" "$wafer" scale mlp.onnx --loss cross-entropy --systems 2..
gives 1 "give one of them" "$wafer" scale mlp.onnx --loss cross-entropy --batch 4 --global-batch 8
gives 1 "--batch 4 is no multiple of --micro-batch 3" "$wafer" scale mlp.onnx --loss cross-entropy --batch 4 --micro-batch 3
gives 0 "micro-batch 1," "$wafer" scale mlp.onnx --loss cross-entropy --global-batch 9 --systems 5 # its share, 2, divides it not

gives 1 "there is no model 'gpt5'" "$wafer" zoo gpt5 -o x.onnx
gives 1 "3 heads do not divide a width of 10" "$wafer" zoo gpt --layers 1 --d-model 10 --heads 3 -o x.onnx
# What would change nothing is refused.
gives 1 "--side changes nothing of gpt2: it is of cnn" "$wafer" zoo gpt2 --side 4 -o x.onnx
gives 1 "--layers changes nothing of mlp: it is of gpt, bert" "$wafer" zoo mlp --widths 8,3 --layers 4 -o x.onnx
gives 1 "--masked-head changes nothing of gpt: it is of bert" "$wafer" zoo gpt $small --masked-head -o x.onnx
gives 1 "--rotary-dims goes with --position rotary" "$wafer" zoo gpt2 --rotary-dims 8 -o x.onnx
gives 1 "--positions goes with --position learned" "$wafer" zoo llama-7b --positions 4096 -o x.onnx
gives 1 "--untied of bert goes with --masked-head" "$wafer" zoo bert $small --untied -o x.onnx
gives 0 "30162 parameters" "$wafer" zoo bert $small --masked-head --untied -o x.onnx
gives 1 "contradict each other" "$wafer" zoo gpt2 --weights absent --init 1 -o x.onnx
gives 1 "wants absent" "$wafer" zoo gpt2 --weights there -o x.onnx
finish "zoo: ok"
