"""Channel between nodes with real sockets: delivery, authentication and limits."""

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
from tests.functional.channel.nodes import HELLO, NONCE, PROOF, TOKEN, ChannelJob, RawClient
from tests.functional.node import eventually

BODY = {"words": "ValueError: 中", "rank": 3}


def works(sender: NodeChannel, receiver: NodeChannel) -> None:
    """Sends a message, which arrives as the only one."""
    sender.send("failed", BODY)
    (message,) = eventually(lambda: [*receiver.poll()], "the message", 20)
    assert (message.node, message.kind, message.body) == (sender.node, "failed", BODY)


@pytest.fixture
def job(inbox: SignalInbox) -> Iterator[ChannelJob]:
    with ChannelJob(inbox) as job:
        yield job


def test_leader_receives_from_all_and_peers_only_from_the_leader(job: ChannelJob) -> None:
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
def test_ipv4_and_ipv6_addresses_are_reached(job: ChannelJob, own: str) -> None:
    """At its own address; or, where that is not known, at all addresses of either kind."""
    port = free_port()
    nodes = [job.node(node, own=Address(own, port)) for node in (0, 1)]
    assert [node.problem for node in nodes] == [None, None]
    nodes[1].meet(Address(own or "::1", port))
    works(nodes[0], nodes[1])
    works(nodes[1], nodes[0])


def test_message_sent_before_the_address_is_known_arrives_with_its_time(job: ChannelJob) -> None:
    (first,) = job.start(2, 1)
    late = job.node(1)
    late.send("failed", BODY)
    sent_at = time.monotonic()
    assert not late.flush(0.3)
    late.meet(job.at)
    assert late.flush(20)
    (message,) = first.poll()
    assert message.when == pytest.approx(sent_at, abs=0.15)


def test_late_node_receives_earlier_messages_of_the_leader(job: ChannelJob) -> None:
    (first,) = job.start(2, 1)
    first.send("cause", BODY)
    late = job.node(1)
    late.meet(job.at)
    assert first.flush(20)
    assert [message.body for message in late.poll()] == [BODY]


@pytest.mark.parametrize("other", [{"node1": TOKEN[::-1]}, {"node0": TOKEN[::-1]}])
def test_nodes_with_different_tokens_exchange_no_message(job: ChannelJob, other: Any) -> None:
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


@pytest.mark.invariant("No port is open without a token; messages without a proof are rejected")
@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=list(GARBAGE))
@pytest.mark.parametrize("stays", [False, True])
def test_garbage_is_dropped(job: ChannelJob, garbage: bytes, stays: bool) -> None:
    nodes = job.start()
    client = job.connect_client()
    client.socket.sendall(garbage)
    if not stays:
        client.socket.close()
    works(nodes[1], nodes[0])


@pytest.mark.invariant("No port is open without a token; messages without a proof are rejected")
@pytest.mark.parametrize(
    "greeting",
    [(77,), (0,), (1, TOKEN[::-1]), (1, TOKEN, "another job")],
    ids=["unknown", "0", "token", "job"],
)
def test_client_of_another_job_receives_random_bytes_only(job: ChannelJob, greeting: Any) -> None:
    nodes = job.start()
    client = job.connect_client()
    client.begin(*greeting)
    assert client.read(PROOF) == b""
    works(nodes[1], nodes[0])


@pytest.mark.parametrize(
    "half", ["length", "message", "changed", "again", "too long", "no json", "no message"]
)
def test_invalid_message_of_an_authenticated_node_is_dropped(job: ChannelJob, half: str) -> None:
    """A client with the token passes the greeting."""
    nodes = job.start(3, 2)
    client = job.connect_client()
    session = client.begin(2)
    assert session.is_proved(client.read(PROOF), "server", 0)
    long = {"words": "x" * (1 << 20)} if half == "too long" else BODY
    wrong = {"no json": b"{" * 3000, "no message": b"[1]"}
    data = wrong.get(half) or packed("failed", 0.0, encoded(long))
    proof = session.proof("client", 2 if half == "again" else 1, data)
    words = LENGTH.pack(len(data)) + data + proof
    changed = words[:20] + bytes([words[20] ^ 1]) + words[21:]
    with suppress(ConnectionError):  # it has been dropped
        cut = {"length": words[:2], "message": words[:-40], "changed": changed}
        client.socket.sendall(cut.get(half, words))
    works(nodes[1], nodes[0])


@pytest.mark.invariant("No port is open without a token; messages without a proof are rejected")
def test_replayed_messages_are_dropped(job: ChannelJob) -> None:
    """Replay of all bytes of a node by a proxy between the nodes."""
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
        replay = job.connect_client()
        replay.socket.sendall(b"".join(seen))
        assert replay.read(NONCE + PROOF)[NONCE:] == b"", "nothing after the random bytes"
        thread.join()
        nodes[1].meet(job.at)
        works(nodes[1], nodes[0])


