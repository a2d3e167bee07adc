"""Searches in the output of a rank take little time and raise nothing, for any output.

While `re` matches, no other thread runs, and no signal is answered.
"""

from __future__ import annotations

import time
from typing import Callable

import pytest

from ma_boot.node.observe.metrics.card_tables import parse_link, parse_npu_rows
from ma_boot.node.observe.rank_stacks.stacks import last_dump, threads_of
from ma_boot.node.observe.rank_stacks.suspect import waited_for
from ma_boot.redact import without_secrets
from ma_boot.report.cause import causes_of
from ma_boot.report.console import painted
from ma_boot.report.doubt import doubt_of
from ma_boot.report.explain import (
    failed_mpi_rank,
    missing_files,
    output_of_failed_rank,
    tells_of_sigkill,
)
from ma_boot.report.failure import find_failure, last_words, own_words
from ma_boot.report.hints import hints_for, with_store_hint
from ma_boot.report.page.read import _plain
from ma_boot.report.plog import coded_lines, error_lines
from ma_boot.report.result import WorkerExit

KEPT = 1 << 16  # bytes of an output
NUMBER = "1" * KEPT


def failures(text: str) -> object:
    return causes_of((WorkerExit("rank 0", 0, 0, 1, 1, None, 0, 1.0, False, "", text),), 0, 0.0)


def doubts(text: str) -> object:
    return doubt_of((WorkerExit("rank 0", 0, 0, 1, 0, None, 0, 1.0, False, "", text),))


READERS: dict[str, Callable[[str], object]] = {
    reader.__name__: reader
    for reader in (
        doubts, failures, last_dump, threads_of, parse_link, parse_npu_rows, failed_mpi_rank, find_failure, last_words,
        missing_files, output_of_failed_rank, own_words, tells_of_sigkill, hints_for, with_store_hint, _plain,
        error_lines,
    )
}  # fmt: skip
READERS["waited_for"] = lambda text: waited_for(text, 0)
READERS["without_secrets"] = lambda text: without_secrets(text, ())
READERS["coded_lines"] = lambda text: coded_lines(error_lines(f"[ERROR] {text}"))
READERS["hints of a plog"] = lambda text: hints_for("", error_lines(f"[ERROR] {text}"))
READERS["painted"] = lambda text: painted(text.encode())
REPEATED = (
    " ", "a", ".a", "1", "|", "| 1(1) ", "(", "[", " (", "\x1b]", "\x1b[", "\r", "://", "obs://a.a", "token=", "token= ",
    "?sig=", "env: ", "Socket Timeout ", "unrecognized arguments: ", "No such file or directory: '", "can't open file '",
    "Thread 0x1 ", "Wait for connection ", "HCCL ", "NCCL ", "gloo ", "scheduler ", ': "', '", line ', "[1,1]<stdout>: ",
    "authorization: ", "Traceback (most recent call last):\n", "it/s]Traceback (most recent call last):",
    "Aborted\n", "a\nSyntaxError: ", "a: line 1: 1 Aborted ", "terminate called recursively\n", "Fatal Python error: a\n",
    ":1: Warning: Aborted", "SyntaxError: \na\n", "100%|loss ", "F1128 1 ", "2026-11-28 a: F ", "thread 'a' panicked at '",
    "a:1: ", ": Assertion `", "[default0]:", "ray.exceptions.RayTaskError: \n", "EI0006 ", "address already in use port ",
)  # fmt: skip
BEFORE = {
    "a thread": "Thread 0x" + "a" * KEPT,
    "a thread in a dump": f"Thread 0x1 (most recent call first):\nThread 0x{'a' * KEPT}\n",
    "a rank of mpirun": f"mpirun noticed that process rank {NUMBER} with PID 1 on node a exited on signal 9",
    "a first rank": f"The first process to do so was:\n\n  Process name: [[1,1],{NUMBER}]",
    "a tagged rank": "Primary job  terminated normally, but 1 process\n"
    f"[1,{NUMBER}]<stderr>: Traceback (most recent call last):",
    "a notify": f"Notify record from remote rank [{NUMBER}]",
    "a link": f"| 1({NUMBER}) | 1 | 1({NUMBER}) | 0 | client | time out |",
    "a prefix": f"[rank 0] [rank {NUMBER}] text",
    "a frame": f'Thread 0x1 (most recent call first):\n  File "a", line {NUMBER} in f',
    "a card": f"| 0  910B | OK | 1 1 |\n| 0 | 0 | 1 {NUMBER} / 1 |",
    "a bucket": "obs://" + ".a" * (KEPT // 2),
    "a link state": "link status:" + " " * KEPT,
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_it_takes_little_time(reader: Callable[[str], object]) -> None:
    for text in (*(word * (KEPT // len(word)) for word in REPEATED), *BEFORE.values()):
        began = time.process_time()
        reader(text)
        assert time.process_time() - began < 1, text[:60]
