#!/bin/sh
# Where streams of a layout find no colour: what was left open is tried otherwise, and said; what is left is refused
# with one error. A long LSTM compiled on shelves and was refused with --placer best, and three GRUs were refused where
# weight streaming runs them.
# usage: colors.sh WAFER SOURCE
. "${0%/*}/../lib.sh"
wafer=$1 source=$2
net=$source/test/data/small_cnn.onnx
cd "$work" || exit 1
# colored N: small16 with so many colours
colored() { sed "s/colors=\"24\"/colors=\"$1\"/" "$source/runtime/machines/small16.xml" >"c$1.xml"; }
# compiled COLORS options...: a plan, without a word of an error, whose values are those of one with all colours
compiled() {
  colors=$1
  shift
  colored "$colors"
  rm -f p.wplan
  "$wafer" compile "$net" -q -o p.wplan --machine "c$colors.xml" "$@" 2>err || fail "$colors colours, $*: $(head -1 err)"
  grep -q "error:" err && fail "$colors colours, $*: an error of something that was only tried: $(grep error: err)"
  "$wafer" dump p.wplan --certificate >/dev/null || fail "$colors colours, $*: no certificate"
  agrees p.wplan whole
}
"$wafer" compile "$net" -q -o whole.wplan --machine small16 2>err && "$wafer" run whole.wplan -q --output whole ||
  fail "all colours: $(head -1 err)"
compiled 4 --mode pipelined
says err "no colour is left for the stream of 'pool' at kernel 'pointwise': tried with"
# The search's last try fails, after which the plan at hand stands.
compiled 3 --mode pipelined --placer best --place-moves 20000
compiled 2 --mode pipelined --placer best --place-moves 20000
says err ": laid out on shelves in place of the search's layout"
compiled 1
says err ": weight streaming takes its place"

# A value that many kernels take shares a colour on its ways: one multicast, whose words leave once. They left once for
# each reader, so that three took three times as long.
sed 's/colors="24"/colors="8"/' "$source/runtime/machines/small64.xml" >eight.xml
"$wafer" compile "$source/test/data/split.onnx" -q -o cast.wplan --machine eight.xml --mode pipelined --bands 1 \
  --programs never 2>err || fail "multicast: $(head -1 err)"
"$wafer" dump cast.wplan --certificate >cert && says cert "in one multicast with"
busiest=$(sed -n 's/.*busiest link.*: [0-9]* streams, \([0-9]*\) cycles.*/\1/p' cert)
once=$("$wafer" dump cast.wplan | sed -n 's/^  s[0-9]*  *[0-9]*  *k0 -> k2  *[0-9]*  *\([0-9]*\) .*/\1/p')
[ "$busiest" -lt $((3 * once)) ] || fail "multicast: $busiest cycles on a link, the value leaves once in $once"

# Nothing is left open.
gives 4 "error: no colour is left for the stream of" "$wafer" compile "$net" -q -o no.wplan --machine c1.xml --mode pipelined
[ "$(grep -c error: said)" = 1 ] || fail "more than one error: $(cat said)"
gives 4 "all 1 are taken at core" "$wafer" compile "$net" -q -o no.wplan --machine c1.xml --bands 1
[ ! -e no.wplan ] || fail "left a plan behind"
finish "colours: what finds none is laid out otherwise, or refused"
