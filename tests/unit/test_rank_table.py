"""Rank tables: the documents' own, and what comes instead of them."""

from __future__ import annotations

import contextlib
import copy
import json
import random
from typing import Any, Dict, List, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ma_boot.errors import ConfigError, RankTableInvalid
from ma_boot.local.platform import SimulatedJob, rank_table
from ma_boot.rank_table import NotYet, completed_document, own_pod, parse

# The sample of develop-modelarts-1416.
SAMPLE: Dict[str, Any] = {
    "group_count": "1",
    "group_list": [
        {
            "device_count": "1",
            "group_name": "job-trainjob",
            "instance_count": "1",
            "instance_list": [
                {
                    "devices": [{"device_id": "4", "device_ip": "192.1.10.254"}],
                    "pod_name": "jobxxxxxxxx-job-trainjob-0",
                    "server_id": "192.168.0.25",
                }
            ],
        }
    ],
    "status": "completed",
}

# Template one of MindSpore r1.7's train_ascend, shortened to two servers of two devices.
TEMPLATE_ONE: Dict[str, Any] = {
    "version": "1.0",
    "server_count": "2",
    "server_list": [
        {
            "server_id": f"10.0.0.{server}",
            "device": [
                {"device_id": str(d), "device_ip": f"192.{d}.27.{server}", "rank_id": str(2 * server + d)}
                for d in range(2)
            ],
            "host_nic_ip": "reserve",
        }
        for server in range(2)
    ],
    "status": "completed",
}


def instance(number: int, server: str, devices: int = 1) -> Dict[str, Any]:
    """A pod, as the platform writes it."""
    ips = [{"device_id": str(d), "device_ip": f"192.{number}.0.{d + 1}"} for d in range(devices)]
    return {"pod_name": f"job-{number}", "server_id": server, "devices": ips}


def template_two(*groups: List[Dict[str, Any]]) -> Dict[str, Any]:
    """A completed table of these groups of pods, its counts right."""
    return {
        "status": "completed",
        "group_count": str(len(groups)),
        "group_list": [
            {
                "instance_count": str(len(group)),
                "device_count": str(sum(len(pod["devices"]) for pod in group)),
                "instance_list": group,
            }
            for group in groups
        ],
    }


def ranks(document: Dict[str, Any]) -> Dict[str, List[int]]:
    """The ranks of each pod."""
    return {pod.name or pod.server_id: [d.rank for d in pod.devices] for pod in parse(document).pods}


def test_the_documents_sample_becomes_template_one_byte_for_byte() -> None:
    assert (
        parse(SAMPLE).dumps()
        == """{
  "status": "completed",
  "version": "1.0",
  "server_count": "1",
  "server_list": [
    {
      "server_id": "192.168.0.25",
      "device": [
        {
          "device_id": "4",
          "device_ip": "192.1.10.254",
          "rank_id": "0"
        }
      ]
    }
  ]
}
"""
    )


def test_ranks_follow_the_pods_numbers_not_the_file_nor_the_servers() -> None:
    pods = [instance(1, "10.19.1.79", 8), instance(0, "10.19.1.142", 8)]
    assert ranks(template_two(pods)) == {"job-0": [*range(8)], "job-1": [*range(8, 16)]}
    servers = parse(template_two(pods)).template_one["server_list"]
    assert [server["server_id"] for server in servers] == ["10.19.1.142", "10.19.1.79"]


def test_pod_10_comes_after_pod_2() -> None:
    assert ranks(template_two([instance(10, "a"), instance(2, "b")])) == {"job-2": [0], "job-10": [1]}


def test_groups_are_numbered_through() -> None:
    assert ranks(template_two([instance(2, "c")], [instance(0, "a"), instance(1, "b")])) == {
        "job-0": [0],
        "job-1": [1],
        "job-2": [2],
    }


def test_pods_without_a_number_keep_the_order_of_the_file() -> None:
    pods = [instance(1, "b"), {**instance(0, "a"), "pod_name": "master"}]
    assert ranks(template_two(pods)) == {"job-1": [0], "master": [1]}


