#!/bin/sh
# wafer conform over a suite of a few tests: what it says, its table, its exit code, the same for any number of
# worker processes. usage: conform.sh WAFER SOURCE
. "${0%/*}/../lib.sh"
wafer=$1 suite=$2/test/data/conform
TMPDIR=$work
export TMPDIR

cat >"$work/want" <<'TEXT'
skipped bare: has no test_data_set_0
FAILED differs: output 'y': 6 of 6 elements differ, the first is 0: 0, expected 0.5
FAILED unknown: node 'first_unknown' (#0): operator Frobnicate of ai.onnx, opset 17, on (f32 2x3): no such operator is known
3 passed, 2 failed, 1 skipped
TEXT
for jobs in 1 3; do
  timeout 120 "$wafer" conform "$suite" --jobs $jobs --tsv "$work/$jobs.tsv" >"$work/out" 2>"$work/err"
  code=$?
  [ $code = 6 ] || fail "exit code $code with $jobs jobs, want 6"
  cmp -s "$work/want" "$work/out" || { fail "output with $jobs jobs:"; cat "$work/out" "$work/err" >&2; }
done
[ "$(cut -f1-3,8 "$work/1.tsv")" = "$(cut -f1-3,8 "$work/3.tsv")" ] || fail "tables of 1 and 3 jobs differ"

row() { grep -q "$1" "$work/1.tsv" || { fail "no row '$1' in the table:"; cat "$work/1.tsv" >&2; }; }
tab=$(printf '\t')
row "^passes${tab}passed${tab}Relu@17:cores${tab}0${tab}0${tab}[0-9.]*${tab}[0-9.]*${tab}${tab}$"
row "^reshapes${tab}passed${tab}Reshape@17:cores Relu@17:cores${tab}.*${tab}shape${tab}$"
row "^unknown${tab}failed${tab}Frobnicate@17:none"

timeout 60 "$wafer" conform "$suite" -q --table "$work/table.md" >/dev/null
for line in '| Frobnicate | - | - | - | 0 of 1 | - |' '| Relu | 1-27 | f32 | cores | 3 of 4 | 0 |' '- passed: 3' \
            '## Tests that do not pass: 3' '- bare' '- differs' '- unknown'; do
  grep -qxF -- "$line" "$work/table.md" || fail "no line '$line' in the table of operators"
done
sum() { timeout 60 "$wafer" conform "$1" -q --table "$work/sum.md" >/dev/null; sed -n 's/.*XXH3 //p' "$work/sum.md"; }
cp -r "$suite" "$work/copy"
[ "$(sum "$suite")" = "$(sum "$work/copy")" ] || fail "a copy has another checksum"
printf '\0' >>"$work/copy/unknown/test_data_set_0/output_0.pb"
[ "$(sum "$suite")" != "$(sum "$work/copy")" ] || fail "an edited file leaves the checksum alone"

# loops that exporters write: a condition that follows from a counter, and one that the data decide
said=$(timeout 60 "$wafer" conform "$2/test/data/loops") || fail "loops: $said"
"$wafer" compile "$2/test/data/loops/counted/model.onnx" --machine small16 -o "$work/counted.wplan" 2>&1 |
  grep -q "nothing runs on the host" || fail "a loop over a counter is a step of the host"
rm -f "$work/counted.wplan"

mkdir "$work/rules"
cp -r "$suite/differs" "$work/rules/far"
echo '{"atol": 0.6}' >"$work/rules/far/data.json"
cp -r "$suite/passes" "$work/rules/wrong"
echo '{"rtol": -1}' >"$work/rules/wrong/data.json"
timeout 60 "$wafer" conform "$work/rules" -q >"$work/out"
grep -q 'FAILED wrong: .*rtol and atol' "$work/out" && [ "$(tail -1 "$work/out")" = "1 passed, 1 failed, 0 skipped" ] ||
  { fail "rules of data.json:"; cat "$work/out" >&2; }

for mode in pipelined streaming; do
  timeout 120 "$wafer" conform "$suite/" --filter 'r*' --mode $mode >"$work/out" 2>&1 || fail "mode $mode exits with $?"
  [ "$(cat "$work/out")" = "2 passed, 0 failed, 0 skipped" ] || { fail "mode $mode:"; cat "$work/out" >&2; }
done
[ -z "$(find "$work" -name '*.wplan')" ] || fail "left a plan behind"

expect() {
  want=$1 text=$2
  shift 2
  timeout 60 "$wafer" conform "$@" >"$work/out" 2>"$work/err"
  code=$?
  [ $code = "$want" ] && [ "$(grep -c error: "$work/err")" = 1 ] && grep -qF -- "$text" "$work/err" ||
    { fail "conform $*: exit $code, want $want and '$text' in:"; cat "$work/err" >&2; }
}
expect 1 "one DIR is wanted"
expect 1 "matches no*" "$suite" --filter 'no*'
expect 1 "--mode wants" "$suite" --mode sideways
expect 1 "--jobs wants" "$suite" --jobs 0
expect 1 "no option --frobnicate" "$suite" --frobnicate
expect 7 nowhere "$work/nowhere"
expect 7 "$work/no/table" "$suite/passes" --tsv "$work/no/table"
finish "conform: ok"
