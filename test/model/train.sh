#!/bin/sh
# Training a net of 212 weights: the same bytes for every number of systems, servers and threads; resumed, killed,
# with a damaged checkpoint, on a full disk; evaluated, exported; settings from a file; what is wrong is said.
# usage: train.sh WAFER SOURCE KILLS
. "${0%/*}/../lib.sh"
wafer=$1
source=$2
kills=$3
cd "$work" || exit 1

octal 512 'i % 8 ? (i * 7 + i % 8 * (i % 8) * 3) % 8 : i / 8 % 4' | npy x.npy '|u1' '(64, 8)'
octal 64 'i % 4' | npy y.npy '|u1' '(64,)'
{ head -c 172 /dev/zero; printf '\000\000\300\177'; head -c 1872 /dev/zero; } | npy nan.npy '<f4' '(64, 8)'
octal 64 'i % 5' | npy bad.npy '|u1' '(64,)'
octal 256 'i % 2' | npy x4.npy '|u1' '(64, 4)'
octal 63 'i % 4' | npy few.npy '|u1' '(63,)'
octal 400 '97 + i * i % 7' | npy tokens.npy '|u1' '(400,)'
"$wafer" zoo mlp --widths 8,16,4 -o net.onnx -q || fail "zoo"

common="--data x.npy,y.npy --loss cross-entropy --optimizer adam --lr 0.02 --batch 24 --clip-norm 1 --warmup 3 -q"
train() { "$wafer" train net.onnx $common "$@"; }

train --steps 12 --checkpoint one || fail "training"
for run in "2 1 1" "3 3 1" "4 2 2" "9 1 2"; do
  set -- $run
  train --steps 12 --checkpoint "n$1" --systems "$1" --weight-servers "$2" --threads "$3" 2>note || fail "$1 systems"
  diff -r one "n$1" || fail "$1 systems, $2 servers, $3 threads: other bytes"
done
grep -q '3 of 9 systems have no micro-batch' note || fail "idle systems are not said: $(cat note)"
train --steps 12 --checkpoint stored --store new/folder --weight-servers 2 || fail "--store"
diff -r one stored || fail "--store: other bytes"

# Stopped, and gone on with by another number of systems; the schedule's length counts, so cosine would differ.
train --steps 5 --checkpoint parts --metrics parts.jsonl && cp -r parts early
cp -r parts other
train --steps 12 --checkpoint parts --resume --systems 2 --metrics parts.jsonl 2>said || fail "--resume"
grep -q warning said && fail "--resume of the same run warns: $(cat said)"
diff -r one/step-00000012 parts/step-00000012 || fail "--resume: other bytes"
train --steps 12 --checkpoint other --resume --lr-schedule cosine --no-shuffle 2>said || fail "--resume with a schedule"
says said 'other: warning: the checkpoint is of a run with --lr 0.02 --lr-schedule constant --warmup 3 '
says said 'from here on steps go by --lr 0.02 --lr-schedule cosine --lr-end 0 --steps 12 --warmup 3 '
says said '--clip-norm 1 --no-shuffle'
for option in "--dtype f16" "--loss-scale 64"; do # went on without a word, by the scale of before
  rm -rf scaled && cp -r early scaled
  train --steps 6 --checkpoint scaled --resume $option --metrics scaled.jsonl 2>said || fail "--resume with $option"
  says said "$option"
done
grep -q '"loss_scale":64' scaled.jsonl || fail "--loss-scale of a resumed run is not taken"
"$wafer" train net.onnx $common --steps 1 --shape x=8x8 || fail "--shape is no micro-batch"
[ "$(grep -c '"loss"' parts.jsonl)" = 12 ] || fail "the metrics have not each step once"
train --steps 12 --checkpoint fresh --resume || fail "--resume without a checkpoint"
diff -r one/step-00000012 fresh/step-00000012 || fail "--resume without a checkpoint: other bytes"

# A new run does not mix its checkpoints with those of another, which --resume, evaluation and export would take.
cp -r parts used
train --steps 3 --checkpoint used 2>said && fail "a new run among the checkpoints of another"
says said 'used: error: has a checkpoint of step 12 already: --resume goes on from it'
diff -r parts used || fail "a run that was refused has written"

