#!/usr/bin/env python3
"""Small networks of the blocks that image and sequence models are made of, as PyTorch exports them: what cores compute is
what PyTorch computes, and cycles are as predicted, in both modes on the machine small64; mode auto takes the faster one. A
table of all with -v.

usage: blocks_torch.py path/to/wafer [-v] [block ...]"""
import json
import pathlib
import subprocess
import sys
import tempfile
import warnings

try:
    import numpy as np
    import onnx
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

MACHINE = "small64"
TOTAL = {"streaming": 4.0, "pipelined": 6.0}  # percent that a prediction may be off
MEAN = "8"  # per kernel, on average
TOLERANCE = "1e-4"  # of an output's largest, beside PyTorch


def conv(i, o, k=3, stride=1, **more):
    return nn.Conv2d(i, o, k, stride, k // 2, **more)


class UNet(nn.Module):
    """Skips over two levels, transposed convolutions, group normalization."""
    shape = (1, 3, 32, 32)

    def __init__(self):
        super().__init__()
        def pair(i, o):
            return nn.Sequential(conv(i, o), nn.BatchNorm2d(o), nn.ReLU(), conv(o, o), nn.GroupNorm(4, o), nn.SiLU())
        self.down = nn.ModuleList([pair(3, 8), pair(8, 16), pair(16, 32)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)])
        self.join = nn.ModuleList([pair(32, 16), pair(16, 8)])
        self.out = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        kept = []
        for i, block in enumerate(self.down):
            x = block(F.max_pool2d(x, 2) if i else x)
            kept.append(x)
        for up, join, skip in zip(self.up, self.join, kept[1::-1]):
            x = join(torch.cat([up(x), skip], 1))
        return self.out(x)


class Residual(nn.Module):
    shape = (1, 3, 16, 16)

    def __init__(self):
        super().__init__()
        self.stem = conv(3, 8)
        self.blocks = nn.ModuleList([nn.Sequential(conv(8, 8), nn.BatchNorm2d(8), nn.ReLU(), conv(8, 8)) for _ in range(3)])
        self.out = nn.Linear(8, 10)

    def forward(self, x):
        x = F.relu(self.stem(x))
        for block in self.blocks:
            x = F.relu(x + block(x))
        return self.out(x.mean((2, 3)))


class Mobile(nn.Module):
    """Depthwise convolution, squeeze and excitation, hard activations."""
    shape = (1, 3, 32, 32)

    def __init__(self):
        super().__init__()
        self.stem, self.wide, self.deep = conv(3, 16, stride=2), nn.Conv2d(16, 64, 1), conv(64, 64, 5, groups=64)
        self.squeeze, self.excite, self.narrow = nn.Conv2d(64, 16, 1), nn.Conv2d(16, 64, 1), nn.Conv2d(64, 16, 1)
        self.out = nn.Linear(16, 10)

    def forward(self, x):
        first = F.hardswish(self.stem(x))
        x = F.hardswish(self.deep(F.hardswish(self.wide(first))))
        share = F.hardsigmoid(self.excite(F.relu(self.squeeze(x.mean((2, 3), keepdim=True)))))
        x = self.narrow(x * share) + first
        return F.log_softmax(self.out(F.adaptive_avg_pool2d(x, 1).flatten(1)), -1)


class Inception(nn.Module):
    shape = (1, 3, 32, 32)

    def __init__(self):
        super().__init__()
        self.stem = conv(3, 16, stride=2)
        self.ways = nn.ModuleList([nn.Conv2d(16, 8, 1), nn.Sequential(nn.Conv2d(16, 8, 1), nn.ReLU(), conv(8, 12)),
                                   nn.Sequential(nn.Conv2d(16, 4, 1), nn.ReLU(), conv(4, 8, 5)),
                                   nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(16, 4, 1))])
        self.out = nn.Conv2d(32, 10, 1)

    def forward(self, x):
        x = F.relu(self.stem(x))
        x = F.relu(torch.cat([way(x) for way in self.ways], 1))
        return F.interpolate(self.out(x), scale_factor=2, mode="bilinear", align_corners=False)


