#!/usr/bin/env bash
# Installs what is missing, builds everything and runs all tests.  Arguments go to ctest: ./test.sh -R conv
set -euo pipefail
cd "$(dirname "$0")"
. cmake/common.sh

cmake/install-dependencies.sh
say "Configuring and building (log: build/log/build-host.log)"
configure host
build host all
say "Running the tests"
# Three slots for each core; each test says how many it takes.
ctest --test-dir build/host -j $((3 * $(nproc))) --output-on-failure --no-tests=error "$@"
