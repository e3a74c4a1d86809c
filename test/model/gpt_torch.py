"""The GPT of `wafer zoo gpt` in PyTorch, from the weights of a checkpoint: what train_torch.py and chargpt.py
compare with."""
import json
import struct
import subprocess

import numpy as np
import torch
import torch.nn.functional as F


def safetensors(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    header.pop("__metadata__", None)
    return {
        name: torch.from_numpy(np.frombuffer(data[slice(*t["data_offsets"])], "<f4").reshape(t["shape"]).copy())
        for name, t in header.items()
    }


def run(*command):
    subprocess.run([str(c) for c in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def initial_weights(wafer, model, tokens, folder):
    """What a model begins with: a step with a rate of 0 changes nothing and writes it out."""
    run(wafer, "train", model, "--data", tokens, "--lm", "--loss", "cross-entropy", "--lr", "0", "--steps", "1",
        "--batch", "1", "--checkpoint", folder)
    return safetensors(f"{folder}/step-00000001/weights.safetensors")


class Gpt:
    def __init__(self, weights, layers, heads):
        self.w = {name: value.requires_grad_() for name, value in weights.items()}
        self.layers, self.heads = layers, heads

    def norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.w[name + ".weight"], self.w[name + ".bias"], 1e-5)

    def linear(self, x, name):
        return x @ self.w[name + ".weight"] + self.w[name + ".bias"]

    def attention(self, x, name):
        batch, length, width = x.shape
        split = lambda t: t.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
        q, k, v = (split(self.linear(x, f"{name}.{part}")) for part in ("query", "key", "value"))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.linear(out.transpose(1, 2).reshape(batch, length, width), name + ".output")

    def __call__(self, tokens):
        x = self.w["tokens.weight"][tokens] + self.w["positions.weight"][: tokens.shape[1]]
        for i in range(self.layers):
            x = x + self.attention(self.norm(x, f"layer.{i}.norm"), f"layer.{i}.attention")
            h = F.gelu(self.linear(self.norm(x, f"layer.{i}.mlp.norm"), f"layer.{i}.mlp.up"), approximate="tanh")
            x = x + self.linear(h, f"layer.{i}.mlp.down")
        return self.norm(x, "norm") @ self.w["tokens.weight"].T

    def loss(self, x, y):
        return F.cross_entropy(self(x).flatten(0, 1), y.flatten())


def windows(tokens, sequence):
    count = (len(tokens) - 1) // sequence
    x = torch.from_numpy(tokens[: count * sequence].astype(np.int64)).view(count, sequence)
    y = torch.from_numpy(tokens[1 : count * sequence + 1].astype(np.int64)).view(count, sequence)
    return x, y
