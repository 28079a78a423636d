#!/usr/bin/env python3
"""The PyTorch twins of `bench` with inputs/hep.toml, cosmoflow*.toml and climate_*.toml, and of `blocks`: full training steps on
data in memory; of blocks forward and backward, from a given gradient.

usage: torch_twin.py NETWORK [--batch N] [--threads N] [--steps N] [--layout channels_last|plain] [--precision f32|bf16]
                     [--gpu eager|graph]
Prints one line: parameters, largest resident memory, median milliseconds per step, samples/s; bf16 is torch.autocast's.
Best-tuned: run it with the allocator told to keep its memory, as compare.sh does, in both layouts.
On a GPU the data lie in its memory, cuDNN's engines are those that it times as the fastest (cudnn.benchmark), f32 may be TF32 in
convolutions, as PyTorch has it, optimizers are fused ones; with `graph` a whole step is one CUDA graph.  Its memory counts there.

Layers, loss, dropout and optimizer are those of apps/*/model.hpp and the inputs.  The twin has less to do in some places: its cubes
are f32 and scaled (petaflow's are int16, scaled in each step), its Adam and SGD with momentum are plain, without LARC, and stand
for LAMB, too; DeepLab's factors of 0.5 are left out, as its user would put them into the weights; of the detection's loss it has
the reconstruction and the squares of what cells say.
"""
import argparse
import resource
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

import climate_networks


class ScaledTanh(nn.Module):
    def forward(self, x):
        return 1.2 * torch.tanh(x)


def hep(dropout):
    layers, channels = [], 3
    for _ in range(4):
        layers += [nn.Conv2d(channels, 128, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Dropout(dropout)]
        channels = 128
    layers += [nn.Conv2d(128, 128, 3, padding=1), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 2)]
    return nn.Sequential(*layers)


def cosmoflow(dropout):
    """Mathuriya et al., SC18."""
    layers, channels = [], 1
    for filters, kernel, stride, pool in [(16, 3, 1, True), (32, 4, 1, True), (64, 4, 1, True), (128, 3, 2, False),
                                          (256, 3, 1, False), (256, 2, 1, False), (256, 2, 1, False)]:
        layers += [nn.Conv3d(channels, filters, kernel, stride), nn.LeakyReLU(0.01, inplace=True)]
        layers += [nn.AvgPool3d(2)] if pool else []
        channels = filters
    layers += [nn.Flatten()]
    for inputs, outputs in [(2048, 2048), (2048, 256)]:
        layers += [nn.Dropout(dropout), nn.Linear(inputs, outputs), nn.LeakyReLU(0.01, inplace=True)]
    return nn.Sequential(*layers, nn.Dropout(dropout), nn.Linear(256, 3))


def cosmoflow_mlperf(dropout):
    """The model of the MLPerf HPC benchmark."""
    layers, channels = [], 4
    for filters in [32, 64, 128, 256, 512]:
        layers += [nn.Conv3d(channels, filters, 3, padding=1), nn.LeakyReLU(0.3, inplace=True), nn.MaxPool3d(2)]
        channels = filters
    layers += [nn.Flatten()]
    for inputs, outputs in [(512 * 4**3, 128), (128, 64)]:
        layers += [nn.Linear(inputs, outputs), nn.LeakyReLU(0.3, inplace=True), nn.Dropout(dropout)]
    return nn.Sequential(*layers, nn.Linear(64, 4), ScaledTanh())


class Block(nn.Module):
    """Of perf/blocks.cpp."""

    def __init__(self, residual):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(64, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64)
        self.residual = residual

    def forward(self, x):
        y = self.norm(self.conv(x))
        return torch.relu_(y.add_(x) if self.residual else y)


def norm(_dropout):
    return nn.Sequential(*[Block(False) for _ in range(4)])


def residual(_dropout):
    return nn.Sequential(*[Block(True) for _ in range(4)])


