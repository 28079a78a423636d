#!/usr/bin/env python3
"""check_device_code.py CUOBJDUMP CAPABILITY FILE...: what nvcc made of all kernels of programs or objects.

Each holds kernels for the GPU's capability (90: 9.0), none of which keeps numbers in a thread's own memory (arrays
under an index that is no constant, and registers that do not suffice, lie there: every access goes through the caches)
or takes more arguments than Kokkos passes with a launch (512 bytes; beyond them it copies, and waits for that).
Portable convolutions and products, whose numbers are f32 and bf16, load no single bytes, as copies by memcpy become.
"""
import re
import subprocess
import sys


def readable(names):
    """Names without what Kokkos and templates put around functors."""
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    text = re.sub(r"void Kokkos::Impl::\w+<Kokkos::Impl::", "", text)
    return re.sub(r", Kokkos::RangePolicy.*", "", text).splitlines()


def resources(cuobjdump, capability, file):
    found = subprocess.run([cuobjdump, "-arch", f"sm_{capability}", "-res-usage", file], capture_output=True, text=True)
    kernels = re.findall(r"Function (\S+):\s+(REG:.*)", found.stdout)
    print(f"{file}: {len(kernels)} kernels")
    if not kernels:
        return [f"{file}: no kernel for sm_{capability}: {found.stderr.strip()}"]
    result = []
    for (raw, usage), name in zip(kernels, readable(raw for raw, _ in kernels)):
        used = {key: int(value) for key, value in re.findall(r"(\w+):(\d+)", usage)}
        if used["STACK"] + used["LOCAL"] > 0:
            result.append(f"{file}: {used['STACK'] + used['LOCAL']} bytes in each thread's memory: {name}")
        if "cuda_parallel_launch_" in raw and "cuda_parallel_launch_local_memory" not in raw:
            result.append(f"{file}: too many arguments for a launch: {name}")
    return result


def loads_of_bytes(cuobjdump, file):
    """In PTX, which the programs hold beside the GPU's code."""
    code = subprocess.run([cuobjdump, "-ptx", file], capture_output=True, text=True).stdout
    kernels = [(part.split("(", 1)[0], len(re.findall(r"ld\.global\S*\.[us]8", part)))
               for part in code.split(".entry ")[1:]]
    found = [f"{file}: {loads} loads of single bytes: {name}"
             for name, (_, loads) in zip(readable(raw for raw, _ in kernels), kernels)
             if loads > 0 and re.search("portable::|Product", name)]
    return found if kernels else [f"{file}: no PTX"]


def main():
    cuobjdump, capability, files = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    found = [complaint for file in files
             for complaint in resources(cuobjdump, capability, file) + loads_of_bytes(cuobjdump, file)]
    print("\n".join(found))
    sys.exit(1 if found else 0)


main()
