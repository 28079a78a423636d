"""Runs of the programs in temporary folders, for the checks in Python; and how they skip."""
import contextlib
import importlib
import os
import pathlib
import subprocess
import sys
import tempfile

SKIPPED = 77  # ctest's code for it (tests/CMakeLists.txt)

INPUT = """
[run]
name = "small"
[data]
train = ["train.h5"]
validation = ["validation.h5"]
test = ["test.h5"]
height = 16
width = 16
[model]
filters = [4, 6, 5]
[train]
epochs = 10
batch = 16
[optimizer]
lr = 2e-2
[log]
interval = 2
[generate]
train = 96
validation = 32
test = 32
"""


def need(*modules):
    """Imports modules; without one of them the check is skipped, loudly."""
    found = []
    for module in modules:
        try:
            found.append(importlib.import_module(module))
        except ImportError as error:
            print(f"SKIPPED: {sys.executable} lacks {module} ({error}); -DPETAFLOW_PYTHON=... names another Python", file=sys.stderr)
            sys.exit(SKIPPED)
    return found


def run(program, folder, *arguments):
    """Runs a program of the folder that the check's first argument names."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [pathlib.Path(sys.argv[1]).resolve() / program, *arguments]
    subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)


def hep(folder, *arguments):
    run("hep", folder, *arguments)


@contextlib.contextmanager
def scratch_folder():
    with tempfile.TemporaryDirectory() as name:
        yield pathlib.Path(name)


@contextlib.contextmanager
def small_run():
    """A folder with small.toml, its data and the trained run runs/small of the hep program."""
    with scratch_folder() as folder:
        (folder / "small.toml").write_text(INPUT)
        hep(folder, "generate", "small.toml")
        hep(folder, "train", "small.toml")
        yield folder
