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
# On a machine of two cores one test at a time: most of them use both.
ctest --test-dir build/host --output-on-failure --no-tests=error "$@"
