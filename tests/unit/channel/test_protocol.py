"""Messages between nodes as bytes: whatever arrives is a message or none, never an error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ma_boot.observe.channel.protocol import packed, unpacked

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.fixed_dictionaries({}, optional={"kind": VALUES, "late": VALUES, "body": VALUES}))
def test_any_json_is_a_message_or_none(message: Any) -> None:
    found = unpacked(json.dumps(message).encode())
    assert found is None or (len(found[0]) <= 32 and 0 <= found[1] < 1e9 and len(found[2]) <= 3)


@pytest.mark.parametrize("late", ["1" + "0" * 400, "-1", "NaN", "Infinity", '"x"', "null", "[]"])
def test_a_delay_that_is_none_is_no_message(late: str) -> None:
    assert unpacked(f'{{"kind": "failed", "late": {late}, "body": {{}}}}'.encode()) is None


@given(st.binary(max_size=64))
def test_any_bytes_are_a_message_or_none(data: bytes) -> None:
    unpacked(data)


@given(st.text(max_size=32), st.floats(0, 1e6), st.dictionaries(st.text(), st.integers() | st.text()))
def test_a_message_arrives_as_it_was_told(kind: str, late: float, body: Any) -> None:
    assert unpacked(packed(kind, late, body)) == (kind, round(late, 3), body)
