"""The graph of who waits for whom, from lines as HCCL prints them."""

from __future__ import annotations

import time

from ma_boot.node.observe.rank_stacks.stacks import RankAtHang
from ma_boot.node.observe.rank_stacks.suspect import circle, roots, suspect, waited_for, waits_text
from tests.unit.observe.suspected import suspected

# As in MindSpore's errors (CANN 6), in newer ones, and in a plog (CANN 8); addresses are made up.
NOTIFY = (
    "EI0002: The wait execution of the Notify register times out. Reason: The Notify register has not received the "
    "Notify record from remote rank [{}].base information: [streamID:[27], taskID[10], taskType[Notify Wait], "
    "tag[HcomAllReduce_6629421139219749105_0].] task information: [notify id:[0x0000000100000000], "
    "stage:[ffffffff], remote rank:[{}]."
)
NEWER = "Reason: The Notify register has not received the Notify record from remote rank: [{}]. base information: []"
LINK = """\
[ERROR] HCCL(17528,python3):2026-03-18-10:33:52.113 [hccl_socket_manager.cc:623] [18744] _____LINK_ERROR_INFO_____
[ERROR] HCCL(17528,python3):2026-03-18-10:33:52.113 [hccl_socket_manager.cc:626] [18744] | dest_ip(user_rank) | \
dest_port | src_ip(user_rank) | src_port | MyRole | Status | TlsStatus |
[ERROR] HCCL(17528,python3):2026-03-18-10:33:52.113 [hccl_socket_manager.cc:583] [18744] | 192.0.2.199({}) | 16666 \
| 192.0.3.198({}) | 3234403008 | client | time out | DISABLE | LinkInfo
"""


def ranks(waits: dict[int, tuple[int, ...]]) -> list[RankAtHang]:
    return [RankAtHang(rank, rank // 4, "Thread 1", waits_for=others) for rank, others in waits.items()]


def test_a_collective_names_the_rank_that_it_waits_for() -> None:
    assert waited_for(NOTIFY.format(3, 3), 0) == (3,)
    assert waited_for(NEWER.format(12), 0) == (12,)
    assert waited_for(NOTIFY.format("unknown", "unknown"), 0) == ()


def test_a_connection_names_both_sides() -> None:
    assert waited_for(LINK.format(0, 1), 1) == (0,)
    assert waited_for(LINK.format(0, 1), 2) == (), "a line of another rank in the same log"
    assert waited_for(LINK.replace("time out", "connected").format(0, 1), 1) == ()


def test_waits_for_itself_and_repeated_waits_are_dropped() -> None:
    assert waited_for(NOTIFY.format(3, 3) * 2 + NOTIFY.format(0, 0), 0) == (3,)


def test_the_end_of_the_chain_is_suspected() -> None:
    """In a ring each rank waits for its neighbour: only the one that waits for nobody has done nothing."""
    named = suspected(ranks({0: (4,), 1: (0,), 2: (1,), 3: (2,), 4: (7,), 7: ()}))
    assert (named.rank, named.node) == (7, 1)
    assert named.why == "keeps others waiting: by HCCL, ranks 0-4 wait for it, and it for none"


def test_one_node_alone_cannot_accuse_a_rank_of_another_one() -> None:
    accused = {4: (0,), 5: (0,), 6: (5,)}
    assert suspect(ranks({**accused, 0: ()})) is None
    named = suspected(ranks({**accused, 0: (), 8: (0,)}))
    assert named.rank == 0


def test_many_waits_cost_little_time() -> None:
    """Those of 2,048 nodes with 64 ranks that wait for as many as are read of each."""
    began = time.process_time()
    ring = {rank: tuple((rank + k) % 131_072 for k in range(1, 9)) for rank in range(131_072)}
    roots({**ring, 5: ()})
    circle(ring)
    assert time.process_time() - began < 10


def test_two_that_wait_for_each_other_are_a_circle() -> None:
    named = suspected(ranks({0: (1,), 1: (2,), 2: (5,), 5: (2,), 6: ()}))
    assert named.rank == 2
    assert named.why == "is in a circle: by HCCL, ranks 2, 5 wait for each other"


def test_a_ring_of_all_ranks_says_nothing() -> None:
    assert suspect(ranks({0: (1,), 1: (2,), 2: (3,), 3: (0,)})) is None


def test_a_rank_that_nobody_knows_is_not_suspected() -> None:
    assert suspect(ranks({0: (99,), 1: (99,)})) is None


def test_the_graph_is_shown() -> None:
    assert waits_text({2: (), 1: (0, 5), 0: (5,)}) == ["rank 0 waits for 5", "rank 1 waits for 0, 5"]
