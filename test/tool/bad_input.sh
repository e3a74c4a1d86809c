#!/bin/sh
# Every kind of bad input: one clear error that names file and node, the exit code of its class, no crash, no
# half-written file. usage: bad_input.sh WAFER SOURCE
. "${0%/*}/../lib.sh"
wafer=$1 source=$2
data=$source/test/data

# expect CODE TEXT command...: the command exits with CODE, stderr holds TEXT and exactly one error line
# (several=yes: at least one), and leaves no plan behind.
several=no
expect() {
  code=$1 text=$2
  shift 2
  rm -f "$work/out.wplan"
  timeout 60 "$@" >"$work/stdout" 2>"$work/stderr"
  got=$?
  errors=$(grep -c 'error:' "$work/stderr")
  if [ $got != "$code" ] || ! grep -qF -- "$text" "$work/stderr" || [ "$errors" = 0 ] ||
     { [ $several = no ] && [ "$errors" != 1 ]; } || [ -e "$work/out.wplan" ]; then
    fail "$*: exit $got (want $code), $errors errors, want '$text' in:"
    head -c 2000 "$work/stderr" >&2
  fi
  left=$(find "$work" -name '*.tmp*' | head -1)
  [ -z "$left" ] || fail "$*: left $left behind"
}
compile() { code=$1 text=$2; shift 2; expect "$code" "$text" "$wafer" compile "$@" -o "$work/out.wplan"; }

# -- models --
check() { # CODE TEXT MODEL: --check says TEXT on stdout and nothing else on stderr
  "$wafer" compile --check "$3" $4 >"$work/stdout" 2>"$work/stderr"
  got=$?
  [ $got = "$1" ] && grep -qF -- "$2" "$work/stdout" && [ ! -s "$work/stderr" ] ||
    { fail "--check $3: exit $got (want $1), want '$2' in:"; cat "$work/stdout" "$work/stderr" >&2; }
}
check 0 'every operator compiles' "$data/small_cnn.onnx" ''
check 3 '2 problems' "$data/bad/unknown_operator.onnx" ''
check 3 "node 'second_unknown' (#2)" "$data/bad/unknown_operator.onnx" ''
check 2 'give --dim batch=N' "$data/bad/unbound_dim.onnx" ''
check 0 '"compiles":	true' "$data/small_cnn.onnx" --json
check 2 '"kind":	"dim"' "$data/bad/unbound_dim.onnx" --json
python3 -m json.tool "$work/stdout" >"$work/json" || fail "--json is no JSON"
expect 1 "--json goes with --check" "$wafer" compile --json "$data/small_cnn.onnx" -o "$work/out.wplan"
several=yes
compile 3 first_unknown "$data/bad/unknown_operator.onnx"
grep -q second_unknown "$work/stderr" || fail "the second unknown operator is not listed"
several=no
compile 2 forward "$data/bad/cycle.onnx"
compile 2 reads_nothing "$data/bad/undefined_value.onnx"
compile 2 adds_unlike "$data/bad/contradictory_shapes.onnx"
compile 2 multiplies_unlike "$data/bad/matmul_mismatch.onnx"
compile 2 expands_too_far "$data/bad/overflowing_dims.onnx"
compile 2 "'x'" "$data/bad/negative_dim.onnx"
compile 2 --dim "$data/bad/unbound_dim.onnx"
compile 2 no_outputs.onnx "$data/bad/no_outputs.onnx"
compile 2 "'y'" "$data/bad/missing_output.onnx"
compile 7 absent.bin "$data/bad/missing_external.onnx"
compile 2 secret.bin "$data/bad/escaping_external.onnx"
compile 2 /etc/passwd "$data/bad/absolute_external.onnx"
compile 2 "'w'" "$data/bad/short_weight.onnx"
compile 2 deep_graphs.onnx "$data/bad/deep_graphs.onnx"
compile 7 nowhere.onnx "$work/nowhere.onnx"
printf 'this is no model' >"$work/text.onnx"
compile 2 text.onnx "$work/text.onnx"
: >"$work/empty.onnx"
compile 2 empty.onnx "$work/empty.onnx"
compile 7 "$data" "$data"
size=$(wc -c <"$data/small_cnn.onnx")
for bytes in 1 10 100 1000 $((size - 1)); do
  head -c "$bytes" "$data/small_cnn.onnx" >"$work/cut.onnx"
  compile 2 cut.onnx "$work/cut.onnx"
done

# -- options --
compile 1 "'z'" "$data/small_cnn.onnx" --shape z=1x2
compile 1 "'batches'" "$data/attention.onnx" --dim batches=1
compile 1 --mode "$data/small_cnn.onnx" --mode sideways
compile 2 "--shape x=1x4x16x16" "$data/small_cnn.onnx" --shape x=1x4x16x16
compile 1 no-such "$data/small_cnn.onnx" --machine no-such
expect 1 "MODEL" "$wafer" compile
expect 1 "no tool" "$wafer" fold
expect 1 "which case" "$wafer" fabric
expect 1 "no case 'fold'" "$wafer" fabric fold
expect 1 "--cores" "$wafer" fabric send --cores 99999999999x2
expect 1 "--load" "$wafer" fabric random --cores 4x4 --load 0
expect 1 "no option of send, but of reduce" "$wafer" fabric send --cores 4x1 --group 2

