"""Two nodes upload files of the same name to one URL: no content is lost, the same content stays one object."""

from __future__ import annotations

import re
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.clients import Account, Sdk
from tests.conftest import CREDENTIALS
from tests.functional.node import Ended, eventually
from tests.functional.rehearsal.jobs import end, rehearse, start, with_outputs, write
from tests.obs import MemoryObs, obs_fault
from tests.obs.faults import Fault, Seen

TOKEN = {"MABOOT_JOB_TOKEN": "a token of sixteen characters"}
QUIET = {"MABOOT_VERBOSE": ""}
SAVE = "os.makedirs('out', exist_ok=True); open('out/model.pt', 'w').write"


@pytest.fixture
def client(obs: MemoryObs) -> Sdk:
    return Sdk(Account(obs.url, "AKPLANTED", "SKPLANTED"), "bucket", "v2")


WAYS = pytest.mark.parametrize("token", [TOKEN, {}], ids=["token", "no token"])


def run(laptop: Path, program: str, more: dict[str, str], **options: Any) -> Ended:
    """Rehearses two nodes of one rank each, with one output for both."""
    outputs = with_outputs(laptop, out={"obs": "obs://bucket/out/", **options})
    outputs = outputs[:2] if "OBS_ENDPOINT" in more else outputs
    return rehearse(laptop, "--nodes", "2", *outputs, program, more=more)


def stored(laptop: Path) -> dict[str, str]:
    root = laptop / "obs" / "bucket" / "out"
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


@WAYS
def test_second_node_does_not_replace_the_file_of_the_first(laptop: Path, token: dict[str, str]) -> None:
    plain = laptop / "obs" / "bucket" / "out" / "model.pt"
    started = laptop / "node 1 has started"
    begin = f"if rank: open({str(started)!r}, 'w').close()"
    wait = f"while not os.path.exists([{str(started)!r}, {str(plain)!r}][rank]): time.sleep(0.05)"
    ended = run(laptop, write(laptop, begin, wait, f"{SAVE}(str(rank))"), {**token, **QUIET})
    assert ended.code == 0, ended.output
    assert stored(laptop) == {"model.pt": "0", "conflicts/node-1/model.pt": "1"}
    named = "uploaded as obs://bucket/out/conflicts/node-1/model.pt"
    assert re.search(rf"\[node 1\] \[ma_boot\] warning: 1 file of this node differs .* {named}", ended.output)


@pytest.mark.invariant("No node replaces another node's file, for any order of requests")
def test_slow_upload_that_wins_leaves_the_other_file_below_conflicts(
    laptop: Path, obs: MemoryObs, client: Sdk
) -> None:
    """Node 1's request is on its way while node 0 uploads and compares its own file."""

    held = laptop / "held"

    def hold(seen: Seen) -> None:
        held.touch()
        eventually(lambda: client.page("out/").keys, "the object of node 0")
        time.sleep(3)  # longer than node 0 would need for all that is left without a wait for node 1

    def is_slow(seen: Seen) -> bool:
        is_put = (seen.method, seen.path) == ("PUT", "/bucket/out/model.pt")
        return is_put and seen.headers.get("content-length") == "2"

    obs.faults.append(Fault(is_slow, before=hold))
    more = {**TOKEN, "OBS_ENDPOINT": obs.url, **CREDENTIALS}
    wait = f"while not rank and not os.path.exists({str(held)!r}): time.sleep(0.05)"
    ended = run(laptop, write(laptop, wait, f"{SAVE}(['0', '11'][rank])"), more)
    assert ended.code == 0, ended.output
    assert client.get("out/model.pt").content == b"11", "the slow one has won"
    assert client.get("out/conflicts/node-0/model.pt").content == b"0"
    assert client.page().keys == ["out/conflicts/node-0/model.pt", "out/model.pt"]


