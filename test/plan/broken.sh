#!/bin/sh
# Plans broken on purpose, with digests that agree: what was changed is refused, traps or changes the result,
# in both modes. usage: broken.sh WAFER REPLAN SOURCE
. "${0%/*}/../lib.sh"
wafer=$1 replan=$2 data=$3/test/data
cd "$work" || exit 1

# breaks CODE TEXT SCRIPT: what `wafer run` says of the plan after the sed script
breaks() {
  code=$1 text=$2 script=$3
  sed "$script" whole/plan.xml >dir/plan.xml
  if cmp -s whole/plan.xml dir/plan.xml; then
    fail "$mode: nothing changed by $script"
    return
  fi
  "$replan" pack dir p.wplan || fail "$mode: pack"
  "$wafer" run p.wplan --input "x=$data/small_cnn/in_x.npy" --expect "$data/small_cnn" >out 2>&1
  got=$?
  if [ $got != "$code" ] || ! grep -qE -- "$text" out; then
    fail "$mode: exit $got (want $code), want '$text' after $script in:"
    tail -3 out >&2
  fi
}
# attribute NAME of the N-th kernel
kernel() { sed -n '/<kernel /s/.* '"$1"'="\([^"]*\)".*/\1/p' whole/plan.xml | sed -n "$2p"; }
# the largest number behind NAME=" in the lines that hold TAG
largest() { sed -n '/'"$1"'/s/.* '"$2"'="\([0-9]*\)".*/\1/p' whole/plan.xml | sort -n | tail -1; }

for mode in pipelined streaming; do
  bands= && [ $mode = pipelined ] && bands="--bands 1" # of few rows streams leave from one place
  "$wafer" compile "$data/small_cnn.onnx" -q -o whole.wplan --machine small16 --mode $mode $bands || fail "$mode: compile"
  rm -rf whole dir
  "$replan" unpack whole.wplan whole && cp -r whole dir && "$replan" pack dir p.wplan || fail "$mode: pack"
  cmp whole.wplan p.wplan || fail "$mode: packed again, the plan differs"
  "$wafer" run p.wplan --input "x=$data/small_cnn/in_x.npy" --expect "$data/small_cnn" >out 2>&1 || fail "$mode: the whole plan does not run"

  # a stream removed: of the input, of a weight, of an output
  breaks 5 "input 0, 'x'" '/<phase/s/"s0 /"/'
  breaks 5 "needs input 1" '/<phase/s/ s1 / /'
  last=$(($(grep -c '<stream ' whole/plan.xml) - 1))
  breaks 5 "never reaches the edge" "/<phase/s/ s$last\"/\"/"

  # a relayout dropped: left out, or leaving the value as it was
  relayout=$(grep '<stream ' whole/plan.xml | sed -n '/from="wafer.*to="wafer/=' | head -1)
  number=$((relayout - 1))
  breaks 5 "in its layout on its cores" "/<phase/s/\\([\" ]\\)s$number /\\1/"
  breaks 2 "does not take 'stem_relu' where its stream ends" \
    '/<stream .* to-kernel="1"/s/from="\(wafer[^"]*\)" to="wafer[^"]*"/from="\1" to="\1"/'

  # parts that would lie beyond their rectangle
  breaks 2 "do not divide by its parts and their strides" '/<stream /s/@\([0-9]\)/@1\1/'

  # a rectangle moved over another, and out of the wafer
  # (a route that no longer reaches it may be what is seen first)
  rect=$(kernel rect 2)
  moved="$((${rect%% *} - 1)) ${rect#* }"
  [ $mode = streaming ] ||
    breaks 2 "both lie on core|does not join" "s/rect=\"$rect\"/rect=\"$moved\"/;s/wafer $rect /wafer $moved /g"
  breaks 2 "the usable ones" "s/rect=\"$rect\"/rect=\"15 15 ${rect#* * }\"/"

  # one byte per core too many: the machine has one less than the plan needs
  peak=$(largest '<phase ' peak-core-bytes)
  reserved=$(largest '<core ' reserved-bytes)
  breaks 4 "bytes" "/<core /s/ bytes=\"[0-9]*\"/ bytes=\"$((peak + reserved - 1))\"/"

  # a weight exchanged for one of the same type, and of another
  breaks 6 "differ" '/<value name="stem_2"/s/weight="1"/weight="3"/;/<value name="depthwise_2"/s/weight="3"/weight="1"/'
  breaks 2 "weight" '/<value name="head"/s/weight="5"/weight="0"/'
  breaks 2 "weight" '/<value name="head"/s/weight="5"/weight="600"/'

  # buffers deeper than what the kernel behind them counts
  breaks 2 "buffers 2147483647 samples" '/<stream value="0"/{s/ depth="[0-9]*"//;s/\/>/ depth="2147483647"\/>/;}'
  breaks 2 "output depth is" '/<kernel name="pool"/{s/ output-depth="[0-9]*"//;s/ rect=/ output-depth="70000" rect=/;}'

  # what the reader refuses before the laws are looked at
  breaks 2 "plan.xml:" 's/<phase /<fase /'
  breaks 2 "fabric width" 's/<fabric width="16"/<fabric width="0"/'
