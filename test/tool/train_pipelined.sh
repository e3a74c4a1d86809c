#!/bin/sh
# Training with weights that stay on the wafer: losses and checkpoints are those of streaming, for every optimizer that
# cores have and for replicas; what a step takes is said; gradients have no stream to the edge; the rest is refused by name.
# usage: train_pipelined.sh WAFER
. "${0%/*}/../lib.sh"
wafer=$1
cd "$work" || exit 1

octal 768 '(i * 7 + i % 16 * (i % 16) * 3) % 9' | npy x.npy '|u1' '(48, 16)'
octal 48 'i * i % 5' | npy y.npy '|u1' '(48,)'
octal 768 '(i * 5 + i % 16 * 3) % 7' | npy images.npy '|u1' '(48, 1, 4, 4)'
"$wafer" zoo mlp --widths 16,24,5 --init 1 -o mlp.onnx -q || fail "zoo mlp"
"$wafer" zoo cnn --widths 1,4,6,5 --side 4 --init 1 -o cnn.onnx -q || fail "zoo cnn"

# train MODEL DATA FOLDER OPTIONS...
train() {
  model=$1 data=$2 folder=$3
  shift 3
  timeout 400 "$wafer" train "$model.onnx" --data "$data.npy,y.npy" --loss cross-entropy --batch 24 --steps 8 \
    --machine small64 --threads 1 --checkpoint "$folder" --metrics "$folder.jsonl" -q "$@" || fail "$folder: training"
}
# The losses of two runs, step by step, within 1e-5.
close() {
  sed -n 's/.*"loss":\([-+.e0-9]*\).*/\1/p' "$1.jsonl" >a
  sed -n 's/.*"loss":\([-+.e0-9]*\).*/\1/p' "$2.jsonl" >b
  [ "$(wc -l <a)" = 8 ] || fail "$1: no 8 losses"
  paste a b | awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 1e-5 * $1) bad = 1 } END { exit bad || NR != 8 }' ||
    fail "$1 and $2: losses differ: $(paste a b)"
}
for optimizer in sgd momentum adam adamw; do
  train mlp x "s-$optimizer" --execution streaming --optimizer $optimizer --lr 0.01 --weight-decay 0.01 --clip-norm 1
  train mlp x "p-$optimizer" --execution pipelined --optimizer $optimizer --lr 0.01 --weight-decay 0.01 --clip-norm 1
  close "s-$optimizer" "p-$optimizer"
  diff -r "s-$optimizer" "p-$optimizer" >/dev/null || fail "$optimizer: other checkpoints"
done
train cnn images s-cnn --execution streaming --optimizer adam
train cnn images p-cnn --execution pipelined --optimizer adam
close s-cnn p-cnn
train cnn images r-cnn --execution pipelined --optimizer adam --placer best --replicas 4 2>note
close s-cnn r-cnn
train mlp x s-half --execution streaming --optimizer adam --dtype f16 2>note
train mlp x p-half --execution pipelined --optimizer adam --dtype f16 2>note
close s-half p-half

# Stopped in one, gone on with in the other.
train mlp x mixed --execution pipelined --optimizer adam --steps 3
train mlp x mixed --execution streaming --optimizer adam --resume
train mlp x whole --execution streaming --optimizer adam
diff -r mixed/step-00000008 whole/step-00000008 >/dev/null || fail "resumed in the other execution: other bytes"

# What a step takes adds up, and is less than streaming's: auto takes it.
costs() { "$wafer" train mlp.onnx --loss cross-entropy --batch 24 --machine small64 --optimizer adam --compile-only "$@"; }
costs --execution pipelined >cost || fail "--compile-only"
sed -n 's/.*a step is \([0-9]*\) cycles: train \([0-9]*\), gather \([0-9]*\), norm \([0-9]*\), control \([0-9]*\), update \([0-9]*\), send \([0-9]*\)$/\1 \2 \3 \4 \5 \6 \7/p' cost >parts
awk '{ if ($1 != $2 + $3 + $4 + $5 + $6 + $7 || $4 == 0 || $6 == 0 || $7 == 0) exit 1; n++ } END { exit n != 1 }' parts || fail "parts of a step: $(cat cost)"
grep -Eq 'pipeline of [0-9]+ cores: a micro-batch every [0-9]+ cycles' cost || fail "no cores, no interval: $(cat cost)"
costs --execution streaming >slow || fail "--compile-only, streaming"
[ "$(cut -d' ' -f1 parts)" -lt "$(sed -n 's/.*a step is \([0-9]*\) .*/\1/p' slow)" ] || fail "streaming is faster: $(cat slow)"
# The search finds a shorter interval, and no shorter step: what the replicas' sums and weights take counts.
costs --execution pipelined --placer best >best 2>note || fail "--compile-only --placer best"
[ "$(sed -n 's/.*a step is \([0-9]*\) .*/\1/p' best)" -le "$(cut -d' ' -f1 parts)" ] || fail "--placer best is slower: $(cat best)"
"$wafer" compile mlp.onnx -o best.wplan --train --loss cross-entropy --micro-batch 4 --machine small64 --mode pipelined \
  --placer best >best 2>note || fail "compile --train --placer best: $(cat note)"
