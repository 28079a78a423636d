#!/usr/bin/env python3
"""Golden values of the CosmoFlow networks with reduced widths from PyTorch, in double: the outputs of every layer and the
gradients of every parameter in the first step, the losses and outputs of ten steps.

Cubes, targets and first weights are formulas that test_cosmoflow_model.cpp repeats.  Of large arrays the root mean square
and some elements are kept, in channels-last order.  Writes cosmoflow.json beside this file.
Run: python3 tests/golden/make_cosmoflow_golden.py   (PyTorch >= 1.13)
"""
import collections
import json
import pathlib

import torch
import torch.nn as nn

from hashed_numbers import digest, numbers

BATCH, SAMPLES = 2, 4


class ChannelsLast(nn.Module):
    """Flattens in the order (D, H, W, C)."""

    def forward(self, x):
        return x.permute(0, 2, 3, 4, 1).flatten(1)


class ScaledTanh(nn.Module):
    def forward(self, x):
        return 1.2 * torch.tanh(x)


def sc18():
    layers, channels = collections.OrderedDict(), 1
    windows = [(3, 1, True), (4, 1, True), (4, 1, True), (3, 2, False), (3, 1, False), (2, 1, False), (2, 1, False)]
    for i, (filters, (kernel, stride, pool)) in enumerate(zip([8, 8, 16, 16, 24, 24, 16], windows), 1):
        layers[f"conv{i}"] = nn.Conv3d(channels, filters, kernel, stride)
        layers[f"relu{i}"] = nn.LeakyReLU(0.01)
        if pool:
            layers[f"pool{i}"] = nn.AvgPool3d(2)
        channels = filters
    layers["flatten"] = ChannelsLast()
    for i, (inputs, outputs) in enumerate([(channels, 32), (32, 16)], 1):
        layers[f"hidden{i}"] = nn.Linear(inputs, outputs)
        layers[f"hidden_relu{i}"] = nn.LeakyReLU(0.01)
    layers["fc"] = nn.Linear(16, 3)
    return nn.Sequential(layers)


def mlperf(edge):
    layers, channels = collections.OrderedDict(), 4
    for i, filters in enumerate([8, 16, 16, 24, 32], 1):
        layers[f"conv{i}"] = nn.Conv3d(channels, filters, 3, padding=1)
        layers[f"relu{i}"] = nn.LeakyReLU(0.3)
        layers[f"pool{i}"] = nn.MaxPool3d(2)
        channels = filters
    layers["flatten"] = ChannelsLast()
    for i, (inputs, outputs) in enumerate([(channels * (edge // 32) ** 3, 16), (16, 8)], 1):
        layers[f"hidden{i}"] = nn.Linear(inputs, outputs)
        layers[f"hidden_relu{i}"] = nn.LeakyReLU(0.3)
    layers["fc"] = nn.Linear(8, 4)
    layers["tanh"] = ScaledTanh()
    return nn.Sequential(layers)


def channels_last(y):
    return y.permute(0, 2, 3, 4, 1) if y.dim() == 5 else y


def run(net, gain, channels, edge, outputs, steps, loss_of, optimizer_of):
    for index, p in enumerate(net.parameters()):
        fan_in = p[0].numel() if p.dim() > 1 else 1
        amplitude = (gain / fan_in) ** 0.5 if p.dim() > 1 else 0.1
        p.data = (amplitude * numbers(p.numel(), index)).float().double().reshape(p.shape)
    cubes = 1 + numbers(SAMPLES * channels * edge**3, 100).reshape(SAMPLES, channels, edge, edge, edge)
    cubes *= (1 + torch.arange(SAMPLES)).double().reshape(-1, 1, 1, 1, 1)
    targets = numbers(SAMPLES * outputs, 101).reshape(SAMPLES, outputs)

    golden = {"layers": {}, "gradients": [], "losses": [], "outputs": []}
    optimizer = optimizer_of(net.parameters())
    for step in range(steps):
        first = step * BATCH % SAMPLES
        y = cubes[first:first + BATCH]
        for name, layer in net.named_children():
            y = layer(y)
            if step == 0 and name != "flatten":
                golden["layers"][name] = digest(channels_last(y), 12)
        loss = loss_of(y, targets[first:first + BATCH])
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            golden["gradients"] = [digest(p.grad, 6) for p in net.parameters()]
        optimizer.step()
        golden["losses"].append(float(f"{loss.item():.8g}"))
        golden["outputs"].append([float(f"{x:.8g}") for x in y.detach().flatten().tolist()])
    print(golden["losses"])
    return golden


sgd = lambda p: torch.optim.SGD(p, lr=1e-3, momentum=0.9)
golden = {
    "sc18": run(sc18().double(), 6, 1, 108, 3, 10, nn.L1Loss(), lambda p: torch.optim.Adam(p, lr=1e-3)),
    "mlperf": run(mlperf(32).double(), 4, 4, 32, 4, 10, nn.MSELoss(), sgd),
    "mlperf_64": run(mlperf(64).double(), 4, 4, 64, 4, 1, nn.MSELoss(), sgd),  # flattens more than one pixel
}
path = pathlib.Path(__file__).with_name("cosmoflow.json")
text = json.dumps(golden, separators=(",", ":"))
path.write_text(text.replace('],', '],\n') + "\n")
print(f"{path}: {path.stat().st_size} bytes")
