#!/bin/sh
# What `wafer scale` predicts for a step against what `wafer train` counts, on 1, 2, 4 and 8 systems: at most 5 %.
# usage: train_cycles.sh WAFER
. "${0%/*}/../lib.sh"
wafer=$1
cd "$work" || exit 1

octal 512 'i * 7 % 11' | npy mlp.x.npy '|u1' '(32, 16)'
octal 32 'i % 5' | npy mlp.y.npy '|u1' '(32,)'
octal 2048 'i * i % 13' | npy cnn.x.npy '|u1' '(32, 1, 8, 8)'
octal 32 'i % 10' | npy cnn.y.npy '|u1' '(32,)'
octal 300 'i * i % 32' | npy gpt.tokens.npy '|u1' '(300,)'
"$wafer" zoo mlp --widths 16,32,5 -o mlp.onnx -q
"$wafer" zoo cnn --widths 1,8,16,10 -o cnn.onnx -q
"$wafer" zoo gpt --layers 2 --d-model 16 --heads 2 --vocab 32 --sequence 8 --init 1 -o gpt.onnx -q

# NET LABEL DATA OPTION...: a step of 16 samples. Updates at once, and after all gradients.
compare() {
  net=$1 data=$2 batch=$3 options=$4 axis=$5
  "$wafer" scale $net.onnx --loss cross-entropy $axis --systems 1..8 --global-batch 16 --micro-batch "$batch" \
    --dtype f32 $options --csv $net.csv >/dev/null || fail "scale $net"
  for n in 1 2 4 8; do
    "$wafer" train $net.onnx --data $data --loss cross-entropy --optimizer adam --steps 1 --batch 16 \
      --micro-batch "$batch" --execution streaming --systems $n $options --metrics $net.$n.jsonl -q || fail "$net on $n"
    counted=$(sed -n 's/.*"cycles":\([0-9]*\).*/\1/p' $net.$n.jsonl)
    awk -F, -v n=$n -v counted="${counted:-0}" -v what="$net $options" '
      NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i }
      $column["systems"] == n {
        seen = 1; off = counted > 0 ? $column["step_cycles"] / counted - 1 : 1
        printf "%s, %d systems: predicted %d, counted %d, %+.3f %%\n", what, n, $column["step_cycles"], counted, 100 * off
        if (off > 0.05 || off < -0.05) exit 1
      }
      END { exit !seen }' $net.csv || fail "$net on $n systems $options"
  done
}
compare mlp mlp.x.npy,mlp.y.npy 1 "" ""
compare mlp mlp.x.npy,mlp.y.npy 2 "--clip-norm 1" ""
compare cnn cnn.x.npy,cnn.y.npy 1 "" ""
compare gpt "gpt.tokens.npy --lm" 1 "" "--class-axis -1"
compare gpt "gpt.tokens.npy --lm" 1 "--weight-servers 3" "--class-axis -1"

# Six micro-batches on four systems: sums that are no siblings climb apart; which is not in the prediction.
"$wafer" train mlp.onnx --data mlp.x.npy,mlp.y.npy --loss cross-entropy --optimizer adam --steps 1 --batch 6 \
  --micro-batch 1 --execution streaming --systems 4 >six || fail "six micro-batches"
says six 'cycles as counted'
finish "cycles of a step: ok"
