#!/bin/bash
# Stand-in for MindFormers' script: nine arguments for several machines, of which a job of one machine drops two.
[ $# == 9 ] || exit 64
where=(--master_port="$5")
if [ "$2" != "$3" ]; then
    where=(--master_addr="$4" --master_port="$5" --node_rank="$6")
fi
command="msrun --worker_num=$2 --local_worker_num=$3 ${where[*]} --log_dir=$7 --join=$8 --cluster_time_out=$9 $1"
ulimit -u unlimited
$command
