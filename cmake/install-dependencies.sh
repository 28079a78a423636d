#!/usr/bin/env bash
# Installs what petaflow needs on Debian 12/13 and Ubuntu 24.04, in this order:
#   1. distribution packages (as root or with sudo);
#   2. Kokkos and Kokkos Kernels: an installed Kokkos with OpenMP or CUDA wins; then the distribution's own, where it has OpenMP;
#      else both are built from the distribution's source package "trilinos" into build/deps/kokkos;
#   3. oneDNN >= 3.1: an installed one wins; then the distribution's; else the prebuilt one of PyPI in build/deps/onednn.
# A second run checks and ends at once, without network.  Nothing outside the checkout is touched but the packages of step 1.
#
#   cmake/install-dependencies.sh [--no-packages] [--force] [--cuda CAPABILITY]
#     --no-packages   skips step 1: the packages are there in another way (modules)
#     --force         does steps 2 and 3 again
#     --cuda          a Kokkos for GPUs instead of steps 2 and 3, in build/deps/kokkos-cuda-<capability>; 70: V100, 90: H100, H200;
#                     for 90 also cuDNN and NCCL, unless they lie in CUDNN_ROOT, NCCL_ROOT or the CUDA toolkit, and the headers
#                     of cuDNN's frontend, prebuilt ones of PyPI, in build/deps/nvidia.  Takes nvcc from PATH.
# Environment: CMAKE_PREFIX_PATH, Kokkos_ROOT, dnnl_ROOT (where to look first), CXX, PETAFLOW_ARCH (value of -march, default native;
# another one gets a Kokkos of its own, build/deps/kokkos-<arch>), CUDNN_ROOT, NCCL_ROOT, PETAFLOW_ONEDNN=OFF,
# PETAFLOW_KOKKOSKERNELS=OFF, PETAFLOW_CUDNN=OFF, PETAFLOW_NCCL=OFF.
set -euo pipefail
cd "$(dirname "$0")/.."
. cmake/common.sh

packages=1 force=0 cuda=
while [ $# -gt 0 ]; do
  case $1 in
    --no-packages) packages=0 ;;
    --force) force=1 ;;
    --cuda) cuda=${2:-}; shift; [ "$cuda" = 70 ] || [ "$cuda" = 90 ] || die "--cuda takes 70 (V100) or 90 (H100, H200)." ;;
    *) sed -n '2,19s/^# \{0,1\}//p' "$0"; [ "$1" = --help ] && exit 0; exit 1 ;;
  esac
  shift
done

arch=${PETAFLOW_ARCH:-native}
deps=$PWD/build/deps
kokkos=$deps/kokkos
[ "$arch" = native ] || kokkos+=-$arch
if [ -n "$cuda" ]; then
  kokkos=$deps/kokkos-cuda-$cuda
  PETAFLOW_KOKKOSKERNELS=OFF
  command -v nvcc >/dev/null || die "nvcc was not found: load a CUDA module or put its bin folder into PATH."
  nvcc --list-gpu-arch | grep -qx "compute_$cuda" ||
    die "$(nvcc --version | grep release | sed 's/.*release/CUDA/') does not compile for compute capability $cuda; the V100 (70) needs CUDA 12 or older, H100 and H200 (90) CUDA 11.8 or newer."
fi
work=$PWD/build/deps-work   # downloads and build folders; only the two source folders stay there
mkdir -p "$deps" "$work"
exec 8>build/deps.lock
flock -n 8 || { say "Waiting for another installation in this checkout"; flock 8; }

# ---- 1. Distribution packages -----------------------------------------------------------------------------------------------
required=(g++ cmake ninja-build git ca-certificates libopenmpi-dev openmpi-bin libhdf5-dev libgtest-dev libtomlplusplus-dev
          libcli11-dev libboost-context-dev libfmt-dev nlohmann-json3-dev zlib1g-dev libisal-dev libfftw3-dev
          libnetcdf-dev)
[ $packages = 0 ] || install_packages "${required[@]}"

