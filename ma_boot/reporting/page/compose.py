"""A `Timeline` and the ends of the logs as one HTML page that needs nothing else. Pure."""

from __future__ import annotations

from typing import Mapping

from ma_boot import __version__
from ma_boot.reporting.page.lanes import lanes
from ma_boot.reporting.page.markup import escaped, section
from ma_boot.reporting.page.sections import ends_of_logs, facts, happenings, processes, verdict
from ma_boot.reporting.page.style import CHANGE_LANGUAGE, CHOOSE_LANGUAGE, STYLE
from ma_boot.reporting.page.transfers import transfers
from ma_boot.reporting.page.words import Text
from ma_boot.reporting.timeline import Timeline

MOST_BYTES = 290_000
KEPT_FOR_LOGS = 20_000
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def page_text(line: Timeline, tails: Mapping[str, str]) -> str:
    """The whole page, in English and Chinese, less than 300 kB whatever the job; `tails` by log file.

    It loads nothing from anywhere, and says all that matters without its script.
    """
    code = line.outcome.exit_code
    title = f"{line.job or 'ma_boot'}: {'no end' if code is None else f'exit code {code}'}"
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{escaped(title)}</title><style>{STYLE}</style><script>{CHOOSE_LANGUAGE}</script></head><body><main>"
    )
    top = verdict(line, tails) + facts(line)
    middle = (
        section("transfers", Text("Transfers", "传输"), transfers(line))
        + section("happened", Text("What happened", "发生了什么"), happenings(line))
        + section("processes", Text("Processes", "进程"), processes(line))
    )
    foot = f"<footer><span>ma_boot {escaped(__version__)}</span></footer></main>"
    foot += f"<script>{CHANGE_LANGUAGE}</script></body></html>\n"
    room = MOST_BYTES - len((head + top + middle + foot).encode("utf-8"))
    drawing = section("time", Text("Time line", "时间线"), lanes(line, room - KEPT_FOR_LOGS))
    room -= len(drawing.encode("utf-8"))
    logs = section("logs", Text("Ends of the logs", "日志末尾"), ends_of_logs(line, tails, room))
    return head + top + drawing + middle + logs + foot
