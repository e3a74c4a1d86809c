#!/bin/sh
# Weights that are quantized: a pipeline has them as its products take them, weight streaming brings them as they are.
# usage: quantized.sh WAFER SOURCE
. "${0%/*}/../lib.sh"
wafer=$1 source=$2
cd "$work" || exit 1
number() { sed -n 's/^\t"'$2'":\t\([0-9]*\),\{0,1\}$/\1/p' "$1" | head -1; }

mkdir out
for mode in streaming pipelined auto; do
  gives 0 '' "$wafer" compile "$source/test/data/quantized.onnx" -q -o $mode.wplan --mode $mode --machine small64 \
    --report $mode.json
  "$wafer" dump $mode.wplan >$mode.txt
done
"$wafer" run streaming.wplan -q --output out || fail "it does not run"
says streaming.txt "k1     product"
for mode in pipelined auto; do
  says $mode.txt "k0     product"
  says $mode.txt "* pipelined"
  agrees $mode.wplan out
  "$wafer" dump $mode.wplan --verify >said 2>&1 || fail "$mode: $(head -1 said)"
done
# What streaming would take is told of narrow weights, a phase that makes floats of them included.
wide=$(number auto.json interval_cycles)
told=$(sed -n 's/^ *streaming latency \([0-9]*\),.*/\1/p' auto.txt)
takes=$(sed -n 's/^ *\* streaming latency \([0-9]*\),.*/\1/p' streaming.txt)
[ "$told" -gt $((takes * 9 / 10)) ] && [ "$told" -lt $((takes * 11 / 10)) ] ||
  fail "streaming is told to take $told cycles, and takes $takes"
[ "$wide" -lt 800 ] || fail "a sample every $wide cycles: the weights come anew with each"
finish "quantized: ok"