# ---- Is everything done already? ----------------------------------------------------------------------------------------------
cxx=${CXX:-c++}
command -v "$cxx" >/dev/null || die "No C++ compiler: $cxx was not found."
# Machine that the prefix was made for: the processor that -march names, compiler, system, and the wishes above.
meaning=$("$cxx" ${arch:+-march=$arch} -E -v -x c++ /dev/null 2>&1 | grep -o -- ' -m[^ ]*' | sort | sha1sum | cut -c1-12) ||
  die "The compiler $cxx does not know -march=$arch (PETAFLOW_ARCH)."
system=$(. /etc/os-release 2>/dev/null; echo "${ID:-}${VERSION_ID:-}")
kokkos_key="1 $arch $meaning $("$cxx" -dumpfullversion) $system kernels=${PETAFLOW_KOKKOSKERNELS:-AUTO}"
[ -z "$cuda" ] || kokkos_key+=" cuda=$cuda $(nvcc --version | sed -n 's/.*release //p')"
onednn_version=2023.2.0   # of the wheels; oneDNN 3.2.0 inside
cudnn_version=9.19.0.56 cudnn_frontend_version=1.15.0 nccl_version=2.28.9 cuobjdump_version=13.5.37   # of the wheels
key="$kokkos_key onednn=${PETAFLOW_ONEDNN:-AUTO} $onednn_version ${CMAKE_PREFIX_PATH:-} ${Kokkos_ROOT:-} ${dnnl_ROOT:-}"
[ -z "$cuda" ] || key+=" cudnn=${PETAFLOW_CUDNN:-AUTO} $cudnn_version $cudnn_frontend_version ${CUDNN_ROOT:-}" \
  key+=" nccl=${PETAFLOW_NCCL:-AUTO} $nccl_version ${NCCL_ROOT:-} cuobjdump=$cuobjdump_version"
stamp=$deps/installed-for-$arch${cuda:+-cuda-$cuda}
if [ $force = 0 ] && [ "$(cat "$stamp" 2>/dev/null)" = "$key" ]; then
  exit 0
fi
rm -f "$stamp"
if [ "$(cat "$deps/onednn/version" 2>/dev/null)" != "$onednn_version" ]; then rm -rf "$deps/onednn"; fi

# probe PACKAGE [HINT]: prints "kokkos VERSION DEVICES" or "onednn VERSION" where CMake finds a usable one (HINT: a prefix to look in
# too).  Nothing where it finds none, an unusable one, or one whose files are not all there.
probe() {
  rm -rf "$work/probe"
  cmake -S cmake/probe -B "$work/probe" -G Ninja -DCMAKE_CXX_COMPILER="$(command -v "$cxx")" -DPACKAGE="$1" ${2:+-DHINT="$2"} \
    >"$logs/probe-$1.log" 2>&1 || return 0
  sed -n 's/^-- found: //p' "$logs/probe-$1.log" |
    grep -E '^onednn |^kokkos (3\.([4-9]|[1-9][0-9])|[4-9]|[1-9][0-9]).* (OPENMP|CUDA)( |$)' || true
}

# ---- 2. Kokkos and Kokkos Kernels -------------------------------------------------------------------------------------------
# build_kokkos SOURCES: both libraries from SOURCES/{kokkos,kokkos-kernels} into a staging prefix, then into place.
build_kokkos() {
  local staging=$work/kokkos-prefix jobs compiler options=(-DKokkos_ENABLE_SERIAL=ON -DKokkos_ENABLE_OPENMP=ON)
  jobs=$(nproc)
  compiler=$(command -v "$cxx")
  if [ -n "$cuda" ]; then
    compiler=$1/kokkos/bin/nvcc_wrapper
    options+=(-DKokkos_ENABLE_CUDA=ON -DKokkos_ENABLE_CUDA_LAMBDA=ON -DKokkos_ENABLE_CUDA_CONSTEXPR=ON "-DKokkos_ARCH_$kokkos_gpu=ON")
  fi
  local common=(-G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$staging" -DCMAKE_INSTALL_LIBDIR=lib
                -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_CXX_STANDARD=20 -DCMAKE_POSITION_INDEPENDENT_CODE=ON
                -DCMAKE_CXX_FLAGS="${arch:+-march=$arch} -w -include cstdint")   # GCC >= 13: its headers no longer bring it
  rm -rf "$staging" "$work/kokkos-build" "$work/kernels-build"
  kernels() {
    # Without default ETI nothing is instantiated ahead: a minute saved, and petaflow instantiates the one product that it uses.
    [ "${PETAFLOW_KOKKOSKERNELS:-AUTO}" = OFF ] || {
      cmake -S "$1/kokkos-kernels" -B "$work/kernels-build" "${common[@]}" -DCMAKE_PREFIX_PATH="$staging" \
            -DKokkosKernels_ADD_DEFAULT_ETI=OFF -DKokkosKernels_ENABLE_TESTS=OFF &&
        cmake --build "$work/kernels-build" -j "$jobs" &&
        cmake --install "$work/kernels-build"
    }
  }
  {
    cmake -S "$1/kokkos" -B "$work/kokkos-build" "${common[@]}" "${options[@]}" \
          -DKokkos_ENABLE_TESTS=OFF -DKokkos_ENABLE_DEPRECATION_WARNINGS=OFF &&
      cmake --build "$work/kokkos-build" -j "$jobs" &&
      cmake --install "$work/kokkos-build" &&
      kernels "$1"
  } >"$logs/kokkos.log" 2>&1 || return 1
  printf '%s\n' "$kokkos_key" >"$staging/built-for"
  rm -rf "$kokkos"
  mv "$staging" "$kokkos"
  rm -rf "$work/kokkos-build" "$work/kernels-build"
}

