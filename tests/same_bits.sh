#!/usr/bin/env bash
# same_bits.sh GUARDED HOST: hep and cosmoflow train in the builds of these two folders, of which one has its kernels on memory that
# nobody else may touch.  With portable kernels on whole layers, sums cut alike (kernels/cuts.hpp) and the same optimisation by the
# compiler, which chooses what it fuses, their weights have the same bits.
set -euo pipefail
cd "$(dirname "$0")/.."
inputs=$PWD/inputs
builds=("$1" "$2")
for build in "${builds[@]}"; do
  [ -x "$build/bin/hep" ] && [ -x "$build/bin/cosmoflow" ] && continue
  echo "SKIPPED: no hep and cosmoflow in $build (cmake --preset guarded-optimised; cmake --build build/guarded-optimised)"
  exit 77
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PETAFLOW_HOST_CUTS=1 OMP_NUM_THREADS=2

# behind_header FILE: where the numbers of a safetensors file begin; the header, whose length the first 8 bytes say, names the run.
behind_header() { echo $((8 + $(od -An -t u8 -N 8 "$1"))); }

# same_bits PROGRAM INPUT OPTION...
same_bits() {
  local program=$1 input=$2 build run=0
  shift 2
  for build in "${builds[@]}"; do
    mkdir "$folder/$program$run"
    cd "$folder/$program$run"
    "$build/bin/$program" generate "$inputs/$input.toml" "$@" >log
    "$build/bin/$program" train "$inputs/$input.toml" "$@" train.steps=20 kernels.conv=kokkos kernels.gemm=kokkos \
      kernels.tiles=false >log
    "$build/bin/$program" export "runs/$input" --output weights.safetensors >log
    run=$((run + 1))
  done
  local a=$folder/${program}0/weights.safetensors b=$folder/${program}1/weights.safetensors
  if cmp --ignore-initial="$(behind_header "$a"):$(behind_header "$b")" "$a" "$b"; then
    echo "$program: 20 steps, the same bits"
  else
    echo "$program: the weights differ between ${builds[0]} and ${builds[1]}"
    return 1
  fi
}

same_bits hep hep_quick generate.train=128 generate.validation=32 generate.test=32
same_bits cosmoflow cosmoflow_quick data.edge=16 generate.particles=32 generate.train=64 generate.validation=1 generate.test=1
