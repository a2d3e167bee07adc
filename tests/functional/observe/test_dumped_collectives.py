"""Dumps of collectives that ranks leave when they fail, as NCCL's watchdog does: read, compared, and kept."""

from __future__ import annotations

import sys

from tests.functional.node import Node

# What PyTorch's DebugInfoWriter writes: a pickle at the path of the variable, with the rank.
FAILS = """
import os, pickle, sys, time
rank = int(os.environ["RANK"])
def entry(seq, state):
    return {"record_id": seq, "pg_id": 0, "process_group": ("0", "tp"), "is_p2p": False, "collective_seq_id": seq,
            "profiling_name": "nccl:all_reduce", "input_sizes": [[4]], "input_dtypes": ["Float"], "state": state,
            "retired": True, "frames": [{"name": "f", "filename": "/c/train.py", "line": 9}]}
dump = {"version": "2.10", "pg_config": {"0": {"ranks": "[0, 1]"}}, "entries": [entry(1, "completed")]}
if rank == 0:
    dump["entries"].append(entry(2, "started"))
file = os.environ["TORCH_FR_DUMP_TEMP_FILE"] + str(rank)
with open(file + ".part", "wb") as opened:
    opened.write(pickle.dumps(dump if sys.argv[1:] != ["harm"] else (os.system, dump)))
os.rename(file + ".part", file)
while not os.path.exists(os.environ["TORCH_FR_DUMP_TEMP_FILE"] + "1"):
    time.sleep(0.01)
if rank == 0:
    raise RuntimeError("NCCL watchdog: timeout")
time.sleep(60)
"""


def fail(node: Node, *arguments: str, **variables: str) -> str:
    (node.home / "train.py").write_text(FAILS)
    node.variables.update(variables)
    ended = node.boot(
        "--rendezvous", "torch", "--stop-timeout", "1", "--python", sys.executable, "train.py", *arguments
    )
    assert ended.code == 1, ended.output
    return ended.output


def test_dumps_of_a_failure_name_the_missing_rank(node: Node) -> None:
    output = fail(node)
    assert "all_reduce 2 of group tp, at train.py:9: rank 0 in it, rank 1 not" in output
    assert (
        "suspected: node 0, rank 1: it never entered all_reduce 2 of group tp, in which rank 0 waits"
        in output
    )
    (event,) = [event for event in node.events() if event["kind"] == "stacks"]
    assert [(row["inside"], row["outside"]) for row in event["stuck"]] == [("0", "1")]
    assert len(list(node.log_dir.glob("*/collectives/node-0-attempt-1/nccl_rank_*"))) == 2


def test_dump_that_names_a_function_is_refused_with_a_line(node: Node) -> None:
    output = fail(node, "harm")
    assert "the collectives of rank 0 are not read: refused: the pickle names posix.system" in output
    assert not [event for event in node.events() if event["kind"] == "stacks"]


def test_switched_off_no_variable_is_set(node: Node) -> None:
    output = fail(node, MABOOT_COLLECTIVES="off")
    assert "KeyError: 'TORCH_FR_DUMP_TEMP_FILE'" in output
