#!/usr/bin/env python3
"""scikit-learn's 1,797 digits of 8 x 8: an MLP and a CNN trained by `wafer train`, three seeds each, the stratified
split of seed 0 (digits_train.txt: 1,437 to learn from, digits_test.txt: 360 to be judged by), images as they are. The
median must reach 97 % and 98.5 %.

usage: digits.py path/to/wafer [OPTION...]   options of `wafer train` for all runs, such as --execution pipelined"""
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import numpy as np
from sklearn.datasets import load_digits

RUNS = {  # zoo options, training options, wanted accuracy; what batch normalization sees is a micro-batch
    "mlp": (["--widths", "64,256,128,10"], ["--lr", "2e-3", "--batch", "64", "--epochs", "40"], 0.97),
    "cnn": (["--widths", "1,32,64,64,10", "--norm", "batch"],
            ["--lr", "3e-3", "--batch", "32", "--micro-batch", "32", "--epochs", "20"], 0.985),
}


def write(folder, kind):
    digits = load_digits()
    x, y = (digits.data / 16).astype(np.float32), digits.target.astype(np.int64)
    for name in ("train", "test"):  # train_test_split(..., test_size=360, random_state=0, stratify=y) chose them
        at = np.array(pathlib.Path(__file__).with_name(f"digits_{name}.txt").read_text().split(), np.int64)
        np.save(f"{folder}/{name}.x.npy", x[at].reshape(-1, 1, 8, 8) if kind == "cnn" else x[at])
        np.save(f"{folder}/{name}.y.npy", y[at])


def main(wafer, options):
    failed = False
    for kind, (zoo, training, wanted) in RUNS.items():
        with tempfile.TemporaryDirectory() as work:
            write(work, kind)
            got = []
            for seed in "012":
                model = f"{work}/{kind}.onnx"
                subprocess.run([wafer, "zoo", kind, *zoo, "--init", seed, "-o", model, "-q"], check=True)
                text = subprocess.run(
                    [wafer, "train", model, "--data", f"{work}/train.x.npy,{work}/train.y.npy", "--eval-data",
                     f"{work}/test.x.npy,{work}/test.y.npy", "--loss", "cross-entropy", "--optimizer", "adamw",
                     "--weight-decay", "0.05", "--lr-schedule", "cosine", "--warmup", "50", "--seed", seed, *training,
                     *options],
                    check=True, capture_output=True, text=True).stdout
                got.append(float(re.findall(r"Accuracy=([0-9.]+)", text)[-1]))
            median = statistics.median(got)
            print(f"{kind}: {', '.join(f'{100 * a:.2f} %' for a in got)}; median {100 * median:.2f} %, wanted {100 * wanted:g} %")
            failed |= median < wanted
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
