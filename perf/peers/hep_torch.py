#!/usr/bin/env python3
"""The PyTorch twin of `hep bench inputs/hep.toml`: full training steps of the 224-pixel network on data in memory.

usage: hep_torch.py [--batch N] [--threads N] [--steps N] [--layout channels_last|plain]
Prints one line: median milliseconds per step and samples/s.  Best-tuned: run it with the allocator told to keep its memory,
as compare.sh does, and with channels_last.
"""
import argparse
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--dropout", type=float, default=0.5)
parser.add_argument("--layout", choices=["channels_last", "plain"], default="channels_last")
args = parser.parse_args()

torch.set_num_threads(args.threads)
torch.manual_seed(1)
layers, channels = [], 3
for _ in range(4):
    layers += [nn.Conv2d(channels, 128, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Dropout(args.dropout)]
    channels = 128
layers += [nn.Conv2d(128, 128, 3, padding=1), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 2)]
net = nn.Sequential(*layers)
x = torch.rand(args.batch, 3, 224, 224)
y = torch.arange(args.batch) % 2
if args.layout == "channels_last":
    net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

times = []
for step in range(args.steps + 2):
    start = time.perf_counter()
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
    if step >= 2:
        times.append(time.perf_counter() - start)
median = statistics.median(times)
print(f"torch {torch.__version__} {args.layout}: {1e3 * median:.1f} ms/step, {args.batch / median:.2f} samples/s")
