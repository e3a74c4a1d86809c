#!/bin/sh
# Plans edited by hand, with digests made right again: each edit must be refused, trap, or change the result as
# the edit says. usage: broken.sh WAFER REPLAN SOURCE
set -u
wafer=$1 replan=$2 source=$3
data=$source/test/data
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# edit MODE SED-SCRIPT: an edited copy of the small net's plan, as edited.wplan
edit() {
  rm -rf "$work/parts" "$work/edited.wplan"
  "$replan" unpack "$work/$1.wplan" "$work/parts" || { echo "FAILED: unpack" >&2; failed=1; }
  cp "$work/parts/plan.xml" "$work/before.xml"
  sed -i "$2" "$work/parts/plan.xml"
  if cmp -s "$work/before.xml" "$work/parts/plan.xml"; then echo "FAILED: '$2' edits nothing" >&2; failed=1; fi
  "$replan" pack "$work/parts" "$work/edited.wplan" || { echo "FAILED: pack" >&2; failed=1; }
}
# expect NAME CODE TEXT: running the edited plan ends so
expect() {
  "$wafer" run "$work/edited.wplan" -q --input x="$data/small_cnn/in_x.npy" --expect "$data/small_cnn" --tol 1e-5 \
    >"$work/out" 2>&1
  code=$?
  if [ $code != "$2" ] || { [ -n "$3" ] && ! grep -qF -- "$3" "$work/out"; }; then
    echo "FAILED: $1: exit $code (want $2), want '$3' in:" >&2
    head -3 "$work/out" >&2
    failed=1
  fi
}

for mode in pipelined streaming; do
  "$wafer" compile "$data/small_cnn.onnx" -q -o "$work/$mode.wplan" --machine small16 --mode $mode || exit 1
done
edit streaming 's/onnx-nodes="12"/onnx-nodes="13"/'
expect "a harmless edit" 0 ""

edit streaming '/<phase name="stem"/s/s0 //'
expect "an input that never comes" 5 "'stem'"
edit streaming '/<phase name="depthwise"/s/actions="s[0-9]* /actions="/'
expect "a relayout dropped" 5 "'depthwise'"
edit streaming '/<phase name="pool"/s/frees="7"/frees="7 8"/'
expect "a tensor freed early" 5 "'pool'"
edit streaming '/<step/{s/phase="1"/phase="X"/;s/phase="2"/phase="1"/;s/phase="X"/phase="2"/}'
expect "two phases swapped" 5 "'depthwise'"
edit pipelined '/<step kind="load"/d'
expect "weights never loaded" 0 ""
edit streaming '/<kernel name="pool"/,/<\/kernel>/{s/<input value="7"/<input value="11"/}'
expect "a kernel that reads another tensor" 2 "'pool'"
edit pipelined '/<kernel name="pool"/s/rect="[0-9]* [0-9]* /rect="0 0 /'
expect "a rectangle moved over another" 2 "'pool'"
edit pipelined '/<kernel name="pool"/s/rect="[0-9]* [0-9]* /rect="15 15 /'
expect "a rectangle moved out of the wafer" 2 "'pool'"
peak=$(sed -n 's/.*<phase .*peak-core-bytes="\([0-9]*\)".*/\1/p' "$work/before.xml" | sort -n | tail -1)
edit pipelined "s/<core bytes=\"16384\"/<core bytes=\"$((1024 + peak - 1))\"/"
expect "one byte of a core too many" 4 "$peak"
edit pipelined "s/<core bytes=\"16384\"/<core bytes=\"$((1024 + peak))\"/"
expect "not a byte too many" 0 ""
edit streaming '/<value name="stem_2"/s/weight="1"/weight="3"/'
expect "a weight exchanged" 6 "'y'"
edit pipelined '/<stream /s/color="[0-9]*"/color="0"/'
expect "all streams in one colour" 2 "colo"
edit pipelined '/<cost /s/ cycles="[0-9]*"/ cycles="1"/'
expect "a cost that is not the kernel's" 2 "cost"
[ $failed = 0 ] && echo "broken plans: ok"
exit $failed
