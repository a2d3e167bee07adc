"""Rules for the connection of a peer, on a clock that the test sets."""

from __future__ import annotations

import pytest

from ma_boot.node.observe.channel.peer_link import (
    DIED_SECONDS,
    OUTAGE_SECONDS,
    UNREACHED_SECONDS,
    ConnectionState,
)

NEVER = ConnectionState(was_connected=False, lost_at=100.0)
CONNECTED = ConnectionState(was_connected=True, lost_at=None)
LOST = ConnectionState(was_connected=True, lost_at=100.0)
CLOSED = LOST._replace(closed_at=100.0)


@pytest.mark.parametrize(
    ("state", "is_away", "may_receive"),
    [(NEVER, False, False), (CONNECTED, False, True), (LOST, True, True), (CLOSED, True, False)],
)
def test_only_a_lost_peer_is_away_and_receives_later(
    state: ConnectionState, is_away: bool, may_receive: bool
) -> None:
    assert (state.is_away, state.may_receive(101.0)) == (is_away, may_receive)


def test_peer_is_unreached_only_after_a_moment() -> None:
    assert not LOST.is_unreached(100.0 + UNREACHED_SECONDS)
    assert LOST.is_unreached(100.1 + UNREACHED_SECONDS)
    assert not CONNECTED.is_unreached(1000.0)


@pytest.mark.parametrize(("state", "seconds"), [(CLOSED, DIED_SECONDS), (LOST, OUTAGE_SECONDS)])
def test_lost_peer_is_dead_after_its_timeout(state: ConnectionState, seconds: float) -> None:
    assert not state.is_dead(100.0 + seconds)
    assert state.is_dead(100.1 + seconds)
    assert not state.may_receive(100.1 + seconds)


@pytest.mark.parametrize("state", [NEVER, NEVER._replace(closed_at=100.0), CONNECTED])
def test_connected_and_unknown_peers_are_never_dead(state: ConnectionState) -> None:
    assert not state.is_dead(10_000.0)