# get_kokkos_sources: packages/kokkos and packages/kokkos-kernels of the distribution's source package, in $work/trilinos.
get_kokkos_sources() {
  [ ! -e "$work/trilinos/.complete" ] || return 0
  command -v apt-get >/dev/null || die "No Kokkos with OpenMP was found, and this machine has no apt-get to fetch its sources with." \
    "Install Kokkos >= 3.4 with OpenMP and set CMAKE_PREFIX_PATH (docs/clusters.md)."
  local state=$work/apt
  mkdir -p "$state/lists/partial" "$state/cache/archives/partial" "$state/sources"
  rm -f "$state"/sources/*
  write_source_entries "$state/sources"
  local options=(-o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$state/sources" -o Dir::State::Lists="$state/lists"
                 -o Dir::Cache="$state/cache" -o APT::Sandbox::User="$(id -un)" -o Acquire::Retries=3 -o Acquire::Languages=none)
  say "Downloading the sources of Kokkos (Debian source package trilinos, 170 MB)"
  apt-get "${options[@]}" update >"$logs/kokkos-sources.log" 2>&1 ||
    die_with_log "The list of source packages could not be downloaded." "$logs/kokkos-sources.log"
  # apt checks the checksums and takes up an interrupted download where it ended.  --tar-only: no packaging, no tools to unpack it.
  (cd "$work" && apt-get "${options[@]}" -q source --download-only --tar-only trilinos) >>"$logs/kokkos-sources.log" 2>&1 ||
    die_with_log "The source package trilinos could not be downloaded." "$logs/kokkos-sources.log"
  local tarball
  tarball=$(find "$work" -maxdepth 1 -name "trilinos_*.orig.tar.*" | tail -n 1)
  rm -rf "$work/trilinos"
  mkdir "$work/trilinos"
  tar -xf "$tarball" -C "$work/trilinos" --strip-components=2 --wildcards '*/packages/kokkos/*' '*/packages/kokkos-kernels/*'
  touch "$work/trilinos/.complete"
  rm -rf "$tarball" "$work"/trilinos_*.dsc "$state"
}

# write_source_entries FOLDER: the machine's own package sources of this release, turned from binary into source entries.
write_source_entries() {
  local suites file
  suites=$(. /etc/os-release; echo "${VERSION_CODENAME:-sid}")
  suites="$suites|$suites-updates|$suites-security|sid|unstable|testing"
  for file in /etc/apt/sources.list.d/*.sources; do   # deb822: stanzas of "Key: value" lines
    [ -e "$file" ] || continue
    awk -v RS= -v ORS='\n\n' -v suites="$suites" '
      $0 ~ "(^|\n)Types:[^\n]*deb" && $0 ~ "(^|\n)Suites:([^\n]* )?(" suites ")( |\n|$)" && $0 !~ "(^|\n)Enabled: *no" {
        gsub(/(^|\n)Types:[^\n]*/, "\nTypes: deb-src"); sub(/^\n/, ""); print }' "$file" >"$1/$(basename "$file")"
  done
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do   # one line each
    [ -e "$file" ] || continue
    sed -nE "s/^deb((-src)? +(\[[^]]*\] +)?[^ ]+ +($suites)( .*)?)$/deb-src\1/p" "$file" | sed -E 's/^deb-src-src/deb-src/' \
      >"$1/$(basename "$file")"
  done
  find "$1" -type f -empty -delete
  [ -n "$(ls -A "$1")" ] || die "No package source of this release was found in /etc/apt to fetch the sources of Kokkos from."
}

