#!/usr/bin/env python3
"""MLPerf's compliance checker accepts the log of a run of the benchmark's network that reaches the target, mean absolute
error 0.124, on cubes that it learns by heart; it refuses that of a run which does not.

usage: check_mlperf.py FOLDER_OF_PROGRAMS
"""
import subprocess
import sys

from small_run import need, run, scratch_folder

need("mlperf_logging.compliance_checker.mlp_compliance")

# The optimizer of the closed division.
INPUT = """
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


def check(log):
    """The checker's verdict and what it says."""
    command = [sys.executable, "-m", "mlperf_logging.compliance_checker", "--usage", "hpc", "--ruleset", "3.0.0", log.name]
    result = subprocess.run(command, cwd=log.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return result.returncode == 0 and "SUCCESS" in result.stdout, result.stdout


with scratch_folder() as folder:
    (folder / "mlperf.toml").write_text(INPUT)
    run("cosmoflow", folder, "generate", "mlperf.toml")
    run("cosmoflow", folder, "train", "mlperf.toml")
    run("cosmoflow", folder, "train", "mlperf.toml", "run.name=short", "train.epochs=1")
    log = folder / "runs/mlperf/mllog.txt"
    last = log.read_text().splitlines()[-1]
    if '"run_stop"' not in last or '"success"' not in last:
        sys.exit(f"the run did not reach its target: {last}")
    closed = log.with_name("closed.txt")  # its rules ask for more
    closed.write_text(log.read_text().replace('"value":"open"', '"value":"closed"'))
    for file in log, closed:
        accepted, verdict = check(file)
        if not accepted:
            sys.exit(f"the compliance checker refuses {file.name}:\n{verdict}")
    accepted, verdict = check(folder / "runs/short/mllog.txt")
    if accepted or "eval_error" not in verdict:
        sys.exit(f"the compliance checker accepts a run without the target:\n{verdict}")
    print("The compliance checker accepts the log of the run that reaches the target, and not the other")