grep -Eq '^placer: .* for 8 micro-batches by core programs' best || fail "placers of a step are not compared: $(grep placer best)"
costs >auto || fail "--execution auto"
cmp -s cost auto || fail "auto is neither: $(cat auto)"
costs --systems 2 | grep -q 'streaming:' || fail "auto on two systems"

# The plan and its report: sums and state among a core's bytes, no stream of a gradient.
"$wafer" compile mlp.onnx --train --loss cross-entropy --micro-batch 4 --mode pipelined --optimizer momentum \
  --machine small64 --report r.json -o p.wplan >report || fail "compile"
grep -q 'weights stay on the wafer: momentum once a batch' report || fail "report: $(cat report)"
grep -q '"update_cycles"' r.json && grep -q '"sent_words"' r.json || fail "report as JSON"
"$wafer" dump p.wplan >dump
grep -q 'updates by momentum where gradients are added up' dump || fail "dump says nothing of the update"
grep -q 'gradient gradient:logits.weight: .*edge' dump && fail "a gradient goes to the edge"
"$wafer" dump p.wplan --certificate >certificate || fail "certificate: $(cat certificate)"

# Emulated cores add up what micro-batches give: sums close to the tree's, and cycles close to those predicted, without
# replicas and with them, where some have a micro-batch less than others.
"$wafer" zoo gpt --layers 1 --d-model 8 --heads 2 --vocab 8 --sequence 4 --norm rms --bias none --activation relu \
  --init 1 -o gpt.onnx -q || fail "zoo gpt"
# cores MODEL SAMPLES OPTIONS...
cores() {
  model=$1 samples=$2
  shift 2
  "$wafer" compile "$model.onnx" --train --loss cross-entropy --mode pipelined --machine small64 -q -o c.wplan "$@" \
    2>note || fail "$model, $*: $(cat note)"
  "$wafer" check c.wplan --samples "$samples" --mean 4 >check || fail "$model, $*: $(tail -20 check)"
  [ "$(grep -c 'output gradient:' check)" -gt 3 ] || fail "$model, $*: no gradients"
  # Then they update the weights as MemoryX does, and send them to whoever reads them.
  grep -q 'weights differ by 0 of the largest' check || fail "$model, $*: $(grep '^update' check)"
  [ "$(grep -c 'gradient:.* after the update: differs' check)" -gt 3 ] || fail "$model, $*: no second train"
  # Before that the squares of their sums left the wafer: clipping and the loss scale want to know.
  grep -Eq '^step  *norm .*%  *[0-9]\.?[0-9]*e-0[6-9]' check || fail "$model, $*: no norm: $(grep '^step' check)"
}
cores mlp 1 --micro-batch 4 --optimizer sgd
cores mlp 8 --micro-batch 4 --optimizer adam
cores mlp 8 --micro-batch 4 --optimizer adam --dtype f16
cores mlp 7 --micro-batch 4 --optimizer momentum --placer best --replicas 2 --place-moves 2000000
grep -q '^step  *gather' check || fail "sums of replicas do not come together"
cores mlp 6 --micro-batch 4 --optimizer adamw --dtype f16 --placer best --replicas 2 --place-moves 2000000
cores cnn 5 --micro-batch 4 --optimizer adam
cores cnn 7 --micro-batch 4 --optimizer sgd --placer best --replicas 3 --place-moves 2000000
cores gpt 4 --micro-batch 1 --dim batch=1 --class-axis -1 --optimizer adam
# Streams that want more colours than there are leave their lines, and share some.
cores mlp 4 --micro-batch 4 --optimizer adam --placer best --replicas 4 --place-moves 2000000
"$wafer" zoo gpt --layers 1 --d-model 16 --heads 2 --vocab 32 --sequence 8 --init 1 -o gpt.onnx -q || fail "zoo gpt"
cores gpt 2 --micro-batch 1 --dim batch=1 --class-axis -1 --optimizer adam
# Several cores send on them, in turn: lines alike share them.
cores gpt 1 --micro-batch 2 --dim batch=2 --class-axis -1 --optimizer sgd
"$wafer" zoo gpt --layers 2 --d-model 16 --heads 2 --vocab 32 --sequence 8 --init 1 -o gpt.onnx -q || fail "zoo gpt"
cores gpt 1 --micro-batch 1 --dim batch=1 --class-axis -1 --optimizer sgd

