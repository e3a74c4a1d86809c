#!/bin/sh
# A wafer cut into bands with a pipeline each: samples in turn, the same values at both fidelities, cycles
# predicted and counted; what the report says; placements that keep the bands; what is refused.
# usage: bands.sh WAFER SOURCE
. "${0%/*}/../lib.sh"
wafer=$1 source=$2
model=$source/test/data/small_cnn.onnx
cd "$work" || exit 1
number() { sed -n 's/^\t"'$2'":\t\([0-9]*\),\{0,1\}$/\1/p' "$1" | head -1; }
compiled() { # NAME options...
  name=$1
  shift
  "$wafer" compile "$model" -o $name.wplan --mode pipelined --machine small64 --report $name.json "$@" >$name.out \
    2>err || fail "compile $*: $(head -1 err)"
}

# -- three bands: a third of the interval of one, every sample's values as on the whole wafer --
compiled one --bands 1
compiled three --bands 3
[ "$(number one.json bands)" = 1 ] && [ "$(number three.json bands)" = 3 ] || fail "the report lacks its bands"
says three.out "3 bands of 21 rows"
alone=$(number three.json one_band_interval_cycles) edge=$(number three.json edge_interval_cycles)
third=$(((alone + 2) / 3))
[ "$(number three.json interval_cycles)" = $((third > edge ? third : edge)) ] ||
  fail "interval $(number three.json interval_cycles), of one band $alone, edge $edge"
"$wafer" dump three.wplan --verify >out 2>err || fail "verify: $(head -1 err)"
"$wafer" dump three.wplan >out 2>err && says out "3 bands have the same pipeline, 21 rows apart"
"$wafer" dump three.wplan --core 3,45 >out 2>err && says out "in band 2 of 3" # rows of 21: band 2 has row 42 on
"$wafer" dump three.wplan --core 3,63 >out 2>err && says out "in no band"
compiled two --bands 2 # three wait for the edge
says two.out "cycles per sample of a band"
for run in "one kernel" "three kernel" "three fabric"; do
  set -- $run
  "$wafer" run $1.wplan --fidelity $2 --samples 7 --seed 5 --output $1.$2 -q >out 2>err || fail "$run: $(head -1 err)"
done
# Layers may be cut over their channels here and not there: then parts are added up in another order.
"$wafer" run three.wplan --samples 7 --seed 5 --expect one.kernel --tol 1e-6 -q >out 2>err || fail "bands: other values"
for samples in 1 2 12; do # fewer than bands, and several for each
  gives 0 "^total" "$wafer" check three.wplan --samples $samples --seed 5 --total 10
done
"$wafer" run three.wplan --fidelity fabric --samples 6 --trace t.json --heat h.svg -q >out 2>err ||
  fail "trace: $(head -1 err)"
says h.svg "of 64x64"

# -- as many as keep pace with the edge, where nobody says: never a longer interval --
compiled auto
[ "$(number auto.json interval_cycles)" -le "$(number one.json interval_cycles)" ] || fail "auto: a longer interval"
compiled latency --objective latency
[ "$(number latency.json bands)" = 1 ] || fail "bands do not make a sample faster"

# Programs take 667 cycles of a sample on the whole wafer, their streams 542, the edge 271: bands bring them to the edge's
# pace; where nothing limits the edge, to a fraction.
[ "$(number auto.json interval_cycles)" = "$edge" ] || fail "auto: $(number auto.json interval_cycles), the edge $edge"
compiled free --edge-gbps inf
compiled alone --edge-gbps inf --bands 1
[ $((4 * $(number free.json interval_cycles))) -lt "$(number alone.json interval_cycles)" ] ||
  fail "no edge: $(number free.json interval_cycles) cycles, one band $(number alone.json interval_cycles)"
gives 0 "^total" "$wafer" check free.wplan --samples 70 --seed 5 --total 10

