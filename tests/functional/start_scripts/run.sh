#!/bin/bash
# run.sh DATA_PATH RANK_SIZE: each rank trains in a fresh device<rank>, on a copy of the code.
set -eu
export DATA_PATH=$1 RANK_SIZE=$2 RANK_TABLE_FILE=$PWD/rank_table_$2pcs.json
for rank in $(seq 0 $((RANK_SIZE - 1))); do
    rm -rf "device$rank"
    install -D -t "device$rank" resnet50_distributed_training.py resnet.py
    (
        cd "device$rank"
        export RANK_ID=$rank DEVICE_ID=$rank
        env >"env$rank.log"
        pytest -s -v resnet50_distributed_training.py >"train.log$rank" 2>&1
    ) &
done
wait
