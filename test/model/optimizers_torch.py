#!/usr/bin/env python3
"""Every optimizer of MemoryX against torch.optim's, through the shared library, on the same gradients.
Needs torch and numpy; without them nothing is checked (exit code 77).

usage: optimizers_torch.py path/to/libwafer-runtime.so"""
import ctypes as c
import sys

try:
    import numpy as np
    import torch
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

ROW = dict(sgd=torch.optim.SGD, momentum=torch.optim.SGD, nesterov=torch.optim.SGD, adam=torch.optim.Adam,
           adamw=torch.optim.AdamW, adagrad=torch.optim.Adagrad, rmsprop=torch.optim.RMSprop,
           adafactor=torch.optim.Adafactor)
SHAPES, STEPS = [(7, 33), (50,), (3, 4, 5, 6)], 50


class Optimizer(c.Structure):
    _fields_ = [("kind", c.c_int)] + [(n, c.c_double) for n in ("lr", "weight_decay", "momentum", "beta1", "beta2", "eps")]


class Options(c.Structure):
    _fields_ = [("optimizer", Optimizer), ("servers", c.c_uint32), ("store", c.c_char_p), ("threads", c.c_uint32),
                ("diag", c.c_void_p)]


class Shape(c.Structure):
    _fields_ = [("rank", c.c_uint32), ("dims", c.c_int64 * 8)]


class Parameter(c.Structure):
    _fields_ = [("name", c.c_char_p), ("dtype", c.c_int), ("shape", Shape), ("initial", c.c_void_p),
                ("statistic", c.c_bool), ("sparse", c.c_bool)]


class Update(c.Structure):
    _fields_ = [("number", c.c_uint64), ("lr", c.c_double), ("scale", c.c_double), ("share", c.c_double)]


def ours(lib, name, initial, gradients, decay):
    kind = lib.wafer_optimizer_by_name(name.encode())
    options = Options(optimizer=lib.wafer_optimizer_default(kind), servers=2, threads=2)
    options.optimizer.weight_decay = decay
    f32 = lib.wafer_dtype_by_name(b"f32")
    parameters = (Parameter * len(SHAPES))(*[
        Parameter(f"p{i}".encode(), f32, Shape(len(s), (c.c_int64 * 8)(*s)), initial[i].ctypes.data)
        for i, s in enumerate(SHAPES)])
    memory = c.c_void_p()
    assert lib.wafer_memoryx_create(c.byref(options), parameters, len(SHAPES), c.byref(memory)) == 0
    for step, rows in enumerate(gradients):
        flat = np.concatenate([g.ravel() for g in rows])
        lib.wafer_memoryx_update(memory, c.byref(Update(step + 1, options.optimizer.lr, 1.0, 1.0)), flat.ctypes.data_as(c.c_void_p))
    out = [np.ctypeslib.as_array(c.cast(lib.wafer_memoryx_weight(memory, i), c.POINTER(c.c_float)), s).copy()
           for i, s in enumerate(SHAPES)]
    lib.wafer_memoryx_destroy(memory)
    return out, options.optimizer


def theirs(name, optimizer, initial, gradients, decay):
    tensors = [torch.from_numpy(x.copy()).requires_grad_() for x in initial]
    more = dict(momentum=dict(momentum=0.9), nesterov=dict(momentum=0.9, nesterov=True)).get(name, {})
    rule = ROW[name](tensors, lr=optimizer.lr, weight_decay=decay, **more)
    for rows in gradients:
        for tensor, gradient in zip(tensors, rows):
            tensor.grad = torch.from_numpy(gradient)
        rule.step()
    return [t.detach().numpy() for t in tensors]


def main(path):
    lib, failed = c.CDLL(path), False
    lib.wafer_optimizer_default.restype = Optimizer
    lib.wafer_memoryx_weight.restype = c.c_void_p
    lib.wafer_memoryx_weight.argtypes = [c.c_void_p, c.c_uint32]
    draw = np.random.default_rng(0)
    initial = [draw.standard_normal(s).astype(np.float32) for s in SHAPES]
    gradients = [[draw.standard_normal(s).astype(np.float32) for s in SHAPES] for _ in range(STEPS)]
    for name in ROW:
        for decay in (0.0, 0.1):
            got, optimizer = ours(lib, name, initial, gradients, decay)
            want = theirs(name, optimizer, initial, gradients, decay)
            worst = max(np.abs(a - b).max() for a, b in zip(got, want))
            print(f"{name}, decay {decay}: {worst:.1e} apart after {STEPS} steps")
            failed |= not worst < 2e-5
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
