"""A room imports what few need of it when that is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

from path_mapping.when_used import when_used


def test_a_name_is_imported_when_it_is_used() -> None:
    program = (
        "import sys, ma_boot.rank_table; print('ma_boot.rank_table.fake_table' in sys.modules)\n"
        "from ma_boot.rank_table import fake; print(fake.__module__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "ma_boot.rank_table.fake_table"]


def test_a_name_that_a_room_does_not_have_is_an_error_with_both() -> None:
    with pytest.raises(AttributeError, match=r"module 'ma_boot\.rank_table' has no attribute 'rows'"):
        when_used("ma_boot.rank_table", {"fake_table": ("fake",)})("rows")
