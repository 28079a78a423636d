#!/usr/bin/env python3
"""The twins that `export --pytorch` writes compute what petaflow does: those of trained networks the predictions of
`predict`, those of all layer cases the golden values.

usage: check_pytorch.py FOLDER_OF_PROGRAMS
"""
import importlib.util
import json
import pathlib
import subprocess
import sys

from small_run import hep, need, run, scratch_folder, small_run

torch, safetensors, h5py, numpy, tomllib, safetensors_torch = need(
    "torch", "safetensors", "h5py", "numpy", "tomllib", "safetensors.torch")

HERE = pathlib.Path(__file__).parent

COSMOFLOW = """
[run]
name = "tiny"
[data]
train = ["data/train/*"]
test = ["data/test/*"]
edge = 32
parameters = ["Omega_m", "sigma_8"]
[generate]
folder = "data"
train = 2
validation = 0
test = 1
particles = 64
box = 64.0
[train]
steps = 2
batch = 2
[evaluate]
replicas = 2
[model]
"""


def exported(program, folder, name):
    """The twin of a run with its weights, and the configuration that these carry."""
    run(program, folder, "export", f"runs/{name}", "--pytorch", "-o", f"{name}.safetensors")
    with safetensors.safe_open(folder / f"{name}.safetensors", framework="pt") as file:
        metadata = file.metadata()
    assert metadata["format"] == "pt" and metadata["application"] == program and metadata["commit"], metadata
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.load(), tomllib.loads(metadata["config"])


def compare(what, ours, theirs, limit=1e-5):
    assert ours.shape == theirs.shape, f"{what}: {ours.shape}, not {theirs.shape}"
    assert numpy.ptp(theirs) > 0.002, f"{what}: all predictions are much the same, there is nothing to compare"
    difference = numpy.abs(ours - theirs).max()
    print(f"{what}: {theirs.size} numbers, {theirs.min():.4f} to {theirs.max():.4f}; largest difference {difference:.1e}")
    if not difference <= limit:
        sys.exit(f"{what}: PyTorch computes something else than predict")


def check_hep():
    with small_run() as folder, torch.no_grad():
        hep(folder, "predict", "runs/small", "test.h5", "-o", "scores.h5")
        twin, config = exported("hep", folder, "small")
        with h5py.File(folder / "test.h5") as file:
            images = numpy.stack([file["all_events"][name][:] for name in config["data"]["channel_names"]], 1)
        images = images / numpy.array(config["data"]["maxima"]).reshape(1, -1, 1, 1)
        ours = torch.softmax(twin(torch.tensor(images, dtype=torch.float32)), 1)[:, 1].numpy()
        with h5py.File(folder / "scores.h5") as file:
            compare("hep", ours, file["score"][:])


def check_cosmoflow(kind):
    with scratch_folder() as folder, torch.no_grad():
        (folder / "tiny.toml").write_text(COSMOFLOW + kind)
        run("cosmoflow", folder, "generate", "tiny.toml")
        run("cosmoflow", folder, "train", "tiny.toml")
        run("cosmoflow", folder, "predict", "runs/tiny", "data/test/*", "-o", "out.h5")
        twin, _ = exported("cosmoflow", folder, "tiny")
        cubes = []
        for path in sorted((folder / "data/test").iterdir()):
            with h5py.File(path) as file:
                cubes.append(file["x"][:] if "x" in file else file["full"][:])
        x = torch.tensor(numpy.stack(cubes)).permute(0, 4, 1, 2, 3)
        with h5py.File(folder / "out.h5") as file:
            compare(f"cosmoflow {kind!r}", twin(x).numpy(), file["estimate_normalised"][:])


def check_shapes():
    """A U with two outputs."""
    with scratch_folder() as folder, torch.no_grad():
        (folder / "shapes.toml").write_text((HERE / "apps/shapes/shapes.toml").read_text())
        run("shapes", folder, "generate", "shapes.toml")
        run("shapes", folder, "train", "shapes.toml", "train.epochs=1")
        run("shapes", folder, "predict", "runs/shapes", "data/shapes/test.h5", "-o", "out.h5")
        twin, _ = exported("shapes", folder, "shapes")
        with h5py.File(folder / "data/shapes/test.h5") as file:
            images = torch.tensor(file["image"][:])[:, None]
        maps, kinds = twin(images)
        with h5py.File(folder / "out.h5") as file:
            compare("shapes, kind", torch.softmax(kinds, 1).numpy(), file["kind_probability"][:])
            theirs = file["map"][:]
        differ = (maps.argmax(1).flatten(1).numpy() != theirs).sum()
        print(f"shapes, map: {differ} of {theirs.size} pixels have another class")
        if differ > theirs.size // 10000 or len(numpy.unique(theirs)) < 2:  # logits may be equal but for rounding
            sys.exit("shapes: PyTorch computes another map than predict")


