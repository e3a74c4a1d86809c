#!/bin/sh
# Pruned by magnitude, by masks, or before it came: one plan, and the outputs of the masked dense model. At fabric
# fidelity too.
# Training keeps the zeros, on any number of systems and over a resumption.
# usage: sparsity.sh WAFER REPLAN SOURCE
. "${0%/*}/../lib.sh"
wafer=$1 replan=$2 models=$3/models
cd "$work" || exit 1

# dense.onnx: x W1' + b, relu, W2; masked.onnx: the same with nine tenths of W1 and W2 zero.
python3 - <<'PY' || exit 1
import math, random, struct
def varint(n):
    out = b''
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])
def field(n, data): return bytes([n << 3 | 2]) + varint(len(data)) + data
def number(n, v): return varint(n << 3) + varint(v)
def port(name, dims):
    shape = b''.join(field(1, number(1, d)) for d in dims)
    return field(1, name) + field(2, field(1, number(1, 1) + field(2, shape)))
def node(op, ins, outs, attrs=b''):
    return b''.join(field(1, i) for i in ins) + b''.join(field(2, o) for o in outs) + field(3, outs[0]) + field(4, op) + attrs
def tensor(name, dims, data):
    return b''.join(number(1, d) for d in dims) + number(2, 1) + field(8, name) + field(9, struct.pack('<%df' % len(data), *data))
def npy(path, code, form, shape, data):
    head = "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }" % (code, ''.join('%d, ' % d for d in shape))
    head += ' ' * (-(len(head) + 11) % 64) + '\n'
    with open(path, 'wb') as f:
        f.write(b'\x93NUMPY\x01\x00' + struct.pack('<H', len(head)) + head.encode() + struct.pack('<%d%s' % (len(data), form), *data))
K, H, N, B = 96, 120, 80, 64
random.seed(5)
w1 = [random.gauss(0, 1) for _ in range(H * K)]
w2 = [random.gauss(0, 1) for _ in range(H * N)]
def mask(w):
    gone = sorted(range(len(w)), key=lambda i: (abs(w[i]), i))[:math.ceil(len(w) * 0.9 - 1e-6)]
    kept = [1] * len(w)
    for i in gone: kept[i] = 0
    return kept
m1, m2 = mask(w1), mask(w2)
# Elements that differ: a constant of a kernel lies in the order in which its weight is dealt.
b1 = [i / H for i in range(H)]
def save(path, w1, w2):
    graph = field(1, node(b'Gemm', [b'x', b'w1', b'b1'], [b'h'], field(5, field(1, b'transB') + number(3, 1) + number(20, 2))))
    graph += field(1, node(b'Relu', [b'h'], [b'r'])) + field(1, node(b'MatMul', [b'r', b'w2'], [b'y'])) + field(2, b'g')
    graph += field(5, tensor(b'w1', [H, K], w1)) + field(5, tensor(b'b1', [H], b1)) + field(5, tensor(b'w2', [H, N], w2))
    graph += field(11, port(b'x', [B, K])) + field(12, port(b'y', [B, N]))
    open(path, 'wb').write(number(1, 8) + field(8, field(1, b'') + number(2, 13)) + field(7, graph))