# Sizing would have 16 bands of this one keep the edge's pace, and fewer do, through which a sample is sooner.
"$wafer" compile "$source/test/data/skips.onnx" -q -o few.wplan --mode pipelined --machine small64 --report few.json 2>err ||
  fail "skips: $(head -1 err)"
[ "$(number few.json bands)" -le 4 ] && [ "$(number few.json interval_cycles)" = "$(number few.json edge_interval_cycles)" ] ||
  fail "few: $(number few.json bands) bands, $(number few.json interval_cycles) cycles"
"$wafer" compile "$source/test/data/skips.onnx" -q -o many.wplan --mode pipelined --machine small64 --bands 16 --report many.json
[ "$(number few.json latency_cycles)" -lt "$(number many.json latency_cycles)" ] || fail "few: a longer latency"
gives 0 "^total" "$wafer" check few.wplan --samples 40 --seed 5 --total 5

# Heights that divide the network's dims: rows of 8 and 4 of 64, where others take up to a sixth longer.
for net in "averages 8 260" "steep 4 130"; do
  set -- $net
  "$wafer" compile "$source/test/data/$1.onnx" -q -o suited.wplan --mode pipelined --machine small64 --edge-gbps inf \
    --report suited.json 2>err || fail "$1: $(head -1 err)"
  [ "$((64 / $(number suited.json bands) % $2))" = 0 ] && [ "$(number suited.json interval_cycles)" -le $3 ] ||
    fail "$1: $(number suited.json bands) bands, $(number suited.json interval_cycles) cycles"
done

# -- the search counts what programs take: it is never slower than shelves, and the report says whose plan it is --
for options in "" "--edge-gbps inf" "--bands 1" "--objective latency"; do
  compiled shelves $options
  compiled best --placer best --place-moves 30000 $options
  figure=interval_cycles && [ "$options" = "--objective latency" ] && figure=latency_cycles
  [ "$(number best.json $figure)" -le "$(number shelves.json $figure)" ] ||
    fail "best$options: $(number best.json $figure), shelves $(number shelves.json $figure)"
  says best.out "by core programs"
  says best.json '"timed_by":	"programs"'
done
# A search goes on from the faster plan to layouts nearby, whose programs may be faster.
for moves in 999 64000; do # a try for each thousand
  "$wafer" compile "$source/test/data/averages.onnx" -q -o near.wplan --mode pipelined --machine small64 --edge-gbps inf \
    --bands 1 --placer best --place-moves $moves --report near$moves.json 2>err || fail "near: $(head -1 err)"
done
[ "$(($(number near999.json interval_cycles) * 7 / 8))" -ge "$(number near64000.json interval_cycles)" ] ||
  fail "near: $(number near64000.json interval_cycles) cycles, $(number near999.json interval_cycles) without"
gives 0 "^total" "$wafer" check near.wplan --samples 8 --seed 5 --total 5
for plan in one three auto free alone best; do # what no layout is below
  says $plan.out "bound: no core programs"
  least=$(number $plan.json least_interval_cycles)
  [ "$least" -gt 0 ] && [ "$least" -le "$(number $plan.json interval_cycles)" ] ||
    fail "$plan: $(number $plan.json interval_cycles) cycles, no fewer than $least"
done
compiled streams --programs never
if grep -q "least_interval_cycles" streams.json; then fail "a bound of programs for streams"; fi
says streams.out "no programs: by streams that flow"
says streams.json '"timed_by":	"streams"'

# Where no programs tell streams keep the edge's pace on one band, through which a sample is soonest, whether programs are
# predicted to keep it in more (scales, in two) or in none.
"$wafer" compile "$source/test/data/scales.onnx" -q -o scales.wplan --mode pipelined --machine small16 --programs never \
  --report scales.json 2>err || fail "scales: $(head -1 err)"
