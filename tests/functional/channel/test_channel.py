"""The channel between nodes, with real sockets: what it says, and what it does not believe."""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import ExitStack, suppress
from typing import Any, List, Tuple

import pytest

from ma_boot.modelarts import free_port
from ma_boot.observe.channel import Address, NodeChannel
from ma_boot.observe.channel.channel import MOST_OF_A_NODE
from ma_boot.observe.channel.protocol import LENGTH, key_of, packed
from ma_boot.processes import SignalInbox
from tests.functional.channel.nodes import HELLO, PROOF, TOKEN, Stranger, addresses, heard, talking
from tests.functional.node import eventually

BODY = {"words": "ValueError: 中", "rank": 3}


def works(sender: NodeChannel, receiver: NodeChannel) -> None:
    """A message comes through, and nothing else came before it."""
    found: List[Any] = []
    sender.tell("works", BODY)
    eventually(lambda: heard(receiver, found), "the message", 20)
    assert [(one.node, one.kind, one.body) for one in found] == [(sender.node, "works", BODY)]


def test_a_message_reaches_all_other_nodes_once() -> None:
    with talking(4, addresses(4)) as nodes:
        told = time.monotonic()
        nodes[2].tell("failed", BODY)
        assert nodes[2].flush(20)
        for node in (0, 1, 3):
            (message,) = nodes[node].heard()
            assert (message.node, message.kind, message.body) == (2, "failed", BODY)
            assert told - 0.001 <= message.when <= time.monotonic()
        assert nodes[2].heard() == []
        assert nodes[2].unreached == set()


@pytest.mark.parametrize("own", [("::1", "::1"), ("127.0.0.1", "::1"), ("", "")], ids=["six", "mixed", "all"])
def test_nodes_with_addresses_of_ipv6_talk(own: Tuple[str, str]) -> None:
    """At their own addresses; or, where these are not known, at all addresses of either kind."""
    ports, meeting = (free_port(), free_port()), (own[0] or "127.0.0.1", own[1] or "::1")
    met = {node: Address(meeting[node], ports[node]) for node in (0, 1)}
    with SignalInbox() as inbox, ExitStack() as stack:
        nodes = []
        for node in (0, 1):
            nodes.append(NodeChannel(TOKEN, "job", node, 2, Address(own[node], ports[node]), inbox))
            stack.callback(nodes[-1].close)
            assert nodes[-1].problem is None
            nodes[-1].meet(met)
        works(nodes[0], nodes[1])
        works(nodes[1], nodes[0])


def test_what_was_told_before_the_addresses_are_known_comes_later_with_its_time() -> None:
    at = addresses(2)
    with SignalInbox() as inbox, talking(1, at) as (first,):
        late = NodeChannel(TOKEN, "job", 1, 2, at[1], inbox)
        late.tell("failed", BODY)
        told = time.monotonic()
        time.sleep(0.3)
        late.meet(at)
        assert late.flush(20)
        late.close()
        (message,) = first.heard()
        assert message.when == pytest.approx(told, abs=0.15)


def test_another_token_is_not_believed_and_believes_nobody() -> None:
    with talking(3, addresses(3), node1=TOKEN[::-1]) as nodes:
        nodes[1].tell("failed", BODY)
        nodes[0].tell("failed", BODY)
        eventually(lambda: nodes[1].unreached == {0, 2} and nodes[0].unreached == {1}, "all attempts", 20)
        assert nodes[0].heard() == []
        assert nodes[1].heard() == []
        assert [one.node for one in eventually(nodes[2].heard, "it hears the right one")] == [0]


def test_another_job_with_the_same_token_is_not_believed() -> None:
    at = addresses(2)
    with SignalInbox() as inbox, talking(1, at) as (first,):
        other = NodeChannel(TOKEN, "another job", 1, 2, at[1], inbox)
        other.meet(at)
        other.tell("failed", BODY)
        eventually(lambda: other.unreached == {0}, "an attempt", 20)
        other.close()
        assert first.heard() == []


GARBAGE = {
    "nothing": b"",
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "half a hello": b"maboot1\n\0\0",
    "random": os.urandom(5000),
    "unknown node": HELLO.pack(b"maboot1\n", 77, b"n" * 16) + b"p" * 100,
    "itself": HELLO.pack(b"maboot1\n", 0, b"n" * 16) + b"p" * 100,
    "no proof": HELLO.pack(b"maboot1\n", 1, b"n" * 16) + b"\0" * 10_000,
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=list(GARBAGE))
@pytest.mark.parametrize("stays", [False, True])
def test_garbage_is_dropped(garbage: bytes, stays: bool) -> None:
    at = addresses(2)
    with talking(2, at) as nodes:
        stranger = Stranger(at[0])
        stranger.socket.sendall(garbage)
        if not stays:
            stranger.socket.close()
        works(nodes[1], nodes[0])
        stranger.socket.close()


