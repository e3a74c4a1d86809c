#!/bin/sh
# ONNX's backend suite, compiled and run: the one of Debian's libonnx-testdata, and the whole one of onnx 1.22 where
# its archive is; and onnxruntime's operators, test/data/microsoft.tar.zst. Fails when a test is lost, or when a list of failures or docs/onnx-support.md is stale.
# WAFER_BLESS=1 rewrites both; review the difference. usage: run.sh WAFER SOURCE BUILD ARCHIVE small|all
#   small  Debian's tests, in mode auto alone
# Debian's run on emulated cores too, those of a small wafer: seconds.
. "${0%/*}/../lib.sh"
wafer=$1 source=$2 build=$3 archive=$4 which=$5
debian=/usr/share/libonnx-testdata/data

# suite NAME DIR "MODES" [OPTIONS]: the tests that fail in any mode are those of test/onnx/NAME.failed.
suite() {
  name=$1 folder=$2 list=$source/test/onnx/$1.failed options=${4:-}
  : >"$work/failed"
  for mode in $3; do
    timeout 1200 "$wafer" conform "$folder" -q --mode "$mode" $options --tsv "$work/$mode.tsv" \
      --table "$work/$mode.md" >"$work/out" 2>"$work/err"
    code=$?
    [ $code = 0 ] || [ $code = 6 ] || { fail "$name, $mode: exit code $code"; cat "$work/err" >&2; return; }
    echo "$name, $mode: $(tail -1 "$work/out")"
    awk -F'\t' 'NR > 1 && $2 != "passed" { print $1 }' "$work/$mode.tsv" >>"$work/failed"
    awk -F'\t' -v mode="$mode" 'NR > 1 && $2 != "passed" { print $1 ", " mode ": " $NF }' "$work/$mode.tsv" >>"$work/why"
  done
  LC_ALL=C sort -u "$work/failed" -o "$work/failed"
  [ "${WAFER_BLESS:-}" = 1 ] && cp "$work/failed" "$list"
  LC_ALL=C comm -13 "$list" "$work/failed" >"$work/lost"
  LC_ALL=C comm -23 "$list" "$work/failed" >"$work/gained"
  [ -s "$work/lost" ] && { fail "$name: $(wc -l <"$work/lost") tests are lost:"
                           grep -F -f "$work/lost" "$work/why" | head -20 >&2; }
  [ "$which" = all ] && [ -s "$work/gained" ] && { fail "$list is stale, these pass now; WAFER_BLESS=1 accepts it:"
                             head -20 "$work/gained" >&2; }
}

# unpack ARCHIVE FOLDER
unpack() {
  stamp=$(wc -c <"$1")
  [ "$(cat "$2/stamp" 2>/dev/null)" = "$stamp" ] && return 0
  rm -rf "$2"
  mkdir -p "$2" && tar --use-compress-program='zstd -d --long=27' -xf "$1" -C "$2" && echo "$stamp" >"$2/stamp"
}

# The largest ULP depends on the host's instructions; everything else does not.
without_ulp() { sed 's/^\(|.*|\)[^|]*|$/\1/' "$1"; }

table() {
  page=$source/docs/onnx-support.md
  [ "${WAFER_BLESS:-}" = 1 ] && cp "$work/auto.md" "$page"
  without_ulp "$work/auto.md" >"$work/new"
  without_ulp "$page" >"$work/old"
  diff -u "$work/old" "$work/new" >"$work/diff" && return
  fail "docs/onnx-support.md is stale; WAFER_BLESS=1 accepts the new one:"
  head -40 "$work/diff" >&2
}

modes='auto pipelined streaming'
[ "$which" = small ] && modes=auto
if [ -d $debian ]; then
  suite libonnx-testdata $debian "$modes"
  suite libonnx-testdata-fabric $debian auto "--fidelity fabric --machine small16"
else
  fail "$debian is not here: tools/deps test installs it"
fi
microsoft=$source/test/data/microsoft.tar.zst
unpack "$microsoft" "$build/microsoft-suite" || fail "$microsoft cannot be unpacked"
suite microsoft "$build/microsoft-suite" "$modes"
suite microsoft-fabric "$build/microsoft-suite" auto "--fidelity fabric --machine small16"
if [ "$which" != all ]; then
  :
elif [ -f "$archive" ]; then
  unpack "$archive" "$build/onnx-suite" && unpack "$microsoft" "$build/onnx-suite/microsoft" ||
    fail "$archive cannot be unpacked"
  suite onnx-1.22 "$build/onnx-suite" "$modes"
  table
else
  echo "skipped: the suite of onnx 1.22 (its archive is not here)"
fi
finish "onnx: ok"
