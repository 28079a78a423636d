#!/usr/bin/env python3
"""What frames without boxes bring the climate detection: pairs of runs on a share of the boxes, with and without reconstruction.

Both runs of a pair have the same seed of training and the same frames with boxes; they are evaluated on data.test.
Run: perf/semi_supervised.py PROGRAM INPUT [--seeds 5] [--fraction 0.1] [--ranks 1] [option=value ...]
"""
import argparse
import json
import pathlib
import statistics
import subprocess


def precisions(args, seed, weight):
    """Average precisions of a run on data.test, trained where it is not there yet."""
    name = f"semi_supervised_{args.fraction:g}_seed{seed}_reconstruction{weight or 'default'}"
    evaluation = pathlib.Path("runs", name, "evaluation.json")
    if not evaluation.exists():
        launcher = ["mpirun", "-n", str(args.ranks)] if args.ranks > 1 else []
        options = [] if weight is None else [f"loss.reconstruction={weight}"]
        subprocess.run([*launcher, args.program, "train", args.input, "--overwrite", f"run.name={name}", f"train.seed={seed}",
                        f"data.labelled_seed={seed}", f"data.labelled_fraction={args.fraction}", *options, *args.options],
                       check=True, stdout=subprocess.DEVNULL)
    results = json.loads(evaluation.read_text())["results"]
    return {key: 100 * results[key] for key in ("ap_10", "ap_50")}


def text(values):
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return f"{statistics.mean(values):6.2f} +- {error:.2f}"


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("program")
parser.add_argument("input")
parser.add_argument("--seeds", type=int, default=5)
parser.add_argument("--fraction", type=float, default=0.1)
parser.add_argument("--ranks", type=int, default=1)
parser.add_argument("options", nargs="*")
args = parser.parse_intermixed_args()
seeds = range(1, args.seeds + 1)
semi = [precisions(args, seed, None) for seed in seeds]
supervised = [precisions(args, seed, "0") for seed in seeds]
print(f"average precision in per cent, mean and standard error over {args.seeds} seeds")
for key in ("ap_10", "ap_50"):
    print(f"{key}: with reconstruction {text([s[key] for s in semi])}, without {text([s[key] for s in supervised])}, "
          f"difference of pairs {text([a[key] - b[key] for a, b in zip(semi, supervised)])}")
