"""What was measured, and the stacks of a hang, as HTML."""

from __future__ import annotations

from typing import Mapping, Optional, Sequence

from ma_boot.reporting.page.charts import MetricChart
from ma_boot.reporting.page.fill import NOTHING, Html, fill, joined
from ma_boot.reporting.page.lanes import Scale
from ma_boot.reporting.page.language import Text, in_both, ranges
from ma_boot.reporting.page.layout import axis, box
from ma_boot.reporting.timeline import HangStacks, StackGroup, Timeline

MOST_GROUPS = 24
OPEN_GROUPS = 2


def charts_part(found: Sequence[MetricChart], marked: Mapping[str, str], scale: Scale) -> Html:
    """The charts below each other, on one axis; `marked` are the ranks of interest and their CSS classes."""
    if not found:
        return NOTHING
    return fill(
        "charts",
        heading=Text("Metrics", "指标"),
        legend=joined(
            fill("legend-entry", kind=kind, name=_marked(who, kind)) for who, kind in marked.items()
        ),
        tick=scale.tick,
        axis=axis(scale),
        rows=joined(map(_chart, found), "\n"),
    )


def _marked(who: str, kind: str) -> Text:
    if kind == "slow":
        return Text(f"{who}: slower than the others", f"{who}：比其他 rank 慢")
    return Text(f"{who}: the cause", f"{who}：根因")


def _chart(chart: MetricChart) -> Html:
    return fill(
        "chart",
        name=chart.name,
        range=chart.range,
        height=chart.height,
        band=fill("band", path=chart.band) if chart.band else NOTHING,
        lines=joined(fill("line", kind=one.kind, name=one.name, path=one.path) for one in chart.lines),
    )


def stacks_part(timeline: Timeline) -> Html:
    """Where the processes hung: the last stacks of each node, or those that one node has of all."""
    found = _widest([stacks for _, run in timeline.all_runs() for stacks in run.stacks])
    if found is None:
        return NOTHING
    suspect = fill("suspect", who=found.suspect, why=in_both(found.why)) if found.suspect else NOTHING
    left = len(found.groups) - MOST_GROUPS
    more = Text(f"and {left} more places", f"另有 {left} 处")
    groups = (_group(number, group) for number, group in enumerate(found.groups[:MOST_GROUPS]))
    return fill(
        "stacks",
        heading=Text("Where the processes hung", "进程挂起的位置"),
        suspect=suspect,
        groups=joined(groups, "\n"),
        more=fill("more", text=more) if left > 0 else NOTHING,
    )


def _widest(every: Sequence[HangStacks]) -> Optional[HangStacks]:
    """The stacks of most processes, of several the latest."""
    return max(every, key=lambda one: (sum(len(group.ranks) for group in one.groups), one.at), default=None)


def _group(number: int, group: StackGroup) -> Html:
    who, count = ranges(group.ranks) or "?", len(group.ranks)
    heading = Text(f"rank {who}", f"rank {who}")
    if count > 1:
        heading = Text(f"rank {who} ({count} alike)", f"rank {who}（{count} 个相同）")
    opened = Html(" open" if number < OPEN_GROUPS else "")
    role = "cause" if number == 0 else "stopped"
    return fill("stack", open=opened, role=role, heading=heading, box=box(group.stack))
