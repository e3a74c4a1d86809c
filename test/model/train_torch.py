#!/usr/bin/env python3
"""A 2-layer GPT (vocabulary 256, width 128) trained by `wafer train` and by PyTorch from the same weights and data:
the first 100 losses with Adam must agree within 1e-4 relative.

usage: train_torch.py path/to/wafer"""
import json
import sys
import tempfile

import numpy as np
import torch

from gpt_torch import Gpt, initial_weights, run, windows

STEPS, BATCH, SEQUENCE, LR = 100, 16, 64, 1e-3


def text():
    """Words of a small vocabulary in random order: there is something to learn."""
    draw = np.random.default_rng(0)
    words = [bytes(draw.integers(97, 123, draw.integers(2, 9)).astype(np.uint8)) for _ in range(200)]
    return np.frombuffer(b" ".join(words[i] for i in draw.zipf(1.3, 60000) % 200), np.uint8)


def main(wafer):
    with tempfile.TemporaryDirectory() as work:
        tokens, model = text(), f"{work}/gpt.onnx"
        np.save(f"{work}/tokens.npy", tokens)
        run(wafer, "zoo", "gpt", "--layers", 2, "--d-model", 128, "--heads", 4, "--vocab", 256, "--sequence", SEQUENCE,
            "--init", 1, "-o", model)
        gpt = Gpt(initial_weights(wafer, model, f"{work}/tokens.npy", f"{work}/start"), 2, 4)
        run(wafer, "train", model, "--data", f"{work}/tokens.npy", "--lm", "--no-shuffle", "--loss", "cross-entropy",
            "--optimizer", "adam", "--lr", LR, "--batch", BATCH, "--steps", STEPS, "--metrics", f"{work}/m.jsonl",
            "--systems", 2)
        ours = [json.loads(line)["loss"] for line in open(f"{work}/m.jsonl")]
        x, y = windows(tokens, SEQUENCE)
        adam = torch.optim.Adam(gpt.w.values(), lr=LR)
        worst = 0
        for step in range(STEPS):
            at = torch.arange(step * BATCH, (step + 1) * BATCH) % len(x)
            loss = gpt.loss(x[at], y[at])
            adam.zero_grad()
            loss.backward()
            adam.step()
            worst = max(worst, abs(ours[step] - loss.item()) / loss.item())
        print(f"{STEPS} losses, {ours[0]:.4f} to {ours[-1]:.4f}: at most {worst:.2e} apart")
        return worst > 1e-4


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
