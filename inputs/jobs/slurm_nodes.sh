#!/bin/bash
# Several CPU nodes under Slurm.  train.batch is the batch of all ranks together and must be at least their number:
# 8 nodes x 4 ranks with 2 samples each make 64.  A run goes on with the batch that it began with, on any number of nodes.
#   sbatch inputs/jobs/slurm_nodes.sh
#SBATCH --job-name=petaflow
#SBATCH --nodes=8
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=16
#SBATCH --time=04:00:00
#SBATCH --output=%x-%j.log
#SBATCH --exclusive
set -eu

# module load gcc openmpi hdf5
program=${PROGRAM:-build/host/bin/hep}
input=${INPUT:-inputs/hep.toml}
batch=${BATCH:-64}

export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
export OMP_PROC_BIND=close OMP_PLACES=cores

# The program's own clock ends the run with a checkpoint and code 3 five minutes before the limit of four hours: submit
# again to go on.
srun --cpus-per-task="$SLURM_CPUS_PER_TASK" --cpu-bind=cores "$program" train "$input" --resume \
  train.batch="$batch" run.wall_time=14100
