#!/usr/bin/env python3
"""Golden losses of 20 training steps of the HEP network (papers' layers, 16 filters, 32 x 32 pixels) from PyTorch.

Images, labels and first weights are formulas that test_hep_training.cpp repeats.  Writes training.json beside this file.
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

pathlib.Path(__file__).with_name("training.json").write_text(json.dumps(golden, indent=1) + "\n")
