"""Requests: when a failing one is given up or tried again, how they slow down, and how worker processes are told."""

from __future__ import annotations

import math
import select
import socket
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from path_mapping.errors import Corrupted, SlowDown, Unreachable
from path_mapping.stores.objects import Copy
from path_mapping.stores.units import GetFile
from path_mapping.workers.loop import Loop
from path_mapping.workers.pool import Outcome
from path_mapping.workers.rate_limit import RateLimit
from path_mapping.workers.retry import RetriedStore, RetryPolicy, Trouble, seconds_before
from path_mapping.workers.worker_process import MessageSocket
from tests.transfers import PartialStore, SilentHandler, obs_store, serving

AWAY, WRONG = Unreachable("away"), Corrupted("wrong")


@pytest.mark.parametrize(
    ("policy", "error", "attempts", "now", "over"),
    [
        (RetryPolicy(), AWAY, 4, 1e6, False),
        (RetryPolicy(), AWAY, 5, 101, True),
        (RetryPolicy(60), AWAY, 500, 159, False),
        (RetryPolicy(60), AWAY, 1, 160, True),
        (RetryPolicy(0), AWAY, 1, 100, True),
        (RetryPolicy(60), WRONG, 5, 101, True),
        (RetryPolicy(math.inf, deadline=120), AWAY, 500, 119, False),
        (RetryPolicy(math.inf, deadline=120), AWAY, 1, 120, True),
    ],
)
def test_a_request_that_first_failed_at_100(
    policy: RetryPolicy, error: Unreachable, attempts: int, now: float, over: bool
) -> None:
    assert policy.is_over(error, attempts, 100, now) is over


def test_retries_end_at_the_deadline_and_each_is_reported() -> None:
    troubles: list[Trouble] = []

    def work() -> None:
        raise Unreachable("away")

    start = time.monotonic()
    with pytest.raises(Unreachable, match="away"):
        RetriedStore(PartialStore(), None, RetryPolicy(math.inf, start + 1), troubles.append).retrying(work)
    assert 1 <= time.monotonic() - start < 5
    assert len(troubles) > 2
    assert set(troubles) == {Trouble("away", troubles[0].since, start + 1)}
    assert troubles[0].since >= start


def waits(attempt: int, error: Unreachable) -> list[float]:
    """Many of the waits after this attempt."""
    return [seconds_before(attempt, error) for _ in range(500)]


@pytest.mark.parametrize(("attempt", "longest"), [(1, 0.3), (2, 0.6), (5, 4.8), (7, 10.0), (20, 10.0)])
def test_waits_double_up_to_ten_seconds(attempt: int, longest: float) -> None:
    seconds = waits(attempt, Unreachable("reset"))
    assert longest * 0.9 < max(seconds) <= longest
    assert longest * 0.1 <= min(seconds) < longest * 0.2


def test_retry_after_of_the_service_comes_first() -> None:
    assert min(waits(1, SlowDown("503", 7.0))) >= 7.0


def simulated(capacity: float, seconds: float, clients: int) -> tuple[int, int, RateLimit]:
    """The requests that a service served and refused that can serve `capacity` of them per second."""
    rate, served, refused = RateLimit(), 0, 0
    tokens, last = capacity / 10, 0.0
    now = 1000.0
    end = now + seconds
    free = [now] * clients
    while now < end:
        index = min(range(clients), key=free.__getitem__)
        now = free[index]
        start = now + rate.delay(now)
        tokens = min(capacity / 10, tokens + (start - last) * capacity) if last else tokens
        last = max(last, start)
        if tokens >= 1:
            tokens -= 1
            served += 1
        else:
            refused += 1
            rate.refused(start, None)
        free[index] = start + 0.005
    return served, refused, rate


@pytest.mark.parametrize("capacity", [20.0, 200.0, 1000.0])
def test_a_limited_service_is_used_well_and_not_flooded(capacity: float) -> None:
    served, refused, _ = simulated(capacity, 60.0, 32)
    assert served > 0.5 * capacity * 60
    assert refused < 0.25 * served


