"""What the page shows of a small job: every value by its figure, from the events to the drawing."""

from __future__ import annotations

import pytest

from ma_boot.reporting.page.lanes import Chart, lane
from ma_boot.reporting.page.language import Text, same
from ma_boot.reporting.page.sections import facts, header, incident_rows, log_ends, process_rows
from ma_boot.reporting.page.transfers import transfers
from ma_boot.reporting.timeline import Timeline, read_events, timeline_of
from tests.synthetic import BEGAN, small_job

both = Text


@pytest.fixture(scope="module")
def line() -> Timeline:
    return timeline_of([read_events(file, lambda text: text) for file in small_job()])


# fmt: off
NODES: object = (
    (
        0,
        (
            (
                0.0,
                100.0,
                (
                    ("job", 0.0, 0.25, "done", ""),
                    ("inputs", 1.0, 21.0, "done", "3 files"),
                    ("rank table", 1.0, 31.0, "done", ""),
                    ("run", 40.0, 90.0, "failed", "rank 1 ended with exit code 3"),
                    ("outputs", 90.0, 100.0, "done", ""),
                ),
                (
                    ("rank 0", 0, 40.0, 49.0, 88.0, 137, 9, True, "", "/log/0", "stopped"),
                    ("rank 1", 1, 41.0, None, 79.5, 3, None, False, "", "/log/1", "cause"),
                ),
                (
                    ("waiting", 25.0, 0, "rank table", "status is initializing"),
                    ("hang", 60.0, 0, "rank 0, rank 1", ""),
                    ("stop", 80.0, 0, "", "rank 1 ended with exit code 3"),
                    ("kill", 85.0, 0, "rank 0", "signal 9"),
                ),
                (
                    ("download", 1.0, 21.0, 3, 1000, ((6.0, 400), (11.0, 600), (16.0, 900)), 2, 0),
                    ("upload", 91.0, 99.0, 7, 5000000, (), 0, 2),
                ),
                3,
                "training",
                "rank 1 ended with exit code 3",
                "rank 1",
                None,
                "no layer",
                "",
                "a",
                (),
                (),
                (),
                "",
            ),
        ),
    ),
    (
        1,
        (
            (
                2.0,
                95.0,
                (("job", 2.0, 2.5, "done", ""), ("run", 42.0, 89.0, "stopped", "SIGTERM received")),
                (
                    ("rank 2", 2, 42.0, None, 82.0, 143, 15, True, "", "/log/2", "stopped"),
                    ("scheduler", None, 43.0, None, 83.0, 0, None, True, "", "/log/s", "well"),
                ),
                (("left-over", 70.0, 1, "", "3"),),
                (),
                143,
                "signal",
                "stopped by SIGTERM",
                "",
                15,
                "",
                "",
                "",
                (),
                (),
                (),
                "",
            ),
        ),
    ),
)
OUTCOME: object = (
    3,
    "training",
    "rank 1 ended with exit code 3",
    0,
    ("rank 1", 1, 41.0, None, 79.5, 3, None, False, "", "/log/1", "cause"),
    None,
    "",
    "no layer",
)
LANES: object = (
    (
        0,
        False,
        40,
        (("rank 0", False, 16), ("rank 1", True, 16)),
        40,
        (
            ("p0", "job done, 0.2 s", "0", "0.2", 0, both('job', '作业'), "0.2 s"),
            ("p2", "inputs done, 20.0 s: 3 files", "1", "20", 0, both('inputs', '输入'), "20.0 s"),
            ("p3", "rank table done, 30.0 s", "1", "30", 20, same('rank table'), "30.0 s"),
            (
                "p5 failed",
                "run failed, 50.0 s: rank 1 ended with exit code 3",
                "40",
                "50",
                0,
                both('run', '运行'),
                "50.0 s",
            ),
            ("p6", "outputs done, 10.0 s", "90", "10", 0, both('outputs', '输出'), "10.0 s"),
        ),
        32,
        (),
        (
            ("rank 0: 137 SIGKILL, 40.0–88.0 s", (("quiet", "M400 8H490"), ("stopped", "M490 8H880"))),
            (
                "rank 1: 3, 41.0–79.5 s",
                (("quiet", "M410 24H795"), ("cause", "M794 24H795"), ("dot", "M795 24h0")),
            ),
        ),
        (
            ("dot hang", "M600 8h0"),
            ("dot hang", "M600 24h0"),
            ("stop", "M800 0V32"),
            ("dot kill", "M850 8h0"),
        ),
    ),
    (
        1,
        False,
        20,
        (("scheduler", False, 16), ("rank 2", False, 16)),
        20,
        (
            ("p0", "job done, 0.5 s", "2", "0.5", 0, both('job', '作业'), "0.5 s"),
            (
                "p5 cut",
                "run stopped, 47.0 s: SIGTERM received",
                "42",
                "47",
                0,
                both('run', '运行'),
                "47.0 s",
            ),
        ),
        32,
        (),
        (
            ("rank 2: 143 SIGTERM, 42.0–82.0 s", (("quiet", "M420 24H820"), ("stopped", "M819 24H820"))),
            ("scheduler: 0, 43.0–83.0 s", (("quiet", "M430 8H830"), ("well", "M829 8H830"))),
        ),
        (),
    ),
)
STRIPS: object = (
    (
        0,
        True,
        0,
        (),
        0,
        (),
        19,
        (
            ("p0", "M0 2.5h2.5"),
            ("p2", "M10 2.5h200"),
            ("p3", "M10 7.5h300"),
            ("failed", "M400 2.5h500"),
            ("p6", "M900 2.5h100"),
        ),
        (
            ("rank 0: 137 SIGKILL, 40.0–88.0 s", (("quiet", "M400 13H490"), ("stopped", "M490 13H880"))),
            (
                "rank 1: 3, 41.0–79.5 s",
                (("quiet", "M410 17H795"), ("cause", "M794 17H795"), ("dot", "M795 17h0")),
            ),
        ),
        (
            ("dot hang", "M600 13h0"),
            ("dot hang", "M600 17h0"),
            ("stop", "M800 0V19"),
            ("dot kill", "M850 13h0"),
        ),
    ),
    (
        1,
        False,
        0,
        (),
        0,
        (),
        14,
        (("p0", "M20 2.5h5"), ("p5", "M420 2.5h470")),
        (
            ("rank 2: 143 SIGTERM, 42.0–82.0 s", (("quiet", "M420 12H820"), ("stopped", "M819 12H820"))),
            ("scheduler: 0, 43.0–83.0 s", (("quiet", "M430 8H830"), ("well", "M829 8H830"))),
        ),
        (),
    ),
)
CHART: object = (
    (
        ("p0", both('job', '作业')),
        ("p2", both('inputs', '输入')),
        ("p3", same('rank table')),
        ("p5", both('run', '运行')),
        ("p6", both('outputs', '输出')),
        ("failed", both('failed phase', '失败的阶段')),
        ("cause", both('cause', '根因')),
        ("stopped", both('stopped by ma_boot', '被 ma_boot 停止')),
        ("well", both('succeeded', '正常结束')),
        ("quiet", both('before its first output', '首次输出之前')),
        ("stop", both('stop', '停止')),
        ("hang", both('hang', '挂起')),
        ("kill", both('signal sent', '发送信号')),
    ),
    16,
    False,
    False,
)
TRANSFERS: object = (
    (
        (
            "download",
            both('download', '下载'),
            "80 B/s",
            72,
            "M0 72H10V4H60V38H110V21H160V55H210V72H1000V72z",
        ),
        ("upload", both('upload', '上传'), "625 kB/s", 72, "M0 72H910V4H990V72H1000V72z"),
    ),
    (
        (both('download', '下载'), "0", same('3'), "1.0 kB", same('20.0 s'), "50 B/s", "2"),
        (
            both('upload', '上传'),
            "0",
            both('7 (length only: 2)', '7（仅核对长度：2）'),
            "5.0 MB",
            same('8.0 s'),
            "625 kB/s",
            "",
        ),
    ),
    (),
    both('All transfers', '各次传输明细'),
)
FACTS: object = (BEGAN, "1:40 min", same('2'), 4, 1000, 5000000, 0, 0, None, 0)
INCIDENTS: object = [
    ("25.0 s", BEGAN + 25, "0", both('waited', '等待'), both("rank table · status is initializing", "rank table · 状态为 initializing")),
    ("60.0 s", BEGAN + 60, "0", both('hang', '挂起'), same("rank 0, rank 1")),
    ("70.0 s", BEGAN + 70, "1", both('processes of an earlier run were stopped', '已清理上次运行遗留的进程'), same("3")),
    ("80.0 s", BEGAN + 80, "0", both('stop', '停止'), both("rank 1 ended with exit code 3", "rank 1 退出，退出码 3")),
    ("85.0 s", BEGAN + 85, "0", both('signal sent', '发送信号'), both("rank 0 · signal 9", "rank 0 · 信号 9")),
]
PROCESSES: object = (
    [
        ("rank 1", "0", "3", "cause", both('cause', '根因'), "38.5 s", ""),
        (
            "rank 0",
            "0",
            "137 SIGKILL",
            "stopped",
            both('stopped by ma_boot', '被 ma_boot 停止'),
            "48.0 s",
            "9.0 s",
        ),
        (
            "rank 2",
            "1",
            "143 SIGTERM",
            "stopped",
            both('stopped by ma_boot', '被 ma_boot 停止'),
            "40.0 s",
            "",
        ),
        ("scheduler", "1", "0", "well", both('succeeded', '正常结束'), "40.0 s", ""),
    ],
    [],
)
LOGS: object = [
    ("cause", both('rank 1 · node 0 · exit code 3', 'rank 1 · 节点 0 · 退出码 3'), "/log/1", "./1", "x"),
    (
        "stopped",
        both('rank 2 · node 1 · exit code 143 SIGTERM', 'rank 2 · 节点 1 · 退出码 143 SIGTERM'),
        "/log/2",
        "",
        "z",
    ),
    ("well", both('scheduler · node 1 · exit code 0', 'scheduler · 节点 1 · 退出码 0'), "/log/s", "", "y"),
]
HEADER: object = (
    "bad",
    "modelarts-job-flowers",
    both('Rank 1 on node 0 failed first: it ended with exit code 3 after 38.5 s.', 'rank 1（节点 0）最先失败：运行 38.5 s 后退出，退出码 3。'),
    same("no layer"),
    3,
    both("the training's own exit code", '训练进程自身的退出码'),
    same(""),
    "rank 1",
    "boom",
    (),
)
# fmt: on