# Weights that were trained do not fall back to those of the model's file.
train --steps 14 --checkpoint used --resume --freeze '*.bias' 2>said && fail "what was trained is frozen"
says said "the checkpoint has trained 'layer.0.bias', which this run does not train"

train --mode eval --eval-data x.npy,y.npy --checkpoint used --freeze '*.bias' 2>said && fail "evaluation of what was trained, frozen"
says said "the checkpoint has trained 'layer.0.bias', which this run does not train"

# A damaged newest checkpoint is skipped with a warning.
printf x | dd of=parts/step-00000012/state.safetensors bs=1 seek=300 conv=notrunc 2>/dev/null
train --steps 12 --checkpoint parts --resume 2>warning || fail "--resume past a damaged checkpoint"
grep -q 'warning: .*this checkpoint is skipped' warning || fail "no warning: $(cat warning)"
diff -r one/step-00000012 parts/step-00000012 || fail "past a damaged checkpoint: other bytes"

# No room for a checkpoint: said, and the one before it is whole.
(ulimit -f 1; train --steps 12 --checkpoint early --resume 2>full)
[ $? = 7 ] && grep -q 'cannot write' full || fail "a full disk: $(cat full)"
train --steps 12 --checkpoint early --resume 2>after || fail "after a full disk"
diff -r one/step-00000012 early/step-00000012 || fail "after a full disk: other bytes"

"$source/tools/kill-train" "$kills" "$wafer" || fail "kills"

# Evaluation, export, f16, plots.
train --epochs 40 --weight-decay 0.01 --checkpoint good --plot curve.svg --dtype f16 --eval-data x.npy,y.npy --eval-every 50 ||
  fail "f16"
xmllint --noout curve.svg || fail "the plot is no XML"
"$wafer" train net.onnx --loss cross-entropy --mode eval --eval-data x.npy,y.npy --checkpoint good --batch 20 >score || fail "eval"
grep -q 'MemoryX' score && fail "evaluation has an optimizer: $(cat score)"
grep -q 'Accuracy=1.0000' score || fail "not learned: $(cat score)"
"$wafer" export good -o out.onnx -q || fail "export"
gives 1 "is an input as well" "$wafer" export good -o net.onnx
"$wafer" train out.onnx --loss cross-entropy --mode eval --eval-data x.npy,y.npy --batch 20 >again || fail "eval of the export"
[ "$(sed -n 's/.*Eval.*Loss/Loss/p' score)" = "$(sed -n 's/.*Eval.*Loss/Loss/p' again)" ] || fail "the export scores $(cat again), not $(cat score)"

# Evaluation writes metrics behind what is there, of one checkpoint too; it makes no folder, and needs none to itself.
cp parts.jsonl scores.jsonl
evaluate="$wafer train net.onnx --loss cross-entropy --mode eval --batch 20 -q"
$evaluate --eval-data x.npy,y.npy --checkpoint one/step-00000012 --metrics scores.jsonl || fail "eval of one checkpoint"
[ "$(grep -c '"loss"' scores.jsonl)" = 12 ] || fail "evaluation has cut the metrics"
grep -q '^{"step":12,"eval_loss":[0-9.]*,"eval_accuracy":' scores.jsonl || fail "evaluation writes no metrics"
(flock -n 9 && $evaluate --eval-data x.npy,y.npy --checkpoint one) 9>>one/.lock || fail "evaluation beside a run"
gives 2 'is no checkpoint and no folder with a whole one' $evaluate --eval-data x.npy,y.npy --checkpoint none
[ ! -e none ] || fail "evaluation has made a folder"
octal 64 '3' | npy threes.npy '|u1' '(64,)'
gives 2 'no label of the evaluation data counts' $evaluate --eval-data x.npy,threes.npy --ignore-index 3
train --steps 3 --checkpoint scored --eval-data x.npy,threes.npy --ignore-index 3 2>said && fail "a score of nothing"
[ -e scored/step-00000003/checkpoint.json ] || fail "data for evaluation cost the checkpoint"