def test_two_pods_of_a_server_are_one_server_and_stay_two_pods() -> None:
    table = parse(template_two([instance(0, "a"), {**instance(1, "a"), "devices": [{"device_id": "5"}]}]))
    assert table.template_one["server_count"] == "1"
    assert [len(pod.devices) for pod in table.pods] == [1, 1]


def test_template_one_is_taken_as_it_is() -> None:
    table = parse(TEMPLATE_ONE)
    assert table.template_one == TEMPLATE_ONE
    assert [[device.rank for device in pod.devices] for pod in table.pods] == [[0, 1], [2, 3]]


def test_numbers_where_strings_belong_come_out_as_strings() -> None:
    document = template_two([instance(0, "a")])
    document["group_list"][0]["instance_list"][0]["devices"] = [{"device_id": 3}]
    assert parse(document).template_one["server_list"][0]["device"] == [{"device_id": "3", "rank_id": "0"}]


def broken(path: List[Any], value: Any, document: Dict[str, Any]) -> Dict[str, Any]:
    """The document with another value at a path; None takes the key away."""
    document = copy.deepcopy(document)
    holder: Any = document
    for step in path[:-1]:
        holder = holder[step]
    if value is None:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return document


POD = ["group_list", 0, "instance_list", 0]
DEVICE = ["server_list", 0, "device", 0]


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (broken(["group_count"], "2", SAMPLE), "group_count: found '2', but 1 are listed"),
        (broken(["group_list", 0, "instance_count"], "2", SAMPLE), "group_list[0].instance_count: found '2'"),
        (broken(["group_list", 0, "device_count"], "8", SAMPLE), "group_list[0].device_count: found '8'"),
        (broken(["group_list"], {}, SAMPLE), "group_list: found dict {}, expected a list"),
        (broken([*POD], "pod", SAMPLE), "instance_list[0]: found str 'pod', expected an object"),
        (broken([*POD, "server_id"], None, SAMPLE), "instance_list[0].server_id: found nothing"),
        (broken([*POD, "pod_name"], "", SAMPLE), "instance_list[0].pod_name: found str ''"),
        (broken([*POD, "devices"], [], SAMPLE), "device_count: found '1', but 0 are listed"),
        (broken([*POD, "devices", 0, "device_id"], "x", SAMPLE), "device_id: found 'x', expected a number"),
        (template_two([instance(0, "a"), instance(0, "b")]), "pod_name job-0: found 2 times"),
        (template_two([instance(0, "a"), instance(1, "a")]), "device 0 of server a: found 2 times"),
        (template_two(), "no device in the whole table"),
        (broken(["server_count"], "3", TEMPLATE_ONE), "server_count: found '3', but 2 are listed"),
        (
            broken([*DEVICE, "rank_id"], "1", TEMPLATE_ONE),
            "rank_id: found 1, 1, 2, 3, expected each of 0 to 3",
        ),
        (broken([*DEVICE, "rank_id"], None, TEMPLATE_ONE), "device[0].rank_id: found nothing"),
        (broken([*DEVICE, "device_ip"], "192.1.27.0", TEMPLATE_ONE), "device_ip 192.1.27.0: found 2 times"),
        ({"status": "completed"}, "neither group_list (template two) nor server_list (template one)"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(document: Dict[str, Any], said: str) -> None:
    with pytest.raises(RankTableInvalid) as raised:
        parse(document)
    assert said in str(raised.value)


def test_all_problems_come_at_once() -> None:
    document = broken([*POD, "server_id"], None, broken(["group_count"], "9", SAMPLE))
    with pytest.raises(RankTableInvalid) as raised:
        parse(document)
    assert "group_count" in str(raised.value)
    assert "server_id" in str(raised.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the file is empty"),
        (" \n", "the file is empty"),
        ('{"group_count": "1", "gro', "not whole JSON"),
        ("[]", "a JSON list"),
        ("{}", "no status yet"),
        ('{"status":"initializing"}', 'status is "initializing"'),
        ('{"status":null}', "no status yet"),
        ('{"status":7}', 'status is "7"'),
    ],
)
def test_every_state_before_completed_has_its_words(text: str, reason: str) -> None:
    state = completed_document(text)
    assert isinstance(state, NotYet)
    assert reason in state.reason


