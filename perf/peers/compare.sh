#!/usr/bin/env bash
# Times training steps of whole networks in petaflow and in PyTorch (f32, tuned allocator, both layouts) in turn, several
# rounds; prints the rates and the ratio to the better layout of each round, and at the end the median ratios with their
# ranges.  Needs a quiet machine and a Python with PyTorch.
#   perf/peers/compare.sh [ROUNDS] [PYTHON] [NETWORK...]      networks: hep cosmoflow cosmoflow_mlperf (default: all)
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds=${1:-5} python=${2:-python3}
known=(hep cosmoflow cosmoflow_mlperf)
networks=("${@:3}")
[ ${#networks[@]} -gt 0 ] || networks=("${known[@]}")
threads=${OMP_NUM_THREADS:-$(nproc)}
declare -A batches=([hep]=8 [cosmoflow]=2 [cosmoflow_mlperf]=1)

die() { echo "compare.sh: $*" >&2; exit 1; }
[[ $rounds =~ ^[1-9][0-9]*$ ]] || die "rounds: $rounds is no number above 0"
"$python" -c 'import torch' || die "$python has no PyTorch (Debian: apt-get install python3-torch)"
for network in "${networks[@]}"; do
  [ -n "${batches[$network]:-}" ] || die "network $network is unknown; there are ${known[*]}"
  [ -x "build/host/bin/${network%_*}" ] || die "build/host/bin/${network%_*} is not built"
done

# The allocator keeps what it has: PyTorch loses up to half of its step to page faults otherwise.
tuned=(env MALLOC_MMAP_THRESHOLD_=17179869184 MALLOC_TRIM_THRESHOLD_=17179869184 MALLOC_TOP_PAD_=268435456)
steps=8

ours() {  # NETWORK: samples/s
  OMP_NUM_THREADS=$threads "build/host/bin/${1%_*}" bench "inputs/$1.toml" "train.batch=${batches[$1]}" --steps $steps --json |
    "$python" -c 'import json, sys; print("%.3f" % json.load(sys.stdin)["samples_per_s"])'
}
theirs() {  # NETWORK LAYOUT: a line that ends with samples/s
  "${tuned[@]}" "$python" perf/peers/torch_twin.py "$1" --batch "${batches[$1]}" --threads "$threads" --steps $steps --layout "$2"
}
median_and_range() {  # NUMBER...
  printf '%s\n' "$@" | sort -g |
    awk '{ v[NR] = $1 } END { printf "%.2f (%.2f to %.2f)", (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2, v[1], v[NR] }'
}

processor=$(lscpu | sed -n 's/^Model name: *//p')
echo "$processor, $threads threads"
declare -A ratios=()
for network in "${networks[@]}"; do
  for ((round = 1; round <= rounds; ++round)); do
    rate=$(ours "$network") best=0
    for layout in channels_last plain; do
      line=$(theirs "$network" $layout)
      echo "$network, round $round: $line"
      line=${line% samples/s}
      best=$(awk -v a="$best" -v b="${line##* }" 'BEGIN { print (a > b ? a : b) }')
    done
    ratio=$(awk -v a="$rate" -v b="$best" 'BEGIN { printf "%.3f", a / b }')
    ratios[$network]+=" $ratio"
    echo "$network, round $round: petaflow $rate samples/s, ratio $ratio"
  done
done
echo
for network in "${networks[@]}"; do
  read -ra all <<<"${ratios[$network]}"
  echo "$network, batch ${batches[$network]}: petaflow is $(median_and_range "${all[@]}") times as fast as PyTorch (median and range of $rounds rounds; $processor)"
done
