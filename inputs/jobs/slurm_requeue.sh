#!/bin/bash
# A training longer than the queue's limit: Slurm sends SIGUSR1 two minutes before the end, the run writes a checkpoint and
# ends with code 3, and the job puts itself into the queue again.
#   sbatch inputs/jobs/slurm_requeue.sh
#SBATCH --job-name=petaflow
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=16
#SBATCH --time=01:00:00
#SBATCH --signal=USR1@120          # to the tasks of srun, 120 s before the end
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.log
#SBATCH --exclusive
set -u

# module load gcc openmpi hdf5
program=${PROGRAM:-build/host/bin/hep}
input=${INPUT:-inputs/hep.toml}

export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
export OMP_PROC_BIND=close OMP_PLACES=cores

srun --cpus-per-task="$SLURM_CPUS_PER_TASK" --cpu-bind=cores "$program" train "$input" --resume
code=$?
if [ "$code" -eq 3 ]; then         # stopped by the signal, checkpoint written
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