@given(st.text())
def test_no_text_breaks_the_wait(text: str) -> None:
    completed_document(text)


KEYS = ["status", "group_list", "server_list", "instance_list", "devices", "device", "pod_name", "server_id"]
KEYS += ["device_id", "device_ip", "rank_id", "group_count", "device_count", "instance_count"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.sampled_from(["", "0", "1", "a", "²"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=25,
)


@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6))
def test_no_document_breaks_the_parser(document: Dict[str, Any]) -> None:
    with contextlib.suppress(RankTableInvalid):
        parse(document)


@given(st.integers(1, 12), st.integers(1, 8), st.randoms())
def test_the_order_in_the_file_does_not_matter(nodes: int, devices: int, shuffle: random.Random) -> None:
    document = rank_table(SimulatedJob("u", "/r", nodes, devices))
    expected = parse(document)
    shuffle.shuffle(document["group_list"][0]["instance_list"])
    table = parse(document)
    assert table.dumps() == expected.dumps()
    assert [d.rank for pod in table.pods for d in pod.devices] == list(range(nodes * devices))
    assert parse(json.loads(table.dumps())).world_size == nodes * devices


class TestWhoAmI:
    """The rule of the design, section 5."""

    table = parse(
        template_two(
            [
                {
                    "pod_name": f"ma-job-x-worker-{number}",
                    "server_id": server,
                    "devices": [{"device_id": device}],
                }
                for number, server, device in [
                    (0, "10.0.0.1", "0"),
                    (1, "10.0.0.2", "0"),
                    (2, "10.0.0.2", "7"),
                ]
            ]
        )
    )

    @pytest.mark.parametrize(
        ("name", "ip", "index", "found"),
        [
            ("ma-job-x-worker-1", "10.0.0.1", 0, "1"),  # the name is asked first
            ("modelarts-job-x-worker-2", "10.0.0.1", 0, "2"),  # as the platform's variable spells it
            (None, "10.0.0.1", 2, "0"),
            ("unknown", "10.0.0.1", 2, "0"),
            (None, "10.0.0.2", 2, "2"),  # two pods on this host: the address alone cannot say
            (None, None, 1, "1"),
        ],
    )
    def test_the_first_rule_that_fits_one_pod(
        self, name: Optional[str], ip: Optional[str], index: Optional[int], found: str
    ) -> None:
        assert own_pod(self.table, name, ip, index).name == f"ma-job-x-worker-{found}"

    @pytest.mark.parametrize(("ip", "index"), [(None, None), ("10.0.0.2", None), ("10.9.9.9", 7)])
    def test_none_or_several_is_an_error_with_the_candidates(
        self, ip: Optional[str], index: Optional[int]
    ) -> None:
        with pytest.raises(ConfigError) as raised:
            own_pod(self.table, None, ip, index)
        assert "pod ma-job-x-worker-1 on server 10.0.0.2, 1 devices" in str(raised.value)

    def test_the_only_pod_needs_no_name(self) -> None:
        assert own_pod(parse(SAMPLE), None, None, None).server_id == "192.168.0.25"

    def test_the_only_pod_may_not_be_somebody_elses(self) -> None:
        with pytest.raises(ConfigError):
            own_pod(parse(SAMPLE), "ma-job-other-worker-3", "10.9.9.9", 3)

    def test_template_one_by_address_or_place(self) -> None:
        table = parse(TEMPLATE_ONE)
        assert own_pod(table, "any", "10.0.0.1", None).server_id == "10.0.0.1"
        assert own_pod(table, "any", None, 1).server_id == "10.0.0.1"