# Settings from a file; options win.
cat >params.yaml <<'YAML'
model:     {zoo: mlp, widths: "8,16,4", file: made.onnx, loss: cross-entropy}
data:      {train: "x.npy,y.npy"}
optimizer: {name: adam, lr: 0.02, clip-norm: 1, warmup: 3}
run:       {steps: 99, batch: 24, checkpoint: yaml, quiet: true}
YAML
"$wafer" train -p params.yaml --steps 12 || fail "-p"
for file in weights.safetensors state.safetensors; do
  cmp "one/step-00000012/$file" "yaml/step-00000012/$file" || fail "-p: other $file"
done

# Lists; the length of the command line's run counts, however it is said.
sed 's/"8,16,4"/[8, 16, 4]/; s/"x.npy,y.npy"/[x.npy, y.npy]/; s/steps: 99/epochs: 99/; s/yaml/lists/; s/made/other/' params.yaml >lists.yaml
"$wafer" train -p lists.yaml --steps 12 || fail "-p with lists"
cmp one/step-00000012/weights.safetensors lists/step-00000012/weights.safetensors || fail "-p with lists: other weights"
"$wafer" train -p lists.yaml --steps 12 --resume --compile-only 2>note
says note 'other.onnx: note: is there and is what is trained, whatever lists.yaml says of the zoo'
sed 's/lists/long/; s/epochs: 99/steps: 99/' lists.yaml >long.yaml
"$wafer" train -p long.yaml --epochs=4 || fail "-p with --epochs"
[ -d long/step-00000011 ] || fail "-p with --epochs: other steps"

# Tokens.
"$wafer" zoo gpt --layers 1 --d-model 8 --heads 2 --vocab 128 --sequence 12 --init 1 -o gpt.onnx -q
"$wafer" train gpt.onnx --data tokens.npy --lm --loss cross-entropy --optimizer adamw --steps 3 --batch 4 -q || fail "--lm"

# Shards of 31, 0, 12 and 25 tokens are windows of 12 and what follows each, in either order.
mkdir shards
octal 31 'i * i % 128' | npy shards/tokens-0.npy '|u1' '(31,)'
octal 0 '0' | npy shards/tokens-1.npy '|u1' '(0,)'
octal 12 'i' | npy shards/tokens-2.npy '|u1' '(12,)'
octal 25 'i * 7 % 128' | npy shards/tokens-3.npy '|u1' '(25,)'
octal 48 'i < 24 ? i * i % 128 : (i - 24) * 7 % 128' | npy wx.npy '|u1' '(4, 12)'
octal 48 'i < 24 ? (i + 1) * (i + 1) % 128 : (i - 23) * 7 % 128' | npy wy.npy '|u1' '(4, 12)'
for order in "" --no-shuffle; do
  rm -rf lm windows
  for data in "lm --data shards --lm" "windows --data wx.npy,wy.npy"; do
    # shellcheck disable=SC2086
    "$wafer" train gpt.onnx --checkpoint $data --loss cross-entropy --optimizer sgd --epochs 3 --batch 2 -q $order || fail "$data"
  done
  cmp lm/step-00000006/weights.safetensors windows/step-00000006/weights.safetensors || fail "shards are other windows $order"
done
octal 40 'i * i % 128' | npy shards/tokens-4.npy '|u1' '(40,)'
gives 0 'of a run over 4 samples, this one has 7' "$wafer" train gpt.onnx --checkpoint lm --data shards --lm --loss cross-entropy \
  --optimizer sgd --steps 7 --batch 2 -q --resume
octal 40 'i ? 5 : 200' | npy odd.npy '|u1' '(40,)'
gives 2 'odd.npy: error: row 0 has token 200, the model has tokens 0 to 127' "$wafer" train gpt.onnx --data odd.npy --lm \
  --loss cross-entropy --optimizer sgd --epochs 1 --batch 1 -q

