"""The rooms that are mutated, each with the tests that have to notice, the quickest first."""

from __future__ import annotations

from typing import Mapping, NamedTuple, Tuple


class Room(NamedTuple):
    """A folder of the tree, and its tests."""

    folder: str
    tests: Tuple[str, ...]


ROOMS: Mapping[str, Room] = {
    "rank_table": Room("ma_boot/rank_table", ("tests/unit/rank_table",)),
    "planning": Room(
        "path_mapping/planning",
        (
            "tests/unit/path_mapping/test_plan.py",
            "tests/unit/path_mapping/test_local_tree.py",
            "tests/fault/test_second_run.py",
        ),
    ),
    "localfs": Room(
        "path_mapping/localfs",
        (
            "tests/unit/path_mapping/test_parts.py",
            "tests/unit/path_mapping/test_plan.py",
            "tests/unit/path_mapping/test_local_tree.py",
            "tests/functional/transfer/test_target_dir.py",
            "tests/fault/test_second_run.py",
        ),
    ),
    "supervisor": Room("ma_boot/supervisor", ("tests/unit/supervisor", "tests/functional/supervisor")),
    "reporting": Room(
        "ma_boot/reporting", ("tests/unit/reporting", "tests/functional/supervisor/test_output.py")
    ),
}
