#!/bin/sh
# A classifier whose labels are strings: the host has them, in files they are numpy's.
# usage: labels.sh WAFER SOURCES
. "${0%/*}/../lib.sh"
wafer=$1
data=$2/test/data
cd "$work" || exit 1

for mode in pipelined streaming; do
  "$wafer" compile "$data/votes.onnx" -q -o votes.wplan --mode $mode || fail "compile --mode $mode"
  "$wafer" run votes.wplan -q --input x="$data/votes/in_x.npy" --expect "$data/votes" --output out ||
    fail "$mode: not the labels and scores of onnxruntime"
done
# It was written with an empty type and the addresses of the strings.
cmp out/label.npy "$data/votes/out_label.npy" || fail "not the file that numpy writes"

# other samples, other labels
sed 's/quince/QUINCE/' "$data/votes.onnx" >other.onnx
"$wafer" compile other.onnx -q -o other.wplan || fail "compile"
"$wafer" run other.wplan -q --input x="$data/votes/in_x.npy" --expect "$data/votes" 2>err && fail "they are alike"
says err "output 'label': string 2 is 'QUINCE', the reference 'quince'"
finish "labels are the strings of the model"
