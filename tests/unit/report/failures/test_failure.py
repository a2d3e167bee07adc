"""Failure at the end of an output, by texts that frameworks and native libraries print."""

from __future__ import annotations

import pytest

from ma_boot.report.cause import LOST_PEER, causes_of
from ma_boot.report.failure import find_failure, last_words
from ma_boot.report.result import WorkerExit

TRACEBACK = "Traceback (most recent call last):\n"
RAISED = f'{TRACEBACK}  File "/code/train.py", line 12, in <module>\n    step()\nValueError: loss is nan\n'
ACCELERATE = f"""{TRACEBACK}  File "/opt/env/bin/accelerate", line 8, in <module>
    sys.exit(main())
  File "/opt/env/lib/python3.10/site-packages/accelerate/commands/launch.py", line 763, in simple_launcher
    raise subprocess.CalledProcessError(returncode=process.returncode, cmd=cmd)
subprocess.CalledProcessError: Command '['/opt/env/bin/python3', 'train.py']' returned non-zero exit status {{}}.
"""
TORCHRUN = f"""E1128 01:02:03.000000 12 torch/distributed/elastic/multiprocessing/api.py:882] failed (exitcode: 2) local_rank: 0 (pid: 13) of binary: /usr/bin/python3
{TRACEBACK}  File "/opt/env/bin/torchrun", line 8, in <module>
    sys.exit(main())
  File "/opt/env/lib/python3.11/site-packages/torch/distributed/launcher/api.py", line 300, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-28_01:02:03
  host      : h
  rank      : 3 (local_rank: 0)
  exitcode  : 2 (pid: 13)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""
SPAWNED = f"""{TRACEBACK}  File "/code/train.py", line 30, in <module>
    mp.spawn(main, nprocs=2)
  File "/opt/env/lib/python3.11/site-packages/torch/multiprocessing/spawn.py", line 215, in join
    raise ProcessRaisedException(msg, error_index, failed_process.pid)
torch.multiprocessing.spawn.ProcessRaisedException: 

-- Process 1 terminated with the following error:
{TRACEBACK}  File "/opt/env/lib/python3.11/site-packages/torch/multiprocessing/spawn.py", line 90, in _wrap
    fn(i, *args)
  File "/code/train.py", line 21, in main
    raise ValueError("loss is nan")
ValueError: loss is nan
"""  # noqa: W291
RAY = f"""{TRACEBACK}  File "/code/train.py", line 9, in <module>
    ray.get(results)
