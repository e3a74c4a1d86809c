#!/bin/sh
# A model of several functions of the wafer: which mode auto takes, and whose the report's figures are.
# usage: several.sh WAFER
. "${0%/*}/../lib.sh"
wafer=$1
cd "$work" || exit 1

"$wafer" zoo mlp --widths 64,64,64,64 -o small.onnx -q || fail "zoo"
"$wafer" zoo mlp --widths 512,512,512,512,512,512,512 -o wide.onnx -q || fail "zoo"
build() { model=$1 out=$2; shift 2; "$wafer" compile "$model.onnx" -q -o "$out.wplan" --report "$out.json" "$@" 2>err ||
  fail "compile $model $*: $(head -1 err)"; }
value() { sed -n "s/^	\"$2\":	\"*\([^\",]*\)\"*,*$/\1/p" "$1.json"; }

# auto: a pipeline finds its weights where they were, as long as samples have one size, and is faster; it was streaming
# whatever the model, and then a pipeline whose weights came anew with each sample. The first sample waits for all of them,
# in streaming for those of a layer: by itself it is the sooner done the fewer its weights are.
for model in small wide; do
  for objective in throughput latency; do
    told=interval_cycles
    [ $objective = latency ] && told=latency_cycles
    for mode in auto pipelined streaming; do
      build $model $model.$objective.$mode --dim batch=1..4 --mode $mode --objective $objective
    done
    best=pipelined
    [ "$(value $model.$objective.streaming $told)" -lt "$(value $model.$objective.pipelined $told)" ] && best=streaming
    [ "$(value $model.$objective.auto mode)" = $best ] && cmp -s $model.$objective.auto.wplan $model.$objective.$best.wplan ||
      fail "$model, $objective: auto is $(value $model.$objective.auto mode), $best is faster"
    echo "$objective $best" >>bests
  done
done
[ "$(sort -u bests | wc -l)" = 3 ] || fail "not the faster of both modes: $(cat bests)"

# Figures are those of the size that takes longest, which are those of that size alone: some were sums of all sizes, and
# no byte crossed the edge.
build small one --dim batch=4 --mode streaming
python3 - small.throughput.streaming.json one.json <<'P' || fail "other figures than those of the largest size"
import json, sys
several, one = (json.load(open(f)) for f in sys.argv[1:])
for key in ('edge_in_bytes', 'edge_out_bytes', 'weight_bytes', 'operations', 'compute_interval_cycles',
            'edge_interval_cycles', 'active_cores'):
    assert several[key] == one[key], (key, several[key], one[key])
assert one['edge_in_bytes'] == one['edge_out_bytes'] == 4 * 64 * 4 and 'functions' not in one
calls = {f['name']: f['calls'] for f in several['functions']}
assert calls == {'main@1': 0, 'main@2': 0, 'main@3': 0, 'main@4': 1}, calls
assert max(several['functions'], key=lambda f: f['cycles'])['name'] == 'main@4'
assert [k['function'] for k in several['kernels']] == [f for f in calls for _ in range(3)]
P
for report in small.throughput.auto small.throughput.streaming wide.throughput.auto wide.latency.auto; do
  python3 - $report.json <<'P' || fail "$report: more samples than kernels or the edge let there be"
import json, sys
r = json.load(open(sys.argv[1]))
assert r['samples_per_s'] <= r['compute_samples_per_s'] and r['samples_per_s'] <= r['transmission_samples_per_s']
for name, mode in r['modes'].items():
    assert (mode['interval_cycles'] < mode['latency_cycles']) == (name == 'pipelined'), (name, mode)
last = [f for f in r['functions'] if f['calls']][0]
assert (r['interval_cycles'], last['loads']) == (last['cycles'], 0), last
assert r['latency_cycles'] == last['cycles'] + last['load_cycles'], last
assert r['bottleneck'].startswith('function main@4: ')
P
done

# Sizes that take turns leave their weights where the others have them, also where the largest could be cut into more rows
# than the least has: each waited for all of its weights behind another.
build wide turns --dim batch=2..4 --mode pipelined
build wide again --dim batch=2..4 --mode pipelined
cmp -s turns.wplan again.wplan || fail "two plans of the same sizes"
python3 - turns.json <<'P' || fail "sizes that take turns wait for each other's weights"
import json, sys
for f in json.load(open(sys.argv[1]))['functions']:
    assert f['load_behind_cycles'] == 0 < f['load_cycles'], f
P

# What pieces cannot have is refused by its own name, and what one plan had is not asked of them: a training step of several
# sizes failed at the check of its plan, a pin of nobody was taken, bands of --keep were called --bands, --batch was warned
# of twice.
gives 1 "--dim batch=1..2: a training step is of one size" "$wafer" compile small.onnx -o no.wplan --dim batch=1..2 --train \
  --loss mse
gives 1 "no kernel or ONNX node is named 'nobody'" "$wafer" compile small.onnx -o no.wplan --dim batch=1..2 \
  --pin nobody=0,0,1,1
[ ! -e no.wplan ] || fail "a refusal left a plan behind"
build small pinned --dim batch=1..2 --pin layer.0=30,30,2,32
build small banded --dim batch=1 --mode pipelined --bands 4
build small kept --dim batch=1..2 --keep banded.wplan
says err "kernels stay where the earlier plan had its"
build small batch --dim batch=1..2 --batch 4
[ "$(grep -c -- --batch err)" = 1 ] || fail "--batch: $(cat err)"
finish "several: ok"