# Kernels of both passes take a sparse weight in different forms; what belongs to its zeros has no gradient.
"$wafer" zoo mlp --widths 64,64,8 -o zeros.onnx -q || fail "zoo mlp"
"$wafer" compile zeros.onnx --train --loss cross-entropy --mode pipelined --machine small64 -q -o c.wplan --micro-batch 4 \
  --sparsity 0.9 --optimizer adam 2>note || fail "zeros: $(cat note)"
"$wafer" check c.wplan --samples 4 --mean 4 >check || fail "zeros: $(tail -20 check)"
[ "$(grep -c 'output gradient:' check)" = 4 ] || fail "zeros: no gradients"
grep -q '^update:' check && fail "zeros: an update without programs"

# The gradient of the bias of attention's keys is zero but for rounding: it is compared with the terms that cancel. A
# bit of it that is wrong is found all the same, and one of the last digits when nothing may be.
"$wafer" zoo gpt --layers 1 --d-model 8 --heads 2 --vocab 8 --sequence 4 --init 1 -o keys.onnx -q || fail "zoo gpt"
for mode in pipelined streaming; do
  "$wafer" compile keys.onnx --train --loss cross-entropy --mode $mode --machine small64 -q -o keys.wplan --micro-batch 1 \
    --dim batch=1 --class-axis -1 --optimizer adam 2>note || fail "keys, $mode: $(cat note)"
  for samples in 1 5; do
    gives 0 "gradient:.*key.bias: differs" "$wafer" check keys.wplan --samples $samples
    gives 6 "key.bias: differs .* too much" "$wafer" check keys.wplan --samples $samples --tol 1e-9
  done
  [ $mode = pipelined ] || continue
  for one in $("$wafer" dump keys.wplan --json | tr -d ' \t\n' | grep -o '"name":"[^"]*attention.key.backward[_0-9]*","family":"move"' | cut -d'"' -f4); do
    "$wafer" dump keys.wplan --program "$one" >program
    grep -q 'add .*f32@.*load' program && break
  done
  at=$(sed -n "s/.* cores at \([0-9]*,[0-9]*\);.*/\1/p" program)
  sum=$(sed -n 's/^ *add \[[0-9]*\] f32@\([0-9]*\)(.*/\1/p' program)
  gives 6 "key.bias: differs .* too much" "$wafer" check keys.wplan --samples 2 --fault flip@$at,$((sum + 3)),6,20000
done

# Refused, by name and with a way out.
refused() { code=$1 text=$2; shift 2; gives "$code" "$text" "$wafer" "$@"; }
for optimizer in nesterov adagrad rmsprop lion adafactor; do
  refused 3 "pipelined with --optimizer $optimizer: .*--execution streaming" train mlp.onnx --loss cross-entropy \
    --optimizer $optimizer --execution pipelined --compile-only
  "$wafer" train mlp.onnx --loss cross-entropy --optimizer $optimizer --compile-only | grep -q 'streaming:' ||
    fail "auto with $optimizer"
done
refused 3 'lion is none of the optimizers' compile mlp.onnx --train --loss cross-entropy --micro-batch 4 --mode pipelined \
  --optimizer lion -o no.wplan
refused 3 'pipelined with --systems 2: .*--execution streaming' train mlp.onnx --loss cross-entropy --systems 2 \
  --execution pipelined --compile-only
"$wafer" zoo mlp --widths 64,512,512,10 --init 1 -o large.onnx -q
refused 4 'pipelined does not fit small16' train large.onnx --loss cross-entropy --execution pipelined --machine small16 --compile-only

finish "train_pipelined: ok"
