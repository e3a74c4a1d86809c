#!/bin/sh
# Wafers with dead cores and links: repaired with spares or avoided, outputs are those of a whole wafer, bit for
# bit; the cost is reported; a wafer in pieces is refused. usage: defects.sh WAFER SOURCE MODELS small|all
. "${0%/*}/../lib.sh"
wafer=$1 source=$2 models=$3 which=$4
cd "$work" || exit 1
refuses() { # CODE TEXT options...
  code=$1 text=$2
  shift 2
  "$wafer" compile "$net" -q -o no.wplan "$@" >out 2>err
  got=$?
  [ $got = "$code" ] || fail "$*: exit $got, want $code: $(head -1 err)"
  says err "$text"
  [ ! -e no.wplan ] || fail "$*: left a plan behind"
}

# same NAME MODEL "compile options" "inputs" DEFECTS...: the outputs with and without defects are the same
same() {
  name=$1 model=$2 options=$3 inputs=$4
  shift 4
  [ -f "$model" ] || { echo "skipped: $name (its model is not here)"; return; }
  # shellcheck disable=SC2086
  "$wafer" compile "$model" -q -o whole.wplan $options || { fail "$name: compile"; return; }
  # shellcheck disable=SC2086
  "$wafer" run whole.wplan -q $inputs --output whole || fail "$name: run"
  for defects in "$@"; do
    # shellcheck disable=SC2086
    "$wafer" compile "$model" -o broken.wplan $options --defects $defects >report ||
      { fail "$name: compile with $defects"; continue; }
    says report "they cost"
    # shellcheck disable=SC2086
    agrees broken.wplan whole $inputs
  done
  rm -rf whole
}

net=$source/test/data/small_cnn.onnx
cat >few.xml <<'END'
<defects version="1">
  <dead x="3" y="2"/>
  <dead x="9" y="9"/>
  <dead-link x="5" y="7" to="south"/>
</defects>
END
{ echo '<defects version="1">'
  for x in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do echo "<dead-link x=\"$x\" y=\"7\" to=\"south\"/>"; done
  echo '</defects>'; } >cut.xml
sed 's/<dead x="3"/<dead x="30"/' few.xml >outside.xml
sed 's/south/west/' few.xml >west.xml

for mode in pipelined streaming; do
  same "small_cnn $mode" "$net" "--machine small16 --mode $mode" "--input x=$source/test/data/small_cnn/in_x.npy" \
    few.xml "few.xml --repair avoid" 2:1 5:2
done
"$wafer" compile "$net" -q -o p.wplan --machine small16 --bands 1 --defects few.xml --report r.json || fail "compile with few.xml"
says r.json '"whole_interval_cycles":'
"$wafer" dump p.wplan >view
says view "of 16x16 with 3 dead cores, bypassed by 1 spare rows"
"$wafer" dump p.wplan --core 3,2 >view
says view "on the fabric as it was made this is core 3,3"
"$wafer" dump p.wplan --xml >view
says view '<dead-link x="5" y="7" to="south"/>'
"$wafer" compile "$net" -q -o q.wplan --machine small16 --bands 1 --defects few.xml && cmp -s p.wplan q.wplan || fail "two compiles differ"

# bands share what is left: one of them alone was reported
"$wafer" compile "$net" -o p.wplan --machine small16 --bands 4 --defects few.xml >report || fail "4 bands with few.xml"
says report "(240 of 256 left)"

# the whole wafer's plan is compiled in the same way: it was the first that came to mind, and dead cores made faster
"$wafer" compile "$source/test/data/split.onnx" -q -o p.wplan --machine small16 --report whole.json || fail "split.onnx"
"$wafer" compile "$source/test/data/split.onnx" -q -o p.wplan --machine small16 --defects 2:1 --report r.json || fail "split.onnx, 2:1"
says r.json "\"whole_interval_cycles\":	$(sed -n 's/^	"interval_cycles":	\([0-9]*\),/\1/p' whole.json)"

refuses 4 "cut the wafer in pieces" --machine small16 --defects cut.xml
refuses 4 "cut the wafer in pieces" --machine small16 --defects cut.xml --repair avoid
# The other way is named where it was tried and works: 'avoid' was for a wafer without a live core, and none was for
# one that spares repair.
refuses 4 "leaves no usable rectangle; what is left cannot be used either" --machine small16 --defects 100:1
refuses 4 "; --repair spares leaves 80 cores" --machine small16 --defects 55:1 --repair avoid
{
  echo '<defects version="1">'
  for i in $(seq 0 15); do echo "<dead x=\"$i\" y=\"0\"/>"; done
  for i in $(seq 1 15); do echo "<dead x=\"0\" y=\"$i\"/>"; done
  echo '</defects>'
} >corner.xml
refuses 4 "leaves no usable rectangle; --repair avoid leaves 225 cores" --machine small16 --defects corner.xml
"$wafer" compile "$source/test/data/small_cnn.onnx" -q -o p.wplan --machine small16 --defects corner.xml --repair avoid ||
  fail "what was named does not help"
# What none of kernels, streams and edge takes alone is not said to be the slowest kernel's.
"$wafer" compile "$source/test/data/scales.onnx" -o p.wplan --mode pipelined --machine small64 --defects 10:2 --repair avoid \
  --edge-gbps inf --programs never >report 2>err
says report "bottleneck: samples wait for each other"
refuses 1 "edge-gbps wants at least 8e-9" --machine small16 --edge-gbps 1e-9 # was a division by zero
refuses 2 "outside the fabric of 16 x 16" --machine small16 --defects outside.xml
refuses 2 "a dead link goes to the east or to the south" --machine small16 --defects west.xml
refuses 2 "must be <defects>" --machine small16 --defects "$source/runtime/machines/small16.xml"
refuses 1 "0 to 100 per cent" --machine small16 --defects 200:1
refuses 1 "--repair wants avoid or spares" --machine small16 --defects 2:1 --repair none
refuses 1 "--repair goes with --defects" --machine small16 --repair avoid

face=$source/models/blazeface-front
same blazeface-front "$face/face_detection_front_128x128_barracuda.onnx" "" "--input input:0=$face/astronaut/in_input_0.npy" 2:1
if [ "$which" = all ]; then
  m=$models/silero-vad r=$models/silero-vad/ref-op18_ifless
  same silero "$m/silero_vad_op18_ifless.onnx" "--shape input=1x576 --shape state=2x1x128 --bind sr=$r/in_sr.npy" \
    "--input input=$r/in_input.npy --input state=$r/in_state.npy" 2:2
  m=$models/ppocr-cls r=$m/ref-text192
  same ppocr-cls "$m/ch_ppocr_mobile_v2.0_cls_infer.onnx" "--shape x=1x3x48x192" "--input x=$r/in_x.npy" 2:3
fi
finish "defects: outputs unchanged, costs reported, pieces refused"
