#!/bin/bash
# One CPU node under Slurm: four ranks that share its cores.  Submit from the root of the checkout:
#   sbatch inputs/jobs/slurm_one_node.sh
#SBATCH --job-name=petaflow
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=4        # ranks; one per memory domain (NUMA node) is a good first choice
#SBATCH --cpus-per-task=16         # cores of each rank
#SBATCH --time=01:00:00
#SBATCH --output=%x-%j.log
#SBATCH --exclusive
set -eu

# module load gcc openmpi hdf5    # what the program was built with
program=${PROGRAM:-build/host/bin/hep}
input=${INPUT:-inputs/hep.toml}

export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
export OMP_PROC_BIND=close OMP_PLACES=cores

# srun of Slurm >= 22.05 does not take --cpus-per-task from the lines above: it is repeated.  A run that is not through
# five minutes before the limit of an hour writes a checkpoint and ends with code 3: submit again to go on.
srun --cpus-per-task="$SLURM_CPUS_PER_TASK" --cpu-bind=cores "$program" train "$input" --resume run.wall_time=3300