[ "$(number scales.json bands)" = 1 ] || fail "scales: bands for programs that are none"
[ "$(number scales.json interval_cycles)" = "$(number scales.json edge_interval_cycles)" ] || fail "scales: not the edge's pace"
for bands in auto 16; do
  "$wafer" compile "$source/test/data/skips.onnx" -q -o skips.wplan --mode pipelined --machine small16 --edge-gbps 16 \
    --programs never --bands $bands --report skips$bands.json 2>err || fail "skips: $(head -1 err)"
done
[ "$(number skipsauto.json bands)" = 1 ] || fail "bands for programs that are none"
[ "$(number skipsauto.json interval_cycles)" = "$(number skips16.json interval_cycles)" ] || fail "no bands: slower"

# -- where there are too few colors for programs, streams tell: a plan for streams alone is never faster than what is taken,
# whose bands were chosen, and whose copies of kernels left out, for programs that it has not --
model=$source/test/data/steep.onnx
"$wafer" machines small64 | sed 's/\(width\|height\)="64"/\1="8"/g;s/colors="24"/colors="4"/' >few.xml
sed -i 's/\(<edge in-bytes-per-second="\)[0-9]*\(" out-bytes-per-second="\)[0-9]*/\1unlimited\2unlimited/' few.xml
for placer in shelf best; do
  compiled plain --machine few.xml --placer $placer --place-moves 30000
  says plain.out "colors"
  compiled streams --machine few.xml --placer $placer --place-moves 30000 --programs never
  [ "$(number plain.json interval_cycles)" -le "$(number streams.json interval_cycles)" ] ||
    fail "$placer: $(number plain.json interval_cycles) cycles by streams, laid out for them $(number streams.json interval_cycles)"
done
model=$source/test/data/small_cnn.onnx

# -- a placement keeps its bands --
"$wafer" dump three.wplan --placement p.xml >out 2>err && says p.xml 'bands="3"'
compiled again --placement p.xml
"$wafer" dump three.wplan --xml >a.xml && "$wafer" dump again.wplan --xml >b.xml
cmp a.xml b.xml || fail "the placement gives another plan"
compiled kept --keep three.wplan
[ "$(number kept.json bands)" = 3 ] || fail "--keep forgets the bands"

# -- bands at both sides of a wafer whose words cross both borders: half of them are the others, mirrored --
"$wafer" machines small64 | sed 's/<usable.*/<usable x="4" y="1" width="57" height="62"\/>/
  s/\(<edge.*\)\/>/\1 sides="2"\/>/' >both.xml
compiled sided --machine both.xml --bands 4 --sides 2 --edge-gbps inf
says sided.out "4 bands of 31 rows at the west and the east side"
"$wafer" dump sided.wplan >out 2>err && says out "31 rows apart, half of them mirrored at the east border"
"$wafer" dump sided.wplan --core 4,1 >out 2>err && says out "in band 0 of 4"
"$wafer" dump sided.wplan --core 59,32 >out2 2>err && says out2 "in band 3 of 4, mirrored" # 63 - 4, 1 + 31
sed 1,3d out >a && sed 1,3d out2 >b && { cmp -s a b || fail "core 4,1 of the first band and its image differ"; }
"$wafer" run sided.wplan --samples 7 --seed 5 --expect one.kernel --tol 1e-6 -q >out 2>err || fail "sides: other values"
"$wafer" run sided.wplan --fidelity fabric --samples 7 --seed 5 --expect one.kernel --tol 1e-5 -q --heat h.svg >out 2>err ||
  fail "sides: other values on cores: $(head -1 err)"
for samples in 1 2 3 24; do
  gives 0 "^total" "$wafer" check sided.wplan --samples $samples --seed 5 --total 10
