"""measure_link.py: steps of every update scheme on the links of real hosts, beside the simulator's.

    perf/scaling/measure_link.py --launch "mpirun -n 2 -hostfile hosts" --ranks 2 --machine tcp_400mbit \\
        inputs/hep_quick.toml "model.filters=[128,128,128,128,128]"

trains the network by each scheme in turn, for some steps, and prints milliseconds per step, how much of them
communication was exposed (mean over ranks), and, of schemes that the simulator knows, what it says to the same network,
all as medians of the rounds: times of stages are those of the run itself, as ranks that share cores compute faster
while others wait, that of the optimizer is of the plain run, as not every scheme has each rank update all parameters,
links are those of a file in machines/.
"""
import argparse
import json
import os
import statistics
import subprocess

WHOLE = "comm.overlap=false"


def schemes(ranks, reduction):
    """Name, options of the run, options of the simulator (None: it does not know the scheme)."""
    sums, simulated = f"comm.reduction={reduction}", ["--reduction", reduction]
    # Rings round a sum once for each rank, so narrow numbers go by halves.
    narrow = ["comm.reduction=halving", "comm.wire=bf16"]
    simulated_narrow = ["--reduction", "halving", "--wire", "bf16"]
    yield "plain", [WHOLE, sums], [*simulated, "--no-overlap"]
    yield "overlap", [sums], simulated
    yield "overlap, two_level", ["comm.reduction=two_level"], ["--reduction", "two_level"]
    yield "overlap, MPI's own sums", ["comm.reduction=mpi"], None
    yield "bf16 on the wire", [WHOLE, *narrow], [*simulated_narrow, "--no-overlap"]
    yield "overlap, bf16", narrow, simulated_narrow
    yield "lag 1", [sums, "update.lag=1"], [*simulated, "--lag", "1"]
    yield "sharded", ["update.sharded=true"], ["--sharded"]
    local, groups = [f"update.groups={ranks}", "update.average_every=8"], ["--groups", str(ranks)]
    yield "local SGD, every 8 steps", local, [*groups, "--average-every", "8"]
    yield "late averages, 4 of 8 steps later", [*local, "update.average_late=4"], \
        [*groups, "--average-every", "8", "--average-late", "4"]
    yield f"{ranks} groups, a server inside a worker", \
        ["update.servers=1", "update.colocate_servers=true", f"update.groups={ranks}"], \
        ["--servers", "1", "--colocate-servers", *groups]
    workers = ranks - 1
    yield "one group, one server", ["update.servers=1"], ["--servers", "1"]
    if workers > 1:
        yield f"{workers} groups, one server", ["update.servers=1", f"update.groups={workers}"], \
            ["--servers", "1", "--groups", str(workers)]


def groups_of(options):
    return next((int(option.split("=")[1]) for option in options if option.startswith("update.groups=")), 1)


def run_of(name):
    return "link_" + "".join(c if c.isalnum() else "_" for c in name)


def train(given, name, options):
    """Milliseconds per step of one run, and those that communication was exposed."""
    # Those on ranks of their own.
    servers = 1 if "update.servers=1" in options and "update.colocate_servers=true" not in options else 0
    command = given.launch.split() + [
        os.path.abspath(f"{given.build}/hep"), "train", given.input, *given.options, *options,
        f"run.name={run_of(name)}", f"train.batch={given.per_rank * (given.ranks - servers)}",
        f"train.steps={given.steps * groups_of(options)}", "--overwrite"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{name}: exit code {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    with open(f"runs/{run_of(name)}/performance.json") as file:
        performance = json.load(file)
    # Groups take steps at different rates, that of a server's worker the most: time per step of one group = groups x
    # seconds / all steps.
    ms = 1e3 * groups_of(options) / performance["steps"]
    exposed_s = sum(part["seconds"] for part in performance["time"] if part["part"] == "communication")
    return ms * performance["seconds"], ms * exposed_s


def simulate(given, name, options, simulated):
    """Milliseconds per step that the simulator finds, with the times of the run before."""
    command = [f"{given.build}/simulate", "run", "--machine", given.machine, "--workload", given.workload,
               "--performance", f"runs/{run_of(name)}/performance.json",
               "--optimizer-performance", f"runs/{run_of('plain')}/performance.json",
               "--ranks", str(given.ranks), "--steps", str(given.steps * groups_of(options)), *simulated]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(next(line for line in out.splitlines() if "ms a step" in line).split("group")[1].removeprefix("s").split()[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launch", default="mpirun -n 2", help="what stands before the command on the hosts")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--per-rank", type=int, default=16, help="samples of a rank and step")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--machine", default="tcp_400mbit")
    parser.add_argument("--workload", default="hep_knl", help="that has the sizes of the network's layers")
    parser.add_argument("--build", default="build/host/bin")
    parser.add_argument("--reduction", default="halving", help="how gradients are summed where a scheme does not say")
    parser.add_argument("--only", help="schemes whose names contain this")
    parser.add_argument("input")
    parser.add_argument("options", nargs="*")
    given = parser.parse_args()
    results = {}
    chosen = [scheme for scheme in schemes(given.ranks, given.reduction)
              if not given.only or given.only in scheme[0] or scheme[0] == "plain"]
    for _ in range(given.rounds):
        for name, options, simulated in chosen:
            step, exposed = train(given, name, options)
            results.setdefault(name, []).append(
                (step, exposed, simulate(given, name, options, simulated) if simulated else 0))
    print(f"{'scheme':<34} {'ms a step':>10} {'exposed':>9} {'of plain':>9} {'simulated':>10}")
    plain = statistics.median(exposed for _, exposed, _ in results["plain"])
    for name, _, simulated in chosen:
        step, exposed, simulated_step = (statistics.median(column) for column in zip(*results[name]))
        line = f"{name:<34} {step:>10.2f} {exposed:>9.2f} {100 * exposed / plain:>7.0f} %"
        if simulated:
            line += f" {simulated_step:>10.2f} ({100 * (simulated_step / step - 1):+.1f} %)"
        print(line, flush=True)


if __name__ == "__main__":
    main()