# edit FILE EXPRESSION: a change by sed that must change something.
edit() {
  sed -i.before -E "$2" "$1"
  ! cmp -s "$1" "$1.before" || die "$1 is not the one of Kokkos 3.4.1: the edit for CUDA does not apply." "$2"
  rm "$1.before"
}

# sources_for_cuda: a copy of the sources in which Kokkos 3.4.1 meets CUDA 13 and C++20.
sources_for_cuda() {
  local sources=$work/trilinos-cuda kokkos
  rm -rf "$sources"
  mkdir "$sources"
  cp -r "$work/trilinos/kokkos" "$sources"
  kokkos=$sources/kokkos
  # The conversions of half have become explicit: as for CUDA before 11.1.
  edit "$kokkos/core/src/Cuda/Kokkos_Cuda_Half.hpp" 's/#if \(CUDA_VERSION < 11100\)/#if 1/'
  # cudaMemPrefetchAsync takes a location, and flags.
  edit "$kokkos/core/src/Cuda/Kokkos_CudaSpace.cpp" \
    's/(cudaMemPrefetchAsync\(ptr, bytes, )space\.cuda_device\(\),/\1cudaMemLocation{cudaMemLocationTypeDevice, space.cuda_device()}, 0,/'
  # The wrapper's own default architecture is unknown to CUDA 13; C++20 goes to nvcc and to the host compiler, as C++17 does.
  edit "$kokkos/bin/nvcc_wrapper" "s/^default_arch=\"sm_35\"/default_arch=\"sm_$cuda\"/"
  edit "$kokkos/bin/nvcc_wrapper" 's/^  --std=c\+\+17\|-std=c\+\+17\)/  --std=c++20|-std=c++20|--std=c++17|-std=c++17)/'
  edit "$kokkos/cmake/kokkos_test_cxx_std.cmake" 's/"(-std=c\+\+14;-std=c\+\+17)"/"\1;-std=c++20"/'
  # It knows no Hopper: what it knows of Ampere holds.
  [ "$cuda" = 70 ] || edit "$kokkos/cmake/kokkos_arch.cmake" "s/(CHECK_CUDA_ARCH\(AMPERE80 +)sm_80/\1sm_$cuda/"
}

