#!/usr/bin/env python3
"""Training plans against PyTorch: losses, counts and the gradients of every parameter of small networks.
Needs torch, onnx and numpy; without them nothing is checked (exit code 77). usage: grad_torch.py WAFER"""
import os
import subprocess
import sys
import tempfile
import warnings

try:
    import numpy as np
    import onnx
    import torch
    import torch.nn.functional as F
    from onnx import numpy_helper
    from torch import nn
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

TOLERANCE = 2e-5  # of the largest element: f32, other orders of summation


class MLP(nn.Module):
    def __init__(self, activation, classes=10):
        super().__init__()
        self.a, self.b = nn.Linear(12, 16), nn.Linear(16, classes)
        self.activation = activation

    def forward(self, x):
        return self.b(self.activation(self.a(x)))


class Probabilities(MLP):
    def forward(self, x):
        return torch.sigmoid(super().forward(x))


class LogProbabilities(MLP):
    def forward(self, x):
        return F.log_softmax(super().forward(x), dim=1)


class CNN(nn.Module):
    """Strides, groups, dilations, odd pads, both pools, batch statistics, an upsampling and a way around."""

    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.b1 = nn.BatchNorm2d(8)
        self.c2 = nn.Conv2d(8, 16, 3, stride=2, padding=(1, 2), groups=4)
        self.c3 = nn.Conv2d(16, 16, 3, padding=2, dilation=2)
        self.up = nn.ConvTranspose2d(16, 4, 3, stride=2, padding=1, output_padding=1)
        self.f = nn.Linear(14, 5)
        self.slope = nn.PReLU(16)

    def forward(self, x):
        x = F.relu(self.b1(self.c1(x)))
        x = self.slope(self.c2(F.max_pool2d(x, 3, stride=2, padding=1)))
        x = x + F.hardswish(self.c3(x))
        x = F.interpolate(self.up(x), scale_factor=2, mode="bilinear", align_corners=False)
        x = torch.cat([F.avg_pool2d(x, 3, stride=2), F.max_pool2d(x, 2)[:, :, :-1, 1:]], 3)
        return self.f(x.mean(3).flatten(1)[:, ::2])


