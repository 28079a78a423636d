#!/usr/bin/env python3
"""Writes operators.json: what PyTorch computes for a few small operators.  Inputs are not stored: they are number(index,
seed) of tests/op_support.hpp, in the order of PyTorch's arrays; test_ops_golden.cpp makes the same ones.

Run by hand with any PyTorch >= 1.8:  python3 tests/golden/make_operator_golden.py
"""
import json
import os

import torch
import torch.nn.functional as F

torch.set_num_threads(1)


def number(index, seed):
    mask = 0xFFFFFFFF
    h = (index * 2654435761 + seed * 2246822519 + 374761393) & mask
    h = ((h ^ (h >> 15)) * 2246822519) & mask
    h = ((h ^ (h >> 13)) * 3266489917) & mask
    return ((h ^ (h >> 16)) >> 16) / 32768.0 - 1.0


def numbers(shape, seed):
    count = int(torch.tensor(shape).prod())
    values = [number(i, seed) for i in range(count)]
    return torch.tensor(values, dtype=torch.float64).reshape(shape)


def listed(tensor):
    return [float("%.8g" % value) for value in tensor.detach().flatten()]


def conv(name, x, w, stride, pad, dilation, groups):
    spatial = len(x) - 2
    x_values, w_values = numbers(x, 1).requires_grad_(), numbers(w, 2).requires_grad_()
    function = F.conv2d if spatial == 2 else F.conv3d
    y = function(x_values, w_values, stride=stride, padding=pad, dilation=dilation, groups=groups)
    y.backward(numbers(list(y.shape), 3))
    return dict(name=name, x=x, w=w, stride=stride, pad=pad, dilation=dilation, groups=groups, y_shape=list(y.shape),
                y=listed(y), dx=listed(x_values.grad), dw=listed(w_values.grad))


def pool(name, kind, x, window, stride, pad):
    x_values = numbers(x, 1).requires_grad_()
    function = {("max", 2): F.max_pool2d, ("max", 3): F.max_pool3d, ("average", 2): F.avg_pool2d,
                ("average", 3): F.avg_pool3d}[kind, len(x) - 2]
    y = function(x_values, window, stride=stride, padding=pad)
    y.backward(numbers(list(y.shape), 3))
    return dict(name=name, kind=kind, x=x, window=window, stride=stride, pad=pad, y_shape=list(y.shape), y=listed(y),
                dx=listed(x_values.grad))


def cross_entropy(n, classes):
    logits = (4 * numbers([n, classes], 1)).requires_grad_()
    weights = numbers([n], 2).abs() + 0.25
    labels = torch.tensor([i * 3 % classes for i in range(n)])
    loss = F.cross_entropy(logits, labels, reduction="none")
    (loss * weights).mean().backward()
    return dict(n=n, classes=classes, loss=listed(loss),
                probabilities=listed(torch.softmax(logits, 1)), dlogits=listed(logits.grad))


def optimizer(name, make, size, steps):
    w = numbers([size], 1).requires_grad_()
    solver = make([w])
    for step in range(steps):
        w.grad = numbers([size], 10 + step)
        solver.step()
    return dict(name=name, size=size, steps=steps, w=listed(w))


golden = {
    "torch": torch.__version__,
    "conv": [
        conv("2d", [2, 3, 5, 6], [4, 3, 3, 3], [1, 1], [1, 1], [1, 1], 1),
        conv("2d_stride_dilation", [1, 2, 9, 8], [3, 2, 3, 2], [2, 1], [2, 1], [2, 3], 1),
        conv("2d_groups", [1, 6, 5, 5], [4, 3, 3, 3], [1, 2], [0, 1], [1, 1], 2),
        conv("2d_depthwise", [1, 3, 6, 5], [3, 1, 3, 3], [1, 1], [1, 1], [1, 1], 3),
        conv("3d", [1, 2, 4, 5, 4], [3, 2, 2, 3, 3], [1, 1, 1], [0, 1, 1], [1, 1, 1], 1),
        conv("3d_all", [1, 4, 5, 5, 6], [2, 2, 2, 2, 3], [2, 1, 2], [1, 0, 2], [1, 2, 2], 2),
    ],
    "pool": [
        pool("max_2d", "max", [2, 3, 6, 4], [2, 2], [2, 2], [0, 0]),
        pool("max_2d_overlap_pad", "max", [1, 2, 7, 6], [3, 3], [2, 2], [1, 1]),
        pool("max_3d", "max", [1, 2, 4, 5, 6], [2, 2, 2], [2, 2, 2], [0, 0, 0]),
        pool("average_2d_pad", "average", [1, 3, 6, 5], [3, 2], [2, 2], [1, 1]),
        pool("average_3d", "average", [1, 2, 4, 4, 5], [2, 3, 3], [2, 1, 2], [1, 0, 1]),
        pool("average_global", "average", [2, 4, 3, 5], [3, 5], [3, 5], [0, 0]),
    ],
    "cross_entropy": cross_entropy(6, 4),
    "optimizer": [
        optimizer("adam", lambda w: torch.optim.Adam(w, lr=0.02), 20, 5),
        optimizer("adam_decay", lambda w: torch.optim.Adam(w, lr=0.02, betas=(0.8, 0.9), eps=1e-3, weight_decay=0.1), 20, 5),
        optimizer("adamw", lambda w: torch.optim.AdamW(w, lr=0.02, betas=(0.8, 0.9), eps=1e-3, weight_decay=0.1), 20, 5),
        optimizer("sgd", lambda w: torch.optim.SGD(w, lr=0.02), 20, 3),
        optimizer("sgd_momentum", lambda w: torch.optim.SGD(w, lr=0.02, momentum=0.9, weight_decay=0.1), 20, 5),
    ],
}

path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "operators.json")
with open(path, "w") as file:
    groups = []
    for key, value in golden.items():  # one line per operator, so that a change can be read
        rows = [json.dumps(row) for row in value] if isinstance(value, list) else None
        groups.append('"%s": %s' % (key, "[\n%s\n]" % ",\n".join(rows) if rows else json.dumps(value)))
    file.write("{\n" + ",\n".join(groups) + "\n}\n")
print("wrote", path)