done

# phases: swapped, a tensor freed early (mode is streaming here)
breaks 5 "'pool'" '/<step/{s/phase="1"/phase="zwei"/;s/phase="2"/phase="1"/;s/phase="zwei"/phase="2"/}'
breaks 5 "'stem_relu'" '/<phase name="stem"/s/frees="/frees="7 /'

# at fabric fidelity: programs for other cores than the machine has, and launches of phases that nothing goes through
"$wafer" compile "$data/small_cnn.onnx" -q -o whole.wplan --machine small16 --mode pipelined --bands 1 || fail "compile, one band"
rm -rf whole dir
"$replan" unpack whole.wplan whole && cp -r whole dir || fail "unpack, one band"
for script in 's/<\(fabric\) width="16" height="16"/<\1 width="64" height="64"/' \
  '/<launch /s/phase="0"/phase="1"/;/<phase /a <phase name="none" actions="" peak-core-bytes="0"/>'; do
  sed "$script" whole/plan.xml >dir/plan.xml
  cmp -s whole/plan.xml dir/plan.xml && fail "nothing changed by $script"
  "$replan" pack dir p.wplan || fail "pack, one band"
  "$wafer" run p.wplan --fidelity fabric -q >out 2>&1
  got=$?
  [ $got -gt 0 ] && [ $got -lt 9 ] && grep -q "error: " out || fail "fabric: exit $got after $script: $(tail -1 out)"
done

# samples, too many to stay, that nothing deals out to stripes: the stream of those that pass says that all stay
model=$3/models/blazeface-front/face_detection_front_128x128_barracuda.onnx
"$wafer" compile "$model" -q -o passing.wplan --mode streaming --batch 17 --objective latency || fail "compile, batch 17"
rm -rf whole dir
"$replan" unpack passing.wplan whole && cp -r whole dir || fail "unpack, batch 17"
breaks 2 "has room for 2 samples of input 0|buffers 17 samples" '/<stream .*from="wafer/s/ depth="2"/ depth="17"/'

# a byte of a weight changed behind the back of its digest
size=$(wc -c <whole.wplan)
cp whole.wplan p.wplan
at=$(grep -abo 'weights.safetensors' p.wplan | head -1 | cut -d: -f1)
printf '\377' | dd of=p.wplan bs=1 seek=$((at + 1500)) conv=notrunc 2>/dev/null
[ "$(wc -c <p.wplan)" = "$size" ] || fail "the sizes differ, want $size"
for tool in run dump; do
  "$wafer" $tool p.wplan $([ $tool = dump ] && echo --verify) >out 2>&1
  [ $? = 2 ] && grep -q 'has changed since' out || fail "$tool does not see a changed weight"
done
finish "broken plans: ok"
