#!/usr/bin/env python3
"""Golden values of tests/layer_cases.hpp from PyTorch: writes layers.json beside this file.

Inputs, weights and the gradient of the output are formulas that test_layers.cpp repeats, so the file holds results
only: every third element of y, of the gradients of the parameters and of that of the input summed over the batch; for
networks of maps also the losses of a few training steps.
Run: python3 tests/golden/make_layer_golden.py   (PyTorch >= 1.13)
"""
import json
import pathlib

import torch
import torch.nn as nn

class Periodic(nn.Module):
    def forward(self, x):
        return nn.functional.pad(x, (2, 2, 0, 0), mode="circular")


class ScaledTanh(nn.Module):
    def forward(self, x):
        return 1.2 * torch.tanh(x)


class SpaceToDepth(nn.Module):
    """2^3 pixels to channels, the channels of a pixel together."""

    def forward(self, x):
        n, c, d, h, w = x.shape
        blocks = x.reshape(n, c, d // 2, 2, h // 2, 2, w // 2, 2)
        return blocks.permute(0, 3, 5, 7, 1, 2, 4, 6).reshape(n, 8 * c, d // 2, h // 2, w // 2)


class Broadcast(nn.Module):
    def __init__(self, height, width):
        super().__init__()
        self.size = (height, width)

    def forward(self, x):
        return x.expand(-1, -1, *self.size)


class Resize(nn.Module):
    def __init__(self, height, width):
        super().__init__()
        self.size = (height, width)

    def forward(self, x):
        return nn.functional.interpolate(x, self.size, mode="bilinear", align_corners=False)


class Times(nn.Module):
    def forward(self, x):
        return 0.5 * x


class Dense(nn.Module):
    """Weights in the order (outputs, H, W, C)."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        return self.linear(x.permute(0, 2, 3, 1).flatten(1))


class Joined(nn.Module):
    """Joins what modules make of x, after x or not."""

    def __init__(self, join, *modules):
        super().__init__()
        self.branches = nn.ModuleList(modules)
        self.join = join

    def forward(self, x):
        return self.join([branch(x) for branch in self.branches])


def cat(parts):
    return torch.cat(parts, 1)


def dense_block(channels, layers, growth):
    blocks = []
    for i in range(layers):
        c = channels + i * growth
        made = nn.Sequential(nn.BatchNorm2d(c), nn.ReLU(), nn.Conv2d(c, growth, 3, 1, 1))
        blocks.append(Joined(cat, nn.Identity(), made))
    return blocks


class Residual(nn.Module):
    """Parameters in the order of tests/layer_cases.hpp."""

    def __init__(self, channels, filters, stride):
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels)
        self.around = nn.Conv2d(channels, filters, 1, stride) if stride > 1 else None
        self.conv1 = nn.Conv2d(channels, filters, 3, stride, 1)
        self.norm2 = nn.BatchNorm2d(filters)
        self.conv2 = nn.Conv2d(filters, filters, 3, 1, 1)

    def forward(self, x):
        y = torch.relu(self.norm1(x))
        around = self.around(y) if self.around else x
        return self.conv2(torch.relu(self.norm2(self.conv1(y)))) + around


def pyramid(channels, filters, height, width):
    dilated = [nn.Sequential(nn.Conv2d(channels, filters, 3, 1, r, r), nn.ReLU()) for r in (2, 4)]
    image = nn.Sequential(
        nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, filters, 1), nn.ReLU(), Broadcast(height, width)
    )
    return [
        Joined(cat, nn.Sequential(nn.Conv2d(channels, filters, 1), nn.ReLU()), *dilated, image),
        nn.Conv2d(4 * filters, filters, 1),
    ]


def convolutions(channels, filters):
    return nn.Sequential(
        nn.Conv2d(channels, filters, 3, 1, 1), nn.ReLU(), nn.Conv2d(filters, filters, 3, 1, 1), nn.ReLU()
    )


class UNet(nn.Module):
    """Parameters in the order of tests/layer_cases.hpp."""

    def __init__(self, channels, filters):
        super().__init__()
        f = filters
        self.down1, self.down2 = convolutions(channels, f), convolutions(f, 2 * f)
        self.bottom = convolutions(2 * f, 4 * f)
        self.up2 = nn.ConvTranspose2d(4 * f, 2 * f, 2, 2)
        self.out2 = convolutions(4 * f, 2 * f)
        self.up1 = nn.ConvTranspose2d(2 * f, f, 2, 2)
        self.out1 = convolutions(2 * f, f)
        self.classes = nn.Conv2d(f, 3, 1)

    def forward(self, x):
        fine = self.down1(x)
        middle = self.down2(nn.functional.max_pool2d(fine, 2))
        bottom = self.bottom(nn.functional.max_pool2d(middle, 2))
        y = self.out2(cat([middle, self.up2(bottom)]))
        return self.classes(self.out1(cat([fine, self.up1(y)])))


CASES = {
    "relu": ((2, 5, 4, 3), [nn.ReLU()]),
    "leaky_relu": ((2, 70, 4, 3), [nn.LeakyReLU(0.3)]),
    "max_pool_2": ((2, 5, 7, 6), [nn.MaxPool2d(2)]),
    "max_pool_3_2_1": ((2, 66, 7, 8), [nn.MaxPool2d(3, 2, 1)]),
    "max_pool_3d": ((1, 3, 5, 6, 4), [nn.MaxPool3d((2, 3, 2), (2, 2, 1), (0, 1, 0))]),
    "average_pool_2": ((2, 5, 7, 6), [nn.AvgPool2d(2)]),
    "average_pool_3_2_1": ((2, 9, 7, 8), [nn.AvgPool2d(3, 2, 1)]),
    "average_pool_3d": ((1, 3, 4, 6, 4), [nn.AvgPool3d(2)]),
    "global_average": ((3, 70, 5, 4), [nn.AdaptiveAvgPool2d(1)]),
    "global_max": ((2, 6, 13, 16), [nn.AdaptiveMaxPool2d(1)]),
    "dense": ((5, 3, 2, 4), [Dense(24, 7)]),
    "dense_relu_dense": ((5, 6, 1, 1), [nn.Flatten(), nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)]),
    "conv": ((2, 4, 9, 8), [nn.Conv2d(4, 6, 3, 1, 1)]),
    "conv_relu": ((2, 4, 9, 8), [nn.Conv2d(4, 6, 3, 1, 1), nn.ReLU()]),
    "conv_relu_max": ((2, 3, 24, 20), [nn.Conv2d(3, 16, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2)]),
    "conv_max_leaky": ((3, 16, 16, 6), [nn.Conv2d(16, 16, 3, 1, 1), nn.MaxPool2d(2), nn.LeakyReLU(0.1)]),
    "conv_relu_max_odd": ((2, 3, 23, 9), [nn.Conv2d(3, 16, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2)]),
    "conv_relu_overlap": ((2, 3, 24, 10), [nn.Conv2d(3, 16, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]),
    "conv_leaky_average": ((2, 3, 20, 12), [nn.Conv2d(3, 20, 3, 1, 1), nn.LeakyReLU(0.3), nn.AvgPool2d(2)]),
    "conv_average_leaky": ((2, 3, 20, 12), [nn.Conv2d(3, 20, 3, 1, 1), nn.AvgPool2d(2), nn.LeakyReLU(0.3)]),
    "conv_32_average": ((2, 3, 8, 11), [nn.Conv2d(3, 32, 3, 1, 1), nn.LeakyReLU(0.3), nn.AvgPool2d(2)]),
    "conv_average_overlap": ((2, 3, 9, 15), [nn.Conv2d(3, 16, 3, 1, 1), nn.LeakyReLU(0.3), nn.AvgPool2d(3, 2)]),
    "conv_relu_global": ((8, 16, 6, 6), [nn.Conv2d(16, 16, 3, 1, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1)]),
    "conv_stride_2": ((2, 4, 21, 11), [nn.Conv2d(4, 8, 5, 2, 2), nn.ReLU()]),
    "conv_k1_stride_2": ((2, 4, 17, 6), [nn.Conv2d(4, 8, 1, 2)]),
    "conv_groups": ((2, 8, 16, 7), [nn.Conv2d(8, 12, 3, 1, 1, groups=4), nn.ReLU()]),
    "conv_valid": ((2, 4, 18, 9), [nn.Conv2d(4, 8, 4), nn.ReLU()]),
    "conv_conv": ((8, 4, 18, 9), [nn.Conv2d(4, 8, 3, 1, 1), nn.ReLU(), nn.Conv2d(8, 4, 3, 1, 1)]),
    "conv_3d": ((2, 3, 8, 5, 6), [nn.Conv3d(3, 16, 3, 1, 1), nn.LeakyReLU(0.01), nn.AvgPool3d(2)]),
    "conv_3d_max": ((1, 4, 9, 8, 6), [nn.Conv3d(4, 8, 3, 1, 1), nn.LeakyReLU(0.3), nn.MaxPool3d(2)]),
    "conv_wide": ((2, 16, 24, 36), [nn.Conv2d(16, 16, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2)]),
    "conv_wide_3d": ((2, 16, 4, 12, 20), [nn.Conv3d(16, 16, 3, 1, 1), nn.LeakyReLU(0.3), nn.AvgPool3d(2)]),
    "batch_norm": ((3, 5, 4, 6), [nn.BatchNorm2d(5)]),
    "batch_norm_plain": ((3, 5, 4, 6), [nn.BatchNorm2d(5, affine=False)]),
    "batch_norm_conv_3d": ((3, 4, 4, 5, 6), [nn.BatchNorm3d(4, affine=False), nn.Conv3d(4, 8, 3, 1, 1)]),
    "batch_norm_4": ((3, 4, 4, 6), [nn.BatchNorm2d(4)]),
    "batch_norm_8_odd": ((2, 8, 5, 3), [nn.BatchNorm2d(8)]),
    "batch_norm_3d": ((2, 43, 3, 4, 5), [nn.BatchNorm3d(43)]),
    "conv_3d_batch_norm": ((2, 3, 8, 5, 6), [nn.Conv3d(3, 16, 3, 1, 1), nn.BatchNorm3d(16), nn.LeakyReLU(0.01), nn.MaxPool3d(2)]),
    "dense_batch_norm": ((6, 4, 1, 1), [nn.Flatten(), nn.Linear(4, 5), nn.BatchNorm1d(5), nn.LeakyReLU(0.1), nn.Linear(5, 3)]),
    "periodic_pad": ((2, 5, 4, 6), [Periodic()]),
    "conv_3d_to_plane": ((8, 2, 3, 6, 5), [nn.Conv3d(2, 8, 3, 1, (0, 1, 1)), nn.ReLU()]),
    "scaled_tanh": ((3, 5, 4, 3), [ScaledTanh()]),
    "dense_tanh": ((5, 6, 1, 1), [nn.Flatten(), nn.Linear(6, 4), ScaledTanh()]),
    "space_to_depth": ((2, 3, 4, 6, 8), [SpaceToDepth()]),
    "space_to_depth_conv": ((2, 2, 12, 8, 6), [SpaceToDepth(), nn.Conv3d(16, 8, 3, 1, 1), nn.LeakyReLU(0.3), nn.MaxPool3d(2)]),
    "deconv": ((2, 4, 9, 8), [nn.ConvTranspose2d(4, 6, 3, 2, 1, 1)]),
    "deconv_relu": ((2, 4, 13, 8), [nn.ConvTranspose2d(4, 6, (5, 4), 2, (2, 1)), nn.ReLU()]),
    "deconv_stride_1": ((2, 16, 28, 28), [nn.ConvTranspose2d(16, 16, 3, 1, 1), nn.LeakyReLU(0.3), nn.MaxPool2d(2)]),
    "deconv_stride_3": ((2, 3, 7, 6), [nn.ConvTranspose2d(3, 5, 2, 3, 0, (2, 0))]),
    "deconv_groups": ((2, 8, 12, 7), [nn.ConvTranspose2d(8, 12, 3, 2, 1, (1, 0), groups=4), nn.ReLU()]),
    "deconv_large": ((2, 16, 30, 40), [nn.ConvTranspose2d(16, 16, 3, 2, 1, 1), nn.ReLU(), nn.MaxPool2d(2)]),
    "deconv_3d": ((2, 3, 4, 5, 6), [nn.ConvTranspose3d(3, 8, 3, 2, 1, (1, 0, 1)), nn.LeakyReLU(0.1)]),
    "conv_3d_valid_2": ((2, 4, 9, 8, 7), [nn.Conv3d(4, 8, 3, 2), nn.LeakyReLU(0.01)]),
    "conv_dilation": ((2, 4, 13, 11), [nn.Conv2d(4, 8, 3, 1, 2, 2), nn.ReLU()]),
    "conv_gain": ((2, 4, 9, 8), [Times(), nn.Conv2d(4, 6, 3, 1, 1)]),
    "deconv_gain": ((2, 4, 9, 8), [Times(), nn.ConvTranspose2d(4, 6, 3, 2, 1, 1)]),
    "conv_depthwise": ((2, 20, 13, 14), [nn.Conv2d(20, 20, 3, 1, 1, groups=20), nn.LeakyReLU(0.1)]),
    "conv_depthwise_2": ((2, 20, 12, 14), [nn.Conv2d(20, 20, 3, 2, 1, groups=20), nn.ReLU()]),
    "conv_depthwise_6": ((2, 36, 16, 14), [nn.Conv2d(36, 36, 3, 1, 6, 6, groups=36)]),
    "conv_depthwise_3d": ((2, 6, 5, 6, 7), [nn.Conv3d(6, 6, 3, 2, 1, groups=6), nn.ReLU()]),
    "conv_affine": ((3, 20, 1, 1), [nn.Conv2d(20, 20, 1, groups=20), nn.ReLU()]),
    "conv_separable": ((2, 12, 12, 14), [nn.Conv2d(12, 12, 3, 1, 1, groups=12), nn.Conv2d(12, 20, 1), nn.ReLU()]),
    "resize": ((2, 5, 4, 3), [Resize(7, 12)]),
    "resize_down": ((2, 21, 9, 8), [Resize(4, 5)]),
    "conv_resize": ((2, 4, 6, 5), [nn.Conv2d(4, 8, 3, 1, 1), nn.LeakyReLU(0.1), Resize(24, 20), nn.Conv2d(8, 3, 1)]),
    "broadcast": ((3, 5, 1, 1), [Broadcast(4, 3)]),
    "add": ((2, 5, 4, 3), [Joined(sum, nn.LeakyReLU(0.3), nn.Identity())]),
    "concat": ((2, 5, 4, 3), [Joined(cat, nn.ReLU(), nn.Identity(), nn.ReLU()), nn.LeakyReLU(0.1)]),
    "conv_batch_norm_dense_block": ((2, 6, 9, 8), [nn.Conv2d(6, 6, 3, 1, 1), *dense_block(6, 5, 4)]),
    "conv_batch_norm_residual": ((2, 4, 12, 10), [nn.Conv2d(4, 8, 3, 1, 1), Residual(8, 8, 1)]),
    "conv_batch_norm_residual_2": ((3, 4, 12, 10), [nn.Conv2d(4, 8, 3, 1, 1), Residual(8, 12, 2)]),
    "conv_u_net": ((2, 3, 8, 12), [UNet(3, 4)]),
    "conv_pyramid": ((2, 4, 14, 12), [nn.Conv2d(4, 8, 3, 1, 1), nn.ReLU(), *pyramid(8, 8, 14, 12)]),
}


def wave(shape, frequency, amplitude):
    count = int(torch.tensor(shape).prod())
    values = amplitude * torch.sin(frequency * torch.arange(count, dtype=torch.float64) + 0.5)
    return values.reshape(shape)


def scattered(shape):
    """In [-2, 2), neighbours far apart and hardly any two values close: maxima and signs are clear."""
    count = int(torch.tensor(shape).prod())
    return (4 * ((torch.arange(count, dtype=torch.float64) * 0.6180339887498949) % 1.0) - 2).reshape(shape)


def rounded(tensor):
    return [float(f"{value:.7g}") for value in tensor.flatten()[::3].tolist()]


def train(net, x, steps=6):
    """Losses of steps by SGD with momentum, softmax cross-entropy at every pixel, which has class (7 i / 3) mod C."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(steps):
        y = net(x)
        pixels = torch.arange(y.numel() // y.shape[1]).reshape(y.shape[0], *y.shape[2:])
        loss = nn.functional.cross_entropy(y, 7 * pixels // 3 % y.shape[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


TRAINED = ("conv_u_net", "conv_batch_norm_dense_block", "conv_batch_norm_residual", "conv_batch_norm_residual_2", "conv_pyramid")

golden = {}
for name, (shape, modules) in CASES.items():
    net = nn.Sequential(*modules).double()
    for index, parameter in enumerate(net.parameters()):
        parameter.data = wave(parameter.shape, 1.7 + index, 0.3)
    x = scattered(shape).requires_grad_()
    y = net(x)
    y.backward(wave(y.shape, 0.917, 1.0))
    golden[name] = {
        "y": rounded(y),
        "dx": rounded(x.grad.sum(0)),
        "dparameters": [rounded(p.grad) for p in net.parameters()],
    }
    if name in TRAINED:
        golden[name]["losses"] = train(net, x.detach())

# Running statistics after five batches, each wider and farther from 0 than the one before, and the evaluation by them.
norm = nn.BatchNorm3d(7, momentum=0.3).double()
norm.weight.data, norm.bias.data = wave((7,), 1.7, 0.3), wave((7,), 2.7, 0.3)
x = scattered((2, 7, 3, 2, 2))
for step in range(5):
    norm((1 + 0.3 * step) * x + 0.2 * step)
golden["running_statistics"] = {
    "running_mean": norm.running_mean.tolist(),
    "running_var": norm.running_var.tolist(),
    "y": norm.eval()(x).flatten().tolist(),
}

path = pathlib.Path(__file__).with_name("layers.json")
path.write_text(json.dumps(golden, separators=(",", ":")) + "\n")
print(f"{path}: {path.stat().st_size} bytes")
