#!/usr/bin/env bash
# Shows on a machine with a GPU what a build for it does there: correctness, speed beside PyTorch, and which kernels take the time;
# one Markdown report.  A part that fails is said and the next one begins.
#   perf/first_hour_on_a_gpu.sh bundle FILE       where it was built: programs, tests and libraries into FILE (.tar.xz, below 64 MiB), for
#                                                 machines with nothing but a driver, cuDNN and NCCL; unpack it there and go on inside
#   perf/first_hour_on_a_gpu.sh correctness       tests, the memory checker, graphs against single launches, ranks by NCCL: 10 minutes
#   perf/first_hour_on_a_gpu.sh speed             training steps beside PyTorch's: 10 minutes
#   perf/first_hour_on_a_gpu.sh profiles          the longest kernels of a step, by ncu: 2 minutes
# Environment: PRESET (h200), REPORT (first_hour/report.md), PYTHON (python3; with PyTorch for CUDA), ROUNDS (3).
set -uo pipefail
cd "$(dirname "$0")/.."
bin=build/${PRESET:-h200}/bin
report=${REPORT:-first_hour/report.md}
logs=first_hour/logs
python=${PYTHON:-python3}
rounds=${ROUNDS:-3}

die() { echo "first_hour_on_a_gpu.sh: $*" >&2; exit 1; }
part=${1:-}
case $part in
  bundle | correctness | speed | profiles) ;;
  *) sed -n '2,11s/^# \{0,1\}//p' "$0"; [ "$part" = --help ] && exit 0; exit 1 ;;
esac
[ -x $bin/hep ] || die "$bin/hep is not built; cmake --preset ${PRESET:-h200} && cmake --build build/${PRESET:-h200}"

tests=(test_ops_conv test_ops_epilogue test_ops_batch_norm test_ops_gemm test_ops_pixel_softmax test_ops_pointwise test_layers
       test_networks test_graph test_train_step test_optimizer test_trainer)
programs=(hep cosmoflow climate_segmentation climate_detection)

# ---- The bundle -----------------------------------------------------------------------------------------------------------------
# The loader's own libraries and those of NVIDIA are the other machine's.
theirs='/(libc|libm|libdl|libpthread|librt|libresolv|libstdc\+\+|libgcc_s|libcud[a-z_]*|libnccl|libcublas[A-Za-z]*|libnvrtc[a-z-]*)\.so'
bundle() {
  local file=$1 stage plugins
  stage=$(mktemp -d) || return 1
  mkdir -p "$stage/$bin/tests" "$stage/lib" "$stage/ompi/lib" "$stage/tests" "$stage/perf"
  cp "${programs[@]/#/$bin/}" "$stage/$bin/"
  cp "${tests[@]/#/$bin/tests/}" "$stage/$bin/tests/"
  strip "$stage/$bin"/* "$stage/$bin/tests"/* 2>/dev/null
  cp -r inputs "$stage/"; cp -r tests/golden "$stage/tests/"; cp -r perf/peers perf/shapes perf/first_hour_on_a_gpu.sh "$stage/perf/"
  # Open MPI starts a single rank with a few plugins of its own.
  plugins=$(ompi_info --parsable --path pkglibdir | sed 's/.*://')
  cp "$plugins"/mca_{ess_singleton,ess_env,ess_hnp,pml_ob1,btl_self,btl_vader,schizo_ompi,state_app,state_hnp,pmix_isolated}*.so \
    "$stage/ompi/lib/" 2>/dev/null
  ldd "$stage/$bin"/* "$stage/$bin/tests"/* "$stage"/ompi/lib/*.so 2>/dev/null | awk '/=> \//{ print $3 }' | sort -u |
    grep -vE "$theirs" | xargs -I{} cp -L {} "$stage/lib/"
  tar -C "$stage" -cf - . | xz -T0 -6 >"$file" || return 1
  rm -rf "$stage"
  du -h "$file"
}
if [ "$part" = bundle ]; then
  [ $# = 2 ] || die "bundle takes the name of a file"
  bundle "$2" || die "$2 cannot be written"
  exit 0
fi
if [ -d lib ]; then  # inside a bundle
  nvidia=$("$python" -c 'import glob, sysconfig; print(":".join(glob.glob(sysconfig.get_path("purelib") + "/nvidia/*/lib")))' 2>/dev/null)
  export LD_LIBRARY_PATH=$PWD/lib:$nvidia:${LD_LIBRARY_PATH:-} OMPI_MCA_mca_base_component_path=$PWD/ompi/lib
  export OMPI_MCA_ess_singleton_isolated=1 OMPI_MCA_mca_base_component_show_load_errors=0 OMPI_MCA_btl=self,vader OMPI_MCA_pml=ob1
fi

# ---- The report -----------------------------------------------------------------------------------------------------------------
mkdir -p "$logs" "$(dirname "$report")"
say() { printf '%s\n' "$*" | tee -a "$report"; }

# run NAME LIMIT COMMAND...: a row of the table: how it ended, its time, and the last line that it printed.
run() {
  local name=$1 limit=$2 begin=$SECONDS code
  shift 2
  timeout -s KILL "$limit" "$@" >"$logs/$name.log" 2>&1 </dev/null
  code=$?
  case $code in
    0) code=good ;;
    137) code="**stopped after $limit s**" ;;
    *) code="**failed ($code)**" ;;
  esac
  say "| $name | $code | $((SECONDS - begin)) | $(tail -n 1 "$logs/$name.log" | tr '|' '/' | cut -c1-120) |"
}
if [ ! -s "$report" ]; then
  say "# petaflow on a GPU"
  say ""
  say "$($bin/hep --version)"
  say ""
  say "$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null || echo 'no nvidia-smi'), $(nproc) cores"
