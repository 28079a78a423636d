#!/bin/sh
# build.sh SOURCES OUT: compiles the code that communicates, and the cases of scaling/referee.hpp, for SimGrid's SMPI, without
# Kokkos.
set -e
sources=$1 out=$2
mkdir -p "$out/include"
for module in base:src/base comm:comm servers:src/servers simulate:src/simulate scaling:perf/scaling; do
  ln -sfn "$sources/${module#*:}" "$out/include/${module%%:*}"
done
exec smpicxx -std=c++20 -O2 -I"$out/include" -I"$sources/perf/smpi/without_kokkos" -DFMT_HEADER_ONLY -o "$out/referee_smpi" \
  "$sources"/src/base/out_of_memory.cpp $(find "$sources/comm" -name '*.cpp' ! -name '*_nccl.cpp') \
  "$sources"/src/servers/coordinator.cpp "$sources"/src/servers/serve.cpp "$sources"/src/servers/served_layer.cpp \
  "$sources"/src/servers/served_rank.cpp "$sources"/src/servers/session.cpp \
  "$sources"/perf/scaling/worker.cpp "$sources"/perf/scaling/referee.cpp "$sources"/perf/smpi/referee_smpi.cpp
