#!/bin/bash
# Trains on all GPUs of some nodes: sbatch examples/launch/slurm.sh
# One process for each GPU; JAX finds the others by Slurm's variables.
#SBATCH --job-name=jaxner
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=8
#SBATCH --time=04:00:00
# Ask for a SIGTERM two minutes before the end; the run saves and stops, and goes on when
# the same script is submitted again.
#SBATCH --signal=TERM@120
#SBATCH --requeue

set -euo pipefail
cd "${SLURM_SUBMIT_DIR:?}"
source .venv/bin/activate
# The run folder, the corpora and the cache of programs lie where all nodes see them.
export JAXNER_DATA=${JAXNER_DATA:-$HOME/data}
export JAX_COMPILATION_CACHE_DIR=${JAX_COMPILATION_CACHE_DIR:-$HOME/.cache/jaxner}
# A proxy would come between the processes.
unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY

exec srun --kill-on-bad-exit=1 python -m jaxner train grn:conll2003 \
  -o "$HOME/runs/grn" --config.batch_size=128 "$@"
