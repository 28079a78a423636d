#!/usr/bin/env bash
# Times training steps of whole networks in petaflow and in PyTorch in turn, several rounds, and prints a table: samples/s,
# how many times as fast as PyTorch petaflow is, and peak resident memory; medians, with their ranges.  PyTorch runs as a
# user starts with it (default: plain layout, untouched allocator) and best-tuned: an allocator that keeps its memory, in
# both layouts, of which the faster one of each round counts.  Needs a quiet machine.
#   perf/peers/compare.sh [--rounds N] [--precision f32|bf16] [--python PYTHON] [NETWORK...]
#     --rounds      5 by default
#     --precision   of both sides: f32 by default; bf16 in PyTorch is autocast
#     --python      a Python with PyTorch; by default setup.sh makes one in build/peers
#     NETWORK       hep, cosmoflow, cosmoflow_mlperf; by default all; those for weather, on maps of 384 x 576 and 768 x 768 pixels:
#                   climate_deeplab, climate_tiramisu, climate_deepcam, climate_detection_sc17; or blocks of layers: norm,
#                   residual, deconv3, deconv5
# Threads: OMP_NUM_THREADS, or all cores.
set -euo pipefail
cd "$(dirname "$0")/../.."
declare -A batches=([hep]=8 [cosmoflow]=2 [cosmoflow_mlperf]=1 [norm]=2 [residual]=2 [deconv3]=2 [deconv5]=2
  [climate_deeplab]=1 [climate_tiramisu]=1 [climate_deepcam]=2 [climate_detection_sc17]=1)
# Without lag, as the twins, which have one batch, and without DeepLabv3+'s recomputation, which full size needs; maps as
# large as rounds of a few minutes allow.
map='data.height=384 data.width=576 data.prefetch=1'
declare -A options=([climate_deeplab]="$map update.lag=0 train.recompute=1" [climate_tiramisu]="$map update.lag=0"
  [climate_deepcam]="$map" [climate_detection_sc17]='data.height=768 data.width=768 data.prefetch=1')
known=(hep cosmoflow cosmoflow_mlperf)  # by default
weather=(climate_deeplab climate_tiramisu climate_deepcam climate_detection_sc17)
blocks=(norm residual deconv3 deconv5)  # of perf/blocks.cpp
rounds=5 precision=f32 python='' networks=()
threads=${OMP_NUM_THREADS:-$(nproc)}

die() { echo "compare.sh: $*" >&2; exit 1; }
while [ $# -gt 0 ]; do
  case $1 in
    --help) sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --rounds | --precision | --python) [ $# -gt 1 ] || die "$1 needs a value"; declare "${1#--}=$2"; shift ;;
    -*) die "option $1 is unknown; see --help" ;;
    *) [ -n "${batches[$1]:-}" ] || die "network $1 is unknown; there are ${known[*]} ${weather[*]} ${blocks[*]}"; networks+=("$1") ;;
  esac
  shift
done
[ ${#networks[@]} -gt 0 ] || networks=("${known[@]}")
[[ $rounds =~ ^[1-9][0-9]*$ ]] || die "--rounds must be a number above 0, found $rounds"
[[ $precision =~ ^(f32|bf16)$ ]] || die "--precision must be f32 or bf16, found $precision"
program_of() {
  case $1 in
    hep | cosmoflow*) echo "build/host/bin/${1%_*}" ;;
    climate_detection*) echo build/host/bin/climate_detection ;;
    climate_*) echo build/host/bin/climate_segmentation ;;
    *) echo build/host/bin/blocks ;;
  esac
}
for network in "${networks[@]}"; do
  program=$(program_of "$network")
  [ -x "$program" ] || die "$program is not built; cmake --preset host && cmake --build build/host"
done
if [ -z "$python" ]; then
  perf/peers/setup.sh || die "without PyTorch there is no comparison; --python names a Python that has it"
  python=build/peers/bin/python
fi
torch=$("$python" -c 'import torch; print(torch.__version__)') || die "$python cannot import torch"

untuned=(env -u MALLOC_MMAP_THRESHOLD_ -u MALLOC_TRIM_THRESHOLD_ -u MALLOC_TOP_PAD_)
# The allocator keeps what it has: PyTorch loses up to half of its step to page faults otherwise.
tuned=(env MALLOC_MMAP_THRESHOLD_=17179869184 MALLOC_TRIM_THRESHOLD_=17179869184 MALLOC_TOP_PAD_=268435456)

steps_of() { case $1 in climate_*) echo 3 ;; *) echo 8 ;; esac; }  # theirs take up to nine seconds each

