#!/bin/sh
# --objective latency: a sample by itself is done the sooner for kernels that are faster than the edge's pace, and the
# mode is chosen by that. usage: latency.sh WAFER SOURCE
. "${0%/*}/../lib.sh"
wafer=$1 source=$2
cd "$work" || exit 1
number() { sed -n 's/^\t"'$2'":\t\([0-9]*\),\{0,1\}$/\1/p' "$1" | head -1; }

for net in averages split early; do
  for asked in "pipelined throughput" "pipelined latency" "streaming latency" "auto latency"; do
    set -- $asked
    "$wafer" compile "$source/test/data/$net.onnx" -q -o late.wplan --mode $1 --objective $2 --machine small64 \
      --bands 1 --report $1.$2.json 2>err || fail "$net, $asked: $(head -1 err)"
  done
  late=$(number pipelined.latency.json latency_cycles) paced=$(number pipelined.throughput.json latency_cycles)
  [ "$late" -le "$paced" ] || fail "$net: a latency of $late cycles, $paced where none was asked for"
  [ $net != averages ] || [ "$late" -lt "$paced" ] || fail "$net: kernels keep to the edge's pace"
  least=$(number streaming.latency.json latency_cycles)
  [ "$least" -le "$late" ] || least=$late
  [ "$(number auto.latency.json latency_cycles)" = "$least" ] || fail "$net: auto does not take $least cycles"
done
finish "latency: ok"