class Shuffle(nn.Module):
    """Channels in halves, one of them computed, both shuffled."""
    shape = (1, 3, 16, 16)

    def __init__(self):
        super().__init__()
        self.stem, self.out = conv(3, 16, stride=2), nn.Linear(16, 4)
        self.branch = nn.Sequential(nn.Conv2d(8, 8, 1), nn.ReLU(), conv(8, 8, groups=8), nn.Conv2d(8, 8, 1), nn.ReLU())

    def forward(self, x):
        x = self.stem(x)
        for _ in range(2):
            left, right = x.chunk(2, 1)
            x = torch.cat([left, self.branch(right)], 1)
            n, c, h, w = x.shape
            x = x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)
        return self.out(F.avg_pool2d(x, 8).flatten(1))


class Dense(nn.Module):
    shape = (1, 3, 16, 16)

    def __init__(self):
        super().__init__()
        self.stem, self.out = conv(3, 8), nn.Conv2d(32, 16, 1)
        self.norms = nn.ModuleList([nn.BatchNorm2d(6 * k + 8) for k in range(4)])
        self.convs = nn.ModuleList([conv(6 * k + 8, 6) for k in range(4)])

    def forward(self, x):
        x = self.stem(x)
        for norm, layer in zip(self.norms, self.convs):
            x = torch.cat([x, layer(F.relu(norm(x)))], 1)
        return F.avg_pool2d(self.out(x), 2)


class Pyramid(nn.Module):
    """Features of three levels, added from the top, and a head that all share."""
    shape = (1, 3, 32, 32)

    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([conv(3, 8, stride=2), conv(8, 16, stride=2), conv(16, 32, stride=2)])
        self.side = nn.ModuleList([nn.Conv2d(i, 12, 1) for i in (8, 16, 32)])
        self.head = conv(12, 6)

    def forward(self, x):
        levels, top, heads = [], None, []
        for layer in self.down:
            x = F.relu(layer(x))
            levels.append(x)
        for side, level in zip(reversed(self.side), reversed(levels)):
            top = side(level) if top is None else side(level) + F.interpolate(top, scale_factor=2, mode="nearest")
            heads.append(self.head(top).permute(0, 2, 3, 1).reshape(1, -1, 6))
        x = torch.cat(heads, 1)
        return x[..., :4], x[..., 4:].softmax(-1).max(-1)[0]


class Upscale(nn.Module):
    shape = (1, 1, 24, 24)

    def __init__(self):
        super().__init__()
        self.a, self.slope, self.b, self.c = conv(1, 16, 5), nn.PReLU(16), conv(16, 8), conv(8, 4)

    def forward(self, x):
        return torch.sigmoid(F.pixel_shuffle(self.c(torch.tanh(self.b(self.slope(self.a(x))))), 2))


class ConvNext(nn.Module):
    """Layer normalization over channels that are moved to the end, and back."""
    shape = (1, 3, 64, 64)

    def __init__(self):
        super().__init__()
        self.stem, self.deep, self.norm = nn.Conv2d(3, 24, 4, 4), conv(24, 24, 7, groups=24), nn.LayerNorm(24)
        self.wide, self.narrow, self.out = nn.Linear(24, 96), nn.Linear(96, 24), nn.Linear(24, 7)

    def forward(self, x):
        x = self.stem(x)
        y = self.norm(self.deep(x).permute(0, 2, 3, 1))
        x = x + self.narrow(F.gelu(self.wide(y))).permute(0, 3, 1, 2)
        return self.out(x.mean((2, 3)))


class Encoder(nn.Module):
    shape = (2, 16)  # tokens

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu")
        self.table, self.place = nn.Embedding(50, 32), nn.Parameter(torch.randn(1, 16, 32))
        self.layers, self.out = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(32, 50)

    def forward(self, x):
        return self.out(self.layers(self.table(x) + self.place))


class Queries(nn.Module):
    """Attention of queries to an image. Norms of what has been normalized: their means are nothing but what rounding
    leaves, which differs, and is not held against them."""
    shape = (1, 3, 13, 17)

    def __init__(self):
        super().__init__()
        self.stem, self.queries = nn.Conv2d(3, 16, 5, 3), nn.Parameter(torch.randn(1, 7, 16))
        self.pairs, self.out = nn.Transformer(16, 2, 1, 1, 21, batch_first=True), nn.Linear(16, 4)

    def forward(self, x):
        return self.out(self.pairs(self.stem(x).flatten(2).transpose(1, 2), self.queries)).sigmoid()


