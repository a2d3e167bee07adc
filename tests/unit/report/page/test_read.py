"""Event files and the ends of logs, as the page gets them."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from ma_boot.errors import ConfigError
from ma_boot.processes.signals import SignalInbox
from ma_boot.report.page.read import (
    PATIENCE_SECONDS,
    page_of,
    places_of_logs,
    relative_url,
    tails,
    write_in_time,
)
from ma_boot.report.timeline.events import number, read_events, several, whole
from ma_boot.report.timeline.job_timeline import Timeline
from ma_boot.report.timeline.merge import timeline_of
from tests.synthetic import Writer
from tests.unit.report.page.seen import line_of, run_of

DOCS = Path(__file__).parents[4] / "docs"


def node_with_logs(directory: Path, count: int, code: int = 0) -> Writer:
    node = Writer(0, 10**12)
    node.phase("job", 0, 1)
    for rank in range(count):
        node.at(2, "start", label=f"rank {rank}", rank=rank, log_file=str(directory / f"{rank}.txt"))
        node.at(9, "exit", label=f"rank {rank}", rank=rank, code=0 if rank else code, stopped=False)
    node.at(10, "end", exit_code=code, by="training" if code else None, label="rank 0")
    return node


def tails_of(timeline: Timeline, events: Sequence[Path]) -> dict[str, str]:
    return tails(timeline, places_of_logs(timeline, events))


def tail_of(directory: Path, content: bytes, code: int = 0) -> str:
    (directory / "0.txt").write_bytes(content)
    (text,) = tails_of(line_of(node_with_logs(directory, 1, code)), [directory / "events"]).values()
    return text


class TestTails:
    """The last whole lines of a log."""

    @pytest.mark.parametrize(("code", "most"), [(3, 64_000), (0, 16_000)])
    def test_of_the_cause_more_is_shown(self, tmp_path: Path, code: int, most: int) -> None:
        line = b"x" * 99 + b"\n"
        lines = most // 100
        assert tail_of(tmp_path, line * 1000, code) == "…\n" + (line * (lines - 1)).decode().rstrip("\n")
        assert tail_of(tmp_path, line * lines, code) == (line * lines).decode().rstrip("\n")

    def test_a_long_last_line_is_shown_in_part(self, tmp_path: Path) -> None:
        assert tail_of(tmp_path, b"first\n" + b"y" * 17_000) == "…\n" + "y" * 2000

    def test_colours_and_overwritten_states_are_left_out(self, tmp_path: Path) -> None:
        content = b"\x1b[31mred\x1b[0m\r\n 10%\r 20%\r\n\x1b]0;title\x07last\n\n"
        assert tail_of(tmp_path, content) == "red\n 20%\nlast"

    @pytest.mark.parametrize(("count", "each"), [(1, 16_000), (62, 16_000), (64, 15_625), (250, 4_000)])
    def test_all_logs_share_the_room(self, tmp_path: Path, count: int, each: int) -> None:
        for rank in range(count):
            (tmp_path / f"{rank}.txt").write_bytes(b"xx\n" * 10_000)
        texts = tails_of(line_of(node_with_logs(tmp_path, count)), [tmp_path / "events"])
        assert len(texts) == count
        assert {len(text) for text in texts.values()} == {each}, (
            "16,000, 1,000,000 / 64 and / 250, whole lines of these, and the mark that they are not all"
        )

    def test_they_are_found_beside_the_events_too_and_secrets_are_masked(self, tmp_path: Path) -> None:
        node = node_with_logs(Path("/not/here"), 1)
        (tmp_path / "0.txt").write_text("with --sk planted")
        assert tails_of(line_of(node), [tmp_path / "e"]) == {"/not/here/0.txt": "with --sk ******"}
        (tmp_path / "own").mkdir()
        (tmp_path / "own" / "0.txt").write_text("of the node itself")
        (text,) = tails_of(line_of(node_with_logs(tmp_path / "own", 1)), [tmp_path / "e"]).values()
        assert text == "of the node itself"
        assert tails_of(line_of(node), [tmp_path / "own" / "sub" / "e"]) == {}

    @pytest.mark.invariant("The page reads only files beside the events, and runs only its own scripts")
    def test_only_what_lies_below_the_events_is_read_wherever_links_are(self, tmp_path: Path) -> None:
        """Events that were fetched may name any file of the machine that makes the page."""
        (tmp_path / "id_rsa").write_text("planted")
        log = tmp_path / "log"
        log.mkdir()
        node, events = node_with_logs(tmp_path, 1), [log / "events"]
        files = {"absolute": tmp_path / "id_rsa", "upwards": log / ".." / "id_rsa", "link": log / "link"}
        (log / "link").symlink_to("../id_rsa")
        (log / "inside").symlink_to("real.log")
        (log / "real.log").write_text("words")
        (log / ".netrc").write_text("planted")
        (log / "link.log").symlink_to(".netrc")
        os.mkfifo(log / "fifo.txt")
        (log / "null.txt").symlink_to("/dev/zero")
        files.update(fifo=log / "fifo.txt", device=log / "null.txt", directory=log, inside=log / "inside")
        files.update(not_a_log=log / ".netrc", link_to_it=log / "link.log")
        read, of_own = {}, {}
        for kind, file in files.items():
            text = node.text().replace(str(tmp_path / "0.txt"), str(file))
            timeline = timeline_of([read_events(text)])
            read[kind] = list(tails_of(timeline, events).values())
            of_own[kind] = list(tails(timeline, places_of_logs(timeline, events, own=True)).values())
        assert {kind: texts for kind, texts in read.items() if texts} == {"inside": ["words"]}
        assert of_own["absolute"] == ["planted"], "the node itself knows what it has started"
        assert of_own["fifo"] == of_own["device"] == of_own["directory"] == []

    def test_a_secret_at_the_end_of_a_long_line_is_masked_before_it_is_cut(self, tmp_path: Path) -> None:
        for before in range(1980, 2000):
            assert "plan" not in tail_of(tmp_path, b"x" * before + b" --sk planted-and-more")


@pytest.mark.parametrize(
    ("place", "page", "url"),
    [
        ("/a/log/rank 1.txt", "/a/log/page.html", "./rank%201.txt"),
        ("/a/node-0/log/x", "/a/page.html", "./node-0/log/x"),
        ("/a/x", "/a/b/page.html", "./../x"),
        ("/a/javascript:alert(1)", "/a/page.html", "./javascript%3Aalert%281%29"),
        ("/a/日志", "/a/page.html", "./%E6%97%A5%E5%BF%97"),
    ],
)
def test_whole_logs_are_linked_relatively(place: str, page: str, url: str) -> None:
    assert relative_url(Path(place), Path(page)) == url


def test_a_log_is_linked_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "0.txt").write_text("words")
    events = tmp_path / "x-events.jsonl"
    events.write_text(node_with_logs(tmp_path, 2, code=3).text())
    page = page_of([events], tmp_path / "page.html").text
    assert '<a href="./0.txt">' in page
    assert "1.txt" not in page
    assert "<a href" not in page_of([events]).text


class TestFiles:
    """Files that are read, and those that are refused."""

    def test_it_names_what_it_cannot_read(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"cannot read the events .*none: No such file"):
            page_of([tmp_path / "none"])
        os.mkfifo(tmp_path / "fifo")  # nobody writes to it
        with pytest.raises(ConfigError, match=r"cannot read the events .*fifo: not a regular file"):
            page_of([tmp_path / "fifo"])
        (tmp_path / "empty").write_text("\n")
        with pytest.raises(ConfigError, match=r"no events in .*empty"):
            page_of([tmp_path / "empty"])
        for name in "ab":
            node = Writer(0, 10**12)
            node.at(0, "job", name=f"job {name}")
            (tmp_path / name).write_text(node.text())
        with pytest.raises(ConfigError, match=r"several:\n  - job a\n  - job b"):
            page_of([tmp_path / "a", tmp_path / "b"])
        assert "job a" in page_of([tmp_path / "a"]).text

    def test_the_page_is_written_beside_an_earlier_one(self, tmp_path: Path) -> None:
        node = node_with_logs(tmp_path, 1)
        (tmp_path / "events").write_text(node.text())
        (tmp_path / "page.html").write_text("earlier")
        notes: list[str] = []
        with SignalInbox() as inbox:
            assert write_in_time([tmp_path / "events"], tmp_path / "page.html", inbox, notes.append, 60)
            assert (tmp_path / "page.1.html").read_text() == "earlier"
            assert "succeeded" in (tmp_path / "page.html").read_text()
            assert not write_in_time([tmp_path / "none"], tmp_path / "page.html", inbox, notes.append, 60)
        assert notes == [
            f"no page was made: cannot read the events {tmp_path / 'none'}: No such file or directory"
        ]

    def test_a_page_that_takes_too_long_is_given_up_and_said(self, tmp_path: Path) -> None:
        (tmp_path / "events").write_text(node_with_logs(tmp_path, 20_000).text())
        notes: list[str] = []
        with SignalInbox() as inbox:
            assert not write_in_time(
                [tmp_path / "events"], tmp_path / "page.html", inbox, notes.append, patience=0.01
            )
        assert notes == [f"no page was made: 0 s were not enough for {tmp_path / 'page.html'}"]
        assert f"takes at most {PATIENCE_SECONDS:.0f} s" in (DOCS / "report.md").read_text()

    @pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a": ', "}")])
    @pytest.mark.parametrize(("depth", "kept"), [(8, True), (9, False)])
    def test_deeply_nested_values_are_left_out(
        self, depth: int, kept: bool, opening: str, closing: str
    ) -> None:
        text = json.dumps({"kind": "x", "a": json.loads(opening * depth + '"word"' + closing * depth)})
        (event,) = read_events(text).events
        assert ("word" in json.dumps(event)) is kept

    def test_long_lists_and_texts_are_cut(self) -> None:
        many = {f"{number:0200}"[::-1]: number for number in range(300)}
        text = json.dumps({"kind": "x", "a": list(range(5000)), "b": "x" * 9000, "c" * 200: 1, "d": many})
        (event,) = read_events(text).events
        assert (len(event["a"]), len(event["b"]), event["c" * 100]) == (4096, 4000, 1)
        assert list(event["d"])[-1] == "991" + "0" * 97

    def test_secrets_are_masked_before_a_text_is_cut(self) -> None:
        """Of a text of twice the length: what is far behind is not looked at."""
        text = json.dumps({"kind": "x", "a": "S" * 4000 + "x" * 9000, "b": "S" * 8000 + "x"})
        (event,) = read_events(text, lambda text: text.replace("S", "")).events
        assert (event["a"], event["b"]) == ("x" * 4000, "")


def test_only_numbers_that_can_be_meant_count() -> None:
    event = {
        "a": 1e12,
        "b": 1e12 + 0.5,
        "c": -1,
        "d": True,
        "e": 1_000_000,
        "f": 1_000_001,
        "g": 0,
        "h": ["x", 1, "y" * 200],
        "i": float("nan"),
    }
    assert [number(event, name) for name in "abcdgi"] == [1e12, None, None, None, 0, None]
    assert [whole(event, name) for name in "acdefg"] == [None, None, None, 1_000_000, None, 0]
    assert several(event, "h") == ("x", "y" * 100)
    assert several(event, "a") == ()


@pytest.mark.parametrize(
    ("field", "most"), [("files", 10**12), ("bytes", 10**18), ("retries", 10**6), ("by_length", 10**12)]
)
def test_impossible_figures_of_a_transfer_are_none(field: str, most: int) -> None:
    node = Writer(0, 10**12)
    for value in (most, most + 1):
        node.at(1, "transfer", direction="upload", **{field: value})
    assert [getattr(transfer, field) for transfer in run_of(node).transfers] == [most, 0]


@pytest.mark.parametrize(("code", "kept"), [(255, 255), (256, None)])
def test_codes_are_those_of_a_process(code: int, kept: object) -> None:
    node = Writer(0, 10**12)
    node.at(1, "start", label="rank 0", rank=0)
    node.at(2, "exit", label="rank 0", code=code, signal=64 if kept else 65)
    node.at(3, "end", exit_code=code, signal=64 if kept else 65)
    run = run_of(node)
    assert (run.exit_code, run.processes[0].code) == (kept, kept)
    assert (run.signal, run.processes[0].signal) == ((64, 64) if kept else (None, None))
