#!/usr/bin/env python3
"""MLPerf's compliance checker accepts the logs of runs that reach the targets of their benchmarks, CosmoFlow (mean absolute
error 0.124) and DeepCAM (intersection over union 0.82), on a few samples that they learn by heart; it refuses those of runs which do
not, and of runs that leave out a line.

usage: check_mlperf.py FOLDER_OF_PROGRAMS
"""
import pathlib
import re
import subprocess
import sys

from small_run import need, run, scratch_folder

need("mlperf_logging.compliance_checker.mlp_compliance")

# The optimizer of the closed division.
COSMOFLOW = """
mllog = true
[run]
name = "mlperf"
[data]
train = ["data/train/*"]
validation = ["data/train/*"]
edge = 32
[generate]
folder = "data"
format = "tfrecord"
train = 2
validation = 0
test = 0
particles = 64
box = 128.0
[model]
kind = "mlperf"
filters = [8, 8, 16, 16, 32]
dropout = 0.0
loss = "mse"
[train]
epochs = 60
batch = 4
[optimizer]
name = "sgd"
lr = 2e-2
momentum = 0.9
[schedule]
name = "step"
warmup_epochs = 1.0
step_epochs = [40.0]
step_factor = 0.25
[stop]
metric = "mae"
target = 0.124
[evaluate]
baseline_samples = 0
"""

# The benchmark's input with a small network, as that of 56 million weights takes long.
DEEPCAM = ["mllog=true", "run.name=mlperf", "generate.folder=data", "data.train=data/train/*", "data.validation=data/train/*",
           "data.height=32", "data.width=48", "generate.train=2", "generate.validation=0", "model.kind=unet", "model.filters=[16,32]",
           "train.epochs=300", "train.recompute=1", "augment.roll=false", "augment.flip=false", "optimizer.lr=2e-2",
           "schedule.name=step", "schedule.step_epochs=[250.0]", "schedule.warmup_steps=10", "evaluate.baseline_trials=0",
           "evaluate.pictures=0"]


def check(log):
    """The checker's verdict and what it says."""
    command = [sys.executable, "-m", "mlperf_logging.compliance_checker", "--usage", "hpc", "--ruleset", "3.0.0", log.name]
    result = subprocess.run(command, cwd=log.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return result.returncode == 0 and "SUCCESS" in result.stdout, result.stdout


def check_run(folder, program, input_file, arguments, metric):
    run(program, folder, "generate", input_file, *arguments)
    run(program, folder, "train", input_file, *arguments)
    run(program, folder, "train", input_file, *arguments, "run.name=short", "train.epochs=1")
    log = folder / "runs/mlperf/mllog.txt"
    text = log.read_text()
    last = text.splitlines()[-1]
    if '"run_stop"' not in last or '"success"' not in last:
        sys.exit(f"the run of {program} did not reach its target: {last}")
    closed = text.replace('"value":"open"', '"value":"closed"')  # its rules ask for more: among them all samples of DeepCAM
    if program == "climate_segmentation":
        for key, samples in ("train_samples", 121266), ("eval_samples", 15158):
            closed = re.sub(f'("key":"{key}".*"value":)[0-9]+', rf"\g<1>{samples}", closed)
    for division, lines in ("open", text), ("closed", closed):
        file = log.with_name(f"{division}.txt")
        file.write_text(lines)
        accepted, verdict = check(file)
        if not accepted:
            sys.exit(f"the compliance checker refuses the log of {program}, {division} division:\n{verdict}")
    accepted, verdict = check(folder / "runs/short/mllog.txt")
    if accepted or metric not in verdict:
        sys.exit(f"the compliance checker accepts a run of {program} without the target:\n{verdict}")
    part = log.with_name("part.txt")
    part.write_text("".join(line for line in closed.splitlines(keepends=True) if '"opt_name"' not in line))
    if check(part)[0]:
        sys.exit(f"the compliance checker accepts a log of {program} without the optimizer's name")


with scratch_folder() as folder:
    (folder / "mlperf.toml").write_text(COSMOFLOW)
    check_run(folder, "cosmoflow", "mlperf.toml", [], "eval_error")
with scratch_folder() as folder:
    inputs = pathlib.Path(__file__).resolve().parent.parent / "inputs"
    check_run(folder, "climate_segmentation", str(inputs / "climate_deepcam.toml"), DEEPCAM, "eval_accuracy")
print("The compliance checker accepts the logs of the runs that reach their targets, and not the others")
