#!/bin/sh
# Where kernels lie, by order: pins, reserved cores, a placement as XML, what an earlier plan had; and what is asked
# wrongly. usage: control.sh WAFER SOURCE
. "${0%/*}/../lib.sh"
wafer=$1 source=$2
cd "$work" || exit 1
net=$source/test/data/small_cnn.onnx
build() { "$wafer" compile "$net" -q --machine small16 --reductions apart "$@" 2>err || fail "compile $*: $(head -1 err)"; }
places() { "$wafer" dump "$1" --placement "$2" || fail "dump $1 --placement"; }
refuses() { # CODE TEXT options...
  code=$1 text=$2
  shift 2
  "$wafer" compile "$net" -q -o no.wplan --machine small16 "$@" >out 2>err
  got=$?
  [ $got = "$code" ] || fail "$*: exit $got, want $code: $(head -1 err)"
  says err "$text"
  [ ! -e no.wplan ] || fail "$*: left a plan behind"
}

build -o p.wplan --mode pipelined --bands 1
places p.wplan p.xml
if command -v xmllint >/dev/null; then
  xmllint --noout --relaxng "$source/runtime/plan/placement.rng" p.xml 2>err || fail "p.xml is not of placement.rng"
fi

# as it was
build -o q.wplan --placement p.xml
cmp -s p.wplan q.wplan || fail "a plan's own placement makes another plan"
# moved by hand: exactly there, and the rest around it
sed 's/\(name="depthwise".*\) x="[0-9]*" y="[0-9]*" width="[0-9]*" height="[0-9]*"/\1 x="0" y="0" width="2" height="4"/' p.xml |
  grep -v 'name="stem"\|name="pool"\|name="pointwise"' >moved.xml
build -o moved.wplan --placement moved.xml
places moved.wplan out.xml
says out.xml 'name="depthwise" node="depthwise" x="0" y="0" width="2" height="4"'
for name in global flat head prob; do
  says out.xml "$(grep "name=\"$name\"" p.xml)"
done
"$wafer" dump moved.wplan --verify >/dev/null || fail "the moved plan does not verify"
"$wafer" run p.wplan -q --input "x=$source/test/data/small_cnn/in_x.npy" --output one || fail "run p"
agrees moved.wplan one --input "x=$source/test/data/small_cnn/in_x.npy"

build -o pinned.wplan --pin depthwise=3,5,2,4 --pin head=15,15,1,1
places pinned.wplan out.xml
says out.xml 'name="depthwise" node="depthwise" x="3" y="5" width="2" height="4"'
says out.xml 'name="head" node="head" x="15" y="15" width="1" height="1"'

# the search lays out what is not pinned, here faster than shelves, and leaves pins and reserved cores alone
interval() { sed -n 's/.*"compute_interval_cycles":[^0-9]*\([0-9]*\).*/\1/p' "$1"; }
pins="--pin depthwise=3,5,2,4 --pin head=15,15,1,1 --reserve 0,0,2,2"
build -o shelves.wplan $pins --programs never --report shelves.json
build -o best.wplan $pins --programs never --placer best --place-moves 20000 --report best.json
places best.wplan out.xml
says out.xml 'name="depthwise" node="depthwise" x="3" y="5" width="2" height="4"'
says out.xml 'name="head" node="head" x="15" y="15" width="1" height="1"'
[ "$(interval best.json)" -lt "$(interval shelves.json)" ] ||
  fail "with pins the search gives $(interval best.json) cycles, shelves $(interval shelves.json)"
"$wafer" dump best.wplan --verify >/dev/null || fail "the searched plan with pins does not verify"
"$wafer" dump best.wplan --certificate >/dev/null || fail "the searched plan with pins has no certificate"
agrees best.wplan one --input "x=$source/test/data/small_cnn/in_x.npy"
# cores reserved across the middle leave two rectangles: the search fills both
build -o shelves.wplan --reserve 7,0,2,16 --programs never --report shelves.json
build -o best.wplan --reserve 7,0,2,16 --programs never --placer best --place-moves 20000 --report best.json
places best.wplan out.xml
grep -q ' x="[0-6]" ' out.xml || fail "reserved columns: nothing west of them"
grep -q ' x="\(9\|1[0-5]\)" ' out.xml || fail "reserved columns: nothing east of them"
[ $((10 * $(interval best.json))) -lt $((7 * $(interval shelves.json))) ] ||
  fail "reserved columns: the search gives $(interval best.json) cycles, shelves $(interval shelves.json)"
