#!/bin/sh
# Every view of `wafer dump` over a small net in both modes: it says what the plan says, and what is asked
# wrongly fails with the right code and leaves nothing behind. usage: dump.sh WAFER SOURCE
. "${0%/*}/../lib.sh"
wafer=$1 source=$2
cd "$work" || exit 1
# fails CODE TEXT command...: exit code and error text
fails() {
  code=$1 text=$2
  shift 2
  "$@" >out 2>err
  got=$?
  [ $got = "$code" ] || fail "$*: exit $got, want $code: $(head -1 err)"
  says err "$text"
}

for mode in pipelined streaming; do
  bands= && [ $mode = pipelined ] && bands="--bands 1"
  "$wafer" compile "$source/test/data/small_cnn.onnx" -q -o p.wplan --machine small16 --mode $mode --reductions apart $bands ||
    fail "compile, $mode"
  for view in "" --json --xml --mlir --verify "--core 0,0" "--kernel k0" --certificate "--program k0" "--svg p.svg"; do
    # shellcheck disable=SC2086
    "$wafer" dump p.wplan $view >"view$view" 2>err || fail "dump $view, $mode: $(head -1 err)"
  done
  names=$(sed -n 's/^ *<kernel name="\([^"]*\)".*/\1/p' view--xml)
  [ -n "$names" ] || fail "no kernel in --xml, $mode"
  says view "machine small16"
  says view "* $mode"
  says view "function main("
  says view--mlir "func.func"
  says view--json '"wafer-dump-1"'
  says view--verify "every digest agrees"
  says "view--core 0,0" "of 16384 bytes"
  says view--certificate "small_cnn.onnx: "
  says view--certificate "proved legal and free of cyclic waits"
  says view--certificate "colors       at most "
  says view--certificate " kernel "
  says "view--kernel k0" "memory, bytes of a core"
  says "view--program k0" "; kernel k0 "
  says "view--program k0" 'fabric "'
  says "view--program k0" "route #"
  for name in $names; do
    says view "${name##*/}"
    says view--json "$name"
    says p.svg "${name##*/}"
  done
  if command -v xmllint >/dev/null; then
    xmllint --noout p.svg || fail "the picture is no XML, $mode"
    xmllint --noout --relaxng "$source/runtime/plan/plan.rng" view--xml 2>err || fail "plan.xml is not of plan.rng, $mode"
  fi
  if command -v python3 >/dev/null; then
    python3 -m json.tool view--json >/dev/null || fail "--json is no JSON, $mode"
  fi
done

# why: what the curve says; in a pipeline also who sets the pace, by core programs where there are any
"$wafer" compile "$source/test/data/small_cnn.onnx" -q -o a.wplan --machine small16 --mode pipelined --reductions apart --bands 1
"$wafer" compile "$source/test/data/small_cnn.onnx" -q -o b.wplan --machine small16 --reductions apart --keep a.wplan --reserve 0,0,5,5 2>err
"$wafer" compile "$source/test/data/small_cnn.onnx" -q -o never.wplan --machine small16 --mode pipelined --reductions apart --bands 1 --programs never
"$wafer" dump never.wplan --why stem >view || fail "dump --why"
says view "size: 16x12 cores, 1 replica, one of "
says view "it sets the pace: the next limit is at 663 cycles (pointwise)"
says view "one more row (16 cores): "
says view "twice the rows (192 cores): 552 cycles instead of 685, 19.4 % fewer, as 16x16; the pace goes from 685 to 663"
says view "the next faster shape ("
says view "one more replica (192 cores): 343 cycles a sample instead of 685; the pace goes from 685 to 663"
says view "from the edge: "
"$wafer" dump never.wplan --why head >view
says view "it does not set the pace, stem does"
"$wafer" dump a.wplan --why pointwise >view || fail "dump --why with programs"
says view "695 cycles of a sample by its programs, estimated at 663; other shapes in that ratio"
says view "it sets the pace: the next limit is at 652 cycles (stem)"
says view "twice the rows (16 cores): 469 cycles instead of 695, 32.5 % fewer, as 4x8; the pace goes from 695 to 652"
says view "one more replica (16 cores): 348 cycles a sample instead of 695; the pace goes from 695 to 652"
# The edge is all bands', and none where it has no limit: what a band's streams to it took was held against the wafer.
"$wafer" compile "$source/test/data/small_cnn.onnx" -q -o bands.wplan --machine small64 --edge-gbps inf --mode pipelined --bands 16
"$wafer" dump bands.wplan --why stem >view
says view ", the edge's 1"
says view "cores that receive, compute and send in turn, cost the rest"
"$wafer" dump p.wplan --why stem >view
says view "a phase of its own: "
says view "in streaming each phase has all of it in turn"
"$wafer" zoo bert --layers 1 --d-model 32 --heads 2 --sequence 8 --vocab 64 --init 1 -q -o bert.onnx || fail "zoo bert"
"$wafer" compile bert.onnx -q -o s.wplan --mode streaming --dim batch=1 || fail "compile bert"
shared=$("$wafer" dump s.wplan | grep -A 2 "^phase .* more': " | sed -n '3s/^ *\(k[0-9]*\) .*/\1/p')
"$wafer" dump s.wplan --why "${shared:-none}" >view || fail "dump --why of a shared phase"
says view " more, at the same time: "
says view ", beside the "
# diff: what moved
"$wafer" dump --diff a.wplan b.wplan >view || fail "dump --diff"
says view "moved, resized stem: 16x12 at 0,0 -> "
says view "7 kernels stand as they stood"
says view "wire, hops of all streams"
"$wafer" compile "$source/test/data/small_cnn.onnx" -q -o c.wplan --mode streaming
"$wafer" dump --diff a.wplan c.wplan >view
says view "machine: small16 -> wse2"
says view "mode: pipelined -> streaming"
"$wafer" dump --diff a.wplan a.wplan >view
says view "8 kernels stand as they stood"
says view "+0.00 %"
"$wafer" dump --diff a.wplan b.wplan --json >view
says view '"wafer-diff-1"'
says view '"moved":	true'
says view '"cycles":	652' # of its programs: 685 are estimated
"$wafer" dump --json --diff a.wplan b.wplan >again
cmp -s view again || fail "--json --diff is not --diff --json"
fails 1 "no kernel is named 'stern'" "$wafer" dump a.wplan --why stern
fails 7 "nowhere.wplan" "$wafer" dump --diff nowhere.wplan a.wplan
# what passes in slices has room for a slice
"$wafer" zoo gpt -o gpt.onnx --layers 1 --d-model 64 --heads 2 --sequence 128 --vocab 4096 --init 1 >out 2>err &&
  "$wafer" compile gpt.onnx -q -o slices.wplan --dim batch=1 --machine small16 --mode streaming --programs never ||
  fail "slices: $(head -1 err)"
