"""The rooms that are mutated, each with the tests that have to notice."""

from __future__ import annotations

from typing import Mapping, NamedTuple, Tuple


class Room(NamedTuple):
    """A folder of the tree, and its tests."""

    folder: str
    tests: Tuple[str, ...]


_PATH_MAPPING = (
    "tests/unit/path_mapping",
    "tests/functional/transfer/test_target_dir.py",
    "tests/fault/test_second_run.py",
    "tests/fault/test_transfer.py",
    "tests/fault/test_resume.py",
)

ROOMS: Mapping[str, Room] = {
    "rank_table": Room(
        "ma_boot/rank_table", ("tests/unit/rank_table", "tests/functional/cli/test_rank_table_files.py")
    ),
    "planning": Room("path_mapping/planning", _PATH_MAPPING),
    "localfs": Room("path_mapping/localfs", _PATH_MAPPING),
    "supervisor": Room("ma_boot/supervisor", ("tests/unit/supervisor", "tests/functional/supervisor")),
    "reporting": Room(
        "ma_boot/reporting",
        (
            "tests/unit/reporting",
            "tests/functional/supervisor/test_output.py",
            "tests/functional/supervisor/test_output_pump.py",
        ),
    ),
}
