#!/bin/sh
# The plan of a small net on the 16x16 machine, byte for byte, in both modes. WAFER_BLESS=1 rewrites the golden
# files; review the difference. usage: golden.sh WAFER SOURCE
. "${0%/*}/../lib.sh"
wafer=$1 source=$2
for mode in pipelined streaming; do
  golden=$source/test/plan/small_cnn.$mode.xml
  "$wafer" compile "$source/test/data/small_cnn.onnx" -q -o "$work/p.wplan" --machine small16 --mode $mode --programs never &&
    "$wafer" dump "$work/p.wplan" --xml >"$work/p.xml" || { fail "$mode: compile"; continue; }
  [ "${WAFER_BLESS:-}" = 1 ] && cp "$work/p.xml" "$golden"
  if ! diff -u "$golden" "$work/p.xml" >"$work/diff"; then
    fail "$mode: the plan changed; WAFER_BLESS=1 accepts it"
    head -40 "$work/diff" >&2
  fi
done
finish "golden plans: ok"
