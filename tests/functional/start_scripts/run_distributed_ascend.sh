#!/bin/bash
# run_distributed_ascend.sh RANK_TABLE_FILE RANK_SIZE RANK_START DEVICE_START: the code stays, the directories are fresh.
set -eu
code=$PWD
export RANK_TABLE_FILE=$1 RANK_SIZE=$2
for number in $(seq 0 $((RANK_SIZE - 1))); do
    rank=$(($3 + number))
    rm -rf "device_$rank"
    mkdir "device_$rank"
    (
        cd "device_$rank"
        RANK_ID=$rank DEVICE_ID=$(($4 + number)) python "$code/train.py" --epochs 2 >"train$rank.log" 2>&1
    ) &
done