ray.exceptions.RayTaskError(ValueError): \x1b[36mray::Trainer.step()\x1b[39m (pid=24857, ip=192.0.2.2)
  File "/code/model.py", line 5, in step
    raise ValueError("loss is nan")
ValueError: loss is nan
"""
TORCH_NPU = f"""{TRACEBACK}  File "/code/train.py", line 7, in <module>
    torch.npu.set_device(0)
RuntimeError: Initialize:torch_npu/csrc/core/npu/sys_ctrl/npu_sys_ctrl.cpp:217 NPU function error: aclrtSetDevice(device_id_), error code is 507033
[ERROR] 2026-01-02-03:04:05 (PID:7, Device:0, RankID:-1) ERR00100 PTA call acl api failed
[Error]: The device fails to be opened.
        Rectify the fault based on the error information in the ascend log.
EL0005: 2026-01-02-03:04:05.123.456 The resources are busy.
        Possible Cause: 1. The resources have been occupied.
"""
GLOG = """F1128 12:00:00.123456    12 loader.cc:1042] Check failed: end >= begin (3 vs. 7) bad shard
*** Check failure stack trace: ***
    @     0x7f  google::LogMessage::Fail()
    @     0x7e  google::LogMessage::Flush()
"""
TENSORFLOW = "2026-11-28 12:00:00.123456: F tensorflow/core/platform/env.cc:391] Check failed: -1 != path_length (-1 vs. -1)\n"
RUST = """thread 'main' panicked at tokenizers/src/lib.rs:41:10:
no entry found for key
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
"""
OLD_RUST = "thread 'main' panicked at 'no entry found for key', src/lib.rs:41:10\nnote: run with `RUST_BACKTRACE=1` environment\n"
TERMINATE = "terminate called after throwing an instance of 'c10::Error'\n  what():  [enforce fail at x.cc:603] . unexpected pos 2368 vs 2262\nException raised from f at y.cpp:1 (most recent call first):\nframe #0: c10::f() + 0x5\n"


@pytest.mark.parametrize(
    ("output", "words", "place"),
    [
        (RAISED + ACCELERATE.format(1), "ValueError: loss is nan", "code/train.py:12"),
        (
            "usage: x\nx.py: error: unrecognized arguments: --lr=1\n" + ACCELERATE.format(2),
            "x.py: error: unrecognized arguments: --lr=1",
            "",
        ),
        (
            ACCELERATE.format(3),
            "subprocess.CalledProcessError: Command '['/opt/env/bin/python3', 'train.py']' returned non-zero exit status 3.",
            "",
        ),
        (RAISED + TORCHRUN, "ValueError: loss is nan", "code/train.py:12"),
        (
            "python: can't open file '/a/x.py': [Errno 2] No such file or directory\n" + TORCHRUN,
            "python: can't open file '/a/x.py': [Errno 2] No such file or directory",
            "",
        ),
        (
            TORCHRUN,
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: rank 3, exitcode 2",
            "",
        ),
        (SPAWNED, "ValueError: loss is nan", "code/train.py:21"),
        (RAY, "ValueError: loss is nan", "code/model.py:5"),
        (GLOG, "Check failed: end >= begin (3 vs. 7) bad shard", "loader.cc:1042"),
        (TENSORFLOW, "Check failed: -1 != path_length (-1 vs. -1)", "platform/env.cc:391"),
        (RUST, "panic: no entry found for key", "src/lib.rs:41"),
        (OLD_RUST, "panic: no entry found for key", "src/lib.rs:41"),
        (
            RUST + TORCHRUN,
            "panic: no entry found for key",
            "src/lib.rs:41",
        ),
        (
            TERMINATE,
            "terminate called after throwing an instance of 'c10::Error': [enforce fail at x.cc:603] . unexpected pos 2368 vs 2262",
            "",
        ),
        (
            RAISED + "terminate called without an active exception\n",
            "ValueError: loss is nan",
            "code/train.py:12",
        ),
        (
            "\n".join(f"[default3]:[rank3]: {line}" for line in RAISED.splitlines()),
            "ValueError: loss is nan",
            "code/train.py:12",
        ),
    ],
)
def test_words_and_place_are_those_of_what_failed_first(output: str, words: str, place: str) -> None:
    failure = find_failure(output)
    assert failure is not None
    assert (failure.words, failure.place) == (words, place)


def test_code_below_the_call_is_in_the_words_and_all_lines_are_in_the_text() -> None:
    failure = find_failure(TORCH_NPU)
    assert failure is not None
    assert failure.words.startswith("RuntimeError: Initialize:torch_npu/csrc/")
    assert failure.words.endswith("... EL0005: 2026-01-02-03:04:05.123.456 The resources are busy.")
    assert failure.text.startswith("RuntimeError: Initialize")
    assert failure.text.endswith("Possible Cause: 1. The resources have been occupied.")
    assert last_words(TORCH_NPU) == TORCH_NPU.splitlines()


def test_secret_in_a_first_line_that_is_cut_is_masked() -> None:
    secret = "token=" + "s3cr3t" * 40
    failure = find_failure(TORCH_NPU.replace("Initialize:", f"{secret} "))
    assert failure is not None
    assert "s3cr3t" not in failure.words


def test_watchdog_that_aborts_has_lost_a_peer() -> None:
    output = (
        "[rank3]:[E1003 18:37:01.832146912 compiler_depend.ts:607] [Rank 3] Watchdog caught collective operation timeout\n"
        "terminate called after throwing an instance of 'c10::Error'\n"
    )
    cause = causes_of([WorkerExit("rank 3", 3, 3, 1, 134, 6, 0, 1.0, False, "", output)], 0, 0.0)[0]
    assert cause.evidence == LOST_PEER
    assert cause.words.endswith("'c10::Error': [Rank 3] Watchdog caught collective operation timeout")


def test_traceback_does_not_explain_a_fault_of_native_code() -> None:
    end = WorkerExit("rank 0", 0, 0, 1, 139, 11, 0, 1.0, False, "", RAISED)
    assert causes_of([end], 0, 0.0)[0].words == "was killed by SIGSEGV"


@pytest.mark.parametrize(
    "record",
    [
        "I1128 12:00:00.1 12 a.cc:10] Check passed",
        "E1128 12:00:00.1 12 a.cc:10] Check failed: x",
        "thread 'main' has panicked before",
    ],
)
def test_record_that_looks_alike_is_no_failure(record: str) -> None:
    assert find_failure(f"{record}\ndone\n") is None
