#!/usr/bin/env python3
"""scikit-learn's 1,797 digits of 8 x 8: an MLP and a CNN trained by `wafer train`, three seeds each, the stratified
split of seed 0 (1,437 to learn from, 360 to be judged by). The CNN learns from each image and from it moved by one
pixel up, down, left and right. The median must reach 97 % and 98.5 %.

usage: digits.py path/to/wafer [OPTION...]   options of `wafer train` for all runs, such as --execution pipelined"""
import re
import statistics
import subprocess
import sys
import tempfile

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

RUNS = {  # widths, epochs, wanted accuracy, shifted copies
    "mlp": ("64,256,128,10", 40, 0.97, False),
    "cnn": ("1,32,64,64,10", 8, 0.985, True),
}


def moved(x):
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    corners = [(1, 1), (0, 1), (2, 1), (1, 0), (1, 2)]
    return np.concatenate([padded[:, :, i : i + 8, j : j + 8] for i, j in corners]), len(corners)


def write(folder, kind, shifted):
    digits = load_digits()
    x, y = (digits.data / 16).astype(np.float32), digits.target.astype(np.int64)
    parts = train_test_split(x, y, test_size=360, random_state=0, stratify=y)
    for name, rows, labels in (("train", parts[0], parts[2]), ("test", parts[1], parts[3])):
        rows = rows.reshape(-1, 1, 8, 8) if kind == "cnn" else rows
        if shifted and name == "train":
            rows, copies = moved(rows)
            labels = np.tile(labels, copies)
        np.save(f"{folder}/{name}.x.npy", rows)
        np.save(f"{folder}/{name}.y.npy", labels)


def main(wafer, options):
    failed = False
    for kind, (widths, epochs, wanted, shifted) in RUNS.items():
        with tempfile.TemporaryDirectory() as work:
            write(work, kind, shifted)
            got = []
            for seed in "012":
                model = f"{work}/{kind}.onnx"
                subprocess.run([wafer, "zoo", kind, "--widths", widths, "--init", seed, "-o", model, "-q"], check=True)
                text = subprocess.run(
                    [wafer, "train", model, "--data", f"{work}/train.x.npy,{work}/train.y.npy", "--eval-data",
                     f"{work}/test.x.npy,{work}/test.y.npy", "--loss", "cross-entropy", "--optimizer", "adamw", "--lr",
                     "2e-3", "--weight-decay", "0.05", "--lr-schedule", "cosine", "--warmup", "50", "--batch", "64",
                     "--epochs", str(epochs), "--seed", seed, *options],
                    check=True, capture_output=True, text=True).stdout
                got.append(float(re.findall(r"Accuracy=([0-9.]+)", text)[-1]))
            median = statistics.median(got)
            print(f"{kind}: {', '.join(f'{100 * a:.2f} %' for a in got)}; median {100 * median:.2f} %, wanted {100 * wanted:g} %")
            failed |= median < wanted
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