fi
say ""
say "## ${part^}"
say ""

# keep NAME: the weights of the run that has just ended, as numbers alone (what stands before them in the file names the run).
keep() {
  $bin/hep export runs/hep_quick/checkpoint.h5 --output $logs/$1.safetensors --overwrite >$logs/$1.export.log 2>&1 &&
    "$python" -c 'import sys; data = open(sys.argv[1], "rb").read(); open(sys.argv[2], "wb").write(data[8 + int.from_bytes(data[:8], "little"):])' \
      $logs/$1.safetensors $logs/$1.weights
}

case $part in
  correctness)
    say "| what | ended | s | last line |"
    say "|---|---|---|---|"
    for test in "${tests[@]}"; do run "$test" 100 "$bin/tests/$test" --gtest_brief=1; done
    small=(bench inputs/hep.toml train.batch=2 precision=bf16 --steps 2)
    run memory_checker 120 compute-sanitizer --error-exitcode 9 $bin/hep "${small[@]}"
    run generate 60 $bin/hep generate inputs/hep_quick.toml
    steps=(train inputs/hep_quick.toml --overwrite train.steps=40)
    run graphs 60 $bin/hep "${steps[@]}"; keep graphs
    run repeated 60 $bin/hep "${steps[@]}"; keep repeated
    run launches 60 $bin/hep "${steps[@]}" kernels.replay=false; keep launches
    run the_same_bits_again 5 cmp $logs/graphs.weights $logs/repeated.weights
    run the_same_bits_by_launches 5 cmp $logs/graphs.weights $logs/launches.weights
    run whole_training 120 $bin/hep train inputs/hep_quick.toml --overwrite
    run whole_training_bf16 120 $bin/hep train inputs/hep_quick.toml --overwrite precision=bf16
    if [ "$(nvidia-smi -L 2>/dev/null | wc -l)" -gt 1 ]; then
      run by_nccl 120 mpirun -n 2 $bin/hep "${steps[@]}" comm.reduction=nccl
    else
      say "| by_nccl | not run: one GPU | | |"
    fi
    ;;
  speed)
    # NETWORK PROGRAM BATCH OPTIONS...; of DeepCAM maps of 384 x 576 pixels, as PyTorch's twin has them.
    networks=("hep hep 128" "hep hep 512" "cosmoflow_mlperf cosmoflow 16"
              "climate_deepcam climate_segmentation 8 data.height=384 data.width=576 train.recompute=1")
    say "Training steps in bf16, samples/s; medians of $rounds rounds, one program after the other; PyTorch: channels_last or plain, autocast,"
    say "cudnn.benchmark, CUDA graphs, fused optimizers, data in the GPU's memory; petaflow's data come from the host, its plans are timed"
    say "before (kernels.conv=tune; where that takes more than two minutes the first plans, \"auto\")."
    export XDG_CACHE_HOME=$PWD/$logs  # where the choices stay
    say ""
    say "| network, batch | petaflow | PyTorch, channels_last | PyTorch, plain | petaflow / PyTorch's best |"
    say "|---|---|---|---|---|"
    median() { printf '%s\n' "$@" | sort -g | awk '{ v[NR] = $1 } END { print NR == 0 ? "-" : v[int((NR + 1) / 2)] }'; }
    for row in "${networks[@]}"; do
      read -r network program batch options <<<"$row"
      ours=() last=() plain=()
      options="train.batch=$batch data.threads=8 precision=bf16 $options"
      conv=kernels.conv=tune
      # shellcheck disable=SC2086  # several options
      timeout -s KILL 120 $bin/$program bench inputs/$network.toml $options $conv --steps 2 >"$logs/$network-$batch-plans.log" 2>&1 ||
        conv=kernels.conv=auto
      for ((round = 1; round <= rounds; ++round)); do
        # shellcheck disable=SC2086  # several options
        timeout -s KILL 60 $bin/$program bench inputs/$network.toml $options $conv --steps 20 \
          >"$logs/$network-$batch.log" 2>&1 && ours+=("$(sed -n 's/^\([0-9.]*\) samples.s.*/\1/p' "$logs/$network-$batch.log")")
        for layout in channels_last plain; do
          rate=$(timeout -s KILL 150 "$python" perf/peers/torch_twin.py $network --batch $batch --precision bf16 --gpu graph --steps 20 \
            --layout $layout 2>"$logs/torch-$network-$batch-$layout.log" | sed -n 's/.* \([0-9.]*\) samples.s$/\1/p')
          [ -z "$rate" ] && continue
          if [ $layout = plain ]; then plain+=("$rate"); else last+=("$rate"); fi
        done
      done
      a=$(median "${ours[@]:--}") b=$(median "${last[@]:--}") c=$(median "${plain[@]:--}")
      say "| $network, $batch, ${conv#*=} | $a | $b | $c | $(awk -v a="$a" -v b="$b" -v c="$c" 'BEGIN { m = b > c ? b : c; if (a + 0 > 0 && m + 0 > 0) printf "%.2f", a / m; else print "-" }') |"
    done
    ;;
  profiles)
    metrics=gpu__time_duration.sum,dram__throughput.avg.pct_of_peak_sustained_elapsed
    for row in "hep hep 128" "cosmoflow_mlperf cosmoflow 16"; do
      read -r network program batch <<<"$row"
      say "$network, batch $batch, bf16: kernels of a step and a half, the longest first: us, share of the memory's bandwidth (%), kernel"
      say ""
      timeout -s KILL 100 ncu --clock-control none --metrics $metrics --csv --launch-skip 230 --launch-count 150 $bin/$program bench \
        inputs/$network.toml train.batch=$batch precision=bf16 --steps 2 kernels.replay=false >"$logs/ncu-$network.csv" 2>&1
      "$python" - "$logs/ncu-$network.csv" <<'PYTHON' | tee -a "$report"
import csv
import re
import sys

kernels = {}
for row in csv.DictReader(line for line in open(sys.argv[1]) if line.startswith('"')):
    kernel = kernels.setdefault(row["ID"], {"name": re.sub(r"petaflow::|<unnamed>::|Kokkos::", "", row["Kernel Name"])[:100]})
    kernel[row["Metric Name"].split("_")[0]] = float(row["Metric Value"].replace(",", ""))
for kernel in sorted(kernels.values(), key=lambda k: -k.get("gpu", 0))[:20]:
    print(f"    {kernel.get('gpu', 0) / 1000:9.1f} {kernel.get('dram', 0):5.1f}  {kernel['name']}")
if not kernels:
    print("    ncu gave nothing: see the log")
PYTHON
      say ""
    done
    ;;
esac
say ""
echo "Report: $report; logs: $logs"