all="" # nothing is left to search for
for k in stem pool depthwise pointwise global flat head prob; do
  all="$all --pin $k=$(sed -n "s/.*name=\"$k\" .* x=\"\([0-9]*\)\" y=\"\([0-9]*\)\" width=\"\([0-9]*\)\" height=\"\([0-9]*\)\".*/\1,\2,\3,\4/p" p.xml)"
done
build -o all.wplan --placer best $all
places all.wplan out.xml
for k in stem pool prob; do says out.xml "$(grep "name=\"$k\"" p.xml)"; done

# reserved cores stay free, whatever the mode, and the plan keeps them
for mode in pipelined streaming; do
  build -o r.wplan --mode $mode --reserve 0,0,5,5 --reserve 10,10,2,2
  places r.wplan out.xml
  says out.xml '<reserve x="10" y="10" width="2" height="2"/>'
  "$wafer" dump r.wplan --xml >view
  says view '<reserved x="0" y="0" width="5" height="5"/>'
  "$wafer" dump r.wplan --core 4,4 >view
  says view "at most 1024 of"
done

# kept: all but the kernel that stood where nobody may stand now
build -o kept.wplan --keep p.wplan --reserve 0,0,5,5
says err "7 of 8 kernels stay where the earlier plan had its 8"
places kept.wplan out.xml
for name in pool depthwise pointwise global flat head prob; do
  says out.xml "$(grep "name=\"$name\"" p.xml)"
done
build -o q.wplan --keep p.wplan
cmp -s p.wplan q.wplan || fail "keeping all makes another plan"
# what was kept gives way: the pinned kernel needs the room of the largest
build -o way.wplan --keep p.wplan --pin stem=0,4,16,12
says err "of 8 kernels stay"

# What the kept plan has that was not asked for gives way: its bands had no room for a pin of the wafer's rows, and were
# blamed on --bands where a step is trained. Where nothing can be kept that is said, and nothing else of the plan is taken.
build -o banded.wplan --mode pipelined --bands 16
build -o q.wplan --keep banded.wplan --pin depthwise=3,5,2,4
says err "; 1 is pinned"
places q.wplan out.xml
says out.xml 'name="depthwise" node="depthwise" x="3" y="5" width="2" height="4"'
refuses 4 "the usable cores of the first band are 16 x 1 at (0, 0); --bands 1 has" --keep banded.wplan --bands 16 \
  --pin depthwise=3,5,2,4
"$wafer" compile "$net" -q -o behind.wplan --machine small16 --mode pipelined --reductions behind || fail "behind"
"$wafer" compile "$net" -q -o streams.wplan --machine small16 --mode streaming || fail "streaming"
"$wafer" compile "$net" -q -o q.wplan --machine small16 --mode streaming --keep behind.wplan 2>err || fail "streaming, --keep"
says err "nothing of it is kept in streaming"
cmp -s streams.wplan q.wplan || fail "--keep changes a plan of streaming"
"$wafer" compile "$net" -q -o step.wplan --machine small64 --train --loss mse || fail "a step: $(head -1 err)"
"$wafer" compile "$net" -q -o q.wplan --machine small64 --train --loss mse --keep banded.wplan 2>err ||
  fail "a step, --keep: $(head -1 err)"
says err "is no plan of a training step"
cmp -s step.wplan q.wplan || fail "--keep of another plan changes a step"
"$wafer" compile "$net" -q -o q.wplan --machine small64 --keep p.wplan 2>err || fail "--keep of another machine's plan"
says err "was made for machine 'small16': its rectangles are taken as they are on 'small64'"

