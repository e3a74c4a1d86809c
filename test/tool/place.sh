#!/bin/sh
# `wafer place` on a small kernel graph: the same bytes whatever the threads, what it prints, what it refuses;
# and `wafer compile --placer best`.
# usage: place.sh WAFER SOURCE
. "${0%/*}/../lib.sh"
wafer=$1 source=$2
cd "$work" || exit 1
# fails CODE TEXT command...: exit code and error text, and no file left behind
fails() {
  code=$1 text=$2
  shift 2
  "$@" >out 2>err
  got=$?
  [ $got = "$code" ] || fail "$*: exit $got, want $code: $(head -1 err)"
  says err "$text"
  [ ! -e no.paint ] || fail "$*: left a file behind"
}

graph=$source/test/data/chain.kgraph
for threads in 1 2; do
  "$wafer" place --ispd "$graph" -o $threads.paint --place-moves 20000 --seed 7 --threads $threads \
    --svg $threads.svg >$threads.out 2>err || fail "place: $(head -1 err)"
done
cmp 1.paint 2.paint || fail "threads change the result"
cmp 1.svg 2.svg || fail "threads change the picture"
for text in "benchmark chain: 6 kernels, 6 edges, 48 x 40 cores, weights 1/2/3" "time " "wire " "a0 " "a1 " \
  "bound " "gap " "between them"; do
  says 1.out "$text"
done
for kernel in first second third bypass block k6; do
  says 1.paint "$kernel = "
  says 1.paint "$kernel : place("
done
says 1.paint "kmap = union("
"$wafer" place --ispd "$graph" -o s.paint --place-seconds 0.2 -q >out 2>err || fail "seconds: $(head -1 err)"
for moves in 1 5000; do # nothing is worked out beside the moves
  "$wafer" place --ispd "$graph" -o s.paint --place-moves $moves -q >out 2>err || fail "$moves moves: $(head -1 err)"
  says out "first legal answer after"
  tried=$(sed -n 's/^search *\([0-9]*\) moves.*/\1/p' out)
  [ "$tried" -le $((moves + 10000)) ] || fail "$moves moves: $tried were tried"
done
if command -v xmllint >/dev/null; then xmllint --noout 1.svg || fail "the picture is no XML"; fi

fails 1 "please" "$wafer" place --ispd "$graph"
fails 1 "a0 or a1" "$wafer" place --ispd "$graph" -o no.paint --adapters a2
fails 1 "--place-moves wants" "$wafer" place --ispd "$graph" -o no.paint --place-moves 0
fails 1 "what is" "$wafer" place --ispd "$graph" -o no.paint more
cp "$graph" own.kgraph # an input is never written over
fails 1 "is an input as well" "$wafer" place --ispd own.kgraph -o ./own.kgraph
fails 1 "is another output as well" "$wafer" place --ispd "$graph" -o no.paint --svg no.paint
cmp -s "$graph" own.kgraph || fail "place wrote over its input"
# said before the search, which would take a minute
fails 7 "No such file or directory" timeout 20 "$wafer" place --ispd "$graph" -o no/such/no.paint
fails 7 "Not a directory" timeout 20 "$wafer" place --ispd "$graph" -o no.paint --svg "$graph/no.svg"
fails 7 "no.kgraph" "$wafer" place --ispd no.kgraph -o no.paint
sed 's/conv\[2\] W=16/conv[2] W=x/' "$graph" >bad.kgraph
fails 2 "bad.kgraph:14" "$wafer" place --ispd bad.kgraph -o no.paint
sed 's/memlimit=2048/memlimit=2048.5/' "$graph" >bad.kgraph
fails 2 "whole number, got '2048.5" "$wafer" place --ispd bad.kgraph -o no.paint
sed 's/^conv/(* a kernel *) conv/' "$graph" >behind.kgraph # what stands behind a comment is read
for g in "$graph" behind.kgraph; do
  "$wafer" place --ispd "$g" -o "$(basename "$g").paint" --place-moves 2000 >out 2>err || fail "$g: $(head -1 err)"
done
cmp -s chain.kgraph.paint behind.kgraph.paint || fail "a node behind a comment is lost"
awk '/->/ && !done { done = sub(/-> *conv/, "-> dblock") } { print }' "$graph" >bad.kgraph
fails 2 "which is of type conv" "$wafer" place --ispd bad.kgraph -o no.paint
sed 's/memlimit=2048/memlimit=9/' "$graph" >bad.kgraph
fails 4 "no shape within" "$wafer" place --ispd bad.kgraph -o no.paint
sed 's/width=48/width=9/;s/height=40/height=9/' "$graph" >bad.kgraph
fails 4 "" "$wafer" place --ispd bad.kgraph -o no.paint

