#!/usr/bin/env python3
"""TensorBoard's own reader finds in the events of a run what stands in metrics.jsonl.

usage: check_tensorboard.py FOLDER_OF_PROGRAMS
"""
import json
import math
import sys

from small_run import need, small_run

(event_accumulator,) = need("tensorboard.backend.event_processing.event_accumulator")

with small_run() as folder:
    events = event_accumulator.EventAccumulator(str(folder / "runs/small"), size_guidance={"scalars": 0})
    events.Reload()
    found = {(tag, scalar.step): scalar.value for tag in events.Tags()["scalars"] for scalar in events.Scalars(tag)}
    expected = {}
    for line in (folder / "runs/small/metrics.jsonl").read_text().splitlines():
        line = json.loads(line)
        step = line.pop("step")
        for name, value in line.pop("validation", {}).items():
            expected[f"validation/{name}", step] = value
        for name, value in line.items():
            expected[name, step] = value
    assert ("loss", 2) in expected and ("validation/auc", 60) in expected, expected.keys()
    if found.keys() != expected.keys():
        sys.exit(f"TensorBoard reads {sorted(found)}, metrics.jsonl holds {sorted(expected)}")
    for key, value in expected.items():
        if not math.isclose(found[key], value, rel_tol=1e-6):
            sys.exit(f"{key}: TensorBoard reads {found[key]}, metrics.jsonl holds {value}")
    print(f"{len(found)} scalars of {len(events.Tags()['scalars'])} tags agree")