# conv.onnx, conv0.onnx: the same with nine tenths of the filters zero; 16 of 8 channels, 3x3, over images of 12x12.
def save_conv(path, w, f=16, c=8, s=12, n=B, groups=1):
    pads = field(5, field(1, b'pads') + b''.join(number(8, 1) for _ in range(4)) + number(20, 7))
    graph = field(1, node(b'Conv', [b'x', b'wc'], [b'h'], pads + field(5, field(1, b'group') + number(3, groups) + number(20, 2))))
    graph += field(1, node(b'Relu', [b'h'], [b'y'])) + field(2, b'g') + field(5, tensor(b'wc', [f, c // groups, 3, 3], w))
    graph += field(11, port(b'x', [n, c, s, s])) + field(12, port(b'y', [n, f, s, s]))
    open(path, 'wb').write(number(1, 8) + field(8, field(1, b'') + number(2, 13)) + field(7, graph))
wc = [random.gauss(0, 1) for _ in range(16 * 8 * 9)]
save_conv('conv.onnx', wc)
own = random.Random(6)
save_conv('filters.onnx', [own.gauss(0, 1) for _ in range(64 * 64 * 9)], 64, 64, 32)
save_conv('images.onnx', [own.gauss(0, 1) for _ in range(64 * 64 * 9)], 64, 64, 56, 8)
save_conv('conv0.onnx', [w if m else 0 for w, m in zip(wc, mask(wc))])
# A ResNeXt's filters, of the same input; and a block that adds its input, of 1x1.
save_conv('groups.onnx', [own.gauss(0, 1) for _ in range(32 * 2 * 9)], 32, 8, groups=4)
graph = field(1, node(b'Conv', [b'x', b'wa'], [b'h'])) + field(1, node(b'Relu', [b'h'], [b'r']))
graph += field(1, node(b'Conv', [b'r', b'wb'], [b's'])) + field(1, node(b'Add', [b'x', b's'], [b'y'])) + field(2, b'g')
for name in b'wa', b'wb':
    graph += field(5, tensor(name, [64, 64, 1, 1], [own.gauss(0, 1) for _ in range(64 * 64)]))
graph += field(11, port(b'x', [1, 64, 14, 14])) + field(12, port(b'y', [1, 64, 14, 14]))
open('block.onnx', 'wb').write(number(1, 8) + field(8, field(1, b'') + number(2, 13)) + field(7, graph))
# What is multiplied, and joined with the result: 8 channels of 6x6, 1x1.
for name in b'Add', b'Mul':
    graph = field(1, node(b'Relu', [b'x'], [b'r'])) + field(1, node(b'Conv', [b'r', b'wt'], [b'h']))
    graph += field(1, node(name, [b'r', b'h'], [b'y'])) + field(2, b'g')
    graph += field(5, tensor(b'wt', [8, 8, 1, 1], [own.gauss(0, 1) for _ in range(64)]))
    graph += field(11, port(b'x', [1, 8, 6, 6])) + field(12, port(b'y', [1, 8, 6, 6]))
    model = number(1, 8) + field(8, field(1, b'') + number(2, 13)) + field(7, graph)
    open('twice_%s.onnx' % name.decode().lower(), 'wb').write(model)
npy('xc.npy', '<f4', 'f', (B, 8, 12, 12), [random.gauss(0, 1) for _ in range(B * 8 * 144)])
save('dense.onnx', w1, w2)
save('masked.onnx', [w if m else 0 for w, m in zip(w1, m1)], [w if m else 0 for w, m in zip(w2, m2)])
npy('m1.npy', '<f4', 'f', (H, K), m1)
npy('m2.npy', '|u1', 'B', (H, N), m2)
npy('x.npy', '<f4', 'f', (B, K), [random.gauss(0, 1) for _ in range(B * K)])
npy('tx.npy', '<f4', 'f', (B, 16), [random.gauss(0, 1) for _ in range(B * 16)])
npy('ty.npy', '<i8', 'q', (B,), [random.randrange(5) for _ in range(B)])
PY

# compile NAME MODEL OPTIONS...: NAME.wplan and NAME/y.npy, of $x; every model is called model.onnx.
x=x.npy
compile() {
  name=$1
  cp "$2" model.onnx
  shift 2
  timeout 60 "$wafer" compile model.onnx -o "$name.wplan" --report "$name.json" -q "$@" || fail "compile $name"
  "$wafer" run "$name.wplan" --input x=$x --output "$name" >/dev/null || fail "run $name"
}
for mode in streaming pipelined; do
  compile pruned dense.onnx --mode $mode --sparsity 0.9
  compile masks dense.onnx --mode $mode --mask w1=m1.npy --mask w2=m2.npy
  compile came masked.onnx --mode $mode --sparsity 0.9
  cmp pruned.wplan masks.wplan || fail "$mode: pruned and masked plans differ"
  cmp pruned.wplan came.wplan || fail "$mode: the plan of the masked model differs"
  cmp pruned/y.npy came/y.npy || fail "$mode: outputs differ from the masked model's"
  "$wafer" dump pruned.wplan --verify >/dev/null || fail "$mode: the plan does not verify"
done
for mode in streaming pipelined; do
  x=xc.npy
  compile conv conv.onnx --mode $mode --sparsity 0.9
  compile conv0 conv0.onnx --mode $mode
  cmp conv/y.npy conv0/y.npy || fail "$mode: outputs of the pruned convolution differ from the masked one's"
  "$wafer" dump conv.wplan | grep -q "sparse wc: 115 of 1152 elements" || fail "dump names no sparse filters"
  "$wafer" dump conv.wplan --why h | grep -q "sparse 'wc': multiplies with " || fail "$mode: dump --why says nothing of pairs"
done
x=x.npy
compile dense dense.onnx --mode streaming
compile unasked masked.onnx --mode streaming
grep -q '"nonzeros"' unasked.json && fail "zeros of a model make its weights sparse unasked"
grep -q '"nonzeros"' pruned.json || fail "the report does not say what is sparse"
cmp -s dense/y.npy pruned/y.npy && fail "pruning changed nothing"
grep -q sparsity dense.json && fail "dense weights are reported as sparse"
python3 - "${models%/*}/docs/report.schema.json" <<'PY' || fail "the report says what its schema does not"
import json, sys
known = json.load(open(sys.argv[1]))['properties']['sparsity']['properties']
assert not set(json.load(open('pruned.json'))['sparsity']) - set(known)
PY
python3 - <<'PY' || fail "what the report says of sparse weights"
import json
s = json.load(open('pruned.json'))['sparsity']
assert s['weights'] == 2 and s['elements'] == 120 * 96 + 120 * 80 and s['nonzeros'] == s['elements'] // 10, s
assert s['multiply_cycles'] <= 0.35 * s['dense_multiply_cycles'], s
assert s['even_multiply_cycles'] <= s['multiply_cycles'] < s['dense_multiply_cycles'], s
assert s['stream_words'] == 2 * s['nonzeros'] and 10 * s['stream_words'] <= 2 * s['dense_stream_words'], s
PY
"$wafer" dump pruned.wplan | grep -q "sparse w2: 960 of 9600 elements" || fail "dump names no sparse weight"

# least RATIO ROWS WIDTHS STORAGE: of the multiply cycles of dense weights on the same cores
least() {
  "$wafer" zoo mlp --widths "$3" -o zoo.onnx -q || fail "zoo $3"
  "$wafer" compile zoo.onnx -o zoo.wplan --report zoo.json -q --mode streaming --sparsity 0.9 --dim batch="$2" \
    --dtype "$4" || fail "compile $3"
  python3 -c "import json; s = json.load(open('zoo.json'))['sparsity']; \
assert s['multiply_cycles'] <= $1 * s['dense_multiply_cycles'] and 5 * s['stream_words'] <= 1.001 * s['dense_stream_words'], s" ||
    fail "$3 of $2 rows, $4"
}
for rows in 32 128; do
  least 0.13 $rows 784,256,10 f32
  least 0.13 $rows 784,256,10 f16
done
# lean_pipeline NAME OPTIONS...: zoo.onnx in a pipeline, whose shapes were as fast as could be, and wasted several times that
lean_pipeline() {
  name=$1
  shift
  "$wafer" compile zoo.onnx -o zoo.wplan --report zoo.json -q --mode pipelined --sparsity 0.9 "$@" || fail "compile $name"
  "$wafer" compile zoo.onnx -o quick.wplan --report quick.json -q --mode pipelined --sparsity 0.9 --sparse-shapes fast "$@" ||
    fail "compile fast $name"
  python3 -c "import json; r, q = json.load(open('zoo.json')), json.load(open('quick.json')); \
s = r['sparsity']; assert s['lean'] and s['multiply_share'] <= 0.13 and r['interval_cycles'] <= 3 * q['interval_cycles'] and \
not q['sparsity']['lean'], (s, r['interval_cycles'], q['interval_cycles'], q['sparsity'])" || fail "pipeline of $name"
}
# Of 2x2 weights none is left. Their loads keep their place in the row of loads: one behind them was asked for before them,
# and the plan was refused by whoever read it.
"$wafer" zoo mlp --widths 4,2,2,2,20 --init 1 -o zoo.onnx -q || fail "zoo of small weights"
"$wafer" compile zoo.onnx -o zoo.wplan -q --mode streaming --machine small64 --sparsity 0.9 --dim batch=7 || fail "compile zeros"
"$wafer" check zoo.wplan -q || fail "weights of zeros alone"

"$wafer" zoo mlp --widths 784,256,10 -o zoo.onnx -q || fail "zoo mlp"
lean_pipeline "mlp, f32" --dim batch=16
lean_pipeline "mlp, f16" --dim batch=16 --dtype f16
# Guards: half of the steps over 6 rows of two bytes met one bank.
"$wafer" zoo mlp --widths 50,90,70,10 --batch 6 -o zoo.onnx -q || fail "zoo mlp"
lean_pipeline "mlp of 6 rows, f16" --machine small64 --dtype f16
"$wafer" check zoo.wplan -q || fail "a lean pipeline of 6 rows gives other values"
"$wafer" zoo cnn --widths 3,8,16,10 --side 16 -q -o zoo.onnx || fail "zoo cnn"
lean_pipeline "cnn" --dim batch=16 --machine small64 --dtype f16
"$wafer" check zoo.wplan -q || fail "a lean pipeline gives other values"
# What is not lean is said not to be: a row meets each non-zero once.
"$wafer" zoo mlp --widths 784,256,10 --batch 1 -o zoo.onnx -q || fail "zoo mlp"
"$wafer" compile zoo.onnx -o zoo.wplan --mode streaming --sparsity 0.9 --dtype f16 >said || fail "compile one row"
grep -q "  not lean  *0\.[0-9]* is above" said || fail "a plan that is not lean is not said to be: $(cat said)"

# Four lists, where a pair meets so few rows that it is set up for longer than it runs.
least 0.13 2 784,512,512,10 f32
least 0.13 4 784,512,512,10 f16
least 0.13 64 784,512,512,10 f32
least 0.13 64 784,512,512,10 f16
least 0.13 128 784,512,512,10 f16
least 0.13 256 768,3072,768 f32

# Pairs take the room that they need, so that weights are whole on a core which dense ones are not; and where not even
# pairs have room, their slices multiply with non-zeros alone.
least_on_small16() {
  "$wafer" zoo mlp --widths 1024,1024,1024 --batch "$1" -o zoo.onnx -q || fail "zoo"
  "$wafer" compile zoo.onnx -o zoo.wplan --report zoo.json --mode streaming --machine small16 --sparsity 0.9 >said || fail "compile"
  python3 -c "import json; s = json.load(open('zoo.json'))['sparsity']; \
assert s['multiply_cycles'] <= 0.13 * s['dense_multiply_cycles'] and 5 * s['stream_words'] <= 1.001 * s['dense_stream_words'], s" ||
    fail "$1 rows: $(cat said)"
}
least_on_small16 64
grep -q "passes in slices" said || fail "nothing passes in slices: $(cat said)"
least_on_small16 4
grep -q "fabric fidelity: .* programs$" said || fail "pairs have no room: $(cat said)"
"$wafer" check zoo.wplan -q || fail "pairs that dense weights have no room for give other values"

# Filters too, of which cores have parts that are dealt.
"$wafer" compile filters.onnx -o zoo.wplan --report zoo.json -q --mode streaming --sparsity 0.9 || fail "compile filters"
python3 -c "import json; s = json.load(open('zoo.json'))['sparsity']; \
assert s['multiply_cycles'] <= 0.13 * s['dense_multiply_cycles'], s" || fail "filters multiply as if they were dense"

# Samples lie innermost for pairs of filters: with taps around places every third read fell on the banks of the sums.
"$wafer" compile images.onnx -o zoo.wplan --report zoo.json -q --mode streaming --machine small64 --sparsity 0.9 ||
  fail "compile images"
python3 -c "import json; s = json.load(open('zoo.json'))['sparsity']; \
assert s['multiply_cycles'] <= 0.12 * s['dense_multiply_cycles'], s" || fail "windows collide with sums"
"$wafer" zoo cnn --widths 3,8,12,5 --side 8 -q -o zoo.onnx || fail "zoo cnn"
"$wafer" compile zoo.onnx -o zoo.wplan -q --mode streaming --machine small16 --sparsity 0.9 --dim batch=4 || fail "compile samples"
"$wafer" check zoo.wplan -q || fail "samples innermost give other values"

# A few layers on few cores have credit for all others, or lean shapes take twice as long as dense weights.
"$wafer" compile "$models/blazeface-front/"*.onnx -o blaze.wplan --report blaze.json -q --mode streaming --machine small64 \
  --sparsity 0.9 || fail "compile blazeface"
python3 -c "import json; r = json.load(open('blaze.json')); s = r['sparsity']; \
assert s['multiply_cycles'] <= 0.13 * s['dense_multiply_cycles'] and r['latency_cycles'] < 105000, r" || fail "blazeface is not lean"

# Not dealt where exchanges between orders take longer than is gained.
"$wafer" zoo cnn --widths 3,8,16,10 --side 16 -q -o zoo.onnx || fail "zoo cnn"
"$wafer" compile zoo.onnx -o zoo.wplan --report zoo.json --mode streaming --sparsity 0.9 --dim batch=16 >said ||
  fail "compile zoo cnn"
grep -q "  dealt  *0 weights of" said || fail "filters are dealt: $(cat said)"
python3 -c "import json; r = json.load(open('zoo.json')); s = r['sparsity']; \
assert s['multiply_cycles'] <= 0.13 * s['dense_multiply_cycles'] and r['latency_cycles'] < 11500, r" || fail "undealt filters"

# Lean unless fast shapes are asked for, which are no slower than with dense weights; the exchanges of lean ones are longer here.
"$wafer" zoo gpt --layers 1 --d-model 64 --heads 2 --vocab 64 --sequence 32 -q -o zoo.onnx
for how in "" "--sparsity 0.9" "--sparsity 0.9 --sparse-shapes lean" "--sparsity 0.9 --sparse-shapes fast"; do
  # shellcheck disable=SC2086
  "$wafer" compile zoo.onnx -o zoo.wplan --report zoo.json --mode streaming --dim batch=4 --dtype f16 $how >said || fail "compile $how"
  python3 -c "import json; print(json.load(open('zoo.json'))['interval_cycles'])"
done >took
python3 -c "dense, chosen, lean, fast = (int(n) for n in open('took')); assert fast <= dense < lean == chosen" || fail "$(cat took)"

# What streams and multiplies beside dense weights, in words and in JSON.
grep -q "  streamed .* words; .* with dense weights: 0\.[0-9]*$" said || fail "no share of words: $(cat said)"
grep -q "  multiply .* cycles of .*; .* with dense weights there: 0\.[0-9]*;" said || fail "no share of cycles: $(cat said)"
python3 -c "import json; s = json.load(open('zoo.json'))['sparsity']
for what, of in (('multiply', 'multiply_cycles'), ('stream', 'stream_words')):
  assert abs(s[what + '_share'] * s['dense_' + of] / s[of] - 1) < 1e-12 and s[of] < s['dense_' + of], s" || fail "shares in JSON"
gives 1 "wants lean or fast" "$wafer" compile zoo.onnx -o zoo.wplan --sparse-shapes dense

# A causal mask has many zeros, but is only added: the product of queries and keys is no sparse one.
"$wafer" zoo gpt --layers 1 --d-model 128 --heads 4 --vocab 256 --sequence 128 --init 1 -q -o causal.onnx || fail "zoo gpt"
"$wafer" compile causal.onnx -o causal.wplan --mode streaming --sparsity 0.9 --dim batch=8 --dtype f16 >said 2>&1 || fail "compile gpt"
grep -q "heads.select: 8128 of 16384 elements" <<EOF || fail "the mask of attention is not stored sparse"
$("$wafer" dump causal.wplan)
EOF
grep -q "  besides  *8128 words of 8192: sparse weights that no product takes" said || fail "words of the mask: $(cat said)"
grep -q "  streamed .*: 0.200$" said || fail "words of the weights: $(cat said)"
grep -E "lie dense|farthest above *layer.0.attention.heads" said && fail "a mask is reported as a factor"

# Weights of as many non-zeros are dealt differently, so queries, keys and values each want a copy of their input in an order of
# their own, and sizing has to leave room for them.
"$wafer" zoo bert --layers 1 --d-model 768 --heads 12 --vocab 512 --sequence 128 --init 1 -q -o copies.onnx || fail "zoo bert"
"$wafer" compile copies.onnx -o copies.wplan -q --mode streaming --sparsity 0.9 --dim batch=1 --dtype f16 || fail "copies in other orders"
# Weights that wait for their phase have the room of their pairs there, too.
"$wafer" compile copies.onnx -o copies.wplan -q --mode streaming --sparsity 0.9 --dim batch=4 || fail "pairs that wait have no room"

# Cores take the pairs, dealt or not, in the cycles that are predicted.
for mode in streaming pipelined; do
  for storage in f32 f16; do
    compile cores dense.onnx --machine small64 --mode $mode --dtype $storage --sparsity 0.9 --programs always
    "$wafer" check cores.wplan --input x=x.npy >said 2>&1 || fail "check $mode $storage: $(cat said)"
    sed -n 's/^kernels: .* worst \([0-9]*\)\..*/\1/p' said | grep -qx '[0-9]' || fail "$mode $storage: $(cat said)"
  done
done

x=xc.npy
for mode in streaming pipelined; do
  for storage in f32 f16; do
    compile cores conv.onnx --machine small64 --mode $mode --dtype $storage --sparsity 0.9 --programs always
    "$wafer" check cores.wplan --input x=xc.npy --mean 20 >said 2>&1 || fail "check of filters, $mode $storage: $(cat said)"
    "$wafer" dump cores.wplan --why h | grep -q "multiplies with non-zeros alone" || fail "$mode $storage: filters multiply dense"
  done
done

# Filters that are cut over cores are dealt, in an order of their own; the output comes in the model's.
cat >filters.xml <<'XML'
<placement version="1"><kernel name="h" x="0" y="0" width="8" height="64" rows="64 1 1 1" cols="1 8 1 1"/></placement>
XML
compile cores conv.onnx --machine small64 --mode pipelined --sparsity 0.9 --programs always --placement filters.xml
"$wafer" dump cores.wplan --why h | grep -q "with 1 lists of 15 pairs" || fail "filters are not dealt: $("$wafer" dump cores.wplan --why h)"
gives 0 "output y: differs by" "$wafer" check cores.wplan --input x=xc.npy
# Filters in groups are lists of pairs, too; they multiplied all zeros.
for mode in streaming pipelined; do
  for storage in f32 f16; do
    compile cores groups.onnx --machine small64 --mode $mode --dtype $storage --sparsity 0.9 --programs always
    "$wafer" check cores.wplan --input x=xc.npy --mean 10 >said 2>&1 || fail "check of groups, $mode $storage: $(cat said)"
    "$wafer" dump cores.wplan --why h | grep -q "multiplies with non-zeros alone" || fail "$mode $storage: groups multiply dense"
    python3 -c "import json; s = json.load(open('cores.json'))['sparsity']; assert s['multiply_share'] <= 0.13, s" ||
      fail "$mode $storage: filters in groups are not lean"
  done
done
x=x.npy

# The input of a block crosses the border once: the fastest lean pipeline dealt it in one order for the first filters and in
# another for the sum, and took 8,832 cycles.
for name in sparse dense; do
  more= && [ $name = sparse ] && more="--sparsity 0.9"
  # shellcheck disable=SC2086
  "$wafer" compile block.onnx -o $name.wplan --report $name.json -q --machine small64 --mode pipelined $more || fail "compile block"
done
python3 -c "import json; r, d = json.load(open('sparse.json')), json.load(open('dense.json')); \
assert r['interval_cycles'] <= d['interval_cycles'] == 4416 and r['sparsity']['lean'], (r['interval_cycles'], r['sparsity'])" ||
  fail "a block's pipeline is slower than of dense weights"

# Guards: what a kernel multiplies and joins with the result, too, was in its own order where the result was dealt.
for model in twice_add twice_mul; do
  for machine in small16 small64; do
    for mode in streaming pipelined; do
      "$wafer" compile $model.onnx -o twice.wplan -q --machine $machine --mode $mode --sparsity 0.5 ||
        fail "compile $model, $machine $mode"
      "$wafer" check twice.wplan -q >said 2>&1 || fail "check $model, $machine $mode: $(cat said)"
    done
  done
done

# Two columns of cores have no part of the 120 results, and send themselves no pairs.
cat >wide.xml <<'XML'
<placement version="1"><kernel name="h" x="0" y="0" width="17" height="64" rows="64 1 1" cols="1 17 1"/></placement>
XML
compile cores dense.onnx --machine small64 --mode pipelined --sparsity 0.9 --programs always --placement wide.xml
gives 0 "output y: differs by" "$wafer" check cores.wplan --input x=x.npy

# breaks WORDS SCRIPT: the plan after the sed script is refused
rm -rf whole dir
"$replan" unpack pruned.wplan whole && cp -r whole dir || fail "unpack"
breaks() {
  sed "$2" whole/plan.xml >dir/plan.xml
  cmp -s whole/plan.xml dir/plan.xml && fail "nothing changed by $2"
  "$replan" pack dir broken.wplan || fail "pack"
  "$wafer" dump broken.wplan >said 2>&1
  [ $? -eq 2 ] || fail "$2: not status 2"
  grep -q "$1" said || fail "$2: says $(cat said)"
}
breaks "counts on 7 elements" '/<input /s/nonzeros="960"/nonzeros="7"/'
breaks "counts on" '/<weight /s/ sparse="true"//'
breaks "9601 elements that are not zero, of 9600" 's/nonzeros="960"/nonzeros="9601"/'
breaks "in a tile of" '/<input .*nonzeros="960"/s/fullest="[0-9]*"/fullest="961"/'
breaks "words long, must be" '/<stream /s/words="1920"/words="1919"/'

refused() { code=$1 words=$2; shift 2; gives "$code" "$words" "$wafer" compile dense.onnx -o no.wplan "$@"; }
refused 1 "below 1" --sparsity 1
refused 2 "named 'w9'" --mask w9=m1.npy
refused 2 "its mask is 120x80" --mask w1=m2.npy

# ---- training ----

# A weight as pairs in the forward pass and dense in the backward one: no programs, and said so.
"$wafer" zoo mlp --widths 20,33,4 -q -o forms.onnx && "$wafer" compile forms.onnx -q --train --loss mse --micro-batch 2 \
  --sparsity 0.7 --mode streaming --machine small16 -o forms.wplan || fail "compile forms"
gives 3 "in another form" "$wafer" check forms.wplan

"$wafer" zoo mlp --widths 16,32,5 --init 1 -o mlp.onnx >/dev/null || fail "zoo mlp"
train() {
  folder=$1
  shift
  timeout 60 "$wafer" train mlp.onnx --data tx.npy,ty.npy --loss cross-entropy --optimizer adamw --lr 1e-2 --batch 16 \
    --micro-batch 4 --sparsity 0.9 --checkpoint "$folder" -q "$@" || fail "train $folder"
}
train one --steps 12
train two --steps 12 --systems 2
train parts --steps 5
train parts --steps 12 --resume
gives 1 "other zeros: --sparsity and --mask made '0.9 zeros" "$wafer" train mlp.onnx --data tx.npy,ty.npy --loss cross-entropy \
  --optimizer adamw --batch 16 --micro-batch 4 --sparsity 0.5 --checkpoint parts --resume --steps 14 -q
gives 1 "and '0 dense' of this one" "$wafer" train mlp.onnx --data tx.npy,ty.npy --loss cross-entropy \
  --optimizer adamw --batch 16 --micro-batch 4 --checkpoint parts --resume --steps 14 -q
last=$(ls one | tail -n 1)
for other in two parts; do
  cmp "one/$last/weights.safetensors" "$other/$last/weights.safetensors" || fail "$other: weights differ"
  cmp "one/$last/state.safetensors" "$other/$last/state.safetensors" || fail "$other: state differs"
done
python3 - "one/$last/weights.safetensors" <<'PY' || fail "zeros of trained weights"
import json, struct, sys
data = open(sys.argv[1], 'rb').read()
n = struct.unpack('<Q', data[:8])[0]
for name, t in json.loads(data[8:8 + n]).items():
    if name == '__metadata__' or len(t['shape']) != 2: continue
    a, b = t['data_offsets']
    w = struct.unpack('<%df' % ((b - a) // 4), data[8 + n + a:8 + n + b])
    assert sum(v != 0 for v in w) == len(w) // 10, (name, sum(v != 0 for v in w), len(w))
PY
finish "sparsity: ok"