wrong() { code=$1 text=$2; shift 2; gives "$code" "$text" "$wafer" train net.onnx --loss cross-entropy --optimizer sgd -q "$@"; }
wrong 1 'one of --steps and --epochs' --data x.npy,y.npy
wrong 1 'no multiple of --micro-batch 5' --data x.npy,y.npy --steps 1 --batch 16 --micro-batch 5
wrong 1 'goes with --checkpoint' --data x.npy,y.npy --steps 1 --resume
wrong 1 '--checkpoint-every goes with --checkpoint' --data x.npy,y.npy --steps 1 --checkpoint-every 1
wrong 1 '--eval-every goes with --eval-data' --data x.npy,y.npy --steps 1 --eval-every 1
wrong 1 '--lr-end goes with --lr-schedule linear or cosine' --data x.npy,y.npy --steps 1 --lr-end 0.1
wrong 1 'there is no option --stepz,' --data x.npy,y.npy --stepz 1
wrong 1 '--steps lacks its value' --data x.npy,y.npy --steps
wrong 1 '--lr-gamma goes with --lr-schedule step' --data x.npy,y.npy --steps 1 --lr-gamma 0.5
wrong 1 '--keep goes with --checkpoint' --data x.npy,y.npy --steps 1 --keep 5
wrong 3 'the model has 0 float weights that are not frozen' --data x.npy,y.npy --steps 1 --freeze '*'
wrong 7 'none/curve.svg: error: cannot write' --data x.npy,y.npy --steps 1 --plot none/curve.svg --metrics unwritten.jsonl
[ ! -e unwritten.jsonl ] || fail "a run that cannot plot has begun"
wrong 1 '--lr-every is missing' --data x.npy,y.npy --steps 1 --lr-schedule step
wrong 1 "--freeze 'nothing\*' names none of the model's weights, one of which is" --data x.npy,y.npy --steps 1 --freeze 'nothing*'
wrong 1 'the beta1 of sgd must be' --data x.npy,y.npy --steps 1 --beta1 2
wrong 2 'which does not fit 64x8' --data x.npy,few.npy --steps 1
wrong 2 'a sample is scalar, the model' --data y.npy,y.npy --steps 1
wrong 2 'has label 4, the loss has classes 0 to 3' --data x.npy,bad.npy --steps 4
wrong 2 'has label 4, the loss has classes 0 to 3' --data x.npy,bad.npy --steps 4 --validate-only
wrong 2 'has label 4, the loss has classes 0 to 3' --data x.npy,y.npy --eval-data x.npy,bad.npy --steps 4 --validate-only
wrong 7 'cannot open' --data none.npy,y.npy --steps 1
wrong 5 'nan.npy: warning: row 5 has nan at element 3' --data nan.npy,y.npy --steps 4
gives 0 'momentum changes nothing: sgd has none, of --optimizer momentum, nesterov' "$wafer" train net.onnx --loss cross-entropy \
  --data x.npy,y.npy --steps 1 -q --momentum 0.5
wrong 5 'gradients are not finite' --data x.npy,y.npy --steps 40 --lr 1e38
gives 5 'bce has no value where an output is not from 0 to 1' "$wafer" train net.onnx --loss bce --data x.npy,x4.npy --steps 40 --lr 10
gives 5 'step 1: the loss is nan' "$wafer" train net.onnx --loss bce --data x.npy,x4.npy --steps 1 --lr 10
gives 0 'resumed after step 12: no step is left' "$wafer" train net.onnx ${common% -q} --steps 3 --checkpoint one --resume
wrong 1 'the checkpoint is of a run with' --data x.npy,y.npy --steps 20 --resume --checkpoint one --batch 24
gives 2 "'labels' is scalar: its first dim must count samples" "$wafer" train "$source/test/data/one_mean.onnx" --loss mse \
  --data x.npy,y.npy --steps 1
printf 'model: {file: net.onnx}\nrunning: {steps: 1}\n' >wrong.yaml
wrong 2 "wrong.yaml:2:1: .*'running' is no section" -p wrong.yaml
printf 'optimizer: {lr: 1,\n  lr: 2}\n' >wrong.yaml
wrong 2 "wrong.yaml:2:3: .*'lr' is given twice" -p wrong.yaml
printf 'model: {file: {a: b}}\n' >wrong.yaml
wrong 2 "'file' wants a scalar" -p wrong.yaml
finish "training: ok"
