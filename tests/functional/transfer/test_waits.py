"""Waits of a job during its transfers are in its events and on its page, not only on the terminal."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from ma_boot.desk.rehearsal.obs_server.signatures import KeyPair
from tests.conformance.clients import Account, Sdk
from tests.functional.node import Node, eventually
from tests.obs import MemoryObs, obs_fault

AT_OBS = {"OBS_SECURITY_TOKEN": "TOKENPLANTED", "OBS_ACCESS_KEY_ID": "AKPLANTED", "OBS_SECRET_ACCESS_KEY": "SKPLANTED"}  # fmt: skip


@pytest.fixture
def node(tmp_path: Path, obs: MemoryObs) -> Node:
    Sdk(Account(obs.url, "AKPLANTED", "SKPLANTED", "TOKENPLANTED"), "bucket", "v2").put("data/a", b"a")
    made = Node(tmp_path, variables={"OBS_ENDPOINT": obs.url, **AT_OBS})
    made.complete_table()
    return made


def booted(node: Node) -> str:
    options = node.mapping({"data": "obs://bucket/data/"}, {})
    return node.boot(*options[:2], "true").output


def waits(node: Node) -> list[dict[str, Any]]:
    return [event for event in node.events() if event["kind"] == "waiting"]


def keys(access: str) -> str:
    return json.dumps(
        {"credential": {"access": access, "secret": "SKPLANTED", "securitytoken": "TOKENPLANTED"}}
    )


def test_credentials_that_are_renewed_late(node: Node, obs: MemoryObs) -> None:
    file = node.root / "keys.json"
    file.write_text(keys("AKOLD"))
    obs.credentials[:] = [KeyPair("AKNEW", "SKPLANTED", "TOKENPLANTED")]
    node.variables["OBS_CREDENTIALS_FILE"] = str(file)

    def renew() -> None:
        eventually(lambda: bool(node.log_dir.exists() and waits(node)), "an event of the wait")
        file.write_text(keys("AKNEW"))

    late = threading.Thread(target=renew)
    late.start()
    output = booted(node)
    late.join()
    assert (node.home / "data" / "a").read_bytes() == b"a", output
    reason = "OBS refused the credentials as expired; waiting up to 60 s for new ones"
    assert [(event["what"], event["reason"]) for event in waits(node)] == [("credentials", reason)]
    assert output.count(reason) == 1
    assert f"[ma_boot] {reason}" in output
    (page,) = node.log_dir.glob("*.html")
    assert reason in page.read_text()


def test_a_store_that_fails_for_a_while(node: Node, obs: MemoryObs) -> None:
    obs.faults.append(obs_fault("503", "GET", "/data/a", times=9))
    output = booted(node)
    assert (node.home / "data" / "a").read_bytes() == b"a", output
    assert [event["what"] for event in waits(node)] == ["inputs"] * output.count("OBS fails since")
    assert waits(node)
    assert "503" in waits(node)[0]["reason"]