# -- machines --
cat >"$work/bomb.xml" <<'XML'
<?xml version="1.0"?>
<!DOCTYPE machine [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;">]>
<machine name="&c;"/>
XML
printf '<machine' >"$work/cut.xml"
"$wafer" machines wse2 | sed 's/<clock[^/]*\/>//' >"$work/lacking.xml"
"$wafer" machines wse2 | sed 's/<machine /<machine wings="2" /' >"$work/wings.xml"
"$wafer" machines wse2 | sed 's/microthreads="8"/microthreads="1"/' >"$work/thread.xml"
"$wafer" machines wse2 | sed 's/vector-setup-cycles="[0-9]*"/vector-setup-cycles="0"/' >"$work/setup.xml"
for file in bomb cut lacking wings thread setup; do
  expect 2 $file.xml "$wafer" machines --check "$work/$file.xml"
  compile 2 $file.xml "$data/small_cnn.onnx" --machine "$work/$file.xml"
done

# -- files that cannot be written --
expect 7 /dev/full "$wafer" compile "$data/small_cnn.onnx" -o /dev/full
expect 7 no/such "$wafer" compile "$data/small_cnn.onnx" -o "$work/no/such/out.wplan"
expect 7 no/such "$wafer" compile "$data/small_cnn.onnx" -o "$work/out.wplan" --report "$work/no/such/r.json" # before the work: no plan
expect 7 /dev/full "$wafer" compile -q "$data/small_cnn.onnx" -o "$work/kept.wplan" --report /dev/full
"$wafer" compile -q "$data/small_cnn.onnx" -o "$work/good.wplan" --machine small16 || fail "compile of a good model"
expect 7 /dev/full "$wafer" run "$work/good.wplan" --report /dev/full
expect 7 "standard output" sh -c "'$wafer' run '$work/good.wplan' >/dev/full"
expect 7 "standard output" sh -c "'$wafer' fabric vector >/dev/full"
expect 7 "File too large" sh -c "ulimit -f 1; '$wafer' compile -q '$data/small_cnn.onnx' -o '$work/out.wplan'"
expect 7 "" "$wafer" run "$work/good.wplan" --output "$work/text.onnx"

# -- an output that is an input, or another output --
cp "$data/small_cnn.onnx" "$work/own.onnx"
expect 1 "is an input as well" "$wafer" compile "$work/own.onnx" -o "$work/./own.onnx"
cmp -s "$data/small_cnn.onnx" "$work/own.onnx" || fail "compile wrote over its model"
expect 1 "is another output as well" "$wafer" compile "$data/small_cnn.onnx" -o "$work/out.wplan" --report "$work/out.wplan"

# -- plans and tensors --
expect 7 nowhere.wplan "$wafer" run "$work/nowhere.wplan"
expect 2 text.onnx "$wafer" run "$work/text.onnx"
head -c 1000 "$work/good.wplan" >"$work/cut.wplan"
expect 2 cut.wplan "$wafer" run "$work/cut.wplan"
expect 2 cut.wplan "$wafer" dump "$work/cut.wplan"
expect 1 "'nothing'" "$wafer" run "$work/good.wplan" --input nothing="$data/small_cnn/in_x.npy"
expect 2 "'x'" "$wafer" run "$work/good.wplan" --input x="$data/small_cnn/out_y.npy"
expect 2 text.onnx "$wafer" run "$work/good.wplan" --input x="$work/text.onnx"
several=yes
expect 6 "'y'" "$wafer" run "$work/good.wplan" --input x="$data/small_cnn/in_x.npy" --expect "$data/small_cnn" --tol 0
several=no
expect 7 "'y'" "$wafer" run "$work/good.wplan" --expect "$work"
# what is read is not written over
for output in --report --heat --trace --state-out; do
  fidelity= && { [ $output = --trace ] || [ $output = --heat ]; } && fidelity="--fidelity fabric"
  # shellcheck disable=SC2086
  expect 1 "is an input as well" "$wafer" run "$work/good.wplan" $fidelity $output "$work/good.wplan"
done
cp "$data/small_cnn/in_x.npy" "$work/x.npy"
expect 1 "is an input as well" "$wafer" run "$work/good.wplan" --input x="$work/x.npy" --report "$work/x.npy"
expect 1 "is an input as well" "$wafer" check "$work/good.wplan" --report "$work/good.wplan"
compile 1 "is an input as well" "$data/small_cnn.onnx" --machine small16 --keep "$work/good.wplan" \
  --report "$work/good.wplan"
"$wafer" zoo mlp --widths 4,2 --batch 1 -o "$work/mlp.onnx" -q && cp "$work/mlp.onnx" "$work/same.onnx" || fail "zoo"
for output in --json --csv --svg; do
  expect 1 "is an input as well" "$wafer" scale "$work/mlp.onnx" --loss mse $output "$work/mlp.onnx"
done
expect 1 "is another output as well" "$wafer" scale "$work/mlp.onnx" --loss mse --json "$work/a" --csv "$work/a"
expect 7 no/such "$wafer" scale "$work/mlp.onnx" --loss mse --csv "$work/no/such/a.csv"
[ ! -s "$work/stdout" ] || fail "scale worked before it said that it cannot write"
cmp -s "$work/same.onnx" "$work/mlp.onnx" || fail "scale wrote over its model"
cmp -s "$data/small_cnn/in_x.npy" "$work/x.npy" || fail "an input was written over"
# of a run that is killed nothing stays, where files can be without names: five gigabytes in a hidden file did
mkdir "$work/killed"
nameless=$(python3 -c "import os, sys; os.open(sys.argv[1], os.O_TMPFILE | os.O_WRONLY); print('yes')" "$work" 2>/dev/null)
"$wafer" zoo gpt3-xl --init 1 -q -o "$work/killed/xl.onnx" &
writer=$!
sleep 1
kill -9 $writer
wait $writer 2>/dev/null
[ "$nameless" != yes ] || [ -z "$(ls -A "$work/killed")" ] || fail "killed while writing: left $(ls -A "$work/killed")"
"$wafer" dump "$work/good.wplan" --verify >"$work/stdout" 2>&1 || fail "a plan was written over"
finish "bad input: ok"
