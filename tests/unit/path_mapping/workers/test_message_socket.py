"""The messages between a transfer and its worker processes."""

from __future__ import annotations

import socket
import threading
from typing import Iterator, Tuple

import pytest
from hypothesis import given, strategies as st

from path_mapping.workers.worker_process import MessageSocket

Ends = Tuple[MessageSocket, MessageSocket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    one, other = (MessageSocket(end) for end in socket.socketpair())
    yield one, other
    one.close()
    other.close()


@given(
    st.lists(st.one_of(st.none(), st.text(), st.binary(max_size=3000), st.lists(st.integers())), max_size=6)
)
def test_messages_arrive_whole_and_in_order(messages: list[object]) -> None:
    one, other = (MessageSocket(end) for end in socket.socketpair())
    for message in messages:
        one.send(message)
    one.close()
    assert [other.receive() for _ in messages] == messages
    with pytest.raises(EOFError):
        other.receive()
    other.close()


def test_a_message_may_be_larger_than_what_the_kernel_holds(ends: Ends) -> None:
    large = [bytes([number]) * (1 << 20) for number in range(9)]
    sender = threading.Thread(target=ends[0].send, args=(large,))
    sender.start()
    assert ends[1].receive() == large
    sender.join()


def test_half_a_message_is_the_end() -> None:
    """Of a worker that was killed while it reported."""
    raw, end = socket.socketpair()
    raw.sendall((100).to_bytes(8, "big") + b"half of it")
    raw.close()
    other = MessageSocket(end)
    with pytest.raises(EOFError, match="the other end was closed"):
        other.receive()
    other.close()


def test_nobody_listens(ends: Ends) -> None:
    ends[1].close()
    with pytest.raises(OSError, match="Broken pipe"):
        ends[0].send("anything")
