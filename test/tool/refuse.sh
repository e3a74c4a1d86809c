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
# tries LEAST machine mode batch: refused, with at least so many remedies, all of which work
tries() {
  least=$1 machine=$2 mode=$3 batch=$4
  rm -f why.json
  "$wafer" compile "$net" -q -o no.wplan --machine "$machine" --mode "$mode" --batch "$batch" --report why.json >out 2>err
  got=$?
  [ $got = 4 ] || fail "$machine, $mode, $batch: exit $got, want 4: $(head -1 err)"
  [ ! -e no.wplan ] || fail "$machine, $mode: left a plan behind"
  says err "$mode does not fit small16: "
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
tries 4 m9000-16.xml streaming 65
says why.json '"kernel":	"pointwise"'
says why.json '"allowed_core_bytes":	7976'
says why.json "output 'swish' (65 at a time)"
says err "held for other kernels"
tries 2 m5000-16.xml pipelined 1
says err "side by side, the wafer has 256 usable ones"
tries 1 m6500-4.xml pipelined 1
finish "refuse: every remedy works"
