#!/bin/sh
# Moonshine end to end: a voice clip through the encoder, its decoder step by step over both branches of its If with a
# cache that grows; the tokens are those of ONNX Runtime 1.31. usage: moonshine.sh WAFER MODELS
. "${0%/*}/../lib.sh"
wafer=$1 model=$2/moonshine-tiny-int8
clip=/usr/share/sounds/alsa/Front_Center.wav
[ -d "$model" ] || { echo "$model is not here: passed over"; exit 0; }

# arrays: the decoder's first inputs, and the clip at 16 kHz, a sample the mean of three at 48 kHz
python3 - "$work" "$clip" <<'P' || exit 1
import os, struct, sys, wave
work, clip = sys.argv[1:]
def save(name, descr, shape, data):
    head = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape)
    head += ' ' * (63 - (10 + len(head)) % 64) + '\n'
    with open('%s/%s.npy' % (work, name), 'wb') as f:
        f.write(b'\x93NUMPY\x01\x00' + struct.pack('<H', len(head)) + head.encode() + data)
save('start', '<i8', (1, 1), struct.pack('<q', 1))
save('no', '|b1', (1,), b'\0')
save('yes', '|b1', (1,), b'\1')
save('past', '<f4', (1, 8, 1, 36), bytes(4 * 8 * 36))
save('cross', '<f4', (1, 8, 58, 36), bytes(4 * 8 * 58 * 36))
if os.path.exists(clip):
    w = wave.open(clip)
    s = struct.unpack('<%dh' % w.getnframes(), w.readframes(w.getnframes()))
    x = [(s[i] + s[i + 1] + s[i + 2]) / 3 / 32768 for i in range(0, len(s) - 2, 3)]
    save('clip', '<f4', (1, len(x)), struct.pack('<%df' % len(x), *x))
P

"$wafer" compile "$model/encoder_model.onnx" -q -o "$work/encoder.wplan" --shape input_values=1x22848 ||
  fail "the encoder does not compile"
"$wafer" compile "$model/decoder_model_merged.onnx" -q -o "$work/decoder.wplan" --dim batch_size=1 \
  --dim decoder_sequence_length=1 --dim encoder_sequence_length=58 --dim encoder_sequence_length_out=58 \
  --dim past_decoder_sequence_length=1..5 --report "$work/decoder.json" || fail "the decoder does not compile"

# each token has a past of another size: all sizes, and both branches of the If, leave their weights where the others have them
python3 - "$work/decoder.json" <<'P' || fail "the decoder waits for its weights with each token"
import json, sys
for f in json.load(open(sys.argv[1]))['functions']:
    assert 16 * f['load_behind_cycles'] < f['load_cycles'], f
P

cache=
for layer in 0 1 2 3 4 5; do
  for part in key value; do
    cache="$cache --input past_key_values.$layer.decoder.$part=$work/past.npy"
    cache="$cache --input past_key_values.$layer.encoder.$part=$work/cross.npy"
    for side in decoder encoder; do
      cache="$cache --state present.$layer.$side.$part=past_key_values.$layer.$side.$part"
    done
  done
done

# tokens AUDIO WANTED
tokens() {
  "$wafer" run "$work/encoder.wplan" -q --input "input_values=$1" --output "$work/heard" || { fail "encoder on $1"; return; }
  # shellcheck disable=SC2086
  got=$("$wafer" run "$work/decoder.wplan" --steps 5 --input "input_ids=$work/start.npy" \
    --input "encoder_hidden_states=$work/heard/last_hidden_state.npy" --input "use_cache_branch=$work/no.npy" \
    --then "use_cache_branch=$work/yes.npy" --feed 'input_ids=argmax(logits)' --until input_ids=2 $cache |
    grep '^input_ids:')
  [ "$got" = "input_ids: $2" ] || fail "$1: $got, expected $2"
}
tokens "$model/ref-encoder-front-center/in_input_values.npy" '13960 29892 4818 29889 2'
[ -f "$work/clip.npy" ] && tokens "$work/clip.npy" '13960 4818 2'
finish "moonshine: ok"
