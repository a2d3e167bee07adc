"""Limits of the queue of received messages."""

from __future__ import annotations

import pytest

from ma_boot.node.observe.channel import received
from ma_boot.node.observe.channel.received import ReceivedMessage, ReceivedMessages


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> ReceivedMessages:
    monkeypatch.setattr(received, "MAX_BYTES_OF_SENDER", 20)
    monkeypatch.setattr(received, "MAX_BYTES", 50)
    monkeypatch.setattr(received, "MIN_BYTES_PER_NODE", 1)
    return ReceivedMessages(4)


def numbers(messages: ReceivedMessages) -> list[tuple[int, float]]:
    """Drains the queue and returns sender and arrival of each message."""
    return [(message.node, message.arrived_at) for message in messages.drain()]


def test_messages_are_drained_once_in_the_order_of_arrival(messages: ReceivedMessages) -> None:
    for arrival, node in enumerate([1, 2, 1]):
        messages.append(ReceivedMessage(node, b"x", arrival))
    assert numbers(messages) == [(1, 0), (2, 1), (1, 2)]
    assert numbers(messages) == []


def test_sender_over_its_limit_loses_its_own_oldest_messages(messages: ReceivedMessages) -> None:
    messages.append(ReceivedMessage(2, b"x" * 10, 0))
    for arrival in (1, 2, 3):
        messages.append(ReceivedMessage(1, b"x" * 10, arrival))
    assert numbers(messages) == [(2, 0), (1, 2), (1, 3)]


def test_sender_that_exceeds_the_common_limit_loses_its_own_messages(messages: ReceivedMessages) -> None:
    for node in (1, 2):
        messages.append(ReceivedMessage(node, b"x" * 20, node))
    for arrival in (3, 4):
        messages.append(ReceivedMessage(3, b"x" * 10, arrival))
    assert numbers(messages) == [(1, 1), (2, 2), (3, 4)]


def test_drained_messages_free_their_bytes(messages: ReceivedMessages) -> None:
    for arrival in range(5):
        messages.append(ReceivedMessage(1, b"x" * 20, arrival))
        assert numbers(messages) == [(1, arrival)]