class Sequences(nn.Module):
    """Classes along axis 1 of (N, C, T)."""

    def __init__(self):
        super().__init__()
        self.c = nn.Conv1d(4, 6, 3, padding=1)

    def forward(self, x):
        return self.c(x)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = (p.view(n, t, self.heads, c // self.heads).transpose(1, 2)
                   for p in self.qkv(self.n1(x)).split(c, dim=2))
        mask = torch.tril(torch.ones(t, t, dtype=torch.bool))
        scores = (q @ k.transpose(-2, -1)) * (c // self.heads) ** -0.5
        y = scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v
        x = x + self.proj(y.transpose(1, 2).reshape(n, t, c))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class GPT(nn.Module):
    def __init__(self, vocabulary=32, width=32, heads=2, layers=2, length=12):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


# ---- Losses: what torch sums ----

def cross_entropy(y, t, ignored=-100):
    return F.cross_entropy(y, t, reduction="sum", ignore_index=ignored), (t != ignored).sum()


def by_last_axis(y, t):
    return F.cross_entropy(y.flatten(0, 1), t.flatten(), reduction="sum"), t.numel()


LOSSES = {
    "cross-entropy": cross_entropy,
    "soft-cross-entropy": lambda y, t: (F.cross_entropy(y, t, reduction="sum"), y.shape[0]),
    "nll": lambda y, t: (F.nll_loss(y, t, reduction="sum"), t.numel()),
    "mse": lambda y, t: (F.mse_loss(y, t, reduction="sum"), y.numel()),
    "l1": lambda y, t: (F.l1_loss(y, t, reduction="sum"), y.numel()),
    "bce": lambda y, t: (F.binary_cross_entropy(y, t, reduction="sum"), y.numel()),
}


def export(model, x, path):
    """In training mode and of batch 2, which --micro-batch then changes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (x[:2],), path, dynamo=False, opset_version=17, input_names=["x"],
                          output_names=["y"], training=torch.onnx.TrainingMode.TRAINING,
                          do_constant_folding=False)


def parameter_of(model, value):
    """The parameter that an initializer holds, perhaps transposed, with its gradient laid out as the initializer."""
    for p in model.parameters():
        for turn in (lambda a: a, lambda a: a.T if a.ndim == 2 else a, lambda a: a.reshape(value.shape)
                     if a.numel() == value.size else a):
            if turn(p).shape == value.shape and np.array_equal(turn(p).detach().numpy(), value):
                return p, turn(p.grad).numpy()
    return None, None


def check(folder, wafer, name, model, x, t, loss, sums, *options):
    path, plan, out = (os.path.join(folder, f) for f in ("m.onnx", "m.wplan", "out"))
    model.train()
    for p in model.parameters():  # none is like another
        p.data += 0.1 * torch.randn_like(p)
    export(model, x, path)
    seed = 1.0 / t.numel()
    model.zero_grad()
    total, count = sums(model(x), t)
    (total * seed).backward()
    np.save(folder + "/x.npy", x.numpy())
    np.save(folder + "/labels.npy", t.numpy())
    np.save(folder + "/seed.npy", np.float32(seed))
    subprocess.run([wafer, "compile", path, "-o", plan, "-q", "--train", "--loss", loss, "--micro-batch",
                    str(len(x)), "--programs", "never", *options], check=True)
    subprocess.run(["rm", "-rf", out], check=True)
    subprocess.run([wafer, "run", plan, "-q", "--output", out] +
                   [a for n in ("x", "labels", "seed") for a in ("--input", f"{n}={folder}/{n}.npy")], check=True)
    got = {os.path.relpath(os.path.join(d, f), out)[:-4]: np.load(os.path.join(d, f))
           for d, _, files in os.walk(out) for f in files}
    failures = compare(model, onnx.load(path), got, total.item(), float(count))
    print(f"{'failed' if failures else 'ok':6} {name}: {len(got) - 2} gradients")
    for line in failures:
        print("      ", line)
    return not failures


def compare(model, graph, got, total, count):
    failures, seen = [], set()
    if abs(got["loss"] - total) > 1e-5 * abs(total) or got["count"] != count:
        failures.append(f"loss {got['loss']} of {got['count']}, torch {total} of {count}")
    for tensor in graph.graph.initializer:
        value = numpy_helper.to_array(tensor)
        gradient = next((v for k, v in got.items() if k.endswith("gradient:" + tensor.name) or
                         k.endswith("gradient_" + tensor.name)), None)
        p, want = parameter_of(model, value)
        if p is None:
            if gradient is not None:
                failures.append(f"{tensor.name} is trained, it is no parameter")
            continue
        seen.add(id(p))
        if gradient is None:
            failures.append(f"{tensor.name} has no gradient")
            continue
        off, largest = np.abs(gradient - want).max(), np.abs(want).max()
        if gradient.shape != want.shape or not off <= TOLERANCE * max(largest, 1e-6):
            failures.append(f"{tensor.name}: off by {off:.3g} of {largest:.3g}")
    if len(seen) != len(list(model.parameters())):
        failures.append(f"{len(seen)} of {len(list(model.parameters()))} parameters in the model")
    return failures


def main():
    wafer = sys.argv[1]
    torch.manual_seed(7)
    x, classes = torch.randn(6, 12), torch.randint(0, 10, (6,))
    images, tokens = torch.randn(4, 3, 16, 16), torch.randint(0, 32, (3, 12))
    some = torch.where(torch.arange(6) % 3 == 1, torch.tensor(-1), classes)
    cases = [
        ("mlp, cross-entropy", MLP(torch.tanh), x, classes, "cross-entropy"),
        ("mlp, ignored labels", MLP(F.gelu), x, some, "cross-entropy",
         lambda y, t: cross_entropy(y, t, -1), "--ignore-index", "-1"),
        ("mlp, soft labels", MLP(F.silu), x, torch.rand(6, 10), "soft-cross-entropy"),
        ("mlp, nll", LogProbabilities(F.elu), x, classes, "nll"),
        ("mlp, mse", MLP(F.softplus), x, torch.randn(6, 10), "mse"),
        ("mlp, l1", MLP(F.leaky_relu), x, torch.randn(6, 10), "l1"),
        ("mlp, bce", Probabilities(torch.sin), x, torch.rand(6, 10), "bce"),
        ("cnn", CNN(), images, torch.randint(0, 5, (4,)), "cross-entropy"),
        ("classes in the middle", Sequences(), torch.randn(3, 4, 9), torch.randint(0, 6, (3, 9)), "cross-entropy"),
        ("gpt", GPT(), tokens, torch.randint(0, 32, (3, 12)), "cross-entropy", by_last_axis, "--class-axis", "-1"),
        ("gpt, recomputed", GPT(), tokens, torch.randint(0, 32, (3, 12)), "cross-entropy", by_last_axis,
         "--class-axis", "-1", "--recompute", "all"),
        ("cnn, recomputed", CNN(), images, torch.randint(0, 5, (4,)), "cross-entropy", cross_entropy,
         "--recompute", "all"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        done = [check(folder, wafer, *case[:5], case[5] if len(case) > 5 else LOSSES[case[4]], *case[6:])
                for case in cases]
    sys.exit(0 if all(done) else 1)


if __name__ == "__main__":
    main()
