"""The moments of the time axis, and lines for a terminal."""

from __future__ import annotations

from typing import List, Tuple

import pytest

from ma_boot.reporting import rendered
from ma_boot.reporting.page.lanes import figure, place, scale, ticks


@pytest.mark.parametrize(
    ("seconds", "step"),
    [
        (0.007, 0.001), (0.014, 0.002), (0.035, 0.005), (0.07, 0.01), (0.14, 0.02), (0.35, 0.05), (0.7, 0.1),
        (1.4, 0.2), (3.5, 0.5), (7, 1), (14, 2), (35, 5), (70, 10), (105, 15), (210, 30), (420, 60), (840, 120),
        (2100, 300), (4200, 600), (6300, 900), (12600, 1800), (25200, 3600), (50400, 7200), (100800, 14400),
        (151200, 21600), (302400, 43200), (604800, 86400), (1209600, 172800), (4233600, 604800),
    ],
)  # fmt: skip
def test_the_steps_of_the_axis(seconds: float, step: float) -> None:
    """Seven steps fit the duration of each case; of the next smaller step there would be too many."""
    assert ticks(seconds)[0] == step


def test_at_most_eight_steps_fit_however_long_it_is() -> None:
    assert [ticks(seconds)[0] for seconds in (4.0, 4.5, 8e7)] == [0.5, 1, 1e7]


def test_lines_for_a_terminal_have_colours_and_its_width() -> None:
    assert rendered("[red]one[/red] two three", 9) == ["\x1b[31mone\x1b[0m two ", "three"]


class TestAxis:
    """Where its moments are, and what they are called."""

    @pytest.mark.parametrize(
        ("value", "text"), [(0.0, "0"), (10.0, "10"), (10.04, "10"), (10.05, "10.1"), (100.0, "100")]
    )
    def test_figures_are_short(self, value: float, text: str) -> None:
        assert figure(value + 1e-9) == text

    def test_places_are_on_the_axis(self) -> None:
        assert [place(at, 10.0) for at in (-1.0, 0.0, 2.5, 10.0, 11.0)] == [0, 0, 250, 1000, 1000]

    @pytest.mark.parametrize(
        ("seconds", "labels"),
        [
            (0.004, ["0", "0.001 s", "0.002 s", "0.003 s", "0.004 s"]),
            (3.0, ["0", "0.5 s", "1 s", "1.5 s", "2 s", "2.5 s", "3 s"]),
            (60.0, ["0", "10 s", "20 s", "30 s", "40 s", "50 s", "60 s"]),
            (180.0, ["0", "30 s", "60 s", "90 s", "2:00", "2:30", "3:00"]),
            (240.0, ["0", "30 s", "60 s", "90 s", "2:00", "2:30", "3:00", "3:30", "4:00"]),
            (420.0, ["0", "1 min", "2 min", "3 min", "4 min", "5 min", "6 min", "7 min"]),
            (1200.0, ["0", "5 min", "10 min", "15 min", "20 min"]),
            (9000.0, ["0", "30 min", "60 min", "90 min", "2:00 h", "2:30 h"]),
            (20000.0, ["0", "1:00 h", "2:00 h", "3:00 h", "4:00 h", "5:00 h"]),
        ],
    )
    def test_the_labels_of_the_axis(self, seconds: float, labels: List[str]) -> None:
        assert [label for _, label in ticks(seconds)[1]] == labels

    @pytest.mark.parametrize(
        ("seconds", "last"),
        [
            (102.0, ("right", "11.8", "90 s")),
            (103.0, ("left", "87.4", "90 s")),
            (100.0, ("right", "10", "90 s")),
        ],
    )
    def test_a_label_near_the_end_stays_inside(self, seconds: float, last: Tuple[str, str, str]) -> None:
        assert scale(seconds).moments[0] == ("left", "0", "0")
        assert scale(seconds).moments[-1] == last

    @pytest.mark.parametrize(("seconds", "tick"), [(8.0, "12500"), (7.0, "14285.7"), (0.0025, "40000")])
    def test_the_grid_has_the_distance_of_the_moments(self, seconds: float, tick: str) -> None:
        assert scale(seconds).tick == tick