def test_false_leader_receives_no_message(job: ChannelJob) -> None:
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


def test_flood_of_unauthenticated_connections_delays_no_message(job: ChannelJob) -> None:
    nodes = job.start()
    with ExitStack() as connections:
        before = len(os.listdir("/proc/self/fd"))
        over = threading.Event()

        def flood() -> None:
            while not over.is_set():
                with socket.socket() as client:
                    client.setblocking(False)
                    client.connect_ex(job.at)
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
        assert len(os.listdir("/proc/self/fd")) - before < 200 + 64 + 40, (
            "only the newest unauthenticated connections are kept"
        )
        assert time.process_time() - began < 5


def sent(client: RawClient, session: Session, data: bytes, first: int, last: int) -> int:
    """Sends a message again and again; returns the number acknowledged before the first late one."""
    client.socket.settimeout(1)
    for number in range(first, last):
        client.socket.sendall(LENGTH.pack(len(data)) + data + session.proof("client", number, data))
        with suppress(socket.timeout):
            if len(client.read(LENGTH.size + PROOF)) == LENGTH.size + PROOF:
                continue
        return number - first
    return last - first


def test_node_that_sends_too_much_is_slowed_down_and_its_oldest_messages_dropped(job: ChannelJob) -> None:
    """No message is polled before the ranks start."""
    nodes = job.start(3, 2)
    client = job.connect_client()
    session = client.begin(2)
    client.read(PROOF)
    data = packed("stacks", 0.0, encoded({"ranks": "x" * 900_000}))
    assert sent(client, session, data, 1, 40) <= MAX_RATE + 1
    nodes[1].send("failed", BODY)
    assert nodes[1].flush(20)
    messages = [*nodes[0].poll()]
    assert {message.node for message in messages} == {1, 2}
    sizes = [len(message.body["ranks"]) for message in messages if message.node == 2]
    assert sum(sizes) <= MAX_BYTES_OF_SENDER


@pytest.mark.invariant("The channel delays neither the training nor its end")
def test_missing_node_delays_no_other(job: ChannelJob) -> None:
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


def test_node_that_has_left_is_unreached_until_it_connects_again(job: ChannelJob) -> None:
    nodes = job.start()
    works(nodes[1], nodes[0])
    nodes[1].close()
    eventually(lambda: nodes[0].unreached == {1}, "its end is seen", 2)
    assert nodes[0].flush(0), "it is not waited for"
    again = job.node(1)
    again.meet(job.at)
    works(again, nodes[0])
    assert nodes[0].unreached == set()
    nodes[0].close()
    eventually(lambda: again.unreached == {0}, "its end is seen", 2)


def test_silent_leader_does_not_delay_the_end(job: ChannelJob) -> None:
    with socket.create_server(job.at):
        node = job.node(1)
        node.meet(job.at)
        node.send("failed", BODY)
        assert not node.flush(0.1)
        began = time.monotonic()
        node.close()
        assert time.monotonic() - began < 1


def test_leader_without_its_own_address_listens_at_all(job: ChannelJob) -> None:
    channel = job.node(0, own=Address("192.0.2.1", job.at.port))
    assert channel.problem is None
    socket.create_connection(job.at, timeout=5).close()


def test_close_frees_the_port_and_ends_the_thread(job: ChannelJob) -> None:
    before = threading.active_count()
    with job:
        job.start()
        assert threading.active_count() > before
    eventually(lambda: threading.active_count() <= before, "the threads' ends")
    socket.create_server(job.at).close()


def test_node_with_a_closed_connection_is_dead_after_a_while(
    job: ChannelJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not dead earlier, nor after it has connected again; a node that never connected is not dead."""
    monkeypatch.setattr("ma_boot.node.observe.channel.peer_link.DIED_SECONDS", 0.5)
    nodes = job.start(3, 2)
    works(nodes[1], nodes[0])
    nodes[1].close()
    eventually(lambda: nodes[0].away == {1}, "its end is seen", 2)
    assert nodes[0].dead == set()
    eventually(lambda: nodes[0].dead == {1}, "it has not called again", 2)
    nodes[0].send("cause", BODY)
    began = time.monotonic()
    assert nodes[0].settle(), "dead peers are not waited for"
    assert time.monotonic() - began < 1
    again = job.node(1)
    again.meet(job.at)
    works(again, nodes[0])
    assert (nodes[0].away, nodes[0].dead) == (set(), set())
