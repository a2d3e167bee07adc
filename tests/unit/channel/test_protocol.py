"""Messages between nodes as bytes: invalid bytes are rejected without an error."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ma_boot.node.observe.channel.protocol import KINDS, MOST_BYTES, encoded, packed, unpacked

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.fixed_dictionaries({}, optional={"kind": VALUES, "late": VALUES, "body": VALUES}))
def test_any_json_is_a_message_or_none(message: Any) -> None:
    read = unpacked(json.dumps(message).encode())
    assert read is None or (len(read[0]) <= 32 and 0 <= read[1] < 1e9 and len(read[2]) <= 3)


@pytest.mark.parametrize("late", ["1" + "0" * 400, "-1", "NaN", "Infinity", '"x"', "null", "[]"])
def test_message_with_an_invalid_delay_is_rejected(late: str) -> None:
    assert unpacked(f'{{"kind": "failed", "late": {late}, "body": {{}}}}'.encode()) is None


@pytest.mark.parametrize(
    "value",
    [
        "9" * 1_000_000,
        "1." + "9" * 1_000_000,
        "-Infinity",
        "[" * 500_000 + "]" * 500_000,
        ",".join(["[]"] * 300_000),
    ],
)
def test_message_with_an_expensive_value_is_rejected(value: str) -> None:
    """A million digits cost seconds, and 300,000 lists 17 MB."""
    data = f'{{"kind": "stacks", "late": 0, "body": {{"ranks": [{value}]}}}}'.encode()
    assert len(data) <= MOST_BYTES
    began = time.process_time()
    assert unpacked(data) is None
    assert time.process_time() - began < 0.5


@given(st.binary(max_size=64))
def test_any_bytes_are_a_message_or_none(data: bytes) -> None:
    unpacked(data)


@given(
    st.sampled_from(sorted(KINDS)),
    st.floats(0, 1e6),
    st.dictionaries(st.text(), st.integers(-(10**20), 10**20) | st.text()),
)
def test_message_is_decoded_as_it_was_encoded(kind: str, late: float, body: Any) -> None:
    assert unpacked(packed(kind, late, encoded(body))) == (kind, round(late, 3), body)
