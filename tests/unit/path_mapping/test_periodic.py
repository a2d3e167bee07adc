"""Which outputs are uploaded while the training runs, and when."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from hypothesis import given, strategies as st

from path_mapping.planning.plan import LocalEntry
from path_mapping.transfer.periodic import idle_files, open_for_writing, settle_seconds

ENTRIES = st.dictionaries(
    st.sampled_from("abcd"), st.builds(LocalEntry, st.just("file"), st.integers(0, 1), st.integers(0, 1))
)


@given(ENTRIES, ENTRIES, st.sets(st.sampled_from("abcd")))
def test_only_unchanged_and_closed_files_are_idle(
    before: dict[str, LocalEntry], now: dict[str, LocalEntry], written: set[str]
) -> None:
    for path in "abcd":
        still = path in before and path in now and before[path] == now[path]
        assert (path in idle_files(before, now, written)) == (still and path not in written)


def test_a_short_interval_leaves_time_for_the_upload() -> None:
    assert (settle_seconds(600), settle_seconds(2)) == (5, 1)


def test_files_that_another_process_has_open_for_writing_are_found(tmp_path: Path) -> None:
    for name in ("read", "written", "closed", "outside"):
        (tmp_path / name).write_text("x")
    program = f"import sys\na = open({str(tmp_path / 'read')!r})\nb = open({str(tmp_path / 'written')!r}, 'a')\nprint(flush=True)\nsys.stdin.read()"
    link = tmp_path / "link"
    os.symlink(tmp_path, link)
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        child.stdout.readline()
        assert open_for_writing([tmp_path]) == {str(tmp_path / "written")}
        assert open_for_writing([link]) == {str(link / "written")}
        assert open_for_writing([tmp_path / "written", tmp_path / "writ"]) == {str(tmp_path / "written")}
        child.stdin.close()
    assert open_for_writing([tmp_path]) == set()