def test_the_events_become_runs_phases_processes_incidents_and_transfers(line: Timeline) -> None:
    assert line.nodes == NODES
    assert line.outcome == OUTCOME
    assert (line.job, line.began, line.seconds, line.expected_nodes) == (
        "modelarts-job-flowers",
        BEGAN,
        100.0,
        2,
    )
    assert (line.incidents, line.earlier_runs, line.unreadable) == ((), 0, 0)


def test_a_few_processes_are_drawn_with_names(line: Timeline) -> None:
    chart = Chart.of(line)
    assert chart == CHART
    assert (chart.bar, chart.phase) == (10, 20)
    assert tuple(lane(node, line.seconds, chart) for node in line.nodes) == LANES


def test_many_processes_are_drawn_as_strips(line: Timeline) -> None:
    chart = Chart.of(line)._replace(row=4, dense=True, many=True)
    assert (chart.bar, chart.phase) == (3, 5)
    assert tuple(lane(node, line.seconds, chart) for node in line.nodes) == STRIPS


def test_the_throughput_and_the_rows_of_transfers(line: Timeline) -> None:
    assert transfers(line) == TRANSFERS


def test_the_tables(line: Timeline) -> None:
    assert facts(line) == FACTS
    assert incident_rows(line) == INCIDENTS
    assert process_rows(line) == PROCESSES


def test_the_head_and_the_logs_begin_with_the_cause(line: Timeline) -> None:
    assert header(line, {"/log/1": "boom"}) == HEADER
    tails = {"/log/1": "x", "/log/s": "y", "/log/2": "z", "/log/0": " \n"}
    assert list(log_ends(line, tails, {"/log/1": "./1"})) == LOGS