class Mixer(nn.Module):
    shape = (2, 16, 32)

    def __init__(self):
        super().__init__()
        self.norm, self.t1, self.t2 = nn.LayerNorm(32), nn.Linear(16, 32), nn.Linear(32, 16)
        self.c1, self.c2 = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x):
        x = x + self.t2(F.gelu(self.t1(self.norm(x).transpose(1, 2)))).transpose(1, 2)
        return x + self.c2(F.gelu(self.c1(self.norm(x))))


class Dilated(nn.Module):
    """Convolutions of a sequence, dilated, with residuals."""
    shape = (1, 8, 40)

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv1d(24 if i else 8, 24, 3, dilation=2**i, padding=2**i) for i in range(4)])
        self.out = nn.Linear(24, 3)

    def forward(self, x):
        for i, layer in enumerate(self.convs):
            y = torch.tanh(layer(x))
            x = x + y if i else y
        return self.out(x.amax(-1))


class Gates(nn.Module):
    """Two layers of GRU, both ways."""
    shape = (2, 6, 12)

    def __init__(self, kind=nn.GRU, layers=2):
        super().__init__()
        self.cells, self.out = kind(12, 16, layers, batch_first=True, bidirectional=True), nn.Linear(32, 5)

    def forward(self, x):
        return self.out(self.cells(x)[0].mean(1)).softmax(-1)


class Memory(Gates):
    """The same of LSTM, one layer."""

    def __init__(self):
        super().__init__(nn.LSTM, 1)


class Factored(nn.Module):
    """Windows along one dim, then along the other; branches of all kinds are concatenated, twice."""
    shape = (1, 16, 12, 12)

    def __init__(self):
        super().__init__()
        self.one, self.tall = nn.Conv2d(16, 16, 1), nn.Conv2d(12, 20, (7, 1), padding=(3, 0))
        self.narrow, self.wide = nn.Conv2d(16, 12, 1), nn.Conv2d(12, 12, (1, 7), padding=(0, 3))
        self.pooled, self.less = nn.Conv2d(16, 8, 1), nn.Conv2d(44, 24, 3, 2)

    def forward(self, x):
        long = F.relu(self.tall(F.relu(self.wide(F.relu(self.narrow(x))))))
        x = torch.cat([self.one(x), long, self.pooled(F.avg_pool2d(x, 3, 1, 1))], 1)
        return torch.cat([self.less(x), F.max_pool2d(x, 3, 2)], 1)


class Interaction(nn.Module):
    """Rows of tables, their products with each other, of which half are picked (as in DLRM)."""
    shape = (8, 6)

    def __init__(self):
        super().__init__()
        self.dense, self.tables = nn.Linear(6, 16), nn.ModuleList([nn.Embedding(50, 16) for _ in range(4)])
        self.out = nn.Linear(26, 1)

    def forward(self, x):
        dense, rows = F.relu(self.dense(x)), ((x * 16).long() % 50).abs()
        all = torch.stack([dense] + [table(rows[:, k]) for k, table in enumerate(self.tables)], 1)
        pairs = [5 * i + j for i in range(5) for j in range(i)]
        return self.out(torch.cat([dense, (all @ all.transpose(1, 2)).flatten(1)[:, pairs]], 1)).sigmoid()


class Pyramids(nn.Module):
    """Dilated branches and a mean of the whole image, resized to the sizes of two levels (as in DeepLab)."""
    shape = (1, 3, 24, 24)

    def __init__(self):
        super().__init__()
        self.a, self.b, self.mean = conv(3, 12, stride=2), conv(12, 16, stride=2), nn.Conv2d(16, 8, 1)
        self.ways = nn.ModuleList([nn.Conv2d(16, 8, 1)] + [nn.Conv2d(16, 8, 3, 1, d, d) for d in (2, 3)])
        self.join, self.low, self.out = nn.Conv2d(32, 16, 1), nn.Conv2d(12, 8, 1), conv(24, 5)

    def forward(self, x):
        low = F.relu(self.a(x))
        x = F.relu(self.b(low))
        whole = F.interpolate(self.mean(x.mean((2, 3), keepdim=True)), size=x.shape[2:], mode="bilinear")
        x = F.relu(self.join(torch.cat([way(x) for way in self.ways] + [whole], 1)))
        x = F.interpolate(x, size=low.shape[2:], mode="bilinear")
        return F.interpolate(self.out(torch.cat([x, self.low(low)], 1)), scale_factor=2., mode="bilinear").softmax(1)


