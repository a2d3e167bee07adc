"""Numbers that are none: of other scripts, or longer than Python converts (4,300 digits)."""

from __future__ import annotations

from typing import Any

import pytest

from ma_boot.platform.rank_table import Unreadable, convert, errors, fake, merged, parse, validate
from tests.unit.rank_table.documents import servers

LONG = "9" * 5000


def with_names(*names: str) -> dict[str, Any]:
    document = fake(len(names), 1)
    for pod, name in zip(document["group_list"][0]["instance_list"], names):
        pod["pod_name"] = name
    return document


def one_server(server: str, **more: str) -> dict[str, Any]:
    document = servers(1, 1)
    document["server_list"][0]["server_id"] = server
    document["server_list"][0]["device"][0].update(more)
    return document


@pytest.mark.parametrize("name", ["job-٣", f"job-{LONG}", "job-" + "9" * 19, "job-x", "job-²"])
def test_a_pod_without_a_number_is_named_and_stays_in_its_place(name: str) -> None:
    table = convert(parse(with_names("job-7", name, "job-1")))
    (warning,) = [finding for finding in table.findings if finding.path == "pod_name"]
    assert (warning.found, warning.fatal) == (repr(name), False)
    assert [pod.name for pod in table.pods] == ["job-7", name, "job-1"]


def test_a_number_of_eighteen_digits_orders() -> None:
    table = convert(parse(with_names("job-" + "9" * 18, "job-8", "job-10")))
    assert [pod.name for pod in table.pods] == ["job-8", "job-10", "job-" + "9" * 18]


@pytest.mark.parametrize("port", [LONG, "0", "65536", "٣", "", "-1"])
def test_device_without_a_port(port: str) -> None:
    (finding,) = errors(validate(parse(one_server("10.0.0.1", device_port=port))))
    assert finding.path.endswith("device_port")
    assert finding.expected == "1 to 65535"
    assert len(finding.found) <= 40


def test_servers_are_in_order_of_any_numbers() -> None:
    document, _ = merged([parse(one_server(server)) for server in ("b", f"1-{LONG}", "2-1", "1-5", "1-٣")])
    order = [server["server_id"] for server in document["server_list"]]
    assert (order[0], {*order[1:3]}, order[3:]) == ("1-5", {"1-٣", f"1-{LONG}"}, ["2-1", "b"])


@pytest.mark.parametrize("count", [LONG, "٣", "x", "", None])
def test_invalid_count_of_ranks_is_ignored(count: Any) -> None:
    document = {"version": "2.0", "status": "completed", "rank_count": count, "rank_list": []}
    with pytest.raises(Unreadable, match=r"rank_count: found .*, expected the number of ranks"):
        parse(document)
