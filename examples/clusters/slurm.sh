#!/bin/bash
# Transcribe a plan on Slurm: each task of the job array is a shard of the plan.
#
#   whisperbatch plan /data/talks -o /data/talks.plan
#   sbatch examples/clusters/slurm.sh /data/talks.plan
#
#SBATCH --job-name=whisperbatch
#SBATCH --array=0-199%20
#SBATCH --cpus-per-task=4
#SBATCH --mem=4G
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=whisperbatch-%a.log
set -eu

plan=${1:?"give the plan: sbatch slurm.sh PLAN"}
# The last number of --array, plus one. A shard has other tasks if this number changes, so
# SLURM_ARRAY_TASK_COUNT is not used: it is smaller when only some shards run again.
shards=${SHARDS:-200}

# Slurm sends SIGTERM to the processes that srun has started, not to this script. The worker then
# gives up its tasks, and the task of the array continues with them when it starts again.
exec srun --cpus-per-task="$SLURM_CPUS_PER_TASK" \
    whisperbatch work "$plan" --shard "$SLURM_ARRAY_TASK_ID/$shards"
