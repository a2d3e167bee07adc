"""What the page draws, as values: lanes of nodes and the time axis."""

from ma_boot.reporting.page.drawing.lanes import Chart, Lane, Stroke, lane
from ma_boot.reporting.page.drawing.scale import UNITS, Scale, figure, place, scale

__all__ = ["UNITS", "Chart", "Lane", "Scale", "Stroke", "figure", "lane", "place", "scale"]