@pytest.mark.parametrize("half", ["proof", "length", "message", "too long", "no json", "no message"])
def test_a_node_that_stops_or_lies_in_the_middle_is_dropped(half: str) -> None:
    """It has the key, so it gets further than a stranger."""
    at = addresses(2)
    own = key_of(TOKEN, "job", 1)
    with talking(2, at) as nodes:
        stranger = Stranger(at[0])
        exchange = stranger.begin(1, 0)
        proof = exchange.proof(own, "hello")
        stranger.socket.sendall(proof[:20] if half == "proof" else proof)
        if half != "proof":
            assert exchange.is_proved(stranger.read(PROOF), key_of(TOKEN, "job", 0), "welcome")
            long = {"words": "x" * (1 << 20)} if half == "too long" else BODY
            data = {"no json": b"{" * 3000, "no message": b"[1]"}.get(half) or packed("lie", 0.0, long)
            rest = LENGTH.pack(len(data)) + data + exchange.proof(own, "message", data)
            with suppress(ConnectionError):  # it has been dropped
                stranger.socket.sendall({"length": rest[:2], "message": rest[:-40]}.get(half, rest))
        works(nodes[1], nodes[0])
        stranger.socket.close()


def test_a_node_cannot_speak_as_another_one() -> None:
    at = addresses(3)
    with talking(2, at) as nodes:
        stranger = Stranger(at[0])
        exchange = stranger.begin(1, 0)
        stranger.socket.sendall(exchange.proof(key_of(TOKEN, "job", 2), "hello"))
        assert stranger.read(PROOF) == b"", "it is not welcome"
        works(nodes[1], nodes[0])