# -- the same engine lays a model's pipeline out: the same bytes again, never worse than the shelves --
model=$source/test/data/small_cnn.onnx
number() { sed -n 's/^\t"'$2'":\t\([0-9]*\),$/\1/p' "$1"; }
compiled() { # NAME options...
  name=$1
  shift
  "$wafer" compile "$model" -o $name.wplan --mode pipelined --machine small64 --programs never --report $name.json "$@" \
    >out 2>$name.err || fail "compile $*: $(head -1 $name.err)"
}
compiled shelf --placer shelf
compiled best --placer best
compiled again --placer best
cmp best.wplan again.wplan || fail "the search is not the same twice"
for objective in throughput latency wire; do
  compiled $objective --placer best --objective $objective --place-moves 30000 --seed 3
  says $objective.err "placer best: interval "
  [ $objective = latency ] || # which counts one sample
    [ "$(number $objective.json interval_cycles)" -le "$(number shelf.json interval_cycles)" ] ||
    fail "$objective: a longer interval than on shelves"
  "$wafer" dump $objective.wplan --verify >out 2>err || fail "$objective: $(head -1 err)"
done
compiled late --placer shelf --objective latency
[ "$(number late.json latency_cycles)" -lt "$(number shelf.json latency_cycles)" ] || fail "shelves make one sample no sooner"
[ "$(number latency.json latency_cycles)" -le "$(number late.json latency_cycles)" ] ||
  fail "latency: longer than on shelves"
compiled seconds --placer best --place-seconds 0.3

# -- by core programs, and of a model in pieces, which take a sample after the other: the search was slower than shelves
# when it looked for short wires, or copied the kernels of pieces --
slower() { # NAME options...: not slower than on shelves
  net=$1
  shift
  set -- "$source/test/data/$net.onnx" -o net.wplan -q --mode pipelined --machine small64 --edge-gbps inf "$@"
  "$wafer" compile "$@" --report s.json 2>err && "$wafer" compile "$@" --placer best --place-moves 20000 \
    ${objective:+--objective $objective} --report b.json 2>err || fail "compile $net: $(head -1 err)"
  [ "$(number b.json interval_cycles)" -le "$(number s.json interval_cycles)" ] ||
    fail "$net, ${objective:-throughput}: $(number b.json interval_cycles) cycles, on shelves $(number s.json interval_cycles)"
}
for objective in wire ""; do
  slower averages
  slower turns
done

# -- where compute binds, kernels get replicas: a shorter interval, the same values --
compiled one --placer best --replicas 1 --edge-gbps inf
compiled many --placer best --edge-gbps inf
says many.err "placer best: interval "
grep -q '"replicas":	\([2-9]\|[1-9][0-9]\)' many.json || fail "no kernel has replicas"
[ $((2 * $(number many.json interval_cycles))) -lt "$(number one.json interval_cycles)" ] ||
  fail "replicas: the interval is $(number many.json interval_cycles), without $(number one.json interval_cycles)"
[ "$(number many.json one_replica_interval_cycles)" -gt "$(number many.json interval_cycles)" ] ||
  fail "replicas: one alone is as fast as all"
# The kernel between whose samples most time passes, and no interval below that time, whatever part of its copies a train fills.
set -- $(sed -n 's/^bottleneck: kernel .*: \([0-9]*\) cycles per sample on each of \([0-9]*\) times .*/\1 \2/p' out)
[ $# = 2 ] || fail "replicas: no bottleneck of copies: $(grep ^bottleneck out)"
[ "$(number many.json interval_cycles)" -ge $((($1 + $2 - 1) / $2)) ] || fail "replicas: faster than their slowest kernel"
"$wafer" dump many.wplan --verify >out 2>err || fail "replicas: $(head -1 err)"
for plan in one many; do
  "$wafer" run $plan.wplan --samples 3 --seed 5 --output $plan.out -q >out 2>err || fail "run $plan: $(head -1 err)"
done
"$wafer" run many.wplan --samples 3 --seed 5 --expect one.out --tol 1e-6 -q >out 2>err || fail "replicas: other values"
# Their programs share out the samples; so many of them want more colours than there are, or repeat too late.
compiled few --placer best --edge-gbps inf --replicas 2
grep -q '"replicas":	2' few.json || fail "no kernel has two replicas"
"$wafer" run few.wplan --samples 3 --seed 5 --fidelity fabric --output few.out -q >out 2>err ||
  fail "run few: $(head -1 err)"
compiled several --placer best --edge-gbps inf --replicas 16
fails 4 "its routes need" "$wafer" run several.wplan --fidelity fabric
fails 4 "so many different numbers of replicas" "$wafer" run many.wplan --fidelity fabric
fails 1 "--replicas" "$wafer" compile "$model" -o no.paint --replicas 0
fails 1 "shelf or best" "$wafer" compile "$model" -o no.paint --placer worst
fails 1 "throughput, latency or wire" "$wafer" compile "$model" -o no.paint --objective area
fails 1 "--place-seconds wants" "$wafer" compile "$model" -o no.paint --place-seconds 0
fails 1 "--place-moves" "$wafer" compile "$model" -o no.paint --place-moves 0

finish "place: ok"