# Both print: samples/s, MiB of peak resident memory.
ours() {  # NETWORK
  local json program arguments own
  program=$(program_of "$1")
  read -ra own <<<"${options[$1]:-}"
  arguments=(bench "inputs/$1.toml" "train.batch=${batches[$1]}" "precision=$precision" "${own[@]}")
  if [ "$program" = build/host/bin/blocks ]; then arguments=("$1" --precision "$precision"); fi
  json=$("${untuned[@]}" OMP_NUM_THREADS="$threads" "$program" "${arguments[@]}" --steps "$(steps_of "$1")" --json) || return 1
  "$python" -c 'import json, sys; r = json.load(sys.stdin); print("%.5f %.0f" % (r["samples_per_s"], r["peak_resident_bytes"] / 2**20))' \
    <<<"$json"
}
theirs() {  # NETWORK LAYOUT ENVIRONMENT...
  "${@:3}" "$python" perf/peers/torch_twin.py "$1" --batch "${batches[$1]}" --threads "$threads" --steps "$(steps_of "$1")" --layout "$2" \
    --precision "$precision" | sed -En 's/.* ([0-9]+) MiB resident.* ([0-9.]+) samples\/s$/\2 \1/p'
}
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.3f", a / b }'; }
median() {  # DIGITS NUMBER...: median (range)
  printf '%s\n' "${@:2}" | sort -g |
    awk -v f="%.$1f" '{ v[NR] = $1 } END { printf f " (" f " - " f ")", (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2, v[1], v[NR] }'
}

# column NETWORK NAME VALUE: appends; the values of a column stand in one text, separated by blanks.
declare -A table=()
column() { table[$1,$2]+=" $3"; }

processor=$(lscpu | sed -n 's/^Model name: *//p')
echo "$processor, $threads threads, $precision, PyTorch $torch"
# A minute for the four programs of a network is what the rates in perf/README.md come to.
echo "$rounds rounds of ${networks[*]}: $((4 * rounds * ${#networks[@]})) programs one after the other," \
  "about $((rounds * ${#networks[@]})) min on two cores"
SECONDS=0
for ((round = 1; round <= rounds; ++round)); do
  ratios=''
  for network in "${networks[@]}"; do
    pair=$(ours "$network")
    read -r rate memory <<<"$pair"
    pair=$(theirs "$network" plain "${untuned[@]}")
    read -r default_rate default_memory <<<"$pair"
    pair=$(theirs "$network" channels_last "${tuned[@]}")
    read -r last_rate last_memory <<<"$pair"
    pair=$(theirs "$network" plain "${tuned[@]}")
    read -r plain_rate plain_memory <<<"$pair"
    best_rate=$last_rate best_memory=$last_memory layout=channels_last
    if awk -v a="$plain_rate" -v b="$last_rate" 'BEGIN { exit !(a > b) }'; then
      best_rate=$plain_rate best_memory=$plain_memory layout=plain
    fi
    column "$network" rate "$rate"; column "$network" memory "$memory"
    column "$network" default_rate "$default_rate"; column "$network" default_memory "$default_memory"
    column "$network" best_rate "$best_rate"; column "$network" best_memory "$best_memory"
    column "$network" layout $layout
    column "$network" to_default "$(ratio "$rate" "$default_rate")"; column "$network" to_best "$(ratio "$rate" "$best_rate")"
    ratios+=" $network $(ratio "$rate" "$best_rate") ($(ratio "$rate" "$default_rate")),"
  done
  left=$((SECONDS * (rounds - round) / round / 60 + 1))
  ((round < rounds)) && left="about $left min left" || left="done"
  echo "round $round of $rounds, times as fast as PyTorch best-tuned (default):$ratios $left"
done

cell() {  # NETWORK NAME DIGITS
  local values
  read -ra values <<<"${table[$1,$2]}"
  median "$3" "${values[@]}"
}
echo
echo "$processor, $threads threads, $precision, PyTorch $torch, $rounds rounds: median (range)"
echo
echo "| network, batch | petaflow, samples/s | PyTorch default | PyTorch best-tuned | ratio to default | ratio to best-tuned | MiB resident: petaflow | PyTorch default | PyTorch best-tuned |"
echo "|---|---|---|---|---|---|---|---|---|"
for network in "${networks[@]}"; do
  layouts=$(tr ' ' '\n' <<<"${table[$network,layout]}" | sed '/^$/d' | sort -u | paste -sd/)
  echo "| $network, ${batches[$network]} | $(cell "$network" rate 3) | $(cell "$network" default_rate 3) | $(cell "$network" best_rate 3), $layouts |" \
    "$(cell "$network" to_default 2) | $(cell "$network" to_best 2) |" \
    "$(cell "$network" memory 0) | $(cell "$network" default_memory 0) | $(cell "$network" best_memory 0) |"
done
