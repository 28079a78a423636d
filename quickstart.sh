#!/usr/bin/env bash
# From a fresh clone to a trained network: installs what is missing, builds, makes a small data set, trains on it and compares
# the network with the classical selection.  A second run starts at once.
set -euo pipefail
cd "$(dirname "$0")"
. cmake/common.sh

cmake/install-dependencies.sh
say "Configuring and building (log: build/log/build-host.log)"
configure host
build host hep

hep=build/host/bin/hep
say "Generating collisions: gluino cascades against QCD multijets"
$hep generate inputs/hep_quick.toml
say "Training (under 4 minutes on 2 cores)"
$hep train inputs/hep_quick.toml --overwrite
say "Evaluating on events that the network has not seen"
$hep evaluate runs/hep_quick data/hep_quick/test.h5
