#!/bin/sh
# `wafer run --fidelity fabric`: the picture of what was busy, load in the report, faults and their exit codes; what is
# asked wrongly leaves nothing behind. usage: fabric_run.sh WAFER SOURCE
set -u
wafer=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0
wrong() { echo "FAILED: $*" >&2; failed=1; }
# gives CODE TEXT options...: exit code, and text on either output
gives() {
  code=$1 text=$2
  shift 2
  "$wafer" run p.wplan "$@" >out 2>&1
  got=$?
  [ $got = "$code" ] || wrong "run $*: exit $got, want $code: $(head -1 out)"
  grep -qF -- "$text" out || wrong "run $*: nothing says '$text': $(head -3 out)"
}

for mode in streaming pipelined; do
  "$wafer" compile "$source/test/data/small_cnn.onnx" -q -o p.wplan --machine small64 --mode $mode ||
    wrong "compile, $mode"
  gives 0 "interval" --fidelity fabric --samples 2 --heat heat.svg --report report.json
  grep -q "cores: cycles at work" heat.svg || wrong "no panel of cores, $mode"
  grep -q "links: wavelets" heat.svg || wrong "no panel of links, $mode"
  [ "$(wc -c <heat.svg)" -lt 200000 ] || wrong "the picture is large, $mode"
  grep -q '"fidelity":.*"fabric"' report.json || wrong "the report is not of fabric fidelity, $mode"
  grep -q '"core_utilization_fraction"' report.json || wrong "the report has no load, $mode"
  if command -v xmllint >/dev/null; then
    xmllint --noout heat.svg || wrong "the picture is no XML, $mode"
  fi
  gives 5 "fault drop@1,0,0 struck a wavelet" --fidelity fabric --fault drop@1,0,0
  gives 6 "elements differ from those without faults" --fidelity fabric --fault flip@1,0,1000,30
  gives 0 "faults harmless" --fidelity fabric --fault stuck@63,63,99999999 --fault flip@3,4,100,4,999999999
  gives 0 "fault flip@3,4,100,4,999999999 did not strike" --fidelity fabric --fault flip@3,4,100,4,999999999
done
rm heat.svg
gives 1 "--heat is of --fidelity fabric" --heat heat.svg
gives 1 "--fault is of one run" --fidelity fabric --fault drop@1,0,0 --repeat 2
gives 1 "--fault wants drop@" --fidelity fabric --fault drop@1,0
gives 1 "a fault at core (64,0) of 64x64" --fidelity fabric --fault drop@64,0,1
[ ! -e heat.svg ] || wrong "a picture of a run that was not"
exit $failed
