#!/bin/sh
# `wafer run --fidelity fabric`: the picture of what was busy, load in the report, faults and their exit codes; what is
# asked wrongly leaves nothing behind. `wafer check`: what every kernel makes, beside kernel fidelity. `wafer fabric`
# as JSON. usage: fabric_run.sh WAFER SOURCE
. "${0%/*}/../lib.sh"
wafer=$1 source=$2
cd "$work" || exit 1
run() { code=$1 text=$2; shift 2; gives "$code" "$text" "$wafer" run p.wplan "$@"; }

for mode in streaming pipelined; do
  "$wafer" compile "$source/test/data/small_cnn.onnx" -q -o p.wplan --machine small64 --mode $mode ||
    fail "compile, $mode"
  run 0 "interval" --fidelity fabric --samples 2 --heat heat.svg --report report.json
  grep -q "cores: cycles at work" heat.svg || fail "no panel of cores, $mode"
  grep -q "links: wavelets" heat.svg || fail "no panel of links, $mode"
  [ "$(wc -c <heat.svg)" -lt 200000 ] || fail "the picture is large, $mode"
  grep -q '"fidelity":.*"fabric"' report.json || fail "the report is not of fabric fidelity, $mode"
  grep -q '"core_utilization_fraction"' report.json || fail "the report has no load, $mode"
  if command -v xmllint >/dev/null; then
    xmllint --noout heat.svg || fail "the picture is no XML, $mode"
  fi
  gives 0 "values: mean difference" "$wafer" check p.wplan
  "$wafer" check p.wplan --json >check.json 2>check.err || fail "check --json, $mode: $(cat check.err)"
  kernels=$(grep -c '"kind":.*"kernel"' check.json)
  apart=$(sed -n '/"actions"/,/"outputs"/p' check.json | grep -c '"difference_of_largest":')
  [ "$kernels" -gt 3 ] && [ "$apart" = "$kernels" ] || fail "values of $apart kernels, there are $kernels, $mode"
  for kind in mean worst; do
    grep "\"${kind}_difference_of_largest\"" check.json | grep -qE ':[^0-9]*(0|[0-9.]*e-(0[6-9]|[1-9][0-9])),' ||
      fail "$kind difference of values, $mode: $(grep _largest check.json | tail -3)"
  done
  run 5 "fault drop@1,0,0 struck a wavelet" --fidelity fabric --fault drop@1,0,0
  run 6 "elements differ from those without faults" --fidelity fabric --fault flip@1,0,1000,30
  run 0 "faults harmless" --fidelity fabric --fault stuck@63,63,99999999 --fault flip@3,4,100,4,999999999
  run 0 "fault flip@3,4,100,4,999999999 did not strike" --fidelity fabric --fault flip@3,4,100,4,999999999
done
# Two groups, the second not full; samples that a launch names and the plan does not have.
gives 0 "" "$wafer" compile "$source/test/data/small_cnn.onnx" -o p.wplan --machine small64 --mode streaming --batch 2
run 0 "3 samples" --fidelity fabric --samples 3
gives 0 "output" "$wafer" check p.wplan --samples 3
gives 1 "--samples is for random inputs" "$wafer" check p.wplan --samples 3 --input input=x.npy
# A level more where an average that lies halfway is rounded otherwise: both fidelities add up a window in one order,
# by a scale of which f16 keeps as many bits.
for options in "streaming" "pipelined" "streaming --dtype f16" "pipelined --dtype f16"; do
  gives 0 "" "$wafer" compile "$source/test/data/averages.onnx" -o p.wplan --machine small16 --mode $options
  gives 0 "output y: differs by 0 of" "$wafer" check p.wplan
done
# Cores have all bits of a kernel's constants, kernel fidelity too: per channel they were rounded there (docs/validation.md).
for mode in streaming pipelined; do
  gives 0 "" "$wafer" compile "$source/test/data/scales.onnx" -o p.wplan --machine small16 --mode $mode --dtype f16
  gives 0 "output y: differs by 0 of" "$wafer" check p.wplan