done
"$wafer" dump sided.wplan --placement p.xml >out 2>err && says p.xml 'bands="4" sides="2"'
compiled again --machine both.xml --placement p.xml --edge-gbps inf
"$wafer" dump sided.wplan --xml >a.xml && "$wafer" dump again.wplan --xml >b.xml
cmp a.xml b.xml || fail "the placement at both sides gives another plan"
compiled whole --machine both.xml --sides 1 --edge-gbps inf # where nobody says, no slower
compiled either --machine both.xml --edge-gbps inf
[ "$(number either.json interval_cycles)" -le "$(number whole.json interval_cycles)" ] || fail "sides: no faster"
# a layout is kept on wafers, and with options, that leave no room for its bands
"$wafer" machines small64 | sed 's/<usable.*/<usable x="4" y="1" width="56" height="1"\/>/' >row.xml
compiled low --machine row.xml --keep sided.wplan
compiled streams --machine both.xml --mode streaming --keep sided.wplan
compiled west --machine both.xml --sides 1 --keep sided.wplan
"$wafer" dump west.wplan --placement west.xml && { grep -q 'sides="2"' west.xml && fail "--sides 1 was not heeded"; }
gives 3 "take 6" "$wafer" compile "$model" -o no.wplan --mode pipelined --machine both.xml --bands 5 --sides 2
"$wafer" machines small64 | sed 's/<usable.*/<usable x="60" y="0" width="4" height="64"\/>/
  s/\(<edge.*\)\/>/\1 sides="2"\/>/' >narrow.xml # no usable column in the western half's image
"$wafer" compile "$source/test/data/scales.onnx" -q -o narrow.wplan --machine narrow.xml 2>err || fail "narrow: $(head -1 err)"
gives 3 "west border alone" "$wafer" compile "$model" -o no.wplan --mode pipelined --machine small64 --bands 4 --sides 2

gives 3 "west border alone" "$wafer" compile "$model" -o no.wplan --machine small64 --sides 2
gives 4 "at most 64 bands" "$wafer" compile "$model" -o no.wplan --mode pipelined --machine small64 --bands 65
gives 3 "bands of a wafer" "$wafer" compile "$model" -o no.wplan --mode pipelined --machine small64 --bands 2 --reserve 0,0,4,4
# Weight streaming: bands go through the phases together, stripes side by side in each.
together() { # NAME options...
  name=$1
  shift
  "$wafer" compile "$model" -q -o "$name.wplan" --report "$name.json" --machine small16 --mode streaming "$@" 2>err ||
    fail "$name: $(head -1 err)"
  agrees "$name.wplan" "$source/test/data/small_cnn" --input "x=$source/test/data/small_cnn/in_x.npy"
}
together one --bands 1 --batch auto
together auto --batch auto
together four --bands 4 --batch auto
together eight --batch 8
[ "$(number auto.json interval_cycles)" -le "$(number one.json interval_cycles)" ] || fail "streaming: bands are slower"
[ "$(number four.json bands)" = 4 ] || fail "streaming: $(number four.json bands) bands for 4"
[ "$(number eight.json batch_samples)" = 8 ] || fail "streaming: $(number eight.json batch_samples) samples for 8"
[ "$(number eight.json bands)" -gt 1 ] || fail "streaming: 8 samples are on the whole wafer"
"$wafer" dump four.wplan --certificate >cert || fail "no certificate of streaming in bands"
says cert "apart, on no dead or reserved core"
"$wafer" dump four.wplan >text
says text "4 bands have the same phases at the same time, 4 rows apart"
says text "side by side in 4 bands of 4 rows"
"$wafer" dump four.wplan --core 3,9 >core
says core "in band 2 of 4"
# Rows and columns that are left over have nothing, nor have those above the usable ones.
"$wafer" machines small16 | sed 's/<fabric.*/<fabric width="16" height="20"\/>/
  s/<usable.*/<usable x="1" y="2" width="13" height="17"\/>/' >odd.xml
together odd --machine odd.xml --batch 24 --bands 4
"$wafer" dump odd.wplan >text
says text "each in 3 stripes of 4 columns, 2 in each"
for core in 2,1 2,18; do
  "$wafer" dump odd.wplan --core $core >core
  says core "in no band" && says core "at most 1024 of"
