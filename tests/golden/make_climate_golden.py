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

import torch
import torch.nn.functional as F

from hashed_numbers import digest, numbers

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

    def conv(self, name, x, filters, size=1, stride=1, dilation=1, groups=1, bias=False, factor=1.0):
        weight = self.parameter(filters, x.shape[1] // groups, size, size)
        offset = self.parameter(filters) if bias else None
        padding = size // 2 * dilation
        return self.keep(name, F.conv2d(factor * x, weight, offset, stride, padding, dilation, groups))

    def twice(self, name, x, filters, bias=False):
        weight = self.parameter(x.shape[1], filters, 3, 3)
        offset = self.parameter(filters) if bias else None
        return self.keep(name, F.conv_transpose2d(x, weight, offset, 2, 1, 1))

    def norm(self, name, x):
        weight, bias = self.parameter(x.shape[1], mean=1.0), self.parameter(x.shape[1])
        return self.keep(name, F.batch_norm(x, None, None, weight, bias, training=True))

    def relu(self, name, x):
        return self.keep(name, F.relu(x))

    def cat(self, name, *parts):
        return self.keep(name, torch.cat(parts, 1))


def tiramisu(t, x, filters=8, growth=4, blocks=(2, 2, 3), size=5):
    def layer(name, x, filters, size, stride=1):
        return t.relu(name + "/relu", t.conv(name, x, filters, size, stride, bias=True))

    def block(name, x, count, joined):
        new = []
        for i in range(1, count + 1):
            new.append(layer(f"{name}/{i}", x, growth, size))
            if joined or i < count:
                x = t.cat(f"{name}/{i}/all", x, new[-1])
        return x, new

    x, skips = layer("in", x, filters, size), []
    for level, count in enumerate(blocks, 1):
        x, new = block(f"down{level}", x, count, level < len(blocks))
        if level < len(blocks):
            skips.append(x)
            x = layer(f"down{level}/half", x, x.shape[1], 1, 2)
    for level in range(len(blocks) - 1, 0, -1):
        name = f"up{level}"
        up = t.cat(name + "/given", *new)
        up = t.twice(name + "/twice", up, up.shape[1], bias=True)
        x, new = block(name, t.cat(name + "/beside", up, skips.pop()), blocks[level - 1], level == 1)
    return t.conv("classes", x, 3, bias=True)


def pyramid(t, x, rates, filters, layer, image):
    size = x.shape[2:]
    parts = [layer("aspp/point", x, filters)]
    parts += [layer(f"aspp/rate{r}", x, filters, 3, dilation=r) for r in rates]
    mean = t.keep("aspp/mean", x.mean((2, 3), keepdim=True))
    parts.append(t.keep("aspp/map", image(mean).expand(-1, -1, *size)))
    return layer("aspp/out", t.cat("aspp/branches", *parts), filters)


def deeplab(t, x, batch_norm=False, units=(2, 2, 2, 1), rates=(2, 4, 6)):
    def layer(name, x, filters, size=1, stride=1, dilation=1, factor=1.0):
        if batch_norm:
            return t.relu(name + "/relu", t.norm(name + "/norm", t.conv(name, x, filters, size, stride, dilation)))
        return t.relu(name + "/relu", t.conv(name, x, filters, size, stride, dilation, factor=0.5 * factor))

    def unit(name, x, filters, stride, dilation):
        nonlocal first
        pre, factor, around = x, 0.5, x
        if batch_norm:
            pre, factor = t.relu(name + "/relu", t.norm(name + "/norm", x)), 1.0
        if x.shape[1] != 4 * filters:
            around = t.conv(name + "/around", pre, 4 * filters, 1, stride, bias=True, factor=factor)
        elif stride > 1:
            around = t.keep(name + "/around", x[:, :, ::stride, ::stride])
        first = layer(name + "/conv1", pre, filters, factor=factor)
        y = layer(name + "/conv2", first, filters, 3, stride, dilation)
        return t.keep(name + "/add", t.conv(name + "/conv3", y, 4 * filters, bias=True) + around)

    fields, first, fine = x, None, None
    x = t.conv("conv1", x, 8, 7, 2, bias=True)
    x = t.keep("pool1", F.max_pool2d(x, 3, 2, 1))
    for b, count in enumerate(units):
        for u in range(1, count + 1):
            halves = b == 0 and u == count
            x = unit(f"block{b + 1}/{u}", x, 8 * 2**b, 2 if halves else 1, (1, 1, 2, 4)[b])
            fine = first if halves else fine
    x = pyramid(t, x, rates, 32, layer, lambda mean: layer("aspp/image", mean, 32))
    coarse = t.twice("decoder/quarter", x, 32, bias=True)
    x = t.cat("decoder/beside", coarse, layer("decoder/fine", fine, 6))
    x = layer("decoder/conv2", layer("decoder/conv1", x, 32, 3), 32, 3)
    x = t.twice("decoder/full", t.twice("decoder/half", x, 32, bias=True), 32, bias=True)
    skip = t.conv("skip/conv1", fields, 8, 3, bias=True)
    skip = t.conv("skip/conv2", skip, 16, 3, bias=True)
    x = t.conv("decoder/conv3", t.cat("decoder/with_input", x, skip), 32, 3, bias=True)
    return t.conv("classes", t.conv("decoder/conv4", x, 32, 3, bias=True), 3, bias=True)


def deepcam(t, x, middle=2, rates=(2, 3, 4)):
    def layer(name, x, filters, size=1, stride=1, dilation=1):
        return t.relu(name + "/relu", t.norm(name + "/norm", t.conv(name, x, filters, size, stride, dilation)))

    def separable(name, x, filters, stride=1, dilation=1):
        y = t.conv(name + "/depthwise", x, x.shape[1], 3, stride, dilation, groups=x.shape[1])
        return t.conv(name + "/point", y, filters)

    def block(name, x, inner, stride=1, end=False, relu=True):
        y = x
        for i, filters in enumerate(inner, 1):
            y = t.norm(f"{name}/{i}/norm", separable(f"{name}/{i}", y, filters))
            if i < len(inner):
                y = t.relu(f"{name}/{i}/relu", y)
        if stride > 1 or end:
            y = separable(name + "/end", y, inner[-1], stride)
        around = x
        if x.shape[1] != inner[-1] or stride > 1:
            around = t.norm(name + "/around/norm", t.conv(name + "/around", x, inner[-1], 1, stride))
        y = t.keep(name + "/add", y + around)
        return t.relu(name + "/relu", y) if relu else y

    def image(mean):
        y = t.conv("aspp/image", mean, 32)
        y = t.conv("aspp/affine", y, 32, groups=32, bias=True)
        return t.relu("aspp/affine/relu", y)

    def twice(name, x):
        return t.relu(name + "/relu", t.norm(name + "/norm", t.twice(name, x, 32)))

    x = layer("entry/conv2", layer("entry/conv1", x, 4, 3, 2), 8, 3)
    fine = block("entry/block1", x, (16, 16), 2)
    x = block("entry/block2", fine, (32, 32), 2)
    x = block("entry/block3", x, (91, 91), 2)
    for i in range(1, middle + 1):
        x = block(f"middle/block{i}", x, (91, 91, 91))
    x = block("exit/block", x, (91, 128), end=True, relu=False)
    for i, filters in enumerate((192, 192, 256), 1):
        name = f"exit/conv{i}"
        x = t.relu(name + "/relu", t.norm(name + "/norm", separable(name, x, filters, dilation=2)))
    x = pyramid(t, x, rates, 32, layer, image)
    coarse = twice("decoder/quarter", twice("decoder/eighth", x))
    x = t.cat("decoder/beside", coarse, layer("decoder/fine", fine, 6))
    x = layer("decoder/conv2", layer("decoder/conv1", x, 32, 3), 32, 3)
    x = twice("decoder/half", t.conv("decoder/point", x, 32, bias=True))
    return t.twice("classes", x, 3)


def detection(t, x, filters, neck=0, slope=0.0, norm=False, periodic=False):
    def layer(name, x, filters, size, stride=1):
        pad = [size // 2, size // 2]
        if periodic and stride > 1:
            x, pad[1] = t.keep(name + "/periodic", F.pad(x, (2, 2, 0, 0), mode="circular")), 0
        weight, bias = t.parameter(filters, x.shape[1], size, size), t.parameter(filters)
        return t.keep(name, F.conv2d(x, weight, bias, stride, pad))

    def relu(name, y):
        return t.keep(name + "/relu", F.leaky_relu(y, slope))

    given = x
    for i, f in enumerate(filters, 1):
        x = relu(f"encoder{i}", layer(f"encoder{i}", x, f, 5, 2))
    code = x
    if norm:
        x = t.norm("norm", x)
    if neck:
        x = relu("neck", layer("neck", x, neck, 3))
    cells = t.cat("cells", *[layer("head/" + name, x, n, 3) for name, n in (("place", 4), ("box", 2), ("kind", 4))])
    x = code
    for i in range(len(filters), 0, -1):
        out = filters[i - 2] if i > 1 else given.shape[1]
        weight, bias = t.parameter(x.shape[1], out, 5, 5), t.parameter(out)
        x = t.keep(f"decoder{i}", F.conv_transpose2d(x, weight, bias, 2, 2, 1))
        if i > 1:
            x = relu(f"decoder{i}", x)
    return cells, t.keep("error", x + given)


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


golden = {
    "tiramisu": train(tiramisu, 4),
    "deeplab": train(deeplab, 16),
    "deeplab_with_norm": train(lambda t, x: deeplab(t, x, True), 16, 2e-5),  # small steps: roundings grow through batch norms
    "deepcam": train(deepcam, 16, 4e-6),
    "detection_sc17": train(lambda t, x: detection(t, x, (6, 8, 10), 1280), 16, 1e-4, detection_loss),
    "detection_racah": train(lambda t, x: detection(t, x, (6, 8, 10, 12), 0, 0.1, True), 16, 1e-4, detection_loss),
    "detection_small": train(lambda t, x: detection(t, x, (6, 8), 128, 0.1, periodic=True), 16, 1e-4, detection_loss),
}
path = pathlib.Path(__file__).with_name("climate.json")
path.write_text(json.dumps(golden, separators=(",", ":")).replace("],", "],\n") + "\n")
print(f"{path}: {path.stat().st_size} bytes")
