# What the test scripts share. A script sources it first, from test/*/NAME.sh:
#   . "${0%/*}/../lib.sh"
# It has then a folder of its own, $work, which goes when the script ends, says what failed with `fail`, and
# ends with `finish`.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
fail() { echo "FAILED: $*" >&2; failures=$((failures + 1)); }

# finish WORDS: the last line of a script. Says WORDS when nothing failed; the exit code tells.
finish() {
  [ $failures = 0 ] && echo "$*"
  exit $((failures > 0))
}

# says FILE TEXT: the file holds the text.
says() { grep -qF -- "$2" "$1" || { fail "$1 lacks '$2'"; head -c 1000 "$1" >&2; }; }

# gives CODE TEXT COMMAND...: the exit code, and a pattern (or none) on either of its outputs, left in $work/said.
gives() {
  gives_code=$1 gives_text=$2
  shift 2
  timeout 300 "$@" >"$work/said" 2>&1
  gives_got=$?
  [ $gives_got = "$gives_code" ] && { [ -z "$gives_text" ] || grep -q -e "$gives_text" "$work/said"; } ||
    { fail "$*: exit $gives_got, want $gives_code and '$gives_text' in:"; head -c 1000 "$work/said" >&2; }
}

# agrees PLAN FOLDER RUN-OPTIONS...: the plan's outputs are those in the folder, but for the order of f32 sums.
agrees() {
  agrees_plan=$1 agrees_folder=$2
  shift 2
  "$wafer" run "$agrees_plan" -q "$@" --expect "$agrees_folder" --tol 2e-6 >"$work/said" 2>&1 ||
    fail "$agrees_plan: other outputs than $agrees_folder: $(head -c 500 "$work/said")"
}

# npy FILE DESCR SHAPE: a NumPy file of the bytes on stdin. octal COUNT EXPRESSION: bytes, as awk computes them from i.
npy() {
  npy_header="{'descr': '$2', 'fortran_order': False, 'shape': $3, }"
  { printf '\223NUMPY\001\000\166\000'; printf '%-117s\n' "$npy_header"; cat; } >"$1"
}
octal() { printf "$(awk "BEGIN { for (i = 0; i < $1; i++) printf \"\\\\%03o\", $2 }")"; }