# ---- cuDNN and NCCL -------------------------------------------------------------------------------------------------------------
# unpack_wheel FILE ROOT FOLDER: its files below ROOT/{bin,include,lib} into FOLDER.  A wheel is a zip file.
unpack_wheel() {
  python3 - "$@" <<'PYTHON'
import os, sys, zipfile
file, root, folder = sys.argv[1:]
with zipfile.ZipFile(file) as wheel:
    for entry in wheel.namelist():
        path = os.path.relpath(entry, root)
        if path.split("/")[0] in ("bin", "include", "lib") and not entry.endswith("/"):
            target = os.path.join(folder, path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as out:
                out.write(wheel.read(entry))
            if path.startswith("bin/"):
                os.chmod(target, 0o755)
PYTHON
}

# get_nvidia_libraries: cuDNN, NCCL and cuobjdump, which a test runs, into build/deps/nvidia, each only where neither its _ROOT nor
# the toolkit has it.  The frontend of cuDNN is headers: those of the wheel for any Python do.
get_nvidia_libraries() {
  local staging=$work/nvidia-prefix wheels=$work/wheels entry name version root sum file toolkit release frontend wanted=() for_cuda_13=()
  toolkit=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")
  release=$(nvcc --version | sed -n 's/.*release \([0-9]*\).*/\1/p')
  # cuDNN 9.15, the first that will do, is not for the V100.
  if [ "$cuda" != 70 ] && [ "${PETAFLOW_CUDNN:-AUTO}" != OFF ]; then
    frontend="nvidia-cudnn-frontend $cudnn_frontend_version . 21ac16e4add264839a8db570d5378bb6583bf9539649d80bc8802ded00098a20"
    if [ -e "${CUDNN_ROOT:-/nowhere}/include/cudnn_version.h" ] || [ -e "$toolkit/include/cudnn_version.h" ]; then
      wanted+=("$frontend")
    else
      for_cuda_13+=("$frontend" "nvidia-cudnn-cu13 $cudnn_version nvidia/cudnn d20e1734305e9d68889a96e3f35094d733ff1f83932ebe462753973e53a572bf")
    fi
  fi
  [ "${PETAFLOW_NCCL:-AUTO}" = OFF ] || [ -e "${NCCL_ROOT:-/nowhere}/include/nccl.h" ] || [ -e "$toolkit/include/nccl.h" ] ||
    for_cuda_13+=("nvidia-nccl-cu13 $nccl_version nvidia/nccl e4553a30f34195f3fa1da02a6da3d6337d28f2003943aa0a3d247bbc25fefc42")
  [ -e "$toolkit/bin/cuobjdump" ] ||
    for_cuda_13+=("nvidia-cuda-cuobjdump $cuobjdump_version nvidia/cu13 38780fee50863252a0b8926357faa91615ca1c8346490563f33a06100cd73f58")
  if [ "$release" = 13 ]; then
    wanted+=("${for_cuda_13[@]}")
  else
    for entry in "${for_cuda_13[@]}"; do say "${entry%% *} is not downloaded: it is for CUDA 13, this is CUDA $release"; done
  fi
  [ ${#wanted[@]} -gt 0 ] || return 0
  [ "$(uname -m)" = x86_64 ] || { say "cuDNN and NCCL are not downloaded: the prebuilt ones are for x86_64"; return 0; }
  python3 -m pip --version >/dev/null 2>&1 || { [ $packages = 1 ] && install_packages python3 python3-pip; }
  rm -rf "$staging" "$wheels"
  mkdir -p "$staging" "$wheels"
  for entry in "${wanted[@]}"; do
    read -r name version root sum <<<"$entry"
    say "Downloading $name $version (PyPI)"
    python3 -m pip download --no-deps --only-binary=:all: --no-cache-dir --retries 3 --python-version 3.11 --implementation cp --abi cp311 \
      --abi none --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 --platform manylinux_2_18_x86_64 \
      --platform manylinux_2_17_x86_64 \
      -d "$wheels" "$name==$version" >"$logs/nvidia.log" 2>&1 ||
      die_with_log "$name could not be downloaded. Without it: PETAFLOW_CUDNN=OFF, PETAFLOW_NCCL=OFF." "$logs/nvidia.log"
    file=$(ls "$wheels/${name//-/_}-$version"-*.whl)
    sha256sum -c --quiet <<<"$sum  $file" || die "$file is not the file that was expected: its checksum differs."
    unpack_wheel "$file" "$root" "$staging"
    rm "$file"
  done
  local library
  for library in cudnn.so.9 nccl.so.2; do
    if [ -e "$staging/lib/lib$library" ]; then ln -sf "lib$library" "$staging/lib/lib${library%.*}"; fi
  done
  rm -rf "$deps/nvidia" "$wheels"
  mv "$staging" "$deps/nvidia"
}

if [ -n "$cuda" ]; then
  get_nvidia_libraries
  found=$(probe kokkos | grep CUDA || true)
  if [ -z "$found" ]; then
    get_kokkos_sources
    sources_for_cuda
    [ "$cuda" = 70 ] && kokkos_gpu=VOLTA70 || kokkos_gpu=AMPERE80
    say "Building Kokkos with CUDA for compute capability $cuda (log: build/log/kokkos.log)"
    build_kokkos "$work/trilinos-cuda" || die_with_log "Kokkos did not build." "$logs/kokkos.log"
    cp "$work/trilinos-cuda/kokkos/bin/nvcc_wrapper" "$kokkos/bin/"
  fi
  printf '%s\n' "$key" >"$stamp"
  say "Ready: Kokkos with CUDA in $kokkos"
  exit 0
fi

found=$(probe kokkos)
if [ -z "$found" ] && [ $packages = 1 ] && package_exists libkokkos-dev; then
  install_packages libkokkos-dev
  found=$(probe kokkos)
fi
if [ -n "$found" ]; then
  rm -rf "$kokkos"
else
  if [ $force = 1 ] || [ "$(cat "$kokkos/built-for" 2>/dev/null)" != "$kokkos_key" ]; then
    get_kokkos_sources
    say "Building Kokkos and Kokkos Kernels for -march=$arch (log: build/log/kokkos.log)"
    build_kokkos "$work/trilinos" || die_with_log "Kokkos did not build." "$logs/kokkos.log"
  fi
  found=$(probe kokkos "$kokkos")
  [ -n "$found" ] || die_with_log "The Kokkos that was just built is not found by CMake." "$logs/probe-kokkos.log"
fi
ready=$found

# ---- 3. oneDNN -------------------------------------------------------------------------------------------------------------
# The prebuilt oneDNN 3.2 for g++ and its OpenMP runtime, the one that Kokkos uses too: one pool of threads, not two.
onednn_wheels=(
  "onednn-cpu-gomp         2f22a54d6a890ed14bfa185d42a4be65d8b5b1df85dc1f0f3a9abe31620416fb"
  "onednn-devel-cpu-gomp   9763c69e8c907e119056bd52ad918ca84ac9ba939d130a99dfa95ccca3e5e284"
)
get_onednn() {
  local staging=$work/onednn-prefix wheels=$work/wheels entry name sum file
  [ "$(uname -m)" = x86_64 ] || die "No oneDNN >= 3.1 was found, and there is no prebuilt one for $(uname -m)." \
    "Install it and set CMAKE_PREFIX_PATH, or do without: PETAFLOW_ONEDNN=OFF."
  python3 -m pip --version >/dev/null 2>&1 || { [ $packages = 1 ] && install_packages python3 python3-pip; }
  rm -rf "$staging" "$wheels"
  mkdir -p "$staging" "$wheels"
  say "Downloading oneDNN 3.2 (PyPI, 39 MB)"
  for entry in "${onednn_wheels[@]}"; do
    read -r name sum <<<"$entry"
    python3 -m pip download --no-deps --only-binary=:all: --no-cache-dir --retries 3 -d "$wheels" "$name==$onednn_version" \
      >"$logs/onednn.log" 2>&1 || die_with_log "oneDNN could not be downloaded." "$logs/onednn.log"
    file=$(ls "$wheels/${name//-/_}-$onednn_version"-*.whl)
    sha256sum -c --quiet <<<"$sum  $file" || die "$file is not the file that was expected: its checksum differs."
    # A wheel is a zip file; what pip would put into the prefix lies in <name>.data/data.
    python3 - "$file" "$staging" <<'PYTHON'
import os, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    for entry in wheel.namelist():
        _, marker, path = entry.partition(".data/data/")
        if marker and not entry.endswith("/"):
            target = os.path.join(sys.argv[2], path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as out:
                out.write(wheel.read(entry))
PYTHON
  done
  # A zip file knows no links: three copies of 55 MB become one.
  (cd "$staging/lib" && ln -sf libdnnl.so.3.2 libdnnl.so.3 && ln -sf libdnnl.so.3 libdnnl.so)
  printf '%s\n' "$onednn_version" >"$staging/version"
  rm -rf "$deps/onednn" "$wheels"
  mv "$staging" "$deps/onednn"
}

if [ "${PETAFLOW_ONEDNN:-AUTO}" != OFF ]; then
  found=$(probe onednn)
  if [ -z "$found" ] && [ $packages = 1 ] && package_exists libdnnl-dev 3.1; then
    install_packages libdnnl-dev
    found=$(probe onednn)
  fi
  if [ -n "$found" ]; then
    rm -rf "$deps/onednn"
  else
    if [ $force = 1 ] || [ ! -d "$deps/onednn" ]; then get_onednn; fi
    found=$(probe onednn "$deps/onednn")
    [ -n "$found" ] || die_with_log "The oneDNN that was just unpacked is not found by CMake." "$logs/probe-onednn.log"
  fi
  ready+=", $found"
fi

rm -rf "$work/probe"
printf '%s\n' "$key" >"$stamp"
say "Ready: $ready"
