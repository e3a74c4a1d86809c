#!/bin/sh
# One run over processes: the same checkpoint for any number of them, with systems and servers spread
# in any way; processes that are killed are started again, or the run is gone on with by hand.
# usage: train_processes.sh WAFER
. "${0%/*}/../lib.sh"
wafer=$1
cd "$work" || exit 1

if ! command -v mpirun >/dev/null; then
  echo "mpirun is not installed: nothing is tested" >&2
  exit 77
fi

"$wafer" zoo mlp --widths 16,32,5 --init 1 -o mlp.onnx >/dev/null || fail "zoo mlp"
python3 - <<'PY'
import random, struct
def npy(path, code, shape, data, form):
    head = "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }" % (code, ''.join('%d, ' % d for d in shape))
    head += ' ' * (-(len(head) + 11) % 64) + '\n'
    with open(path, 'wb') as f:
        f.write(b'\x93NUMPY\x01\x00' + struct.pack('<H', len(head)) + head.encode())
        f.write(struct.pack('<%d%s' % (len(data), form), *data))
random.seed(3)
npy('x.npy', '<f4', (96, 16), [random.gauss(0, 1) for _ in range(96 * 16)], 'f')
npy('y.npy', '<i8', (96,), [random.randrange(5) for _ in range(96)], 'q')
PY

# train FOLDER OPTIONS...
train() {
  folder=$1
  shift
  timeout 120 "$wafer" train mlp.onnx --data x.npy,y.npy --eval-data x.npy,y.npy \
    --loss cross-entropy --optimizer adam --lr 1e-3 --batch 24 --micro-batch 3 --steps 40 \
    --checkpoint "$folder" --checkpoint-every 10 --threads 1 -q "$@"
}
same() {
  diff -r one "$1" >/dev/null || fail "$1 differs from a run in one process"
}

train one || fail "one process"
train three --processes 3 --systems 4 --weight-servers 2 || fail "three processes"
same three
train four --processes 4 --systems 2 --weight-servers 7 || fail "more processes than systems"
same four

# Settings from a file reach every process, whose options win.
cat >params.yaml <<'YAML'
model:     {file: mlp.onnx, loss: cross-entropy}
data:      {train: "x.npy,y.npy", eval: "x.npy,y.npy"}
optimizer: {name: adam, lr: 1e-3}
run:       {batch: 24, micro-batch: 3, steps: 3, checkpoint: file, checkpoint-every: 10, threads: 1, quiet: true}
YAML
"$wafer" train --steps 40 -p params.yaml --processes 2 --systems 4 --restarts 1 || fail "-p with --processes"
same file

# The nth newest process that writes to FOLDER is killed as soon as it has written a checkpoint.
killed() {
  folder=$1
  tries=0
  while [ ! -d "$folder/step-00000010" ] && [ $tries -lt 600 ]; do
    tries=$((tries + 1))
    sleep 0.05
  done
  pkill -9 -n -f "checkpoint $folder " || true
}
train again --processes 2 --systems 2 --steps 800 --keep 0 --restarts 5 2>err &
killed again
wait $! || fail "a killed run is started again: $(cat err)"
grep -q "restart 1 of 5" err || fail "no restart is told: $(cat err)"
train long --steps 800 --keep 0 || fail "800 steps"
diff -r long again >/dev/null || fail "a run that was started again differs"

train stopped --processes 2 --systems 2 --steps 800 --keep 0 2>err &
killed stopped
wait $!
code=$?
[ $code = 9 ] || fail "a killed run ends with $code, 9 wanted"
grep -q "with --resume goes on" err || fail "what to do is not said: $(cat err)"
train stopped --processes 3 --systems 3 --steps 800 --keep 0 --resume || fail "resume by others"
diff -r long stopped >/dev/null || fail "a run gone on with by other processes differs"

# What is wrong is said once.
train bad --processes 3 --loss nonsense 2>err && fail "a bad loss passes"
train bad --processes 3 --data none.npy,y.npy 2>err && fail "absent data pass"
[ "$(grep -c 'none.npy' err)" = 1 ] || fail "absent data: $(cat err)"
octal 96 'i % 6' | npy six.npy '|u1' '(96,)'
mpirun $([ "$(id -u)" != 0 ] || echo --allow-run-as-root) --quiet --oversubscribe -n 2 "$wafer" train mlp.onnx --data x.npy,six.npy \
  --loss cross-entropy --steps 1 --validate-only 2>err && fail "a label beyond the classes passes"
[ "$(grep -c 'row 5 has label 5' err)" = 1 ] || fail "a label beyond the classes: $(cat err)"
train bad --restarts 2 --processes 2 --data none.npy,y.npy 2>err
grep -q restart err && fail "what cannot go well is tried again"

finish "train_processes: ok"
