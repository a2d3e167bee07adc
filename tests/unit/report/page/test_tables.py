"""Tables and logs of the page: sums, and limits."""

from __future__ import annotations

import re

import pytest

from ma_boot.report.page.language import code_shown
from ma_boot.report.page.tables import logs_to_read
from tests.synthetic import Writer
from tests.unit.report.page.seen import line_of, node_with, processes, seen


def ran(node: Writer, label: str, rank: int | None, end: float, code: int = 0) -> None:
    node.at(2, "start", label=label, rank=rank, log_file=f"/log/{label}")
    node.at(end, "exit", label=label, code=code, stopped=False)


class TestProcesses:
    """Ends of processes."""

    @pytest.mark.parametrize(("count", "each"), [(1, 0), (2, 2), (64, 64), (65, 0)])
    def test_processes_that_ended_alike_are_one_row(self, count: int, each: int) -> None:
        page = seen(processes(count))
        assert [row[0] for row in page.rows("processes")] == [
            "rank 0" if count == 1 else f"rank 0–{count - 1}"
        ]
        assert len(page.rows("processes", 1)) == each

    def test_at_most_forty_ways_to_end_are_shown_the_cause_first(self) -> None:
        page = seen(processes(45, code=3))
        rows = page.rows("processes")
        assert (len(rows), rows[0][0], rows[0][3]) == (40, "rank 0", "cause")
        assert page.rows("processes", 1) == []

    def test_the_command_of_each_node_is_named_once(self) -> None:
        nodes = [node_with(number) for number in range(3)]
        for node in nodes:
            ran(node, "command", None, 9)
        ran(nodes[0], "scheduler", None, 9)
        (row,) = seen(*nodes).rows("processes")
        assert row[:2] == ["command, scheduler", "0–2"]

    @pytest.mark.parametrize(
        ("code", "signal", "text"),
        [(None, None, "?"), (7, None, "7"), (7, 0, "7"), (143, 15, "143 SIGTERM"), (None, 9, "?")],
    )
    def test_codes(self, code: int | None, signal: int | None, text: str) -> None:
        assert code_shown(code, signal) == text


class TestIncidents:
    """Incidents."""

    @pytest.mark.parametrize(("count", "more"), [(59, ""), (60, ""), (61, "and 1 more")])
    def test_at_most_sixty_are_shown(self, count: int, more: str) -> None:
        node = node_with()
        for number in range(count):
            node.at(number, "fault", target=f"rank {number}", fault="kill")
        page = seen(node)
        assert len(page.rows("incidents")) == min(60, count)
        assert re.findall(r"and -?\d+ more", page.english) == ([more] if more else [])

    def happened(self, *nodes: Writer | str) -> list[tuple[str, str]]:
        """Node and details of each row."""
        return [(row[1], row[3]) for row in seen(*nodes).rows("incidents")]

    def test_each_row_has_its_nodes_and_follows_its_reason(self) -> None:
        """The clock of node 1 is a second behind; the rehearsal writes its own events last."""
        first, second = node_with(), node_with(1)
        first.at(50, "stop", reason="rank 3 ended with exit code 1")
        second.at(49, "stop", reason="node 0, rank 3: ValueError: x")
        first.at(60, "stop", reason="SIGTERM received")
        second.at(60, "stop", reason="SIGTERM received")
        rows = [
            (61, "stop", {"reason": "SIGINT received"}),
            (65, "fault", {"target": "node 1", "fault": "lost"}),
        ]
        job = Writer(0, 10**12)
        for at, kind, fields in rows:
            job.at(at, kind, **fields)
        assert self.happened(first, second, job.text().replace('"node": 0', '"node": null')) == [
            ("0", "rank 3 ended with exit code 1"),
            ("1", "node 0, rank 3: ValueError: x"),
            ("0–1", "SIGINT received"),
            ("0–1", "SIGTERM received"),
            ("1", "node 1 · lost"),
        ]

    def test_an_incident_of_the_job_is_on_the_node_that_it_names(self) -> None:
        node = processes(2)
        job = Writer(0, 10**12)
        job.at(3, "stop", reason="node 7 ended with exit code 1")
        job.at(4, "fault", target="rank 1", fault="killed")
        job.at(5, "fault", target="", fault="lost node=1 at=3s")
        assert self.happened(node, job.text().replace('"node": 0', '"node": null')) == [
            ("7", "node 7 ended with exit code 1"),
            ("0", "rank 1 · killed"),
            ("1", "lost node=1 at=3s"),
        ]

    def test_a_rerun_of_the_boot_command_is_an_event_of_the_job(self) -> None:
        runs = []
        for number in range(2):
            for run in range(2):
                node = Writer(number, 10**12)
                node.phase("job", 50 * run, 50 * run + 1)
                node.at(50 * run + 9, "stop", reason="SIGTERM received")
                runs.append(node.text())
        rows = [(at[:5], *row) for at, *row in seen("".join(runs)).rows("incidents")]
        assert rows == [
            ("9.0 s", "0–1", "stop", "SIGTERM received"),
            ("50.0 ", "0–1", "boot command run again", ""),
            ("59.0 ", "0–1", "stop", "SIGTERM received"),
        ]

    def test_each_restart_of_the_job_is_a_row_also_for_the_same_reason(self) -> None:
        nodes = [node_with(number) for number in range(2)]
        for node in nodes:
            for attempt in range(2):
                node.at(10 + 20 * attempt, "stop", reason="node 9, rank 3: x")
                node.at(12 + 20 * attempt, "restart", attempt=attempt + 2, reason="node 9, rank 3: x")
        rows = [row[:3] for row in seen(*nodes).rows("incidents")]
        assert [(at[:4], node, kind) for at, node, kind in rows] == [
            ("10.0", "0–1", "stop"), ("12.0", "0–1", "restart"), ("30.0", "0–1", "stop"), ("32.0", "0–1", "restart"),
        ]  # fmt: skip

    def test_a_cell_has_at_most_200_characters(self) -> None:
        node = node_with()
        node.at(1, "fault", target="x" * 100, fault="y" * 100)
        text = seen(node).rows("incidents")[0][3]
        assert (len(text), text[-2:]) == (200, "y…")


