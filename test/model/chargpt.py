#!/usr/bin/env python3
"""A character GPT of about 1 M weights on the King James Bible (Debian's bible-kjv-text): first 90 % to learn from,
last 10 % to be judged by, bytes as vocabulary. `wafer train` and PyTorch take the same steps from the same weights; the
validation losses must be within 1 %. Prints the time of a step of both.

usage: chargpt.py path/to/wafer [STEPS]   (200)"""
import json
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch

from gpt_torch import Gpt, initial_weights, run, windows

LAYERS, WIDTH, HEADS, SEQUENCE, BATCH, MICRO, LR = 5, 128, 4, 64, 32, 8, 1e-3
HELD_OUT = 2000  # windows of the last 10 % that are evaluated


def bible():
    text = subprocess.run(["bible", "-f", "Gen1:1-Rev22:21"], stdin=subprocess.DEVNULL, capture_output=True, check=True)
    return np.frombuffer(text.stdout, np.uint8)


def main(wafer, steps):
    tokens = bible()
    cut = len(tokens) * 9 // 10
    train, held = tokens[:cut], tokens[cut : cut + HELD_OUT * SEQUENCE + 1]
    with tempfile.TemporaryDirectory() as work:
        np.save(f"{work}/train.npy", train)
        np.save(f"{work}/held.npy", held)
        run(wafer, "zoo", "gpt", "--layers", LAYERS, "--d-model", WIDTH, "--heads", HEADS, "--vocab", 256, "--sequence",
            SEQUENCE, "--init", 1, "-o", f"{work}/gpt.onnx")
        gpt = Gpt(initial_weights(wafer, f"{work}/gpt.onnx", f"{work}/train.npy", f"{work}/start"), LAYERS, HEADS)
        print(f"{sum(w.numel() for w in gpt.w.values()):,} weights, {len(train):,} bytes, {steps} steps of {BATCH} x {SEQUENCE}")
        run(wafer, "train", f"{work}/gpt.onnx", "--data", f"{work}/train.npy", "--eval-data", f"{work}/held.npy", "--lm",
            "--no-shuffle", "--loss", "cross-entropy", "--optimizer", "adam", "--lr", LR, "--batch", BATCH,
            "--micro-batch", MICRO, "--steps", steps, "--metrics", f"{work}/m.jsonl")
        lines = [json.loads(line) for line in open(f"{work}/m.jsonl")]
        ours, rate = lines[-1]["eval_loss"], lines[-2]["samples_per_second"]
        x, y = windows(train, SEQUENCE)
        adam = torch.optim.Adam(gpt.w.values(), lr=LR)
        started = time.time()
        for step in range(steps):
            at = torch.arange(step * BATCH, (step + 1) * BATCH) % len(x)
            adam.zero_grad()
            gpt.loss(x[at], y[at]).backward()
            adam.step()
        seconds = (time.time() - started) / steps
        with torch.no_grad():
            x, y = windows(held, SEQUENCE)
            theirs = np.mean([gpt.loss(a, b).item() for a, b in zip(x.split(100), y.split(100))])
        print(f"validation loss {ours:.4f}, PyTorch {theirs:.4f}: {100 * abs(ours / theirs - 1):.3f} % apart")
        print(f"a step takes {1e3 * BATCH / rate:.0f} ms, PyTorch {1e3 * seconds:.0f} ms: {BATCH / rate / seconds:.2f} times")
        return bool(abs(ours / theirs - 1) > 0.01)  # sys.exit takes a NumPy one for a failure


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 200))
