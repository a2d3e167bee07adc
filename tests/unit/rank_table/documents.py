"""Documents of rank tables, and all calls of the library with one."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

from hypothesis import strategies as st

from ma_boot.platform.rank_table import Unreadable, convert, moved, parse, rows, validate

# Template one of MindSpore r1.7's train_ascend, shortened to two servers of two devices.
TEMPLATE_ONE: dict[str, Any] = {
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


def a3() -> dict[str, Any]:
    """Two servers of an A3, in one super pod."""
    document = copy.deepcopy(TEMPLATE_ONE)
    document["version"] = "1.2"
    for s, server in enumerate(document["server_list"]):
        for d, device in enumerate(server["device"]):
            device["super_device_id"] = str(10 * s + d)
    servers = [{"server_id": server["server_id"]} for server in document["server_list"]]
    document["super_pod_list"] = [{"super_pod_id": "0", "server_list": servers}]
    return document


KEYS = ["status", "group_list", "server_list", "instance_list", "devices", "device", "pod_name", "server_id"]


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1, 3)
    | st.sampled_from(["", "0", "1", "a", "²", "٣", "9" * 5000])
    | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=25,
)


def use(document: dict[str, Any]) -> None:
    """All that the library does with a document; it may say that it is unreadable, and nothing else."""
    with contextlib.suppress(Unreadable):
        table = parse(document)
        validate(table)
        validate(table, "910a")
        rows(table)
        for rank_order in ("pod", "server"):
            converted = convert(table, rank_order)
            converted.dumps()
            moved(table, converted)


def servers(count: int = 2, devices: int = 2, **more: Any) -> dict[str, Any]:
    """A completed table of Volcano's controller: no pod has a name, the list is in the order of pods."""
    listed = [
        {
            "server_id": f"10.0.0.{server + 1}",
            "device": [
                {
                    "device_id": str(device),
                    "device_ip": f"29.{device}.0.{server + 1}",
                    "rank_id": str(server * devices + device),
                }
                for device in range(devices)
            ],
        }
        for server in range(count)
    ]
    table = {"status": "completed", "version": "1.0", "server_count": str(count), "server_list": listed}
    return {**table, **more}
