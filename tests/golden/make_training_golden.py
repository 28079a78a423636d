#!/usr/bin/env python3
"""Golden losses of 20 training steps of the HEP network (papers' layers, 16 filters, 32 x 32 pixels) from PyTorch.

Images, labels and first weights are formulas that test_training.cpp repeats.  Writes training.json beside this file.
Run: python3 tests/golden/make_training_golden.py   (PyTorch >= 1.13)
"""
import json
import pathlib

import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS, BATCH, SAMPLES, SIZE, FILTERS = 20, 8, 40, 32, 16


def scattered(count, factor):
    """In [-1, 1)."""
    return 2 * ((torch.arange(count, dtype=torch.float64) * factor) % 1.0) - 1


def network():
    layers, channels = [], 3
    for _ in range(4):
        layers += [nn.Conv2d(channels, FILTERS, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        channels = FILTERS
    layers += [nn.Conv2d(channels, FILTERS, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(FILTERS, 2)]
    net = nn.Sequential(*layers)
    for index, p in enumerate(net.parameters()):
        fan_in = p[0].numel() if p.dim() > 1 else 1
        amplitude = (6.0 / fan_in) ** 0.5 if p.dim() > 1 else 0.05
        p.data = (amplitude * scattered(p.numel(), 0.6180339887498949 + 0.01 * index)).float().reshape(p.shape)
    return net


labels = torch.arange(SAMPLES) % 2
images = (1 + scattered(SAMPLES * 3 * SIZE * SIZE, 0.7548776662466927)).float().reshape(SAMPLES, 3, SIZE, SIZE)
images *= (1 + labels).float().reshape(-1, 1, 1, 1)

golden = {}
for name in ("adam", "sgd"):
    net = network()
    optimizer = (torch.optim.Adam(net.parameters(), lr=1e-3) if name == "adam"
                 else torch.optim.SGD(net.parameters(), lr=1e-2, momentum=0.9))
    losses = []
    for step in range(STEPS):
        first = step * BATCH % SAMPLES
        loss = F.cross_entropy(net(images[first:first + BATCH]), labels[first:first + BATCH])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    golden[name] = losses
    print(name, losses)



# A three-dimensional network with batch norm, as test_train_step.cpp builds it, in f64: losses, and the running statistics
# of the second norm after the last step.  LARC as in NVIDIA Apex; weight decay of convolutions and dense layers alone.
def norm_network():
    net = nn.Sequential(
        nn.Conv3d(1, 6, 3, padding=1, bias=False), nn.BatchNorm3d(6), nn.LeakyReLU(0.1), nn.MaxPool3d(2),
        nn.Conv3d(6, 5, 3, padding=1, bias=False), nn.BatchNorm3d(5), nn.LeakyReLU(0.1), nn.AdaptiveAvgPool3d(1),
        nn.Flatten(), nn.Linear(5, 2)).double()
    for index, p in enumerate(net.parameters()):
        p.data = (0.5 * scattered(p.numel(), 0.6180339887498949 + 0.01 * index)).reshape(p.shape)
    return net


def apply_larc(parameters, eta, decay, rate):
    for p in parameters:
        weight, gradient, d = p.data.norm(), p.grad.norm(), decay if p.dim() > 1 else 0
        p.grad.add_(p.data, alpha=d).mul_(min(eta * weight / (gradient + d * weight) / rate, 1))


cubes = scattered(SAMPLES * 6 ** 3, 0.7548776662466927).reshape(SAMPLES, 1, 6, 6, 6)
cubes = cubes ** (1 + 2 * labels).reshape(-1, 1, 1, 1, 1)
for name in ("adam", "adamw", "sgd", "larc"):
    net = norm_network()
    groups = [{"params": [p for p in net.parameters() if p.dim() > 1], "weight_decay": 0 if name == "larc" else 0.1},
              {"params": [p for p in net.parameters() if p.dim() == 1], "weight_decay": 0}]
    optimizer = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[name](groups, lr=0.01) if name[0] == "a" else \
        torch.optim.SGD(groups, lr=0.05, momentum=0.9)
    losses = []
    for step in range(STEPS):
        first = step * BATCH % SAMPLES
        loss = F.cross_entropy(net(cubes[first:first + BATCH]), labels[first:first + BATCH])
        optimizer.zero_grad()
        loss.backward()
        if name == "larc":
            apply_larc(net.parameters(), 0.01, 0.1, 0.05)
        optimizer.step()
        losses.append(loss.item())
    golden["norm_" + name] = {"losses": losses, "running_mean": net[5].running_mean.tolist(),
                              "running_var": net[5].running_var.tolist()}
    print(name, losses)

pathlib.Path(__file__).with_name("training.json").write_text(json.dumps(golden, indent=1) + "\n")