done
# A pipeline's plan says how its cores go on with sends of the sample before: what is predicted when programs are made
# with it, and when they are made again.
gives 0 "" "$wafer" compile "$source/test/data/small_cnn.onnx" -o p.wplan --machine small16 --mode pipelined
run 0 "interval" --samples 24 --report report.json
"$wafer" check p.wplan --samples 24 --total 5 --json >check.json || fail "check: $(cat check.json)"
first=$(sed -n 's/.*"total_cycles":[^0-9]*\([0-9]*\).*/\1/p' report.json)
again=$(sed -n 's/.*"predicted_cycles":[^0-9]*\([0-9]*\).*/\1/p' check.json | tail -n 1)
[ -n "$first" ] && [ "$first" = "$again" ] || fail "a train takes $first cycles by its plan, $again by its programs"
# Cores with rooms for several samples make room behind the last one, too: a short train was said to take less.
gives 0 "" "$wafer" compile "$source/test/data/steps.onnx" -o p.wplan --machine small64 --mode pipelined
for samples in 1 64; do
  gives 0 "^total" "$wafer" check p.wplan --samples $samples --total 5
done
# Code has room beside the samples that a core holds, in streaming too: with eight of them the last kernel's cores trapped.
"$wafer" machines small16 | sed 's/<fabric.*/<fabric width="1" height="4"\/>/
  s/<usable.*/<usable x="0" y="0" width="1" height="4"\/>/' >tall.xml
gives 0 "bytes of code" "$wafer" compile "$source/test/data/early.onnx" -o p.wplan --machine tall.xml --mode streaming --batch 1 --bands 1
gives 0 "launches" "$wafer" compile "$source/test/data/steps.onnx" -o p.wplan --machine tall.xml --mode streaming --batch 8 --bands 1
gives 0 "^output" "$wafer" check p.wplan --total 5
gives 0 "launches" "$wafer" compile "$source/test/data/steps.onnx" -o p.wplan --machine tall.xml --mode streaming --batch auto
gives 0 "^output" "$wafer" check p.wplan --total 5
# What fills up a round of stripes is no sample: it was what a train of one waited for, and what its streams took.
gives 0 "" "$wafer" compile "$source/test/data/steps.onnx" -o p.wplan --machine small16 --mode streaming --batch auto
for samples in 1 3; do
  gives 0 "streams: mean error [0-9]\.[0-9]" "$wafer" check p.wplan --samples $samples --total 5
done
# Values of a sample cross the border side by side, in both directions, while cores compute.
gives 0 "" "$wafer" compile "$source/test/data/borders.onnx" -o p.wplan --machine small64 --mode pipelined
for samples in 1 6; do gives 0 "total" "$wafer" check p.wplan --samples $samples --total 3; done
# A kernel of a phase waits for its own weights alone: all of a phase waited for those of any, 13 % longer.
gives 0 "" "$wafer" compile "$source/test/data/late.onnx" -o p.wplan --machine small64 --mode streaming
gives 0 "output u" "$wafer" check p.wplan --total 2
# A core that takes more messages than it has microthreads sets up for the others in between, and has fewer of them where
# sends go on: a train that waits for that was said to take 7 % less.
gives 0 "" "$wafer" compile "$source/test/data/halves.onnx" -o p.wplan --machine small64 --mode pipelined --dtype f16
gives 0 "output y" "$wafer" check p.wplan --total 2
# A value without elements crosses the border, too, and what is done with it takes no cycle: in streaming 0 were counted.
for mode in streaming pipelined; do
  gives 0 "" "$wafer" compile "$source/test/data/nothing.onnx" -o p.wplan --machine small64 --mode $mode
  gives 0 "total: [1-9]" "$wafer" check p.wplan --mean 1 --total 1
