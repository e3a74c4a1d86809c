#!/bin/sh
# Models at fabric fidelity, against kernel fidelity: values, and predicted cycles against counted ones.
# usage: fabric.sh WAFER SOURCE MODELS all|small; MODELS is the folder of real models, left out where it is not there
. "${0%/*}/../lib.sh"
wafer=$1 source=$2 models=$3 which=$4
passed=0
# compares NAME MODE "compile options" "check options" MODEL
compares() {
  # shellcheck disable=SC2086
  "$wafer" compile "$5" -q -o "$work/p.wplan" --mode "$2" $3 2>"$work/err" ||
    { fail "$1, $2: $(head -1 "$work/err")"; return; }
  # shellcheck disable=SC2086
  if "$wafer" check "$work/p.wplan" -q $4 >"$work/out" 2>&1; then
    passed=$((passed + 1))
  else
    fail "$1, $2: $(tail -4 "$work/out")"
  fi
}
data=$source/test/data
for mode in streaming pipelined; do
  for machine in wse2 small64; do
    compares small_cnn $mode "--machine $machine" "" "$data/small_cnn.onnx"
    compares attention $mode "--machine $machine --dim batch=1 --dim sequence=12" "" "$data/attention.onnx"
  done
  compares small_cnn-f16 $mode "--dtype f16" "" "$data/small_cnn.onnx"
done
# Weights that multiply what the order of f32 sums leaves: both fidelities add up taps, then channels, then the bias, then
# the parts of channels that are cut, so convolutions are equal to the last bit however they are cut. But for filters of
# groups, on hosts without AVX-512: the library begins them with the bias there.
tol=1e-5 grouped=1e-5
grep -q ' fma' /proc/cpuinfo 2>/dev/null && tol=1e-9
grep -q ' avx512bw' /proc/cpuinfo 2>/dev/null && grouped=1e-9
for mode in streaming pipelined; do
  for machine in small16 small64 wse1 wse2 wse3; do
    compares steep $mode "--machine $machine" "--tol $grouped" "$data/steep.onnx"
    compares skips $mode "--machine $machine" "--tol $tol" "$data/skips.onnx"
  done
done
# Samples that are resident together; with 64 of them most inputs pass through two buffers.
compares small_cnn-3-samples streaming "--machine small64 --batch 3" "--mean 10 --total 5" "$data/small_cnn.onnx"
# Side by side in stripes, alone and in bands; then with two in each, then a round that is not full.
for batch in 4 16; do
  compares small_cnn-stripes streaming "--machine small64 --batch $batch --bands 1" "--mean 10 --total 7" "$data/small_cnn.onnx"
  "$wafer" dump "$work/p.wplan" | grep -q "side by side in $batch stripes" || fail "no stripes with $batch samples"
  compares small_cnn-bands streaming "--machine small64 --batch $batch" "--mean 10 --total 5" "$data/small_cnn.onnx"
  "$wafer" dump "$work/p.wplan" | grep -q "side by side in 2 bands of 32 rows, each in $((batch / 2)) stripes" || fail "no bands with $batch samples"
done
compares small_cnn-stripes streaming "--machine small64 --batch 4" "--total 7 --samples 7" "$data/small_cnn.onnx"
# An output that leaves early lets those of later samples through, before the late one of its own; words that come while
# their core computes hold up those behind them.
for edge in "" "--edge-gbps inf"; do
  compares early pipelined "--machine small16 --placer shelf $edge" "--mean 10 --total 5 --samples 24" "$data/early.onnx"
done
# A value that several kernels take is sent once to all of them: sent to each, 431 and 170 cycles a sample.
for dtype in f32 f16; do
  compares split pipelined "--machine small64 --edge-gbps inf --dtype $dtype --report $work/split.json" "--total 5 --samples 24" "$data/split.onnx"
  interval=$(sed -n 's/.*"interval_cycles":[^0-9]*\([0-9]*\).*/\1/p' "$work/split.json" | head -1)
  [ "$interval" -lt "$([ $dtype = f32 ] && echo 425 || echo 165)" ] || fail "split, $dtype: $interval cycles a sample"
done
# Streams of one value to many readers share colours: with one for each, none were left for what these make.
compares steps pipelined "--machine small64" "--total 8" "$data/steps.onnx"
# A train's code and what its cores hold fit beside each other; words came to addresses that code had.
for memory in 8960 14592; do
  sed "s/bytes=\"16384\"/bytes=\"$memory\"/" "$source/runtime/machines/small16.xml" >"$work/tight.xml"
  dtype=f32 && [ $memory = 8960 ] && dtype=f16
  compares tight-$memory pipelined "--machine $work/tight.xml --edge-gbps inf --dtype $dtype --sparsity 0.9 --bands 1 --programs always" "--total 6 --samples 2" "$data/split.onnx"