# shapes that have room for few samples, as the plan's kernels wait for, stand where they stood
"$wafer" machines small16 | sed 's/<core bytes="16384"/<core bytes="6144"/' >slim.xml
slim() { "$wafer" compile "$net" -q -o "$@" --machine slim.xml --bands 1 --relays none --programs never 2>err; }
slim few.wplan --mode pipelined || fail "slim: $(head -1 err)"
"$wafer" dump few.wplan --placement few.xml
for way in "--placement few.xml" "--keep few.wplan"; do
  # shellcheck disable=SC2086
  slim same.wplan $way || fail "$way: $(head -1 err)"
  cmp -s few.wplan same.wplan || fail "$way makes another plan of cores with little memory"
done

# where no kernel can stay all is as without: pins of other shapes took bands, relays and the search with them
"$wafer" compile "$net" -q -o p64.wplan --machine small64 --mode pipelined --bands 4 || fail "compile for small64"
"$wafer" compile "$net" -q -o half.wplan --machine small64 --mode pipelined --bands 4 --dtype f16 || fail "compile f16"
"$wafer" compile "$net" -q -o kept.wplan --machine small64 --dtype f16 --keep p64.wplan 2>err || fail "keep another type's"
says err "0 of 8 kernels stay"
cmp -s half.wplan kept.wplan || fail "nothing kept: another plan than without --keep"

# a value skips a kernel: its reader has room for the samples, so on 16 bands it gets a relay only where one is pinned, which is kept like
# others, and what it passes on is what it got
skips=$source/test/data/skips.onnx
samples() { sed -n 's/^\t"interval_cycles":[^0-9]*\([0-9]*\).*/\1/p' "$1"; }
skipping() { # NAME options...
  name=$1
  shift
  "$wafer" compile "$skips" -q -o "$name.wplan" --machine small16 --mode pipelined --report "$name.json" "$@" 2>err ||
    fail "compile skips $*: $(head -1 err)"
}
skipping relayed --pin r0_node/relay1=0,6,1,4
skipping plain --bands 16
places relayed.wplan relayed.xml
says relayed.xml 'name="r0_node/relay1" node="conv0"'
places plain.wplan out.xml
grep -q relay out.xml && fail "a skip whose reader has room: there are relays"
[ "$(samples plain.json)" -le 1600 ] || fail "room at the reader: $(samples plain.json) cycles between samples"
skipping again --placement relayed.xml
cmp -s relayed.wplan again.wplan || fail "the placement of a plan with relays makes another plan"
skipping again --keep relayed.wplan
places again.wplan out.xml
cmp -s relayed.xml out.xml || fail "keeping a plan with relays makes another one"
skipping quick --objective latency
places quick.wplan out.xml
grep -q relay out.xml && fail "--objective latency: there are relays"
"$wafer" dump relayed.wplan --verify >/dev/null || fail "the plan with a relay does not verify"
"$wafer" run plain.wplan -q --output plain || fail "run plain"
agrees relayed.wplan plain --fidelity fabric
"$wafer" compile "$skips" -o no.wplan --relays some >out 2>err && fail "--relays some is taken"
says err "--relays wants auto or none, got 'some'"

# reductions behind what they reduce: the same values at both fidelities, in both modes and types; a placement
# says so, and makes the same plan again
small=$source/test/data/small_cnn
reducing() { # NAME options...
  name=$1
  shift
  "$wafer" compile $small.onnx -q -o $name.wplan --machine small16 --reductions behind "$@" 2>err ||
    fail "compile --reductions behind $*: $(head -1 err)"
}
for mode in pipelined streaming; do
  for dtype in f32 f16; do
    reducing behind --mode $mode --dtype $dtype
    "$wafer" dump behind.wplan --json >out && grep -q '"global"' out || fail "$mode: the mean is gone"
    grep -q '"name":.*"global",$' out && ! grep -q '"family":.*"reduce"' out || fail "$mode: the mean has a kernel of its own"
    gives 0 "^total" "$wafer" check behind.wplan --total 10
  done
