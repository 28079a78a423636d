#!/usr/bin/env python3
"""PyTorch loads the weights that `hep export` writes into a twin of the network and computes the scores of `hep predict`.

usage: check_safetensors.py FOLDER_OF_PROGRAMS
"""
import sys

from small_run import hep, need, small_run

torch, safetensors, safetensors_torch, h5py, numpy, tomllib = need(
    "torch", "safetensors", "safetensors.torch", "h5py", "numpy", "tomllib")


class Twin(torch.nn.Module):
    """The network of apps/hep/model.hpp."""

    def __init__(self, channels, filters):
        super().__init__()
        self.depth = len(filters)
        for i, count in enumerate(filters, 1):
            setattr(self, f"conv{i}", torch.nn.Conv2d(channels, count, 3, padding=1))
            channels = count
        self.fc = torch.nn.Linear(channels, 2)

    def forward(self, x):
        for i in range(1, self.depth + 1):
            x = torch.relu(getattr(self, f"conv{i}")(x))
            if i < self.depth:
                x = torch.nn.functional.max_pool2d(x, 2)
        return self.fc(x.mean((2, 3)))


with small_run() as folder:
    hep(folder, "export", "runs/small", "-o", "small.safetensors")
    hep(folder, "predict", "runs/small", "test.h5", "-o", "scores.h5")
    with safetensors.safe_open(folder / "small.safetensors", framework="pt") as file:
        metadata = file.metadata()
    assert metadata["format"] == "pt" and metadata["application"] == "hep" and metadata["commit"], metadata
    config = tomllib.loads(metadata["config"])
    twin = Twin(config["data"]["channels"], config["model"]["filters"]).eval()
    twin.load_state_dict(safetensors_torch.load_file(folder / "small.safetensors"), strict=True)
    with h5py.File(folder / "test.h5") as file:
        images = numpy.stack([file["all_events"][name][:] for name in config["data"]["channel_names"]], 1)
    images = images / numpy.array(config["data"]["maxima"]).reshape(1, -1, 1, 1)
    with torch.no_grad():
        ours = torch.softmax(twin(torch.tensor(images, dtype=torch.float32)), 1)[:, 1].numpy()
    with h5py.File(folder / "scores.h5") as file:
        theirs = file["score"][:]
    assert numpy.ptp(theirs) > 0.05, "all scores are much the same: nothing to compare"
    difference = numpy.abs(ours - theirs).max()
    print(f"{len(theirs)} scores between {theirs.min():.4f} and {theirs.max():.4f}; largest difference {difference:.1e}")
    if difference > 1e-5:
        sys.exit("PyTorch computes other scores than hep predict")
