#!/bin/bash
# run_distribution_mpirun.sh DEVICE_NUM CONFIG_PATH: the ranks that mpirun starts beside this script.
set -eu
export RANK_SIZE=$1
config=$(realpath "$2")
cd "$(dirname "$0")"
mpirun --allow-run-as-root -n "$RANK_SIZE" python ../train.py "--config_path=$config" "--device_num=$RANK_SIZE" >log.txt 2>&1