def check_climate(what, *arguments):
    """A network of maps: probabilities of cyclones and rivers at every pixel."""
    inputs = str(HERE.resolve().parent / "inputs/climate_small.toml")
    settings = ["generate.train=2", "generate.validation=1", "generate.test=1", "data.height=48", "data.width=72", "train.steps=4",
                "train.batch=2", "train.validate_epochs=0", "evaluate.baseline_trials=0", "evaluate.pictures=0", *arguments]
    with scratch_folder() as folder, torch.no_grad():
        run("climate_segmentation", folder, "generate", inputs, *settings)
        run("climate_segmentation", folder, "train", inputs, "run.name=maps", *settings)
        run("climate_segmentation", folder, "predict", "runs/maps", "data/climate_small/test/*", "-o", "maps.nc")
        twin, config = exported("climate_segmentation", folder, "maps")
        frames = []
        for path in sorted((folder / "data/climate_small/test").iterdir()):
            with h5py.File(path) as file:
                frames.append(file["climate/data"][:])  # rows, columns, variables
        data = config["data"]
        scaled = (numpy.stack(frames) - numpy.array(data["offsets"])) * numpy.array(data["factors"])
        x = torch.tensor(scaled.clip(-data["clip"], data["clip"]), dtype=torch.float64).permute(0, 3, 1, 2)
        logits = twin.double()(x)
        ours = torch.softmax(logits, 1)[:, 1:].numpy()
        with h5py.File(folder / "maps.nc") as file:  # netCDF-4 is HDF5
            theirs = numpy.stack([file[f"probability_{name}"][:] for name in ("tc", "ar")], 1)
        # Logits of f32 are right to some 2e-6 of the largest, behind tens of layers; a probability changes by half of that.
        compare(f"climate_segmentation, {what}", ours.reshape(theirs.shape), theirs, 1e-6 * logits.abs().max().item())


def wave(shape, frequency, amplitude):  # as golden/make_layer_golden.py has it
    count = int(torch.tensor(shape).prod())
    return (amplitude * torch.sin(frequency * torch.arange(count, dtype=torch.float64) + 0.5)).reshape(shape)


def scattered(shape):
    count = int(torch.tensor(shape).prod())
    return (4 * ((torch.arange(count, dtype=torch.float64) * 0.6180339887498949) % 1.0) - 2).reshape(shape)


def check_layers():
    command = pathlib.Path(sys.argv[1]) / "tests/pytorch_twins"
    twins = json.loads(subprocess.run([command], check=True, stdout=subprocess.PIPE).stdout)
    golden = json.loads((HERE / "golden/layers.json").read_text())
    compared = 0
    for name, twin in twins.items():
        names = {"__name__": name, "__file__": f"{name}.py"}
        exec(compile(twin["file"], f"{name}.py", "exec"), names)
        network = names["Network"]().double()
        parameters = dict(network.named_parameters())
        assert sorted(parameters) == sorted(twin["parameters"]), f"{name}: {sorted(parameters)}"
        for index, parameter in enumerate(twin["parameters"]):
            parameters[parameter].data = wave(parameters[parameter].shape, 1.7 + index, 0.3)
        with torch.no_grad():
            y = network(scattered(twin["input"]))
        if name not in golden:
            continue
        found, expected = y.flatten()[::3], torch.tensor(golden[name]["y"], dtype=torch.float64)
        assert found.shape == expected.shape, f"{name}: {tuple(y.shape)}"
        difference = ((found - expected).abs().max() / expected.abs().max()).item()
        if not difference <= 1e-6:
            sys.exit(f"layer case {name}: differs from the golden values by {difference:.1e} of the largest")
        compared += 1
    assert compared > 50, compared
    print(f"{len(twins)} layer cases, {compared} of them compared with golden values")


check_layers()
check_hep()
for model in ('kind = "mlperf"\nfilters = [4, 4, 8, 8, 8]\n', 'kind = "quick"\nfilters = [8, 8]\n'):
    check_cosmoflow(model)
check_shapes()
check_climate("unet")
