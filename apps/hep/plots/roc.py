#!/usr/bin/env python3
"""Draws what the quickstart found: two events as the network sees them, and its ROC curve beside the cut selection.

usage: roc.py PREDICTIONS.h5 LINEAR_PREDICTIONS.h5 EVENTS.h5 OUT.png
The predictions come from `hep predict`, the events (format all_events) from `hep generate`.
Needs matplotlib and h5py (Debian: python3-matplotlib python3-h5py).
"""
import sys

import h5py
import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

if len(sys.argv) != 5:
    sys.exit(__doc__)


def scores(path):
    with h5py.File(path) as file:
        return file["score"][:], file["label"][:]


def roc(score, label):
    order = np.argsort(-score, kind="stable")
    signal = np.cumsum(label[order] == 1) / np.sum(label == 1)
    background = np.cumsum(label[order] == 0) / np.sum(label == 0)
    return background, signal


with h5py.File(sys.argv[3]) as file:
    events = file["all_events"]
    y, passed, hist = events["y"][:], events["passSR"][:] > 0, events["hist"]
    images = [hist[np.flatnonzero(y == label)[3]] / 1000.0 for label in (1, 0)]
figure, axes = plt.subplots(1, 3, figsize=(12, 3.7), constrained_layout=True)
for axis, image, title in zip(axes, images, ("gluino cascade (signal)", "QCD multijet (background)")):
    shown = axis.imshow(np.log10(1 + image), extent=(-3.15, 3.15, -2.5, 2.5), origin="lower", aspect="auto", cmap="magma")
    axis.set(title=title, xlabel=r"$\varphi$", ylabel=r"$\eta$")
    figure.colorbar(shown, ax=axis, label="log10(1 + E / GeV)")
for path, name in ((sys.argv[1], "network"), (sys.argv[2], "linear model on the pixels")):
    axes[2].plot(*roc(*scores(path)), label=name)
axes[2].plot(np.mean(passed[y == 0]), np.mean(passed[y == 1]), "k*", markersize=12, label="cut selection")
axes[2].set(xscale="log", xlim=(1e-3, 1), ylim=(0, 1.02), xlabel="background rate", ylabel="signal efficiency",
            title="events not seen in training")
axes[2].legend(loc="lower right")
figure.savefig(sys.argv[4], dpi=80)
