#!/usr/bin/env python3
"""Golden values of the networks for maps of weather with reduced widths from PyTorch, in double: the outputs of every layer
and the gradients of every parameter in the first step, the losses and outputs of ten steps.

Fields, classes and first weights are formulas that tests/climate_golden.hpp and test_climate_networks.cpp repeat, boxes
those of test_detection_networks.cpp.  Of arrays the root mean square and
some elements are kept, in channels-last order.  Writes climate.json beside this file.
Run: python3 tests/golden/make_climate_golden.py   (PyTorch >= 1.13)
"""
import json
import pathlib
import sys

import torch
import torch.nn.functional as F

from hashed_numbers import digest, numbers

sys.path.append(str(pathlib.Path(__file__).parents[2] / "perf/peers"))
from climate_networks import deepcam, deeplab, detection, tiramisu

BATCH, HEIGHT, WIDTH, STEPS = 2, 64, 96, 10


class Twin:
    """Takes parameters in the order in which a network asks for them, and keeps what its layers give by their names."""

    def __init__(self):
        self.parameters, self.layers = [], {}

    def run(self, network, x):
        self.next, self.layers = 0, {}
        return network(self, x)

    def parameter(self, *shape, mean=0.0):
        if self.next == len(self.parameters):
            values = numbers(torch.Size(shape).numel(), self.next).reshape(shape)
            amplitude = (6.0 / values[0].numel()) ** 0.5 if len(shape) > 1 else 0.1
            self.parameters.append((mean + amplitude * values).float().double().requires_grad_())
        self.next += 1
        return self.parameters[self.next - 1]

    def keep(self, name, y):
        self.layers[name] = y
        return y

    def conv(self, name, x, filters, size=1, stride=1, dilation=1, groups=1, bias=False, factor=1.0, wrap=False):
        padding = [size // 2 * dilation, size // 2 * dilation]
        if wrap:
            x, padding[1] = self.keep(name + "/periodic", F.pad(x, 2 * (padding[1],) + (0, 0), mode="circular")), 0
        weight = self.parameter(filters, x.shape[1] // groups, size, size)
        offset = self.parameter(filters) if bias else None
        return self.keep(name, F.conv2d(factor * x, weight, offset, stride, padding, dilation, groups))

    def twice(self, name, x, filters, size=3, bias=False):
        weight = self.parameter(x.shape[1], filters, size, size)
        offset = self.parameter(filters) if bias else None
        return self.keep(name, F.conv_transpose2d(x, weight, offset, 2, size // 2, 1))

    def norm(self, name, x):
        weight, bias = self.parameter(x.shape[1], mean=1.0), self.parameter(x.shape[1])
        return self.keep(name, F.batch_norm(x, None, None, weight, bias, training=True))

    def relu(self, name, x, slope=0.0):
        return self.keep(name, F.leaky_relu(x, slope))

    def drop(self, name, x):
        return x

    def cat(self, name, *parts):
        return self.keep(name, torch.cat(parts, 1))


def channels_last(y):
    return y.permute(0, 2, 3, 1)


def map_loss(y):
    classes = (1.5 * (1 + numbers(BATCH * HEIGHT * WIDTH, 101))).long().reshape(BATCH, HEIGHT, WIDTH)
    class_weights = torch.tensor([0.25, 1.5, 0.75]).double()
    return F.cross_entropy(y, classes, class_weights, reduction="none").mean()


def detection_loss(outputs):
    """Boxes of the first frame (ymin, xmin, ymax, xmax, kind); those of the second are not known."""
    cells, error = outputs
    boxes = [(10, 20, 30, 50, 1), (40, 60, 47, 95, 3)]
    edge = HEIGHT / cells.shape[2]
    frame, loss, empty = cells[0], 0, torch.ones(cells.shape[2:], dtype=torch.bool)
    for ymin, xmin, ymax, xmax, kind in boxes:
        v, u = (ymin + ymax) / 2 / edge, (xmin + xmax) / 2 / edge
        cell = frame[:, int(v), int(u)]
        empty[int(v), int(u)] = False
        place = torch.tensor([u % 1, v % 1]).double()
        size = torch.tensor([(xmax - xmin) / edge, (ymax - ymin) / edge]).double().log2()
        loss = loss + 5 * F.smooth_l1_loss(cell[:2], place, reduction="sum")
        loss = loss + 7 * F.smooth_l1_loss(cell[2:4], size, reduction="sum")
        loss = loss - cell[4:6].log_softmax(0)[0] - cell[6:].log_softmax(0)[kind]
    loss = loss - 0.5 * frame[4:6].log_softmax(0)[1][empty].sum()
    return loss / BATCH + 10 * error.pow(2).mean()


def train(network, channels, rate=0.02, loss_of=map_loss):
    fields = numbers(BATCH * channels * HEIGHT * WIDTH, 100).float().double().reshape(BATCH, channels, HEIGHT, WIDTH)
    fields *= torch.arange(1, BATCH + 1).reshape(-1, 1, 1, 1)  # see tests/climate_golden.hpp
    golden = {"layers": {}, "gradients": [], "losses": [], "outputs": []}
    twin, optimizer = Twin(), None
    for step in range(STEPS):
        y = twin.run(network, fields)
        if step == 0:
            golden["layers"] = {name: digest(channels_last(value), 5) for name, value in twin.layers.items()}
            optimizer = torch.optim.SGD(twin.parameters, lr=rate, momentum=0.9)
        loss = loss_of(y)
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            golden["gradients"] = [digest(p.grad, 4) for p in twin.parameters]
        optimizer.step()
        golden["losses"].append(float(f"{loss.item():.8g}"))
        golden["outputs"].append(digest(channels_last(y[0] if isinstance(y, tuple) else y), 9))
    print(golden["losses"])
    return golden


def with_options(network, **options):
    return lambda t, x: network(t, x, **options)


small_deeplab = {"width": 8, "units": (2, 2, 2, 1), "rates": (2, 4, 6)}
golden = {
    "tiramisu": train(with_options(tiramisu, filters=8, growth=4, blocks=(2, 2, 3)), 4),
    "deeplab": train(with_options(deeplab, **small_deeplab), 16),
    # Small steps: roundings grow through batch norms.
    "deeplab_with_norm": train(with_options(deeplab, batch_norm=True, **small_deeplab), 16, 4e-6),
    "deepcam": train(with_options(deepcam, width=4, middle=2, rates=(2, 3, 4)), 16, 2e-5),
    "detection_sc17": train(with_options(detection, filters=(6, 8, 10)), 16, 1e-4, detection_loss),
    "detection_racah": train(with_options(detection, filters=(6, 8, 10, 12), neck=0, slope=0.1, norm=True), 16, 1e-4, detection_loss),
    "detection_small": train(with_options(detection, filters=(6, 8), neck=128, slope=0.1, periodic=True), 16, 1e-4, detection_loss),
}
path = pathlib.Path(__file__).with_name("climate.json")
path.write_text(json.dumps(golden, separators=(",", ":")).replace("],", "],\n") + "\n")
print(f"{path}: {path.stat().st_size} bytes")