class TestData:
    """Inputs, outputs and transfers."""

    @pytest.mark.parametrize(
        ("count", "rows", "each", "heading"),
        [(8, 8, 0, ""), (9, 1, 9, "All transfers"), (40, 1, 40, "All transfers"), (41, 1, 40, "The first 40 transfers")],
    )  # fmt: skip
    def test_transfers_are_rows_while_they_are_few(
        self, count: int, rows: int, each: int, heading: str
    ) -> None:
        node = node_with()
        for number in range(count):
            node.at(
                10 + number, "transfer", direction="download", files=1, bytes=1000, seconds=number, retries=1
            )
        page = seen(node)
        assert (len(page.rows("data")), len(page.rows("data", 1))) == (rows, each)
        assert re.findall("<summary>(.*?)</summary>", page.section("data")) == ([heading] if heading else [])
        if rows == 1:
            _, nodes, files, _, time, _, retries = page.rows("data")[0]
            assert (files, retries, nodes) == (str(count), str(count), "0")
            assert time == f"up to {count - 1:.1f} s"

    def test_each_direction_has_its_sum_and_a_rate_beside_each(self) -> None:
        node = node_with()
        for number in range(8):
            node.at(10 + number, "transfer", direction="download", files=1, bytes=1000, seconds=0.5)
        node.at(29, "progress", direction="download", bytes_done=500)
        node.at(30, "transfer", direction="upload", files=3, bytes=10, seconds=0.002, by_length=2)
        page = seen(node)
        assert [[*row[:1], *row[2:4], *row[5:]] for row in page.rows("data")] == [
            ["download", "8", "8.5 kB", "", ""],
            ["upload", "3 (length only: 2)", "10 B", "", ""],
        ]
        assert [row[5] for row in page.rows("data", 1)] == ["2.0 kB/s"] * 8 + ["", "5.0 kB/s"]

    def test_a_transfer_that_did_not_finish_and_one_that_took_no_time(self) -> None:
        node = node_with()
        node.at(5, "transfer", direction="upload", files=1, bytes=10, seconds=0)
        node.at(6, "progress", direction="download", bytes_done=7)
        assert seen(node).rows("data") == [
            ["upload", "0", "1", "10 B", "0.0 s", "", ""],
            ["download", "0", "", "7 B", "not finished", "", ""],
        ]

    def test_inputs_and_outputs_have_their_places(self) -> None:
        node = Writer(0, 10**12)
        node.at(0, "routes", inputs=[["data", "obs://b/data/"], 3, [1]], outputs=7)
        node.at(1, "channel", direction="d" * 30, name="n" * 200, files=3, url="obs://b/k")
        out = {"direction": "output", "name": "out", "local_dir": "/o", "files": 2, "bytes": 1500, "url": "u"}
        node.at(2, "channel", **out, complete=False)
        node.at(3, "transfer", direction="download", files=4, bytes=2_000_000, seconds=1)
        page = seen(node)
        assert page.rows("data") == [
            ["input", "0", "", "data", "obs://b/data/", "4", "2.0 MB"],
            ["d" * 20, "0", "n" * 100, "", "obs://b/k", "3", "0 B"],
            ["output", "0", "out", "/o", "u", "> 2", "> 1.5 kB"],
        ]
        assert "<td><code>data</code></td><td><code>obs://b/data/</code></td>" in page.page
        assert "<td><code>0</code></td>" not in page.page
        node.at(4, "routes", inputs=[["more", "obs://b/more/"]])
        figures = [row[-2:] for row in seen(node).rows("data") if row[0] == "input"]
        assert figures == [["", ""], ["", ""]], "which of them was transferred nobody knows"

    def test_inputs_are_those_of_the_last_run_and_at_most_sixty(self) -> None:
        node = Writer(0, 10**12)
        for number in range(2):
            node.at(100 * number, "phase-start", phase="job")
            inputs = [[f"data-{number}-{place}", "obs://b/"] for place in range(61)]
            node.at(100 * number + 1, "routes", inputs=inputs, outputs=[])
        assert [row[2] for row in seen(node).rows("data")] == [f"data-1-{place}" for place in range(60)]