def deconv(taps):
    return nn.Sequential(nn.BatchNorm2d(256), nn.ConvTranspose2d(256, 256, taps, 2, taps // 2, 1))


class Climate(nn.Module):
    """The layers of climate_networks.py, whose weights are made in a first run on a small map; activations in place."""

    def __init__(self, network, channels, dropout):
        super().__init__()
        self.network, self.dropout, self.weights = network, dropout, nn.ParameterList()
        with torch.no_grad():
            self(torch.rand(2, channels, 64, 64))

    def forward(self, x):
        self.next = 0
        return self.network(self, x)

    def weight(self, *shape, value=0.0):
        if self.next == len(self.weights):
            self.weights.append(torch.full(shape, value))
            if len(shape) > 1:
                nn.init.kaiming_uniform_(self.weights[-1])
        self.next += 1
        return self.weights[self.next - 1]

    def conv(self, name, x, filters, size=1, stride=1, dilation=1, groups=1, bias=False, factor=1.0, wrap=False):
        weight = self.weight(filters, x.shape[1] // groups, size, size)
        return F.conv2d(x, weight, self.weight(filters) if bias else None, stride, size // 2 * dilation, dilation, groups)

    def twice(self, name, x, filters, size=3, bias=False):
        weight = self.weight(x.shape[1], filters, size, size)
        return F.conv_transpose2d(x, weight, self.weight(filters) if bias else None, 2, size // 2, 1)

    def norm(self, name, x):
        weight, bias = self.weight(x.shape[1], value=1.0), self.weight(x.shape[1])
        return F.batch_norm(x, None, None, weight, bias, training=True)

    def relu(self, name, x, slope=0.0):
        return F.leaky_relu(x, slope, inplace=True) if slope else F.relu(x, inplace=True)

    def drop(self, name, x):
        return F.dropout(x, self.dropout)

    def cat(self, name, *parts):
        return torch.cat(parts, 1)

    def keep(self, name, y):
        return y


class MapLoss:
    def __init__(self):
        self.weights = torch.tensor([1.0, 30.0, 8.0])

    def __call__(self, logits, classes):
        self.weights = self.weights.to(logits.device)
        return F.cross_entropy(logits, classes, self.weights)


def detection_loss(outputs, _target):
    cells, error = outputs
    return cells.pow(2).mean() + 10 * error.pow(2).mean()


def adam(parameters, on_gpu):
    return torch.optim.Adam(parameters, lr=1e-3, fused=True, capturable=on_gpu)


def sgd(parameters, on_gpu):
    return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9, fused=on_gpu)


def numbers(count):
    return lambda batch, _sample: torch.rand(batch, count)


def classes(batch, _sample):
    return torch.arange(batch) % 2


def maps(batch, sample):
    return torch.randint(3, (batch, *sample[1:]))


def climate(network, dropout=0.0):
    return lambda _dropout: Climate(getattr(climate_networks, network), 16, dropout)


# Network, weights, sample, loss, its targets, optimizer; without a loss it is a block.
MAP, ITS_LOSS = (16, 384, 576), (MapLoss(), maps, adam)
NETWORKS = {
    "hep": (hep, 594178, (3, 224, 224), nn.CrossEntropyLoss(), classes, adam),
    "cosmoflow": (cosmoflow, 7041443, (1, 128, 128, 128), nn.L1Loss(), numbers(3), adam),
    "cosmoflow_mlperf": (cosmoflow_mlperf, 8907556, (4, 128, 128, 128), nn.MSELoss(), numbers(4), sgd),
    "climate_deeplab": (climate("deeplab"), 43669251, MAP, *ITS_LOSS),
    "climate_tiramisu": (climate("tiramisu", 0.2), 7504835, MAP, *ITS_LOSS),
    "climate_deepcam": (climate("deepcam"), 56454720, MAP, *ITS_LOSS),
    "climate_detection_sc17": (climate("detection"), 79194138, (16, 768, 768), detection_loss, maps, adam),
    "norm": (norm, 147968, (64, 192, 288), None, None, None),
    "residual": (residual, 147968, (64, 192, 288), None, None, None),
    "deconv3": (lambda _dropout: deconv(3), 590592, (256, 96, 144), None, None, None),
    "deconv5": (lambda _dropout: deconv(5), 1639168, (256, 96, 144), None, None, None),
}

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("network", choices=NETWORKS, metavar="NETWORK", help=", ".join(NETWORKS))
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--dropout", type=float, default=0.5)
parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
parser.add_argument("--gpu", choices=["eager", "graph"])
parser.add_argument("--layout", choices=["channels_last", "plain"], default="channels_last")
args = parser.parse_args()

torch.set_num_threads(args.threads)
torch.manual_seed(1)
device = "cuda" if args.gpu else "cpu"
torch.backends.cudnn.benchmark = True
make, expected, sample, loss_of, targets_of, optimizer_of = NETWORKS[args.network]
net = make(args.dropout)
parameters = sum(p.numel() for p in net.parameters())
if parameters != expected:
    sys.exit(f"torch_twin.py: the twin of {args.network} has {parameters} parameters instead of {expected}")
x = torch.rand(args.batch, *sample).to(device)
y = targets_of(args.batch, sample).to(device) if targets_of else None
net = net.to(device)
if args.layout == "channels_last":
    memory = torch.channels_last if len(sample) == 3 else torch.channels_last_3d
    net, x = net.to(memory_format=memory), x.to(memory_format=memory)
optimizer = optimizer_of(net.parameters(), args.gpu is not None) if optimizer_of else None
# What autocast has cast is not to outlive a graph's capture.
autocast = {"device_type": device, "dtype": torch.bfloat16, "enabled": args.precision == "bf16", "cache_enabled": args.gpu != "graph"}
with torch.no_grad(), torch.autocast(**autocast):
    gradient = torch.rand_like(net(x)) if loss_of is None else None


def step():
    net.zero_grad(set_to_none=True)
    with torch.autocast(**autocast):
        result = net(x) if loss_of is None else loss_of(net(x), y)
    result.backward(gradient)
    if optimizer:
        optimizer.step()


def captured(work):
    """A CUDA graph of it, after three calls on the stream of its capture."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    net.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        work()
    return graph.replay


run = captured(step) if args.gpu == "graph" else step
times = []
for repetition in range(args.steps + 2):
    start = time.perf_counter()
    run()
    if args.gpu:
        torch.cuda.synchronize()
    if repetition >= 2:
        times.append(time.perf_counter() - start)
median = statistics.median(times)
if args.gpu:
    memory = f"{torch.cuda.max_memory_reserved() / 2**20:.0f} MiB reserved"
else:
    memory = f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB resident"
mode = f" {args.gpu}" if args.gpu else ""
print(f"torch {torch.__version__} {args.network} {args.precision} {args.layout}{mode}: {parameters} parameters, batch {args.batch}, "
      f"{memory}, {1e3 * median:.1f} ms/step, {args.batch / median:.5f} samples/s")