"$wafer" dump slices.wplan --xml >view && says view 'depth="0"'
"$wafer" dump slices.wplan --certificate >view 2>err || fail "slices have no certificate: $(head -1 err)"
says view "proved legal and free of cyclic waits"

cp p.wplan own.wplan # an input is never written over
for view in --svg --placement; do
  fails 1 "is an input as well" "$wafer" dump own.wplan $view ./own.wplan
done
cmp -s p.wplan own.wplan || fail "dump wrote over its plan"

fails 1 "one view at a time" "$wafer" dump --diff a.wplan b.wplan --xml

"$wafer" compile "$source/test/data/small_cnn.onnx" -o t.wplan --machine small64 --train --loss mse \
  --programs never --report t.json >view 2>err || fail "compile --train: $(head -1 err)"
says view "training: a sample above is a micro-batch of"
says view "backward"
says t.json '"backward"'
"$wafer" dump t.wplan >view || fail "dump of a training plan"
says view "labels labels: "
says view "gradient gradient:"
"$wafer" dump t.wplan --json >view || fail "dump --json of a training plan"
says view '"trained"'
"$wafer" dump t.wplan --xml >view || fail "dump --xml of a training plan"
if command -v xmllint >/dev/null; then
  xmllint --noout --relaxng "$source/runtime/plan/plan.rng" view 2>err || fail "plan.xml of training is not of plan.rng"
fi

fails 1 "one view at a time" "$wafer" dump p.wplan --json --xml
fails 1 "which plan" "$wafer" dump
fails 1 "one plan at a time" "$wafer" dump p.wplan p.wplan
fails 1 "--core wants X,Y" "$wafer" dump p.wplan --core 3
fails 1 "--core wants X,Y" "$wafer" dump p.wplan --core 3,-1
fails 1 "outside" "$wafer" dump p.wplan --core 16,0
fails 1 "no kernel is named 'nobody'" "$wafer" dump p.wplan --kernel nobody
fails 1 "no kernel is named 'nobody'" "$wafer" dump p.wplan --program nobody
fails 7 "nowhere.wplan" "$wafer" dump nowhere.wplan
fails 7 "/dev/full" "$wafer" dump p.wplan --svg /dev/full
fails 7 "no/such.svg" "$wafer" dump p.wplan --svg no/such.svg
"$wafer" dump p.wplan >/dev/full 2>err && fail "a full standard output goes unnoticed"
says err "standard output"
[ -z "$(find . -name '*.tmp*')" ] || fail "left behind: $(find . -name '*.tmp*')"
finish "dump: ok"
