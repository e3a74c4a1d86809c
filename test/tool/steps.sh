#!/bin/sh
# `wafer run` in steps: a running sum whose state goes from step to step, to a file and back, and an output that is fed.
# usage: steps.sh WAFER SOURCE
. "${0%/*}/../lib.sh"
wafer=$1
cd "$work" || exit 1

python3 - <<'P' || exit 1
import struct
def field(n, data): return bytes([n << 3 | 2, len(data)]) + data
def number(n, v): return bytes([n << 3, v])
def port(name, dims, elem=1):
    shape = b''.join(field(1, number(1, d)) for d in dims)
    return field(1, name) + field(2, field(1, number(1, elem) + field(2, shape)))
def node(op, ins, outs): return b''.join(field(1, i) for i in ins) + b''.join(field(2, o) for o in outs) + field(4, op)
def model(nodes, ins, outs):
    graph = b''.join(field(1, n) for n in nodes) + field(2, b'g')
    graph += b''.join(field(11, i) for i in ins) + b''.join(field(12, o) for o in outs)
    return number(1, 8) + field(8, field(1, b'') + number(2, 13)) + field(7, graph)
def save(name, descr, shape, data):
    head = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape)
    head += ' ' * (63 - (10 + len(head)) % 64) + '\n'
    open(name, 'wb').write(b'\x93NUMPY\x01\x00' + struct.pack('<H', len(head)) + head.encode() + data)
open('sum.onnx', 'wb').write(model([node(b'Add', [b'x', b's'], [b'y'])], [port(b'x', [2]), port(b's', [2])],
                                   [port(b'y', [2])]))
open('next.onnx', 'wb').write(model([node(b'Gather', [b't', b'i'], [b'y'])], [port(b't', [3, 3]), port(b'i', [1], 7)],
                                    [port(b'y', [1, 3])]))
save('x.npy', '<f4', (3, 2), struct.pack('<6f', 1, 10, 2, 20, 3, 30))
save('none.npy', '<f4', (0, 2), b'')
save('s.npy', '<f4', (2,), struct.pack('<2f', 100, 200))
save('want.npy', '<f4', (3, 2), struct.pack('<6f', 101, 210, 103, 230, 106, 260))
save('t.npy', '<f4', (3, 3), struct.pack('<9f', 0, 5, 1, 0, 1, 5, 7, 0, 0))
save('i.npy', '<i8', (1,), struct.pack('<q', 0))
save('more.npy', '<f4', (2,), struct.pack('<2f', 1, 1))
save('end.npy', '<f4', (2,), struct.pack('<2f', 107, 261))
P
"$wafer" compile sum.onnx -q -o sum.wplan --machine small16 || exit 1
"$wafer" compile next.onnx -q -o next.wplan --machine small16 || exit 1
mkdir want end && mv want.npy want/y.npy && mv end.npy end/y.npy

"$wafer" run sum.wplan -q --input x=x.npy --input s=s.npy --state y=s --expect want --tol 0 --state-out state.safetensors ||
  fail "the train"
"$wafer" run sum.wplan -q --input x=more.npy --state-in state.safetensors --expect end --tol 0 || fail "the state's file"
said=$("$wafer" run next.wplan --input t=t.npy --input i=i.npy --steps 9 --feed 'i=argmax(y)' --until i=0 | grep '^i:')
[ "$said" = "i: 1 2 0" ] || fail "fed '$said'"

# The report is of all steps: it told of the last one alone, beside a total that was printed.
"$wafer" run sum.wplan -q --input x=x.npy --input s=s.npy --state y=s --report all.json || fail "the report of steps"
python3 - all.json <<'P' || fail "the report is not of all steps: $(head -c 600 all.json)"
import json, sys
r = json.load(open(sys.argv[1]))
each = r['step_cycles']
assert r['steps'] == r['samples'] == len(each) == 3 and r['total_cycles'] == sum(each) == 3 * r['latency_cycles']
assert r['interval_cycles'] == r['latency_cycles'] and len(set(each)) == 1
assert all(k['busy_cycles'] == 3 * k['cycles'] for k in r['kernels'])
P

refuse() { code=$1 words=$2; shift 2; gives "$code" "$words" "$wafer" run "$@"; }
refuse 1 "there is no output 'z'" sum.wplan --input x=x.npy --input s=s.npy --state z=s
refuse 1 "there is no input 'z'" sum.wplan --input x=x.npy --input s=s.npy --state y=z
refuse 1 "train of 3 samples" sum.wplan --input x=x.npy --input s=s.npy --state y=s --steps 2
refuse 1 "'x' is a train of no samples" sum.wplan --input x=none.npy --input s=s.npy --state y=s
refuse 1 "argmax" sum.wplan --input x=x.npy --input s=s.npy --feed x=max
refuse 1 "does not feed" sum.wplan --input x=x.npy --input s=s.npy --until x=3
# What goes from step to step has to be of the input's type: a float input took an index, and a file of state was written
# that its input never takes.
refuse 1 "no index is" next.wplan --input t=t.npy --input i=i.npy --feed 't=argmax(y)'
refuse 1 "the output has elements of type f32, the input takes i64" next.wplan --input t=t.npy --input i=i.npy --state y=i
refuse 1 "has nothing to write" sum.wplan --input x=more.npy --input s=s.npy --state-out none.safetensors
[ ! -e none.safetensors ] || fail "a state of nothing was written"
# Names that are no input or output, or twice one, changed nothing.
refuse 1 "no input 's'" next.wplan --state-in state.safetensors
refuse 1 "'s' is given twice: as s.npy and as more.npy" sum.wplan --input x=more.npy --input s=s.npy --input s=more.npy
refuse 1 "there is no output 'z'" sum.wplan --input x=more.npy --input s=s.npy --expect end --tol z=1
refuse 1 "of --expect DIR" sum.wplan --input x=more.npy --input s=s.npy --tol 1
refuse 1 "take the place of --tol" sum.wplan --input x=more.npy --input s=s.npy --expect end --tol 1 --atol 1
refuse 1 "--trace-bytes is of --trace" sum.wplan --fidelity fabric --trace-bytes 5000
gives 0 "--then changed nothing" "$wafer" run sum.wplan --input x=more.npy --input s=s.npy --then x=s.npy
gives 0 "--state changed nothing" "$wafer" run sum.wplan --input x=more.npy --input s=s.npy --state y=s
refuse 7 "cannot" sum.wplan --input x=more.npy --state-in nowhere.safetensors
finish "steps: ok"