BLOCKS = (UNet, Residual, Mobile, Inception, Shuffle, Dense, Pyramid, Upscale, ConvNext, Encoder, Queries, Mixer, Dilated,
          Gates, Memory, Factored, Interaction, Pyramids)


def export(block, folder):
    """The model, its input and what PyTorch makes of it."""
    torch.manual_seed(1)
    model = block().eval()
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_mean.normal_(0, 0.1)
            layer.running_var.uniform_(0.5, 1.5)
    x = torch.randint(0, 50, block.shape) if block is Encoder else torch.randn(block.shape)
    path = folder / f"{block.__name__}.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (x,), str(path), dynamo=False, opset_version=17, input_names=["x"])
    outputs = model(x)
    names = [o.name for o in onnx.load(path).graph.output]
    (folder / "want").mkdir(exist_ok=True)
    np.save(folder / "x.npy", x.numpy())
    for name, value in zip(names, outputs if isinstance(outputs, tuple) else (outputs,)):
        np.save(folder / "want" / f"{name}.npy", value.detach().numpy())
    return path


def interval(wafer, path, mode):
    """Cycles between samples of a plan."""
    report = path.with_suffix(".json")
    subprocess.run([wafer, "compile", str(path), "-q", "--machine", MACHINE, "--mode", mode, "-o",
                    str(path.with_suffix(".wplan")), "--report", str(report)], check=True, capture_output=True)
    return json.loads(report.read_text())["interval_cycles"]


def choice(wafer, block, folder):
    """None where mode auto takes the faster one, or what it took."""
    path = export(block, folder)
    chosen, one, other = (interval(wafer, path, mode) for mode in ("auto", "pipelined", "streaming"))
    return None if chosen == min(one, other) else f"{chosen} cycles between samples, {one} in a pipeline, {other} streaming"


def attempt(wafer, block, mode, folder):
    """None and the checked figures, or what went wrong."""
    path = export(block, folder)
    plan, x = str(path.with_suffix(".wplan")), f"x={folder}/x.npy"
    figures = None
    for command in (["compile", str(path), "-q", "--machine", MACHINE, "--mode", mode, "-o", plan],
                    ["run", plan, "-q", "--fidelity", "fabric", "--input", x, "--expect", str(folder / "want"), "--tol",
                     TOLERANCE],
                    ["check", plan, "--input", x, "--total", str(TOTAL[mode]), "--mean", MEAN, "--json"]):
        done = subprocess.run([wafer, *command], capture_output=True, text=True)
        if done.returncode:
            return f"{command[0]}: exit code {done.returncode}: {done.stderr.strip()[-400:]}", None
        figures = done.stdout
    return None, json.loads(figures)


def main():
    wafer, names = sys.argv[1], [a for a in sys.argv[2:] if a != "-v"]
    failed = 0
    for block in BLOCKS:
        if names and block.__name__ not in names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            wrong = choice(wafer, block, pathlib.Path(folder))
        failed += wrong is not None
        if wrong:
            print(f"{block.__name__}, auto: {wrong}", file=sys.stderr)
        for mode in ("streaming", "pipelined"):
            with tempfile.TemporaryDirectory() as folder:
                wrong, figures = attempt(wafer, block, mode, pathlib.Path(folder))
            failed += wrong is not None
            if wrong:
                print(f"{block.__name__}, {mode}: {wrong}", file=sys.stderr)
            elif "-v" in sys.argv:
                told, counted = figures["predicted_cycles"], figures["counted_cycles"]
                print(f"{block.__name__:10} {mode:10} {figures['mean_error_percent']:5.1f} % {told:8} {counted:8} "
                      f"{100 * (told - counted) / counted:+5.1f} %")
    print("blocks:", f"{failed} failed" if failed else "ok")
    sys.exit(failed > 0)


main()
