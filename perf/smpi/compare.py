"""compare.py SIMULATE REFEREE_SMPI: times of sums and of steps with servers on virtual ranks beside those of SimGrid's SMPI.

Exit code 1 where they differ by more than 5 % on a flat cluster, or 15 % on a dragonfly.
"""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SMPI = ["--cfg=smpi/simulate-computation:no", "--cfg=smpi/test:0", "--cfg=smpi/send-is-detached-thresh:65536",
        "--cfg=smpi/async-small-thresh:65536",
        "--cfg=network/model:CM02", "--cfg=network/latency-factor:1", "--cfg=network/bandwidth-factor:1",
        "--cfg=network/weight-S:0", "--cfg=network/crosstraffic:0", "--cfg=smpi/os:0:0:0", "--cfg=smpi/or:0:0:0", "--cfg=smpi/ois:0:0:0",
        f"--cfg=smpi/shared-malloc-blocksize:{64 << 20}", "--log=root.thresh:error"]
BOUNDS = {"flat": 5, "dragonfly": 15}  # %
CASES = [  # machine, ranks, what, elements, groups
    ("flat", 64, "ring", 1 << 22, 1), ("flat", 64, "doubling", 1 << 22, 1), ("flat", 64, "halving", 1 << 22, 1),
    ("flat", 100, "halving", 1 << 20, 1), ("flat", 1024, "halving", 1 << 23, 1), ("flat", 1024, "doubling", 1 << 20, 1),
    ("flat", 10, "servers", 1 << 22, 1), ("flat", 10, "servers", 1 << 22, 2), ("flat", 66, "servers", 1 << 22, 4),
    ("flat", 10, "servers", 1 << 22, 8),
    ("dragonfly", 1024, "halving", 1 << 23, 1), ("dragonfly", 512, "ring", 1 << 22, 1),
    ("dragonfly", 512, "doubling", 1 << 20, 1), ("dragonfly", 1024, "doubling", 1 << 20, 1)]


def main():
    simulate, referee = sys.argv[1:3]
    bad = 0
    print(f"{'machine':<10} {'ranks':>5} {'what':<9} {'elements':>9} {'here, ms':>10} {'SMPI, ms':>10}")
    for machine, ranks, what, elements, groups in CASES:
        ours = float(subprocess.run([simulate, "referee", "--machine", machine, "--ranks", str(ranks), "--what", what,
                                     "--elements", str(elements), "--groups", str(groups)],
                                    check=True, capture_output=True, text=True).stdout)
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as hosts:
            hosts.write("".join(f"node{i}\n" for i in range(ranks)))
            hosts.flush()
            run = subprocess.run(["smpirun", "-np", str(ranks), "-platform", f"{HERE}/{machine}.xml", "-hostfile", hosts.name]
                                 + SMPI + [referee, what, str(elements), str(groups)], capture_output=True, text=True)
        if run.returncode != 0:
            sys.exit(f"smpirun failed on {what}: {run.stderr[-2000:]}")
        theirs = float(run.stdout.split()[-1])
        off = ours / theirs - 1
        bad += abs(off) > BOUNDS[machine] / 100
        what += f" {groups}" if what == "servers" else ""
        print(f"{machine:<10} {ranks:>5} {what:<9} {elements:>9} {1e3 * ours:>10.4f} {1e3 * theirs:>10.4f} {100 * off:>+7.1f} %",
              flush=True)
    sys.exit(1 if bad else 0)


main()
