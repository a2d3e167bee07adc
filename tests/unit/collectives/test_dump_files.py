"""Dumps of collectives as files: pickles without functions, torn files, and ranks that are asked by pipes."""

from __future__ import annotations

import json
import os
import pickle
import sys
import threading
import time
from pathlib import Path
from typing import Any

from ma_boot.node.observe.collectives.dump_files import DIRECTORY, Question, parse_dump, read_dumps
from ma_boot.node.observe.collectives.recorder import Recorder, variables

DUMP = {"version": "2.10", "entries": [
    {"collective_seq_id": 1, "process_group": ("0", "tp"), "profiling_name": "nccl:all_reduce", "state": "started"},
]}  # fmt: skip


class Harm:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("harm",)


def test_pickle_of_plain_values_is_read() -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        record = parse_dump(pickle.dumps(DUMP, protocol)).record
        assert record is not None
        assert str(record.groups[0].pending) == "all_reduce 1"


def test_pickle_that_names_a_function_is_refused() -> None:
    for harm in (Harm(), {**DUMP, "pg_config": Harm()}, Path("x"), sys.getsizeof):
        answer = parse_dump(pickle.dumps(harm))
        assert answer.record is None
        assert answer.refused.startswith("refused: the pickle names ")
    assert not os.path.exists("harm")


def test_torn_and_foreign_dumps_are_refused_with_a_reason() -> None:
    for data in (b"{", b"[]", b"\x80", pickle.dumps(DUMP)[:-9], b"{" + b'"a":{' * 100_000, b"(" * 100_000):
        answer = parse_dump(data)
        assert answer.record is None
        assert answer.refused
    assert parse_dump(b'{"record": 1}') == (None, "")


def test_only_dumps_of_this_hang_are_read(tmp_path: Path) -> None:
    environ = {"TORCH_FR_DUMP_TEMP_FILE": f"{tmp_path}/nccl_"}
    (tmp_path / "nccl_3").write_bytes(pickle.dumps(DUMP))
    assert list(read_dumps({3: (1, environ), 4: (2, environ)}, time.time() - 60)) == [3]
    assert read_dumps({3: (1, environ)}, time.time() + 60) == {}


def test_rank_that_answers_late_is_waited_for_and_one_without_a_pipe_is_not_asked(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "7.pipe")

    def answer() -> None:
        with open(tmp_path / "7.pipe", "rb") as pipe:
            pipe.read()
        (tmp_path / "7.json").write_text('{"record": {"entries": [')
        time.sleep(0.3)
        (tmp_path / "7.json").write_text(json.dumps({"record": DUMP, "members": {"0": [0, 1]}}))

    thread = threading.Thread(target=answer)
    thread.start()
    environ = {DIRECTORY: str(tmp_path)}
    while not (question := Question.ask({0: (7, environ), 1: (8, environ)})).asked:
        time.sleep(0.01)
    found = question.answers(threading.Event())
    thread.join()
    assert list(found) == [0]
    assert found[0].record is not None
    assert found[0].record.groups[0].members == (0, 1)


def test_variables_of_the_user_are_kept() -> None:
    given = {
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "0",
        "TORCH_HCCL_DEBUG_INFO_TEMP_FILE": "mine",
        "PYTHONPATH": "/p",
    }
    added = variables("/d", "/p", given)
    assert not set(added) & {
        "TORCH_FR_BUFFER_SIZE",
        "TORCH_NCCL_TRACE_BUFFER_SIZE",
        "TORCH_HCCL_DEBUG_INFO_TEMP_FILE",
    }
    assert added["TORCH_FR_DUMP_TEMP_FILE"] == "/d/nccl_rank_"
    assert added["PYTHONPATH"].split(":")[0] == "/p"


def test_attempts_have_directories_of_their_own_and_empty_ones_are_removed(tmp_path: Path) -> None:
    first = Recorder.open(str(tmp_path), 0, 1)
    Path(first.dumps, "nccl_rank_0").touch()
    first.close()
    second = Recorder.open(str(tmp_path), 0, 2)
    second.close()
    assert [path.name for path in (tmp_path / "collectives").iterdir()] == ["node-0-attempt-1"]
    assert not os.path.exists(first.pipes)
    again = Recorder.open(str(tmp_path), 0, 1)
    assert os.listdir(again.dumps) == []
    again.close()
    assert os.listdir(tmp_path) == []
