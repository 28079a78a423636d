# shellcheck shell=bash
# Functions of the scripts; source it from the root of the checkout, in bash.

mkdir -p build/log
logs=$PWD/build/log
export PETAFLOW_STARTED=${PETAFLOW_STARTED:-$(date +%s)}   # of the outermost script

say() {
  local s=$(($(date +%s) - PETAFLOW_STARTED))
  printf '==> [%2d:%02d] %s\n' $((s / 60)) $((s % 60)) "$*"
}
die() { printf '\nerror: %s\n' "$1" >&2; shift; [ $# = 0 ] || printf '%s\n' "$@" >&2; exit 1; }
# die_with_log MESSAGE LOG: the last lines of the log, then the message.
die_with_log() { printf '\n... %s:\n' "$2" >&2; tail -n 30 "$2" >&2; die "$1" "The whole log: $2"; }

# run_logged NAME COMMAND...: output to build/log/NAME.log, shown only where the command fails.
run_logged() {
  local log=$logs/$1.log; shift
  "$@" >"$log" 2>&1 </dev/null || die_with_log "'$*' failed." "$log"
}

# package_exists NAME [VERSION]: does the distribution offer it (at this version or newer)?
package_exists() {
  command -v apt-get >/dev/null || return 1
  local candidate
  candidate=$(apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: //p')
  [ -n "$candidate" ] && [ "$candidate" != "(none)" ] && { [ $# = 1 ] || dpkg --compare-versions "$candidate" ge "$2"; }
}

# install_packages NAME...: the missing ones, as root or with sudo.
install_packages() {
  local missing=() name sudo=()
  if ! command -v apt-get >/dev/null; then
    die "This machine has no apt-get: packages cannot be installed here." \
      "On a cluster load modules for them and build with CMake alone (docs/clusters.md)."
  fi
  for name in "$@"; do
    dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q '^install ok installed' || missing+=("$name")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null ||
      die "These packages are missing, and installing them takes root or sudo, which this account has not: ${missing[*]}" \
        "Ask an administrator for them, or load modules and build with CMake alone (docs/clusters.md)."
    sudo=(sudo)
  fi
  say "Installing packages: ${missing[*]} (log: build/log/packages.log)"
  local apt=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
  {
    [ -n "${packages_updated:-}" ] || "${apt[@]}" update
    "${apt[@]}" install -y --no-install-recommends "${missing[@]}"
  } >>"$logs/packages.log" 2>&1 || die_with_log "The packages could not be installed." "$logs/packages.log"
  packages_updated=1
}

# configure PRESET: plain CMake with a preset.  A checkout that was moved or copied gets a fresh build folder.
configure() {
  local cache=build/$1/CMakeCache.txt fresh=()
  if [ -e "$cache" ] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" "$cache"; then
    fresh=(--fresh)
  fi
  run_logged "configure-$1" cmake --preset "$1" "${fresh[@]}" -DPETAFLOW_ARCH="${PETAFLOW_ARCH:-native}" \
    -DPETAFLOW_ONEDNN="${PETAFLOW_ONEDNN:-AUTO}" -DPETAFLOW_KOKKOSKERNELS="${PETAFLOW_KOKKOSKERNELS:-AUTO}"
  sed -n 's/^-- \(petaflow .*\|conv: .*\)/    \1/p' "$logs/configure-$1.log"
}

# build PRESET TARGET...: ninja's own line of progress on a terminal, quiet in a log.
build() {
  local preset=$1; shift
  if [ -t 1 ]; then
    cmake --build "build/$preset" --target "$@" || die "The build failed."
  else
    run_logged "build-$preset" cmake --build "build/$preset" --target "$@"
  fi
}