@WAYS
def test_same_content_stays_one_object(laptop: Path, token: dict[str, str]) -> None:
    ended = run(laptop, write(laptop, f"{SAVE}('same')"), {**token, **QUIET})
    assert ended.code == 0, ended.output
    assert stored(laptop) == {"model.pt": "same"}
    assert "differ" not in ended.output.replace("A file that differs", "")


def test_same_content_stays_one_object_where_etags_tell_nothing(
    laptop: Path, obs: MemoryObs, client: Sdk
) -> None:
    obs.faults += [obs_fault("encrypted", method) for method in ("GET", "HEAD", "PUT")]
    wait = "while rank and not os.path.exists(os.environ['HERE'] + '/go'): time.sleep(0.05)"
    program = write(laptop, wait, f"{SAVE}('same')")
    more = {**TOKEN, "OBS_ENDPOINT": obs.url, **CREDENTIALS, "HERE": str(laptop)}

    def go() -> None:
        eventually(lambda: client.page("out/").keys, "the object of node 0")
        (laptop / "go").touch()

    watch = threading.Thread(target=go)
    watch.start()
    ended = run(laptop, program, more)
    watch.join()
    assert ended.code == 0, ended.output
    assert client.page().keys == ["out/model.pt"]


def test_objects_of_an_earlier_job_are_replaced(laptop: Path) -> None:
    root = laptop / "obs" / "bucket" / "out"
    root.mkdir(parents=True)
    (root / "model.pt").write_text("old")
    assert run(laptop, write(laptop, "if rank: sys.exit(0)", f"{SAVE}('new')"), TOKEN).code == 0
    assert stored(laptop) == {"model.pt": "new"}


def test_periodic_uploads_replace_the_own_older_version(laptop: Path) -> None:
    plain = laptop / "obs" / "bucket" / "out" / "model.pt"
    lines = ["if rank == 0:", f"    {SAVE}('first')"]
    lines += [f"    while not os.path.exists({str(plain)!r}): time.sleep(0.05)", f"    {SAVE}('second')"]
    lines += [f"    while open({str(plain)!r}).read() != 'second': time.sleep(0.05)", f"    {SAVE}('last')"]
    assert run(laptop, write(laptop, *lines), TOKEN, interval=1).code == 0
    assert stored(laptop) == {"model.pt": "last"}


def test_url_of_each_node_needs_no_comparison(laptop: Path) -> None:
    outputs = with_outputs(laptop, out="obs://bucket/out/{node}/")
    ended = rehearse(laptop, "--nodes", "2", *outputs, write(laptop, f"{SAVE}(str(rank))"), more=TOKEN)
    assert ended.code == 0, ended.output
    assert stored(laptop) == {"0/model.pt": "0", "1/model.pt": "1"}
    assert "to the same URL" not in ended.output


def test_failed_node_does_not_wait_for_peers_that_train(laptop: Path) -> None:
    program = write(
        laptop,
        f"{SAVE}(str(rank))",
        f"open(f'{laptop}/saved-{{rank}}', 'w').close()",
        f"while rank or not os.path.exists('{laptop}/saved-1'): time.sleep(0.05)",
        "sys.exit(3)",
    )
    began = time.monotonic()
    ended = run(laptop, program, TOKEN)
    assert ended.code == 3, ended.output
    assert time.monotonic() - began < 40
    assert set(stored(laptop).values()) == {"0", "1"}


def test_stop_signal_loses_no_content(laptop: Path) -> None:
    program = write(laptop, f"{SAVE}(str(rank))", "open(f'saved-{rank}', 'w').close()", "time.sleep(600)")
    outputs = with_outputs(laptop, out="obs://bucket/out/")
    running = start(laptop, "--nodes", "2", *outputs, program, more=TOKEN)
    saved = "ma_boot-rehearsal/*/node-*/home/ma-user/saved-*"
    eventually(lambda: len(list(laptop.glob(saved))) == 2, "both files")
    running.send_signal(signal.SIGTERM)
    ended = end(running)
    assert ended.code == 143, ended.output
    assert set(stored(laptop).values()) == {"0", "1"}
    assert len(stored(laptop)) == 2
