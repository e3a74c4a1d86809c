#!/bin/sh
# A model that does not fit: which kernel, whose bytes, and remedies; every remedy that is named is taken, and works.
# usage: refuse.sh WAFER SOURCE
. "${0%/*}/../lib.sh"
wafer=$1 source=$2
cd "$work" || exit 1
net=$source/test/data/small_cnn.onnx
# machine BYTES WIDTH: small16 with other cores
machine() {
  sed "s/core bytes=\"16384\"/core bytes=\"$1\"/; s/width=\"16\"/width=\"$2\"/g" \
    "$source/runtime/machines/small16.xml" >"m$1-$2.xml"
}
# The parts that a refusal names are what is asked for: they were all 0 where a shape that fits beside what is held
# spreads its results thin, or uses what is held.
adds_up() {
  sed -n 's/.* needs \([0-9]*\) bytes per core.*(code \([0-9]*\), weights \([0-9]*\), inputs \([0-9]*\), outputs \([0-9]*\), scratch \([0-9]*\), held for other kernels \([0-9]*\)).*/\1 \2 \3 \4 \5 \6 \7/p' err |
    awk '$1 != $2 + $3 + $4 + $5 + $6 + $7 || !$2 { exit 1 }' || fail "the parts are not what is asked: $(cat err)"
}
# tries LEAST machine mode batch: refused, with at least so many remedies, all of which work
tries() {
  least=$1 machine=$2 mode=$3 batch=$4
  rm -f why.json
  "$wafer" compile "$net" -q -o no.wplan --machine "$machine" --mode "$mode" --batch "$batch" --report why.json >out 2>err
  got=$?
  [ $got = 4 ] || fail "$machine, $mode, $batch: exit $got, want 4: $(head -1 err)"
  [ ! -e no.wplan ] || fail "$machine, $mode: left a plan behind"
  says err "$mode does not fit small16: "
  adds_up
  says why.json '"wafer-refusal-1"'
  sed -n 's/.*"option":	"\(.*\)",/\1/p' why.json >options
  [ "$(wc -l <options)" -ge "$least" ] || fail "$machine, $mode: $(wc -l <options) remedies, want $least: $(cat err)"
  while read -r option; do
    says err "$option fits: "
    # the last of two equal options counts
    # shellcheck disable=SC2086
    "$wafer" compile "$net" -q -o yes.wplan --machine "$machine" --mode "$mode" --batch "$batch" $option 2>err2 ||
      fail "$machine, $mode, batch $batch: '$option' does not help: $(head -1 err2)"
    "$wafer" dump yes.wplan --certificate >/dev/null || fail "$option: no certificate"
    rm -f yes.wplan
  done <options
}
machine 9000 16
machine 5000 16
machine 6500 4
# A number of samples that no stripes divide.
tries 4 m9000-16.xml streaming 67
says why.json '"kernel":	"pointwise"'
says why.json '"allowed_core_bytes":	7976'
says why.json "output 'swish' (67 at a time)"
says err "held for other kernels"
tries 2 m5000-16.xml pipelined 1
says err "side by side, the wafer has 256 usable ones"
tries 1 m6500-4.xml pipelined 1
net=$source/test/data/skips.onnx
machine 5000 16
tries 1 m5000-16.xml streaming 1
net=$source/test/data/small_cnn.onnx

# Cores that are reserved are not among those that there are: kernels that wanted 12 did not fit 256.
gives 4 "the wafer has 6 usable ones that are neither dead nor reserved" "$wafer" compile "$net" -q -o no.wplan \
  --machine small16 --mode pipelined --reserve 0,0,16,15 --reserve 3,3,9,9 --reserve 0,15,10,1

# What wants a pipeline gets no other mode as its remedy, but fewer bands.
"$wafer" compile "$net" -q -o no.wplan --machine m9000-16.xml --bands 16 >out 2>err
[ $? = 4 ] || fail "16 bands of small cores: $(head -1 err)"
grep -q -- "--mode" err && fail "--bands: --mode streaming does not go with it: $(cat err)"
bands=$(sed -n 's/.*\(--bands [0-9]*\) fits.*/\1/p' err)
"$wafer" compile "$net" -q -o yes.wplan --machine m9000-16.xml ${bands:---bands none} 2>err2 || fail "'$bands' does not help: $(head -1 err2)"

# promises OPTION options...: refused with that remedy among others, each of which gives about what it promises: with the
# edge, the dead and the reserved cores that were asked for, in the mode that is then chosen. Promises were many times too
# good or too bad; half and twice are what a prediction may be off.
promises() {
  wanted=$1
  shift
  "$wafer" compile one.onnx -q -o no.wplan --report why.json "$@" >out 2>err
  got=$?
  [ $got = 4 ] || fail "$*: exit $got, want 4: $(head -1 err)"
  says err "$wanted fits: "
  tr -d '\n\t' <why.json | grep -o '"option":"[^"]*","interval_cycles":[0-9]*' | sed 's/"option":"\(.*\)",.*:/\1|/' >options
  while IFS='|' read -r option cycles; do
    # shellcheck disable=SC2086
    "$wafer" compile one.onnx -q -o yes.wplan --report yes.json "$@" $option 2>err2 ||
      { fail "$*: '$option' does not help: $(head -1 err2)"; continue; }
    took=$(sed -n 's/.*"interval_cycles":	\([0-9]*\),/\1/p' yes.json | head -1)
    [ "$took" -le $((cycles * 2)) ] && [ "$took" -ge $((cycles / 2)) ] ||
      fail "$*: '$option' promises $cycles cycles, takes $took"
  done <options
}
"$wafer" zoo mlp --batch 1 --widths 2000,1500,10 -o one.onnx -q || fail "zoo"
promises "--machine small64" --machine small16 --mode pipelined --edge-gbps 1
promises "--machine small64" --machine small16 --mode pipelined --reserve 0,0,16,12
promises "--repair spares" --machine small64 --mode pipelined --defects 5:4 --repair avoid
promises "--machine small64" --machine small16 --batch 256
# Shelves do not hold what there are cores for; what is tried next does not take the search's layout for its own.
cp "$source/test/data/split.onnx" one.onnx
sed 's/width="16" height="16"/width="8" height="9"/' "$source/runtime/machines/small16.xml" >tight.xml
promises "--placer best --place-moves 100000" --machine tight.xml --mode pipelined
promises "--dtype f16" --machine tight.xml --mode pipelined

# `wafer train` calls its modes otherwise.
"$wafer" zoo mlp --widths 784,4096,4096,10 -o wide.onnx -q || fail "zoo"
octal 3136 'i % 50' | npy x.npy '<f4' '(1, 784)'
octal 8 0 | npy y.npy '<i8' '(1,)'
train() { "$wafer" train wide.onnx --data x.npy,y.npy --loss cross-entropy --steps 1 --batch 1 --machine small64 --compile-only -q "$@" 2>err; }
train --execution pipelined && fail "a wide MLP is trained on small64"
says err "--execution streaming fits: "
train --execution streaming || fail "--execution streaming does not help: $(head -1 err)"
# MemoryX holds so much
"$wafer" machines small16 | sed 's/<memoryx bytes="[0-9]*"/<memoryx bytes="1000"/' >store.xml
"$wafer" compile "$net" -q -o no.wplan --machine store.xml --mode streaming >out 2>err
[ $? = 4 ] && [ ! -e no.wplan ] || fail "weights beyond MemoryX: $(cat err)"
says err "bytes of MemoryX, 1000 are there"
finish "refuse: every remedy works"
