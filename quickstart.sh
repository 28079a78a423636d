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
input=inputs/hep_quick.toml
if [ -e data/hep_quick/test.h5 ]; then
  say "Collisions are there already: data/hep_quick"
else
  say "Generating collisions: gluino cascades against QCD multijets"
  $hep generate $input --overwrite
fi
say "Training the network (one to three minutes on 2 cores)"
$hep train $input --overwrite
say "Training a linear model on the same pixels"
$hep train $input run.name=hep_quick_linear model.kind=linear optimizer.lr=1e-2 log.interval=1000 --overwrite
say "The linear model on events that it has not seen"
$hep evaluate runs/hep_quick_linear data/hep_quick/test.h5
say "The network on events that it has not seen, beside the cut selection"
$hep evaluate runs/hep_quick data/hep_quick/test.h5
say "Both of them on one page, for a browser"
$hep report runs/hep_quick runs/hep_quick_linear -o runs/quickstart.html