def test_what_was_heard_on_the_way_is_worth_nothing_later() -> None:
    """A replay of a whole exchange, byte for byte, as somebody between the nodes has seen it."""
    at = addresses(2)
    seen: List[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as between, talking(2, at) as nodes:

        def pass_on() -> None:
            client, _ = between.accept()
            with client, socket.create_connection(at[0], timeout=5) as server:
                client.settimeout(5)
                for size in (HELLO.size, PROOF):
                    seen.append(client.recv(size, socket.MSG_WAITALL))
                    server.sendall(seen[-1])
                    client.sendall(server.recv(16 if size == HELLO.size else PROOF, socket.MSG_WAITALL))
                seen.append(client.recv(4, socket.MSG_WAITALL))
                seen.append(client.recv(LENGTH.unpack(seen[-1])[0] + PROOF, socket.MSG_WAITALL))
                server.sendall(seen[-2] + seen[-1])
                client.sendall(server.recv(PROOF, socket.MSG_WAITALL))

        thread = threading.Thread(target=pass_on, daemon=True)
        thread.start()
        nodes[1].meet({0: Address("127.0.0.1", between.getsockname()[1])})
        nodes[1].tell("failed", BODY)
        assert nodes[1].flush(20)
        thread.join(5)
        assert [one.kind for one in nodes[0].heard()] == ["failed"], "it came through the one between"
        assert b"ValueError" in seen[-1], "which has seen it"
        replay = Stranger(at[0])
        replay.socket.sendall(b"".join(seen))
        assert replay.read(16 + PROOF)[16:] == b"", "nothing after the random bytes"
        nodes[1].meet(at)
        works(nodes[1], nodes[0])


@pytest.mark.parametrize("at_byte", [0, -PROOF - 8, -1], ids=["length", "message", "proof"])
def test_what_was_changed_on_the_way_is_not_believed(at_byte: int) -> None:
    """Somebody between the nodes passes all on but one byte, and says that it was taken."""
    at = addresses(2)
    with socket.create_server(("127.0.0.1", 0)) as between, talking(2, at) as nodes:
        changed = threading.Event()

        def pass_on() -> None:
            client, _ = between.accept()
            with client, socket.create_connection(at[0], timeout=5) as server:
                client.settimeout(5)
                for size in (HELLO.size, PROOF):
                    server.sendall(client.recv(size, socket.MSG_WAITALL))
                    answer = server.recv(16 if size == HELLO.size else PROOF, socket.MSG_WAITALL)
                    client.sendall(answer)
                length = client.recv(4, socket.MSG_WAITALL)
                told = bytearray(length + client.recv(LENGTH.unpack(length)[0] + PROOF, socket.MSG_WAITALL))
                told[at_byte] ^= 1
                with suppress(ConnectionResetError):
                    server.sendall(told)
                    server.recv(PROOF)
                client.sendall(answer)  # the only proof of the other node that it has
                changed.set()

        threading.Thread(target=pass_on, daemon=True).start()
        nodes[1].meet({0: Address("127.0.0.1", between.getsockname()[1])})
        nodes[1].tell("failed", {"words": "long enough for a byte in it to be another one"})
        assert changed.wait(20)
        between.close()
        assert not nodes[1].flush(0.5), "it is not taken"
        assert nodes[0].heard() == []
        nodes[1].meet(at)
        found: List[Any] = []
        eventually(lambda: heard(nodes[0], found), "it is sent again", 20)
        assert found[0].body["words"] == "long enough for a byte in it to be another one"


def test_who_listens_in_place_of_a_node_is_told_nothing() -> None:
    at = addresses(2)
    with socket.create_server(at[0]) as false, talking(2, at, node0="x" * 20) as nodes:
        assert nodes[0].problem is not None
        nodes[1].tell("failed", BODY)
        connection, _ = false.accept()
        connection.settimeout(5)
        said = connection.recv(HELLO.size)
        connection.sendall(b"s" * 16)
        said += connection.recv(PROOF)
        connection.sendall(b"w" * PROOF)
        said += connection.recv(1000)
        connection.close()
        assert len(said) == HELLO.size + PROOF
        assert nodes[0].heard() == []


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_flood_of_strangers_keeps_no_message_away() -> None:
    at = addresses(2)
    with talking(2, at) as nodes, ExitStack() as open_ones:
        before = descriptors()
        over = threading.Event()

        def flood() -> None:
            while not over.is_set():
                with socket.socket() as one:
                    one.setblocking(False)
                    one.connect_ex(at[0])
                    time.sleep(0.0005)

        for _ in range(200):  # that stay, and say nothing
            open_ones.enter_context(socket.create_connection(at[0], timeout=5))
        thread = threading.Thread(target=flood, daemon=True)
        thread.start()
        began = time.process_time()
        works(nodes[1], nodes[0])
        over.set()
        thread.join()
        assert descriptors() - before < 200 + 64 + 40, "only the newest strangers are kept"
        assert time.process_time() - began < 5


def test_a_node_that_tells_too_much_is_not_listened_to() -> None:
    at = addresses(2)
    with talking(2, at) as nodes:
        for number in range(3):
            for each in range(15):
                nodes[1].tell("noise", {"number": 15 * number + each})
            nodes[1].flush(3)
        assert 15 <= len(nodes[0].heard()) <= MOST_OF_A_NODE


def test_a_node_that_is_not_there_costs_nobody_anything() -> None:
    with talking(2, addresses(4)) as nodes:
        began = time.monotonic()
        for _ in range(10):
            nodes[0].tell("failed", BODY)
        assert time.monotonic() - began < 0.2
        eventually(lambda: len(nodes[1].heard()) > 0, "the other one hears it")
        eventually(lambda: nodes[0].unreached == {2, 3}, "the attempts")
        began = time.monotonic()
        assert not nodes[0].flush(0.2)
        nodes[0].close()
        assert time.monotonic() - began < 1.0


def test_a_node_that_answers_nothing_costs_nobody_anything() -> None:
    at = addresses(3)
    with socket.create_server(at[2]), talking(2, at) as nodes:
        nodes[0].tell("failed", BODY)
        eventually(lambda: nodes[1].heard(), "the other one hears it", 1.5)
        eventually(lambda: nodes[0].unreached == {2}, "the time of an exchange is over")


def test_a_port_that_is_taken_leaves_a_node_that_tells_but_does_not_hear() -> None:
    at = addresses(2)
    with socket.create_server(at[1]), talking(2, at) as nodes:
        assert nodes[1].problem == f"Address already in use: port {at[1].port}"
        works(nodes[1], nodes[0])


def test_at_no_address_of_this_machine_it_listens_at_all() -> None:
    at = addresses(2)
    with SignalInbox() as inbox:
        channel = NodeChannel(TOKEN, "job", 0, 2, Address("192.0.2.1", at[0].port), inbox)
        try:
            assert channel.problem is None
            socket.create_connection(at[0], timeout=5).close()
        finally:
            channel.close()


def test_after_the_end_the_port_is_free_and_nothing_runs() -> None:
    at, before = addresses(2), threading.active_count()
    with talking(2, at):
        assert threading.active_count() > before
    eventually(lambda: threading.active_count() <= before, "the threads' ends")
    socket.create_server(at[0]).close()
