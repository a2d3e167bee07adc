"""The channel between nodes, with real sockets: what it says, and what it does not believe."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from ma_boot.node.observe.channel.channel import NodeChannel
from ma_boot.node.observe.channel.peer_link import MAX_RATE
from ma_boot.node.observe.channel.protocol import LENGTH, Address, Session, encoded, packed
from ma_boot.node.observe.channel.received import MAX_BYTES_OF_SENDER
from ma_boot.platform.modelarts.network import free_port
from ma_boot.processes.signals import SignalInbox
from tests.functional.channel.nodes import HELLO, NONCE, PROOF, TOKEN, Stranger, TalkingJob
from tests.functional.node import eventually

BODY = {"words": "ValueError: 中", "rank": 3}


def works(sender: NodeChannel, receiver: NodeChannel) -> None:
    """A message comes through, and nothing else came before it."""
    sender.send("failed", BODY)
    (message,) = eventually(lambda: [*receiver.poll()], "the message", 20)
    assert (message.node, message.kind, message.body) == (sender.node, "failed", BODY)


@pytest.fixture
def job(inbox: SignalInbox) -> Iterator[TalkingJob]:
    with TalkingJob(inbox) as job:
        yield job


def test_node_0_hears_all_and_all_hear_node_0_alone(job: TalkingJob) -> None:
    nodes = job.start(4)
    sent_at = time.monotonic()
    nodes[2].send("failed", BODY)
    assert nodes[2].flush(20)
    (message,) = nodes[0].poll()
    assert (message.node, message.kind, message.body) == (2, "failed", BODY)
    assert sent_at - 0.001 <= message.when <= time.monotonic()
    nodes[0].send("cause", BODY)
    assert nodes[0].flush(20)
    kinds = [[message.kind for message in node.poll()] for node in nodes]
    assert kinds == [[], ["cause"], ["cause"], ["cause"]]
    assert [node.unreached for node in nodes] == [set()] * 4


@pytest.mark.parametrize("own", ["::1", "127.0.0.1", ""])
def test_addresses_of_both_kinds(job: TalkingJob, own: str) -> None:
    """At its own address; or, where that is not known, at all addresses of either kind."""
    port = free_port()
    nodes = [job.node(node, own=Address(own, port)) for node in (0, 1)]
    assert [node.problem for node in nodes] == [None, None]
    nodes[1].meet(Address(own or "::1", port))
    works(nodes[0], nodes[1])
    works(nodes[1], nodes[0])


def test_what_was_told_before_the_address_is_known_comes_later_with_its_time(job: TalkingJob) -> None:
    (first,) = job.start(2, 1)
    late = job.node(1)
    late.send("failed", BODY)
    sent_at = time.monotonic()
    assert not late.flush(0.3)
    late.meet(job.at)
    assert late.flush(20)
    (message,) = first.poll()
    assert message.when == pytest.approx(sent_at, abs=0.15)


def test_who_starts_later_hears_what_node_0_has_told(job: TalkingJob) -> None:
    (first,) = job.start(2, 1)
    first.send("cause", BODY)
    late = job.node(1)
    late.meet(job.at)
    assert first.flush(20)
    assert [message.body for message in late.poll()] == [BODY]


@pytest.mark.parametrize("other", [{"node1": TOKEN[::-1]}, {"node0": TOKEN[::-1]}])
def test_another_token_is_not_believed_and_believes_nobody(job: TalkingJob, other: Any) -> None:
    nodes = job.start(**other)
    for node in nodes:
        node.send("failed", BODY)
    eventually(lambda: nodes[1].unreached == {0} and nodes[0].unreached == {1}, "all attempts", 20)
    assert [[*node.poll()] for node in nodes] == [[], []]
    assert [node.connected for node in nodes] == [set(), set()]


GARBAGE = {
    "nothing": b"",
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "half a hello": b"maboot2\n\0\0",
    "random": os.urandom(5000),
    "no proof": HELLO.pack(b"maboot2\n", 1, b"n" * NONCE) + b"\0" * 10_000,
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=list(GARBAGE))
@pytest.mark.parametrize("stays", [False, True])
def test_garbage_is_dropped(job: TalkingJob, garbage: bytes, stays: bool) -> None:
    nodes = job.start()
    stranger = job.stranger()
    stranger.socket.sendall(garbage)
    if not stays:
        stranger.socket.close()
    works(nodes[1], nodes[0])


@pytest.mark.parametrize(
    "greeting",
    [(77,), (0,), (1, TOKEN[::-1]), (1, TOKEN, "another job")],
    ids=["unknown", "0", "token", "job"],
)
def test_who_is_no_node_of_this_job_gets_random_bytes_only(job: TalkingJob, greeting: Any) -> None:
    nodes = job.start()
    stranger = job.stranger()
    stranger.begin(*greeting)
    assert stranger.read(PROOF) == b""
    works(nodes[1], nodes[0])


@pytest.mark.parametrize(
    "half", ["length", "message", "changed", "again", "too long", "no json", "no message"]
)
def test_a_node_that_stops_or_lies_in_the_middle_is_dropped(job: TalkingJob, half: str) -> None:
    """It has the token, so it gets further than a stranger."""
    nodes = job.start(3, 2)
    stranger = job.stranger()
    session = stranger.begin(2)
    assert session.is_proved(stranger.read(PROOF), "server", 0)
    long = {"words": "x" * (1 << 20)} if half == "too long" else BODY
    wrong = {"no json": b"{" * 3000, "no message": b"[1]"}
    data = wrong.get(half) or packed("failed", 0.0, encoded(long))
    proof = session.proof("client", 2 if half == "again" else 1, data)
    words = LENGTH.pack(len(data)) + data + proof
    changed = words[:20] + bytes([words[20] ^ 1]) + words[21:]
    with suppress(ConnectionError):  # it has been dropped
        cut = {"length": words[:2], "message": words[:-40], "changed": changed}
        stranger.socket.sendall(cut.get(half, words))
    works(nodes[1], nodes[0])


def test_what_was_heard_on_the_way_is_worth_nothing_later(job: TalkingJob) -> None:
    """A replay of all that a node has said, as somebody between the nodes has seen it."""
    seen: list[bytes] = []
    nodes = job.start()
    with socket.create_server(("127.0.0.1", 0)) as between:

        def pass_on() -> None:
            client, _ = between.accept()
            with client, socket.create_connection(job.at, timeout=5) as server:
                client.settimeout(5)
                client.sendall(server.recv(NONCE, socket.MSG_WAITALL))
                for answer in (PROOF, LENGTH.size + PROOF):
                    seen.append(client.recv(65536))
                    server.sendall(seen[-1])
                    client.sendall(server.recv(answer, socket.MSG_WAITALL))
                threading.Event().wait(1)

        thread = threading.Thread(target=pass_on, daemon=True)
        thread.start()
        nodes[1].meet(Address(*between.getsockname()[:2]))
        works(nodes[1], nodes[0])
        assert b"ValueError" in seen[-1], "which has seen it"
        replay = job.stranger()
        replay.socket.sendall(b"".join(seen))
        assert replay.read(NONCE + PROOF)[NONCE:] == b"", "nothing after the random bytes"
        thread.join()
        nodes[1].meet(job.at)
        works(nodes[1], nodes[0])


def test_who_listens_in_place_of_node_0_is_told_nothing(job: TalkingJob) -> None:
    with socket.create_server(job.at) as false:
        nodes = job.start()
        assert nodes[0].problem == f"Address already in use: port {job.at.port}"
        nodes[1].send("failed", BODY)
        connection, _ = false.accept()
        connection.settimeout(5)
        connection.sendall(b"s" * NONCE)
        words = connection.recv(HELLO.size + PROOF, socket.MSG_WAITALL)
        connection.sendall(b"w" * PROOF)
        assert connection.recv(1000) == b""
        assert len(words) == HELLO.size + PROOF
        connection.close()


def test_a_flood_of_strangers_keeps_no_message_away(job: TalkingJob) -> None:
    nodes = job.start()
    with ExitStack() as connections:
        before = len(os.listdir("/proc/self/fd"))
        over = threading.Event()

        def flood() -> None:
            while not over.is_set():
                with socket.socket() as stranger:
                    stranger.setblocking(False)
                    stranger.connect_ex(job.at)
                    time.sleep(0.0005)

        for _ in range(200):  # that stay, and say nothing
            connections.enter_context(socket.create_connection(job.at, timeout=5))
        thread = threading.Thread(target=flood, daemon=True)
        thread.start()
        began = time.process_time()
        works(nodes[1], nodes[0])
        late = job.node(1)  # which has to come in first
        nodes[1].close()
        late.meet(job.at)
        works(late, nodes[0])
        over.set()
        thread.join()
        assert len(os.listdir("/proc/self/fd")) - before < 200 + 64 + 40, "only the newest strangers are kept"
        assert time.process_time() - began < 5


def sent(stranger: Stranger, session: Session, data: bytes, first: int, last: int) -> int:
    """Sends a message again and again, until it is no longer taken within a moment; how many were taken."""
    stranger.socket.settimeout(1)
    for number in range(first, last):
        stranger.socket.sendall(LENGTH.pack(len(data)) + data + session.proof("client", number, data))
        with suppress(socket.timeout):
            if len(stranger.read(LENGTH.size + PROOF)) == LENGTH.size + PROOF:
                continue
        return number - first
    return last - first


def test_a_node_that_tells_too_much_is_read_later_and_costs_no_memory(job: TalkingJob) -> None:
    """Before the ranks start nobody asks for what has come."""
    nodes = job.start(3, 2)
    stranger = job.stranger()
    session = stranger.begin(2)
    stranger.read(PROOF)
    data = packed("stacks", 0.0, encoded({"ranks": "x" * 900_000}))
    assert sent(stranger, session, data, 1, 40) <= MAX_RATE + 1
    nodes[1].send("failed", BODY)
    assert nodes[1].flush(20)
    messages = [*nodes[0].poll()]
    assert {message.node for message in messages} == {1, 2}
    sizes = [len(message.body["ranks"]) for message in messages if message.node == 2]
    assert sum(sizes) <= MAX_BYTES_OF_SENDER


def test_a_node_that_is_not_there_costs_nobody_anything(job: TalkingJob) -> None:
    nodes = job.start(4, 2)
    began = time.monotonic()
    for _ in range(10):
        nodes[0].send("cause", BODY)
    assert time.monotonic() - began < 0.2
    eventually(lambda: [*nodes[1].poll()], "the other one hears it")
    eventually(lambda: nodes[0].unreached == {2, 3}, "the attempts")
    began = time.monotonic()
    assert not nodes[0].flush(0.2)
    nodes[0].close()
    assert time.monotonic() - began < 1.0


def test_a_node_that_has_gone_is_known_to_be_and_may_come_again(job: TalkingJob) -> None:
    nodes = job.start()
    works(nodes[1], nodes[0])
    nodes[1].close()
    eventually(lambda: nodes[0].unreached == {1}, "its end is seen", 2)
    assert nodes[0].flush(0), "nobody waits for it"
    again = job.node(1)
    again.meet(job.at)
    works(again, nodes[0])
    assert nodes[0].unreached == set()
    nodes[0].close()
    eventually(lambda: again.unreached == {0}, "its end is seen", 2)


def test_a_first_node_that_answers_nothing_costs_nobody_anything(job: TalkingJob) -> None:
    with socket.create_server(job.at):
        node = job.node(1)
        node.meet(job.at)
        node.send("failed", BODY)
        assert not node.flush(0.1)
        began = time.monotonic()
        node.close()
        assert time.monotonic() - began < 1


def test_at_no_address_of_this_machine_it_listens_at_all(job: TalkingJob) -> None:
    channel = job.node(0, own=Address("192.0.2.1", job.at.port))
    assert channel.problem is None
    socket.create_connection(job.at, timeout=5).close()


def test_after_the_end_the_port_is_free_and_nothing_runs(job: TalkingJob) -> None:
    before = threading.active_count()
    with job:
        job.start()
        assert threading.active_count() > before
    eventually(lambda: threading.active_count() <= before, "the threads' ends")
    socket.create_server(job.at).close()


def test_a_node_is_dead_once_its_machine_has_closed_the_connection_for_long_enough(
    job: TalkingJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not before it could have called again, and no longer once it has; one that was never there is not dead."""
    monkeypatch.setattr("ma_boot.node.observe.channel.peer_link.DIED_SECONDS", 0.5)
    nodes = job.start(3, 2)
    works(nodes[1], nodes[0])
    nodes[1].close()
    eventually(lambda: nodes[0].away == {1}, "its end is seen", 2)
    assert nodes[0].dead == set()
    eventually(lambda: nodes[0].dead == {1}, "it has not called again", 2)
    nodes[0].send("cause", BODY)
    began = time.monotonic()
    assert nodes[0].settle(), "nobody waits for the dead"
    assert time.monotonic() - began < 1
    again = job.node(1)
    again.meet(job.at)
    works(again, nodes[0])
    assert (nodes[0].away, nodes[0].dead) == (set(), set())
