"""Queues of received messages."""

from __future__ import annotations

import pytest

from ma_boot.node.observe.peers import PeerMessage
from ma_boot.node.peers.mailbox import HANGS, MOST_UNREAD, SAVES, UPLOADS, Mailbox


def message(kind: str, number: int = 0) -> PeerMessage:
    return PeerMessage(1, kind, {"number": number}, 0.0)


@pytest.mark.parametrize(
    ("kind", "topic"),
    [("save", SAVES), ("uploads", UPLOADS), ("hanging", HANGS), ("stacks", HANGS), ("ended", HANGS)],
)
def test_message_is_taken_once_from_the_queue_of_its_topic(kind: str, topic: str) -> None:
    mailbox = Mailbox()
    mailbox.put(message(kind))
    taken = {name: mailbox.take(name) for name in (SAVES, UPLOADS, HANGS)}
    assert {name: [each.kind for each in messages] for name, messages in taken.items() if messages} == {
        topic: [kind]
    }
    assert mailbox.take(topic) == []


@pytest.mark.parametrize("kind", ["failed", "cause", "go", "stopped", "over", "left", "here"])
def test_messages_of_failures_and_restarts_are_not_queued(kind: str) -> None:
    mailbox = Mailbox()
    mailbox.put(message(kind))
    assert not any(mailbox.take(topic) for topic in (SAVES, UPLOADS, HANGS))


def test_full_queue_drops_its_oldest_messages() -> None:
    mailbox = Mailbox()
    for number in range(MOST_UNREAD + 2):
        mailbox.put(message("save", number))
    taken = mailbox.take(SAVES)
    assert (len(taken), taken[0].body["number"]) == (MOST_UNREAD, 2)
