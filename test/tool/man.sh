#!/bin/sh
# Every example of every man page runs, in one folder, in order; every page renders without a warning.
# usage: man.sh BIN SOURCE
set -u
PATH=$1:$PATH
source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
cd "$work" || exit 1
cp "$source/models/blazeface-front/face_detection_front_128x128_barracuda.onnx" face.onnx
cp "$source/models/blazeface-front/astronaut/in_input_0.npy" photo.npy
cp -r "$source/models/blazeface-front/astronaut" reference
cp "$source/test/data/attention.onnx" .
cp "$source/test/data/chain.kgraph" .
cp -r "$source/test/data/conform" suite
rm -r suite/differs suite/unknown
cp "$source/test/ir/simplify.mlir" net.mlir
wafer compile face.onnx -q -o face.wplan
for page in wafer wafer-zoo wafer-conform wafer-machines wafer-place wafer-compile wafer-run wafer-check wafer-dump wafer-opt wafer-fabric; do
  file=$source/tools/man/$page.1
  warnings=$(man --warnings -l "$file" 2>&1 >/dev/null)
  [ -z "$warnings" ] || { echo "FAILED: $page.1: $warnings" >&2; failed=1; }
  examples=$(sed -n '/^\.EX/,/^\.EE/{/^\.E[XE]/d;s/\\-/-/g;p}' "$file")
  [ -n "$examples" ] || { echo "FAILED: $page.1 has no examples" >&2; failed=1; }
  echo "$examples" >"$page.sh"
  while read -r line; do
    sh -c "$line" >"$work/out" 2>&1 || { echo "FAILED: $page.1: $line" >&2; head -5 "$work/out" >&2; failed=1; }
  done <"$page.sh"
done
[ $failed = 0 ] && echo "man pages: ok"
exit $failed
