#!/bin/sh
# Every example of every man page runs, in one folder, in order; every page renders without a warning.
# usage: man.sh BIN SOURCE
. "${0%/*}/../lib.sh"
PATH=$1:$PATH
source=$2
cd "$work" || exit 1
cp "$source/models/blazeface-front/face_detection_front_128x128_barracuda.onnx" face.onnx
cp "$source/models/blazeface-front/astronaut/in_input_0.npy" photo.npy
cp -r "$source/models/blazeface-front/astronaut" reference
cp "$source/test/data/attention.onnx" .
cp "$source/test/data/chain.kgraph" .
cp -r "$source/test/data/conform" suite
rm -r suite/differs suite/unknown
npy() { # FILE SHAPE BYTES: an .npy of u8 that count up
  { printf '\223NUMPY\001\000\166\000'
    printf '%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': $2, }"
    printf "$(awk "BEGIN { for (i = 0; i < $3; i++) printf \"\\\\%03o\", i % 4 }")"; } >"$1"
}
npy x.npy '(64, 8)' 512
npy y.npy '(64,)' 64
cp "$source/test/ir/simplify.mlir" net.mlir
wafer compile face.onnx -q -o face.wplan
for page in wafer wafer-zoo wafer-scale wafer-train wafer-export wafer-conform wafer-machines wafer-place wafer-compile wafer-run wafer-check wafer-dump wafer-opt wafer-fabric; do
  file=$source/tools/man/$page.1
  warnings=$(man --warnings -l "$file" 2>&1 >/dev/null)
  [ -z "$warnings" ] || fail "$page.1: $warnings"
  examples=$(sed -n '/^\.EX/,/^\.EE/{/^\.E[XE]/d;s/\\-/-/g;p}' "$file")
  [ -n "$examples" ] || fail "$page.1 has no examples"
  echo "$examples" >"$page.sh"
  while read -r line; do
    sh -c "$line" >"$work/out" 2>&1 || { fail "$page.1: $line"; head -5 "$work/out" >&2; }
  done <"$page.sh"
done
finish "man pages: ok"
