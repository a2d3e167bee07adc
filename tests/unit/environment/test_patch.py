"""Environment changes as data."""

from __future__ import annotations

from hypothesis import given, strategies as st

from ma_boot.node.environment.patch import applied, difference, put_first, without

ENVIRON = st.dictionaries(st.sampled_from("ABCDE"), st.text(max_size=3))


@given(ENVIRON, ENVIRON)
def test_the_difference_leads_from_one_to_the_other(before: dict[str, str], after: dict[str, str]) -> None:
    assert applied(before, difference(before, after)) == after


@given(ENVIRON)
def test_equal_environments_have_no_difference(environ: dict[str, str]) -> None:
    assert difference(environ, environ) == {}


def test_applying_a_patch_keeps_the_original() -> None:
    environ = {"A": "1"}
    assert applied(environ, {"A": None, "B": "2", "C": None}) == {"B": "2"}
    assert environ == {"A": "1"}


def test_an_entry_is_moved_to_the_front() -> None:
    assert put_first("/env/bin", "/usr/bin:/env/bin/:/bin::") == "/env/bin:/usr/bin:/bin"
    assert put_first("/env/bin", "") == "/env/bin"


def test_entries_are_dropped_however_they_are_spelt() -> None:
    assert without("/a/../b:/c:/b/", {"/b"}) == ("/c",)
