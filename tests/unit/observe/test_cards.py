"""Parsers of the output of the tools for cards."""

from __future__ import annotations

import pytest

from ma_boot.node.observe.metrics.card_tables import is_busy, parse_gpu_samples, parse_link, parse_npu_rows
from ma_boot.node.observe.metrics.record import CardSample
from tests.unit.observe.card_outputs import GPUS, NPU_310, NPU_910A, NPU_910B, NPU_A3


def test_cards_of_npu_smi_are_parsed() -> None:
    rows = parse_npu_rows(NPU_910B)
    assert [(row.npu, row.name, row.physical) for row in rows] == [(4, "910B3", 4), (5, "910B3", 5)]
    assert [row.sample for row in rows] == [
        CardSample(0, 97.0, 3161, 65536, 40.0, 93.6, "OK"),
        CardSample(1, 0.0, 3163, 65536, 88.0, 310.5, "Alarm"),
    ]


@pytest.mark.parametrize(
    ("table", "samples"),
    [
        (NPU_910A, [CardSample(0, 0.0, 7, 32768, 56.0, 64.3, "OK")]),
        (NPU_310, [CardSample(0, 0.0, 5324, 8192, 58.0, 12.8, "OK")]),
        (
            NPU_A3,
            [
                CardSample(0, 100.0, 59807, 65536, 43.0, 204.0, "OK"),
                CardSample(1, 60.0, 59536, 65536, 40.0, None, "OK"),
            ],
        ),
    ],
    ids=["910A", "310", "A3"],
)
def test_tables_of_other_releases_are_parsed(table: str, samples: list[CardSample]) -> None:
    assert [row.sample for row in parse_npu_rows(table)] == samples


def test_both_dies_of_a_card_have_a_physical_number() -> None:
    assert [(row.npu, row.physical) for row in parse_npu_rows(NPU_A3)] == [(2, 4), (2, 5)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "dcmi module initialize failed. ret is -8005",
        "| 0 | 1 | 2 |",
        "||||",
        NPU_910B[:900],
        "|1 x|OK||\n|0|b||",
    ],
)
def test_any_output_of_npu_smi_is_parsed(text: str) -> None:
    parse_npu_rows(text)


def test_cards_of_nvidia_smi_are_parsed() -> None:
    assert parse_gpu_samples(GPUS) == [
        CardSample(0, 97.0, 30012, 81559, 61.0, 402.17, None, "gen4 x16", 42.0),
        CardSample(1, 100.0, 30012, 81559, 41.0, 102.17, None, None, 0.0),
        CardSample(2, None, None, None, 38.0, None, None, "gen1 x16", None),
    ]
    assert (
        parse_gpu_samples("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n")
        == []
    )


def test_cards_in_use_are_busy() -> None:
    assert [is_busy(row.sample) for row in parse_npu_rows(NPU_910B)] == [True, False]
    assert [is_busy(card) for card in parse_gpu_samples(GPUS)] == [True, False, False], (
        "a kernel that spins reads no memory"
    )


def test_the_state_of_a_link_is_parsed() -> None:
    assert [parse_link(text) for text in ("link status: UP\n", "link status: DOWN\n", "no such device\n")] == [
        "UP", "DOWN", None,
    ]  # fmt: skip