done
# Heads share a phase: its kernels are one launch, and what they make follows each other over the border.
"$wafer" zoo bert --layers 1 --d-model 32 --heads 2 --vocab 64 --sequence 16 --init 1 -q -o "$work/bert.onnx"
# Means of normalized rows are near zero: the order of their sums shows (3.3e-5), phases shared or not.
compares shared-phase streaming "--dim batch=1" "--total 5 --tol 1e-4" "$work/bert.onnx"
"$wafer" dump "$work/p.wplan" | grep -q " more" || fail "no phase of several kernels"
# With few colours, of which lines alike share some, they run in parts, one behind the other.
sed 's/ colors="[0-9]*"/ colors="4"/' "$source/runtime/machines/small64.xml" >"$work/few.xml"
compares shared-phase-in-parts streaming "--machine $work/few.xml --dim batch=1 --programs always" "--total 5 --tol 1e-4" "$work/bert.onnx"
unzip -p "$work/p.wplan" plan.xml | grep '<launch kind="action"' | sed 's/ program=.*//' | sort | uniq -d | grep -q . ||
  fail "no kernels in parts"
"$wafer" zoo mlp --widths 256,512,512,16 --batch 1 -q -o "$work/mlp.onnx"
compares mlp-64-samples streaming "--machine small16 --batch 64" "--mean 10 --total 5" "$work/mlp.onnx"
# Replicas share out the samples of a train, also where their numbers differ: seven samples after a round of six.
for replicas in 2 3; do
  compares small_cnn-$replicas-replicas pipelined \
    "--machine small64 --bands 1 --edge-gbps inf --placer best --place-moves 100000 --replicas $replicas --programs always" \
    "--mean 10 --total 5 --samples 13" "$data/small_cnn.onnx"
  # Fewer samples than replicas: those that none comes to give nothing out.
  "$wafer" check "$work/p.wplan" --samples 1 -q >"$work/out" || fail "$replicas replicas, a sample: $(tail -4 "$work/out")"
done
# Values that skip kernels: words wait in the queues on their way, and on links that others use. With rooms for such
# values a sample by itself does not wait for others that go ahead, as the first of a train does: 3.1 % too many once.
compares skips pipelined "--machine small16" "--total 2" "$data/skips.onnx"
compares skips pipelined "--machine small16" "--total 4 --samples 16" "$data/skips.onnx"
compares skips pipelined "--machine small64 --bands 1" "--mean 10 --total 7 --samples 16" "$data/skips.onnx"
"$wafer" zoo gpt --layers 2 --d-model 32 --heads 2 --vocab 64 --sequence 16 --init 1 --batch 1 -q -o "$work/gpt.onnx"
compares gpt-train pipelined "--machine small64" "--mean 10 --total 6 --samples 16" "$work/gpt.onnx"
# A micro-batch forward and backward; gradients of a pipeline are read where they stay.
"$wafer" zoo mlp --widths 64,48,10 -q -o "$work/mlp.onnx"
for mode in streaming pipelined; do
  compares mlp-training $mode "--machine small64 --train --loss cross-entropy --micro-batch 4" "--total 5" "$work/mlp.onnx"
done
if [ "$which" = small ]; then
  echo "fabric fidelity: $passed passed, $failures failed"
  [ $failures = 0 ]
  exit
fi
face=$source/models/blazeface-front
for mode in streaming pipelined; do
  compares blazeface-front $mode "" "--mean 10 --total 5 --input input:0=$face/astronaut/in_input_0.npy" \
    "$face/face_detection_front_128x128_barracuda.onnx"
done
# Neighbours of a pipeline meet: a search for another layout must not lose that (cycles of the programs, of which the
# slowest kernel's cores alone computed as long as the edge takes for a sample, 1,442, before and 20,353 in all).
for placer in shelf best; do
  "$wafer" compile "$face/face_detection_front_128x128_barracuda.onnx" -q -o "$work/p.wplan" --mode pipelined \
    --placer $placer --place-moves 100000 --report "$work/$placer.json" 2>"$work/err" || fail "$(head -1 "$work/err")"
  cycles=$(sed -n 's/.*"interval_cycles":[^0-9]*\([0-9]*\).*/\1/p' "$work/$placer.json" | head -1)
  [ "${cycles:-999999}" -le 6000 ] && passed=$((passed + 1)) || fail "blazeface-front, --placer $placer: interval ${cycles}"
done
if [ -d "$models" ]; then
  r=$models/silero-vad/ref-op18_ifless
  for mode in streaming pipelined; do
    compares silero $mode "--shape input=1x576 --shape state=2x1x128 --bind sr=$r/in_sr.npy" \
      "--mean 10 --total 5 --input input=$r/in_input.npy --input state=$r/in_state.npy" \
      "$models/silero-vad/silero_vad_op18_ifless.onnx"
    # Three replicas: their streams share colours, and the model says less of who waits for whom.
    [ $mode = streaming ] || compares silero-3-replicas $mode "--shape input=1x576 --shape state=2x1x128 \
      --bind sr=$r/in_sr.npy --placer best --place-moves 100000 --replicas 3 --programs always" \
      "--mean 10 --total 6 --samples 7" "$models/silero-vad/silero_vad_op18_ifless.onnx"
    compares ppocr-cls $mode "--shape x=1x3x48x192" \
      "--mean 10 --total 5 --input x=$models/ppocr-cls/ref-text192/in_x.npy" \
      "$models/ppocr-cls/ch_ppocr_mobile_v2.0_cls_infer.onnx"
  done
fi
echo "fabric fidelity: $passed passed, $failures failed"
[ $failures = 0 ]
