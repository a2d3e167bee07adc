#!/bin/bash
# run_distribution_ascend.sh DEVICE_NUM START_ID RANK_TABLE_FILE CONFIG_PATH: a copy of the project for each rank,
# in train_parallel<rank> beside this script.
set -eu
export RANK_SIZE=$1 RANK_TABLE_FILE
RANK_TABLE_FILE=$(realpath "$3")
config=$(realpath "$4")
cd "$(dirname "$0")"
for rank in $(seq 0 $((RANK_SIZE - 1))); do
    copy=train_parallel$rank
    rm -rf "$copy"
    mkdir "$copy"
    cp -r ../src ../*.py "$copy"
    (
        cd "$copy"
        export RANK_ID=$rank DEVICE_ID=$(($2 + rank))
        env >env.log
        python train.py "--config_path=$config" "--device_num=$RANK_SIZE" >log.txt 2>&1
    ) &
done
