#!/bin/bash
# Two nodes under LSF, with Open MPI's mpirun.  Each rank has 16 cores.
#   bsub < inputs/jobs/lsf.sh
#BSUB -J petaflow
#BSUB -n 128                       # cores, in nodes of 64
#BSUB -R "span[ptile=64]"
#BSUB -W 1:00                      # hours:minutes
#BSUB -x
#BSUB -o petaflow-%J.log
set -eu

# module load gcc openmpi hdf5
program=${PROGRAM:-build/host/bin/hep}
input=${INPUT:-inputs/hep.toml}
threads=16
ranks=$((LSB_DJOB_NUMPROC / threads))
batch=${BATCH:-16}                 # of all ranks together: two samples each; the same when the run goes on

export OMP_NUM_THREADS=$threads OMP_PROC_BIND=close OMP_PLACES=cores

# The program ends with a checkpoint and code 3 five minutes before the limit; submit again to go on.
mpirun -n "$ranks" --map-by slot:PE=$threads --bind-to core -x OMP_NUM_THREADS -x OMP_PROC_BIND -x OMP_PLACES \
  "$program" train "$input" --resume train.batch="$batch" run.wall_time=3300