done
# A model's own f16 is rounded like f16 storage, and was held to f32's tolerance.
gives 0 "" "$wafer" compile "$source/test/data/narrow.onnx" -o p.wplan --machine small64 --mode pipelined
gives 0 "output y: differs by .* 0.002 allowed" "$wafer" check p.wplan --seed 3
# Steps on the host: a kernel of a loop is called three times, and its cycles are those of one call.
gives 0 "" "$wafer" compile "$source/test/data/turns.onnx" -o p.wplan --machine small16 --mode streaming
gives 0 "values: mean difference" "$wafer" check p.wplan --report turns.json
gives 0 "output where: differs by 0 of" "$wafer" check p.wplan --mean 10 --total 5
run 0 "interval" --fidelity fabric --report report.json --heat heat.svg --trace trace.json
calls=$(awk '/"name":/ { turn = /"turn"/ } turn && /"cycles":/ { one = $2 } turn && /"busy_cycles":/ { print $2 / one }' report.json)
[ "${calls%.*}" = 3 ] || fail "the loop's kernel was busy for $calls calls"
grep -q "links: wavelets" heat.svg || fail "no panel of links with steps on the host"
starts=$(tr -d ' \t' <trace.json | grep -o '"name":"k[0-9]*turn","[^}]*"ts":[0-9.]*' | sort -u | wc -l)
[ "$starts" = 3 ] || fail "the loop's kernel starts at $starts times in the trace"
grep -q '"core_utilization_fraction"' report.json || fail "the report has no load with steps on the host"
# Faults strike in whichever call has their cycle, counted over all of them.
run 5 "fault drop@1,0,0 struck a wavelet" --fidelity fabric --fault drop@1,0,0
run 6 "elements differ from those without faults" --fidelity fabric --fault flip@0,0,9000,30
cycle=$(sed -n 's/^fault flip@0,0,9000,30 struck in cycle \([0-9]*\)$/\1/p' said)
[ "${cycle:-0}" -ge 9000 ] || fail "a fault of cycle 9000 struck in '$cycle'"
run 6 "struck in cycle 60\$" --fidelity fabric --fault flip@0,0,60,30 --samples 2
run 0 "faults harmless" --fidelity fabric --fault stuck@15,15,10
gives 6 "output z: differs by .* too much" "$wafer" check p.wplan --fault flip@0,0,9000,30
grep -A3 '"turn"' turns.json | grep -q '"difference_of_largest":' || fail "no values of the loop's kernel: $(cat turns.json)"
# Both dims of a window cut along one line of cores: more transfers than microthreads, so that what goes back along the
# line waits for what goes forth.
gives 0 "" "$wafer" zoo cnn --widths 1,24,18,10 --side 16 --batch 1 --init 1 -o line.onnx
gives 0 "" "$wafer" compile line.onnx -o p.wplan --machine small64 --mode streaming
gives 0 "kernels: mean error" "$wafer" check p.wplan --mean 1
# Layers in a row that have one weight, of zeros: it comes for the second while the first still has it.
gives 0 "" "$wafer" zoo cnn --widths 1,8,8,10 --side 8 --batch 1 -o shared.onnx
gives 0 "16 programs" "$wafer" compile shared.onnx -o p.wplan --machine small64 --mode streaming
gives 0 "output logits: differs by" "$wafer" check p.wplan
rm heat.svg
run 1 "--heat is of --fidelity fabric" --heat heat.svg
run 1 "--fault is of one run" --fidelity fabric --fault drop@1,0,0 --repeat 2
run 1 "--fault wants drop@" --fidelity fabric --fault drop@1,0
run 1 "a fault at core (64,0) of 64x64" --fidelity fabric --fault drop@64,0,1
[ ! -e heat.svg ] || fail "a picture of a run that was not"
# `wafer fabric CASE --json`: figures alone, on either side of the case; a word behind it that is no case is its file.
for words in "reduce --cores 8x1 --json" "--json reduce --cores 8x1" "reduce --json --cores 8x1"; do
  "$wafer" fabric $words >figures.json || fail "fabric $words"
  [ "$(head -n 1 figures.json)" = "{" ] && grep -q '"counted_cycles":' figures.json || fail "fabric $words: $(cat figures.json)"
done
gives 0 "counted" "$wafer" fabric reduce --json kept.json --cores 8x1
grep -q '"counted_cycles":' kept.json || fail "fabric --json kept.json"
finish "fabric run: ok"
