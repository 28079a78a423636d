#!/usr/bin/env bash
# Times the HEP network's training step in petaflow and in PyTorch (f32, tuned allocator, both layouts) in turn, several
# rounds, and prints the rates and the ratio to the better layout.  Needs a quiet machine and a Python with PyTorch.
#   perf/peers/compare.sh [ROUNDS] [PYTHON]
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds=${1:-5} python=${2:-python3}
threads=${OMP_NUM_THREADS:-$(nproc)}
"$python" -c 'import torch' || { echo "compare.sh: $python has no PyTorch (Debian: apt-get install python3-torch)" >&2; exit 1; }
# The allocator keeps what it has: PyTorch loses up to half of its step to page faults otherwise.
tuned=(env MALLOC_MMAP_THRESHOLD_=17179869184 MALLOC_TRIM_THRESHOLD_=17179869184 MALLOC_TOP_PAD_=268435456)
lscpu | sed -n 's/^Model name: *//p'
for ((round = 1; round <= rounds; ++round)); do
  ours=$(OMP_NUM_THREADS=$threads build/host/bin/hep bench inputs/hep.toml --steps 8 --json |
    "$python" -c 'import json, sys; print("%.2f" % json.load(sys.stdin)["samples_per_s"])')
  best=0
  for layout in channels_last plain; do
    line=$("${tuned[@]}" "$python" perf/peers/hep_torch.py --threads "$threads" --layout $layout)
    rate=$(sed 's/.*, \([0-9.]*\) samples.*/\1/' <<<"$line")
    best=$(awk -v a="$best" -v b="$rate" 'BEGIN { print (a > b ? a : b) }')
    echo "round $round: $line"
  done
  echo "round $round: petaflow $ours samples/s, ratio $(awk -v a="$ours" -v b="$best" 'BEGIN { printf "%.2f", a / b }')"
done