class TestStacks:
    """Stacks of a hang."""

    def page(self, **fields: object) -> str:
        node = node_with()
        node.at(5, "hang", labels=["rank 1"])
        node.at(6, "stacks", **fields)
        node.at(7, "end", exit_code=124, by="ma_boot", cause="rank 1 hung")
        page = seen(node)
        assert page.headline == "Rank 1 on node 0 hung."
        return page.section("stacks")

    @pytest.mark.parametrize(("places", "more"), [(24, []), (25, ["and 1 more places"])])
    def test_many_places_are_counted(self, places: int, more: list[str]) -> None:
        section = self.page(folded=[{"ranks": [rank], "stack": f"f{rank}"} for rank in range(places)])
        assert re.findall("and .* more places", section) == more
        assert (">f23<" in section, ">f24<" in section) == (True, False)

    def test_collectives_are_a_table(self) -> None:
        differs = [{"ranks": "3", "what": "broadcast <b>"}, 7]
        stuck = {
            "label": "tp",
            "seq": 4,
            "op": "all_reduce",
            "inside": "4, 6-7",
            "outside": "5",
            "place": "a.py:8",
        }
        section = self.page(folded=[], stuck=[{**stuck, "differs": differs}, {"seq": "x", "differs": 1}, 5])
        assert re.findall("<td>(.*?)</td>", section) == [
            "tp", "4", "all_reduce", "4, 6-7", "5", "a.py:8", "3: broadcast &lt;b&gt;", "", "0", "", "", "–", "", "",
        ]  # fmt: skip
        assert "<h3>Collectives that are not done</h3>" in section


class TestLogs:
    """Ends of logs, and the commands that started the job."""

    def test_they_are_in_the_order_of_interest_and_at_most_256(self) -> None:
        node = processes(262, code=3)
        page = seen(node, tails={f"/log/{rank}": "words" for rank in range(262)})
        assert page.logs == [
            f"rank {rank} · node 0 · exit code {(3 + rank) % 256 if rank < 253 else '?'}"
            for rank in range(256)
        ]
        assert "The logs of 6 more processes are in the log directory only." in page.english

    def test_the_cause_is_first_then_those_that_failed_after_it_then_the_others_by_rank(self) -> None:
        node = node_with()
        for label, rank, end, code in (("rank 4", 4, 3.0, 0), ("rank 3", 3, 4.0, 0), ("scheduler", None, 9.5, 0),
                                       ("rank 0", 0, 9.0, 3), ("rank 1", 1, 8.0, 3), ("rank 2", 2, 5.0, 3)):  # fmt: skip
            ran(node, label, rank, end, code)
        node.at(10, "end", exit_code=3, by="training", label="rank 2")
        labels = [process.label for process in logs_to_read(line_of(node))]
        assert labels == ["rank 2", "rank 1", "rank 0", "scheduler", "rank 3", "rank 4"]

    @pytest.mark.parametrize(("log_file", "wanted"), [("/log/node 1", ["node 1"]), ("", [])])
    def test_a_node_that_left_no_end_has_its_log_on_top(self, log_file: str, wanted: list[str]) -> None:
        job = Writer(0, 10**12)
        job.at(1, "start", label="node 1", log_file=log_file)
        job.at(6, "job-end", exit_code=137, by="node", label="node 1")
        line = line_of(node_with(), job.text().replace('"node": 0', '"node": null'))
        assert [process.label for process in logs_to_read(line)] == wanted

    def test_an_empty_log_is_left_out(self) -> None:
        assert seen(processes(2), tails={"/log/0": " \n", "/log/1": "x"}).logs == [
            "rank 1 · node 0 · exit code 0"
        ]

    def test_each_of_four_commands_is_shown_of_the_last_run(self) -> None:
        nodes = []
        for number in range(5):
            nodes.append(Writer(number, 10**12))
            for run in range(2):
                nodes[-1].phase("job", 10 * run, 10 * run + 1)
                nodes[-1].at(10 * run + 1, "job", name="j", command=f"ma_boot train-{number}.{run}")
        commands = re.findall("<h3>(.*?)</h3>.*?<pre>(.*?)</pre>", seen(*nodes).section("start"))
        assert commands == [(f"on node {number}", f"ma_boot train-{number}.1") for number in range(4)]