def test_an_unlimited_service_is_not_slowed_down() -> None:
    served, refused, rate = simulated(1e9, 5.0, 32)
    assert (refused, rate.limit) == (0, None)
    assert served > 0.9 * 32 * 5 / 0.005


def test_the_limit_is_dropped_some_time_after_a_refusal() -> None:
    rate = RateLimit()
    for step in range(100):
        rate.delay(1000.0 + step / 100)
    rate.refused(1001.0, None)
    limits: list[float] = []
    now = 1001.0
    while rate.limit is not None and now < 1100.0:
        limits.append(rate.limit)
        now += max(rate.delay(now), 0.001)
    assert limits[0] == pytest.approx(50, rel=0.1)
    assert limits == sorted(limits)
    assert rate.limit is None
    assert now < 1060.0


def test_refusals_of_one_burst_count_once() -> None:
    rate = RateLimit()
    for step in range(100):
        rate.delay(1000.0 + step / 100)
    for step in range(50):
        rate.refused(1001.0 + step / 1000, None)
    assert rate.limit == pytest.approx(50, rel=0.1)


def test_retry_after_is_honoured() -> None:
    rate = RateLimit()
    rate.delay(1000.0)
    rate.refused(1000.0, 7.0)
    assert rate.delay(1001.0) == pytest.approx(6.0)


class Limited(SilentHandler):
    """Serves 150 requests per second and refuses all others."""

    protocol_version = "HTTP/1.1"
    lock = threading.Lock()
    tokens, last = 15.0, 0.0
    refused = 0

    def do_GET(self) -> None:
        kind = type(self)
        with kind.lock:
            now = time.monotonic()
            kind.tokens = min(15.0, kind.tokens + (now - kind.last) * 150) if kind.last else kind.tokens
            kind.last = now
            good = kind.tokens >= 1
            kind.tokens -= good
            kind.refused += not good
        self.send_response(200 if good else 503)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"good" if good else b"slow")


def test_many_connections_download_everything_from_a_service_that_first_refuses_most(tmp_path: Path) -> None:
    root = str(tmp_path / "in")
    outcomes: list[Outcome] = []
    with serving(Limited) as url:
        pool = Loop(RetriedStore(obs_store(url)), 16)
        for number in range(600):
            pool.submit([GetFile(number, Copy(f"{root}/{number}", root, "bucket", f"{number}", 4))])
        while len(outcomes) < 600:
            outcomes += pool.outcomes(30.0)
        pool.close()
    assert [outcome.error for outcome in outcomes if outcome.error] == []
    assert len(list((tmp_path / "in").iterdir())) == 600
    assert 0 < Limited.refused < 300


def received(end: MessageSocket, count: int) -> list[object]:
    """Returns so many messages."""
    messages: list[object] = []
    while len(messages) < count:
        select.select([end], [], [], 10)
        messages += end.messages()
    return messages


@given(
    st.lists(st.one_of(st.none(), st.text(), st.binary(max_size=3000), st.lists(st.integers())), max_size=6)
)
def test_messages_arrive_whole_and_in_order(messages: list[object]) -> None:
    ours, theirs = (MessageSocket(end) for end in socket.socketpair())
    for message in messages:
        ours.send(message)
    assert received(theirs, len(messages)) == messages
    ours.close()
    with pytest.raises(EOFError):
        list(theirs.messages())
    theirs.close()


def test_a_message_may_be_larger_than_what_the_kernel_holds() -> None:
    """The sender does not wait; it keeps the rest until it is called again."""
    ours, theirs = (MessageSocket(end) for end in socket.socketpair())
    large = [bytes([number]) * (1 << 20) for number in range(9)]
    ours.send(large)
    messages: list[object] = []
    while not messages:
        ours.flush()
        messages += theirs.messages()
    assert messages == [large]
    assert ours.flush()
    ours.close()
    theirs.close()


def test_half_a_message_is_the_end() -> None:
    """Of a worker that was killed while it reported."""
    raw, end = socket.socketpair()
    raw.sendall((100).to_bytes(8, "big") + b"half of it")
    raw.close()
    other = MessageSocket(end)
    with pytest.raises(EOFError, match="the other end was closed"):
        list(other.messages())
    other.close()