done
"$wafer" dump odd.wplan --core 13,3 >core
says core "in no stripe" && says core "at most 1024 of"
"$wafer" dump odd.wplan --core 2,3 >core
grep -q "at most 1024 of" core && fail "nothing lies on a core of the first stripe"
"$wafer" run odd.wplan -q --fidelity fabric --samples 24 --trace trace.json --trace-cores "7,10" || fail "no trace"
samples=$(sed -n '/"pid":4,"tid":335/s/.*"sample":\([0-9]*\).*/\1/p' trace.json | sort -u | tr '\n' ' ')
[ "$samples" = "18 6 " ] || fail "a core of the third band and the second stripe is at samples $samples, not 6 and 18"
"$wafer" run odd.wplan -q --fidelity fabric --report load.json --heat heat.svg || fail "no load"
awk '/"core_utilization_fraction"/ { sub(",", "", $2); if ($2 > 1) exit 1 }' load.json || fail "cores do more than they can"
share=$("$wafer" dump odd.wplan --why stem | sed -n 's/.*its own: \([0-9]*\)\..*% of the.*/\1/p')
[ "${share:-100}" -lt 100 ] || fail "a layer takes $share % of a sample"
# What has room in more bands is not refused, and fewer samples are a remedy that bands divide.
together two --machine odd.xml --batch 6 --bands 2
# Where a pipeline's programs are slow, samples side by side may be faster: that is said, and with --batch auto they are.
steps=$source/test/data/steps.onnx
"$wafer" compile "$steps" -o slow.wplan --report slow.json --machine small16 >out 2>err || fail "steps: $(head -1 err)"
samples=$(sed -n 's/.*where \([0-9]*\) samples may be resident together: --batch auto/\1/p' err)
says out "the faster mode changes at --batch ${samples:-none}"
"$wafer" compile "$steps" -q -o fast.wplan --report fast.json --machine small16 --batch auto || fail "steps, auto"
grep -q '"mode":.*"streaming"' fast.json || fail "--batch auto: no streaming"
[ $((4 * $(number fast.json interval_cycles))) -lt "$(number slow.json interval_cycles)" ] || fail "--batch auto is slow"
# samples of all bands, the last one filled up, are those of kernel fidelity
for samples in 1 5 8 11; do
  gives 0 "^output" "$wafer" check eight.wplan --samples $samples --total 5
done
gives 1 "as many samples each" "$wafer" compile "$model" -o no.wplan --mode streaming --machine small64 --bands 2
gives 1 "multiple of 3" "$wafer" compile "$model" -o no.wplan --mode streaming --machine small64 --bands 3 --batch 8
gives 4 "at most 16 bands" "$wafer" compile "$model" -o no.wplan --mode streaming --machine small16 --bands 17 --batch 17
gives 1 "--bands" "$wafer" compile "$model" -o no.wplan --bands 0
[ ! -e no.wplan ] || fail "a refusal left a plan behind"
# More than 256 kernels at once get programs on request alone: 4,000 chained operators, the input in every other one, were
# laid out again and again for theirs, and 20,000 took 157 s.
python3 - <<'CHAIN' || fail "no chain"
def field(number, payload):
    size, length = len(payload), b""
    while size > 127: length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + payload
kind = field(2, field(1, bytes([8, 1]) + field(2, b"".join(field(1, bytes([8, d])) for d in (1, 64)))))
graph = b""
for i in range(4000):
    ins = [b"v%d" % i if i else b"x"] + [b"x"] * (i % 2)
    out = b"y" if i == 3999 else b"v%d" % (i + 1)
    graph += field(1, b"".join(field(1, n) for n in ins) + field(2, out) + field(4, b"Add" if i % 2 else b"Relu"))
graph += field(2, b"chain") + field(11, field(1, b"x") + kind) + field(12, field(1, b"y") + kind)
open("chain.onnx", "wb").write(bytes([8, 8]) + field(7, graph) + field(8, bytes([16, 17])))
CHAIN
gives 0 "made when they are needed; compile with --programs always" "$wafer" compile chain.onnx -o chain.wplan
finish "bands: ok"
