"""What the page draws, as values: lanes of nodes and the time axis."""

from ma_boot.reporting.page.drawing.lanes import Chart as Chart, Lane as Lane, Stroke as Stroke, lane as lane
from ma_boot.reporting.page.drawing.scale import (
    UNITS as UNITS,
    Scale as Scale,
    figure as figure,
    place as place,
    scale as scale,
)
