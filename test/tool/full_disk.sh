#!/bin/sh
# A disk that is really full: checkpoints in a file system of 256 KB. The run ends with a message and a whole checkpoint
# before it; with room again it goes on to the bytes of an undisturbed one. Needs the right to mount (77: skipped).
# usage: full_disk.sh WAFER
. "${0%/*}/../lib.sh"
wafer=$1
cd "$work" || exit 1
mkdir disk
mount -t tmpfs -o size=256k none disk 2>/dev/null || { echo "skipped: no file system can be mounted here"; exit 77; }
trap 'umount "$work/disk"; rm -rf "$work"' EXIT

octal 1024 'i * 7 % 11' | npy x.npy '|u1' '(64, 16)'
octal 64 'i % 5' | npy y.npy '|u1' '(64,)'
"$wafer" zoo mlp --widths 16,64,64,5 -o mlp.onnx -q || fail "zoo"
train() { "$wafer" train mlp.onnx --data x.npy,y.npy --loss cross-entropy --optimizer adam --batch 16 --checkpoint-every 1 -q "$@"; }
train --steps 6 --keep 0 --checkpoint whole || fail "the undisturbed run"

# A checkpoint has about 66 KB: three fit, the fourth does not.
train --steps 6 --keep 0 --checkpoint disk/run 2>said
[ $? = 7 ] && says said 'No space left on device' || fail "the full disk: $(cat said)"
steps=$(ls disk/run | tail -n 1)
[ -n "$steps" ] && [ ! -e disk/run/.writing ] && diff -r "whole/$steps" "disk/run/$steps" || fail "the newest checkpoint, $steps, is not whole"
train --steps 6 --keep 0 --checkpoint disk/run --resume 2>said
[ $? = 7 ] && says said 'No space left' || fail "still full: $(cat said)"
diff -r "whole/$steps" "disk/run/$steps" || fail "$steps changed on the full disk"
train --steps 6 --keep 0 --checkpoint disk/run --metrics disk/metrics.jsonl --resume 2>/dev/null
mount -o remount,size=2m none disk || fail "remount"
train --steps 6 --keep 0 --checkpoint disk/run --resume || fail "with room again"
diff -r whole disk/run || fail "with room again: other bytes"
finish "a full disk: ok"
