#!/bin/bash
# run_cluster.sh DATA_PATH RANK_TABLE_FILE RANK_SIZE RANK_START: this machine's eight of all ranks.
set -eu
code=$(realpath "$(dirname "$0")")
export DATA_PATH=$1 RANK_TABLE_FILE=$2 RANK_SIZE=$3
for DEVICE_ID in {0..7}; do
    RANK_ID=$(($4 + DEVICE_ID))
    export DEVICE_ID RANK_ID
    rm -rf "device_$RANK_ID"
    mkdir "device_$RANK_ID"
    (cd "device_$RANK_ID" && pytest -s "$code/resnet50_distributed_training.py" >"train$RANK_ID.log" 2>&1) &
done
