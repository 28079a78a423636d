"""The networks of climate_segmentation and climate_detection in PyTorch, written from the papers.

Each is a function of layers `t` and of x (N, C, H, W).  The golden values of the tests are made with layers that keep all they give,
comparisons of speed with those of torch_twin.py: so what is timed is what is compared number by number, at full width.  Layers:

  conv(name, x, filters, size=1, stride=1, dilation=1, groups=1, bias=False, factor=1.0, wrap=False)
      of factor * x, padded by size // 2 * dilation; wrap: longitude, the last dimension, is closed
  twice(name, x, filters, size=3, bias=False)   transposed, with stride 2, to twice the size
  norm(name, x)   batch norm      relu(name, x, slope=0.0)      drop(name, x)   dropout
  cat(name, *parts)   along channels      keep(name, y)   gives y
"""
import torch.nn.functional as F


def tiramisu(t, x, filters=64, growth=32, blocks=(2, 2, 2, 4, 5), size=5):
    """Kurth et al., SC18 (arXiv:1810.01993), without batch norm."""

    def layer(name, x, filters, size, stride=1):
        return t.drop(name + "/dropout", t.relu(name + "/relu", t.conv(name, x, filters, size, stride, bias=True)))

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
    return t.drop("classes/dropout", t.conv("classes", x, 3, bias=True))


def pyramid(t, x, rates, filters, layer, image):
    size = x.shape[2:]
    parts = [layer("aspp/point", x, filters)]
    parts += [layer(f"aspp/rate{r}", x, filters, 3, dilation=r) for r in rates]
    mean = t.keep("aspp/mean", x.mean((2, 3), keepdim=True))
    parts.append(t.keep("aspp/map", image(mean).expand(-1, -1, *size)))
    return layer("aspp/out", t.cat("aspp/branches", *parts), filters)


def deeplab(t, x, batch_norm=False, width=64, units=(3, 4, 6, 3), rates=(12, 24, 36)):
    """DeepLabv3+ of Kurth et al.; without batch norm its place is taken by a factor of 0.5."""

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

    fields, first, fine, wide = x, None, None, 4 * width
    x = t.conv("conv1", x, width, 7, 2, bias=True)
    x = t.keep("pool1", F.max_pool2d(x, 3, 2, 1))
    for b, count in enumerate(units):
        for u in range(1, count + 1):
            halves = b == 0 and u == count
            x = unit(f"block{b + 1}/{u}", x, width * 2**b, 2 if halves else 1, (1, 1, 2, 4)[b])
            fine = first if halves else fine
    x = pyramid(t, x, rates, wide, layer, lambda mean: layer("aspp/image", mean, wide))
    coarse = t.twice("decoder/quarter", x, wide, bias=True)
    x = t.cat("decoder/beside", coarse, layer("decoder/fine", fine, 3 * width // 4))
    x = layer("decoder/conv2", layer("decoder/conv1", x, wide, 3), wide, 3)
    x = t.twice("decoder/full", t.twice("decoder/half", x, wide, bias=True), wide, bias=True)
    skip = t.conv("skip/conv1", fields, width, 3, bias=True)
    skip = t.conv("skip/conv2", skip, 2 * width, 3, bias=True)
    x = t.conv("decoder/conv3", t.cat("decoder/with_input", x, skip), wide, 3, bias=True)
    return t.conv("classes", t.conv("decoder/conv4", x, wide, 3, bias=True), 3, bias=True)


def deepcam(t, x, width=32, middle=16, rates=(6, 12, 18)):
    """The benchmark of MLPerf HPC; `width` filters in the first layer."""

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

    wide, middle_width = 8 * width, 728 * width // 32

    def image(mean):
        y = t.conv("aspp/image", mean, wide)
        y = t.conv("aspp/affine", y, wide, groups=wide, bias=True)
        return t.relu("aspp/affine/relu", y)

    def twice(name, x):
        return t.relu(name + "/relu", t.norm(name + "/norm", t.twice(name, x, wide)))

    x = layer("entry/conv2", layer("entry/conv1", x, width, 3, 2), 2 * width, 3)
    fine = block("entry/block1", x, 2 * (4 * width,), 2)
    x = block("entry/block2", fine, 2 * (8 * width,), 2)
    x = block("entry/block3", x, 2 * (middle_width,), 2)
    for i in range(1, middle + 1):
        x = block(f"middle/block{i}", x, 3 * (middle_width,))
    x = block("exit/block", x, (middle_width, 32 * width), end=True, relu=False)
    for i, filters in enumerate((48 * width, 48 * width, 64 * width), 1):
        name = f"exit/conv{i}"
        x = t.relu(name + "/relu", t.norm(name + "/norm", separable(name, x, filters, dilation=2)))
    x = pyramid(t, x, rates, wide, layer, image)
    coarse = twice("decoder/quarter", twice("decoder/eighth", x))
    x = t.cat("decoder/beside", coarse, layer("decoder/fine", fine, 3 * width // 2))
    x = layer("decoder/conv2", layer("decoder/conv1", x, wide, 3), wide, 3)
    x = twice("decoder/half", t.conv("decoder/point", x, wide, bias=True))
    return t.twice("classes", x, 3)


def detection(t, x, filters=(128, 256, 512, 768, 1024), neck=1280, slope=0.0, norm=False, periodic=False):
    """Kurth et al., SC17 (arXiv:1708.05256), as petaflow reads it: gives cells and the error of the reconstruction."""

    given = x
    for i, f in enumerate(filters, 1):
        name = f"encoder{i}"
        x = t.relu(name + "/relu", t.conv(name, x, f, 5, 2, bias=True, wrap=periodic), slope)
    code = x
    if norm:
        x = t.norm("norm", x)
    if neck:
        x = t.relu("neck/relu", t.conv("neck", x, neck, 3, bias=True), slope)
    heads = [t.conv("head/" + name, x, n, 3, bias=True) for name, n in (("place", 4), ("box", 2), ("kind", 4))]
    cells = t.cat("cells", *heads)
    x = code
    for i in range(len(filters), 0, -1):
        name = f"decoder{i}"
        x = t.twice(name, x, filters[i - 2] if i > 1 else given.shape[1], 5, bias=True)
        if i > 1:
            x = t.relu(name + "/relu", x, slope)
    return cells, t.keep("error", x + given)
