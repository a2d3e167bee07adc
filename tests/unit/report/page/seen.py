"""Text of a page as a reader sees it, in English."""

from __future__ import annotations

import re
from html import unescape

from ma_boot.report.page.compose import page_text
from ma_boot.report.timeline.events import read_events
from ma_boot.report.timeline.job_timeline import BootRun, Timeline
from ma_boot.report.timeline.merge import timeline_of
from tests.synthetic import Writer


def line_of(*nodes: Writer | str) -> Timeline:
    """The timeline of these event files."""
    texts = (node if isinstance(node, str) else node.text() for node in nodes)
    return timeline_of([read_events(text) for text in texts])


def run_of(node: Writer) -> BootRun:
    """The only run of the only node."""
    ((_, run),) = line_of(node).all_runs()
    return run


def seen(*nodes: Writer | str, tails: dict[str, str] | None = None) -> Seen:
    """Returns the page of these event files."""
    return Seen(page_text(line_of(*nodes), tails or {}))


def seen_of(line: Timeline) -> Seen:
    """Returns the page of a timeline, without logs."""
    return Seen(page_text(line, {}))


def text_of(html: str) -> str:
    """The words between the tags."""
    return unescape(re.sub("<[^>]*>", "", html)).strip()


class Seen:
    """The English texts of a page, by where they stand."""

    def __init__(self, page: str) -> None:
        self.page = page
        both = r'<span class="en">(.*?)</span><span class="zh" lang="zh-CN">.*?</span>'
        self.english = re.sub(both, r"\1", page, flags=re.DOTALL)

    def section(self, anchor: str) -> str:
        """The HTML of a section; empty if the page has none of this name."""
        return self.english.partition(f'<section id="{anchor}">')[2].partition("</section>")[0]

    def rows(self, anchor: str, table: int = 0) -> list[list[str]]:
        """The cells of a table of a section."""
        tables = re.findall("(?s)<tbody>(.*?)</tbody>", self.section(anchor))[table : table + 1]
        rows = [row for body in tables for row in re.findall("<tr>(.*?)</tr>", body)]
        return [[text_of(cell) for cell in re.findall("<td>(.*?)</td>", row)] for row in rows]

    @property
    def headline(self) -> str:
        """End of the job in one sentence."""
        return text_of(self.english.partition("<h1>")[2].partition("</h1>")[0].partition("<span")[0])

    @property
    def header(self) -> str:
        """Everything above the numbers."""
        return text_of(self.english.partition("<header")[2].partition(">")[2].partition("</header>")[0])

    @property
    def why(self) -> str:
        """Cause in one line."""
        return text_of(self.english.partition("<h1>")[2].partition("</h1>")[0].partition("<code>")[2])

    @property
    def reason(self) -> str:
        """Further lines of the cause."""
        return text_of(self.english.partition('<div class="reason" tabindex="0">')[2].partition("</div>")[0])

    @property
    def facts(self) -> dict[str, str]:
        """The job in numbers."""
        facts = re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", self.english)
        return {name: text_of(value) for name, value in facts}

    @property
    def legend(self) -> list[str]:
        """Meanings of the colours and marks of the timeline."""
        entries = self.section("time").partition('<p class="legend">')[2].partition("</p>")[0]
        return [text_of(entry) for entry in entries.strip().split("\n")]

    @property
    def logs(self) -> list[str]:
        """The headings of the ends of logs."""
        return [text_of(heading) for heading in re.findall("<summary>(.*?)</summary>", self.section("logs"))]


def node_with(number: int = 0, end: float = 1) -> Writer:
    """A node with a phase."""
    node = Writer(number, 10**12)
    node.phase("job", 0, end)
    return node


def processes(count: int, code: int = 0) -> Writer:
    """A node whose ranks end one after the other; if rank 0 fails, all fail, each with another code."""
    node = node_with()
    for rank in range(count):
        who = {"label": f"rank {rank}", "rank": rank}
        node.at(2, "start", **who, log_file=f"/log/{rank}")
        node.at(9 + rank / 1000, "exit", **who, code=code and code + rank, stopped=False)
    node.at(100, "end", exit_code=code, by="training" if code else None, label="rank 0")
    return node