done
reducing behind --mode pipelined
"$wafer" run behind.wplan -q --input "x=$small/in_x.npy" --expect $small >out 2>&1 || fail "behind: $(head -1 out)"
places behind.wplan behind.xml
says behind.xml 'reductions="behind"'
"$wafer" compile $small.onnx -q -o again.wplan --machine small16 --mode pipelined --placement behind.xml || fail "its placement"
cmp -s behind.wplan again.wplan || fail "the placement of a plan with reductions behind makes another plan"
"$wafer" compile $small.onnx -q -o again.wplan --machine small16 --mode pipelined --keep behind.wplan || fail "kept"
places again.wplan out.xml
cmp -s behind.xml out.xml || fail "keeping a plan with reductions behind makes another one"
"$wafer" compile $small.onnx -o no.wplan --reductions here >out 2>err && fail "--reductions here is taken"
says err "--reductions wants auto, apart or behind, got 'here'"

# what changes nothing is said; nothing is searched for streaming; copies are found by the search
build -o plain.wplan --mode streaming
build -o p2.wplan --mode streaming --placer best --place-moves 1000 --replicas 2 --objective wire --seed 3
says err "warning: --placer best, --objective wire, --replicas, --place-moves, --seed changed nothing: weight streaming"
grep -q "placer best: interval" err && fail "streaming: a pipeline was searched for"
cmp -s plain.wplan p2.wplan || fail "streaming: the search's options change the plan"
build -o p2.wplan --mode pipelined --seed 3
says err "warning: --seed changed nothing: shelves search for nothing"
build -o p2.wplan --mode pipelined --edge-gbps inf --replicas 2 --place-moves 20000 --report copies.json
says copies.json '"replicas":	2'
grep -q "changed nothing" err && fail "--replicas: $(cat err)"
build -o p2.wplan --mode pipelined --batch 4
says err "warning: --batch changed nothing: samples follow each other"
refuses 1 "--replicas 2 goes with --placer best" --replicas 2 --placer shelf

refuses 1 "small_cnn.onnx: error: no kernel or ONNX node is named 'steam'; there are 8 kernels: stem, pool" --pin steam=0,0,1,1
refuses 1 "--pin wants X,Y,WIDTH,HEIGHT" --pin stem=0,0,1
refuses 1 "--pin wants at least one core" --pin stem=0,0,0,4
refuses 4 "none of the 256 usable cores of small16 is free" --reserve 0,0,16,8 --reserve 0,8,16,8
refuses 1 "is pinned twice" --pin stem=0,0,16,12 --pin stem=0,0,16,12
refuses 1 "take --mode pipelined" --pin stem=0,0,16,12 --mode streaming
"$wafer" dump p.wplan --placement places.xml # a placement is of a pipeline, whoever says so
"$wafer" compile "$net" -q -o auto.wplan --machine small16 --placement places.xml 2>err || fail "auto: $(head -1 err)"
"$wafer" dump auto.wplan >out && says out "* pipelined"
"$wafer" dump plain.wplan --placement places.xml
refuses 1 "has places of weight streaming" --placement places.xml
refuses 4 "8 kernels need at least 265 cores side by side, the wafer has 256" --pin stem=0,0,16,16
refuses 4 "the usable cores are 16 x 16 at (0, 0)" --pin head=16,0,1,1
refuses 4 "it would lie on kernel 'stem', pinned to 0,0,16,12" --pin stem=0,0,16,12 --pin head=3,3,1,1
refuses 4 "it would lie on the reserved cores at (3, 3)" --pin head=3,3,1,1 --reserve 3,3,2,2
refuses 4 "needs 28224 bytes per core, 15360 are allowed; the nearest shapes that fit:" --pin stem=0,0,1,1
refuses 4 "has no shape of 7x7 cores that is worth it; the nearest:" --pin depthwise=0,0,7,7
refuses 2 "is empty or leaves the fabric of 16 x 16" --reserve 10,10,7,2
refuses 2 "p.wplan" --placement p.wplan
sed 's/machine="small16"/machine="other"/' p.xml >other.xml
build -o q.wplan --placement other.xml 2>err
says err "was made for machine 'other': its rectangles are taken as they are on 'small16'"
sed 's/<kernel/<colonel/' p.xml >bad.xml
refuses 2 "bad.xml:3" --placement bad.xml
finish "control: pins, reserved cores, placements and kept plans hold"
