"""Parsers of the output of the tools for cards."""

from __future__ import annotations

import pytest

from ma_boot.node.observe.metrics.card_tables import is_busy, parse_link, parse_npu_rows
from ma_boot.node.observe.metrics.gpus import Gpu, defects
from ma_boot.node.observe.metrics.record import CardSample
from tests.unit.observe.card_outputs import NPU_310, NPU_910A, NPU_910B, NPU_A3


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


H100 = Gpu(
    0, utilisation=100.0, memory_activity=42.0, memory=5107 << 20, memory_total=81559 << 20, temperature=65,
    power=688.0, clock=1755, clock_reasons=0x45, pcie=(5, 16), links=(12, 18), ecc=0, remapped=1, recovery=0,
)  # fmt: skip


def test_values_of_a_gpu_are_a_sample() -> None:
    assert H100.sample() == CardSample(
        0, 100.0, 5107, 81559, 65, 688.0, "OK", "gen5 x16", clock=1755, throttled="power, heat (hardware)",
        nvlink="12 of 18", ecc=0, remapped=1, memory_activity=42.0,
    )  # fmt: skip
    assert Gpu(3).sample() == CardSample(3, health="OK")


@pytest.mark.parametrize(
    ("gpu", "words"),
    [
        (H100, []),
        (H100._replace(xids=(13, 31, 43)), []),
        (H100._replace(xids=(31, 48)), ["GPU 0: Xid 48 (uncorrectable ECC error)"]),
        (H100._replace(recovery=1), ["GPU 0: the driver asks to reset the GPU"]),
        (H100._replace(recovery=99), ["GPU 0: the driver asks to 99"]),
        (Gpu(2, is_lost=True), ["GPU 2 does not answer its driver"]),
    ],
)
def test_defects_of_a_gpu_are_those_of_the_hardware(gpu: Gpu, words: list[str]) -> None:
    assert list(map(str, defects(gpu))) == words


def test_gpu_is_free_once_only_the_driver_uses_its_memory() -> None:
    sizes = (600 << 20, 5107 << 20)
    assert [H100._replace(memory=size).is_free for size in sizes] == [True, False]
    assert [Gpu(0, processes=processes).is_free for processes in (None, (), (7,))] == [True, True, False]


def test_cards_in_use_are_busy() -> None:
    assert [is_busy(row.sample) for row in parse_npu_rows(NPU_910B)] == [True, False]
    spins = H100._replace(memory_activity=0.0)
    assert [is_busy(gpu.sample()) for gpu in (H100, spins, Gpu(0))] == [True, False, False], (
        "a kernel that spins reads no memory"
    )


def test_the_state_of_a_link_is_parsed() -> None:
    assert [parse_link(text) for text in ("link status: UP\n", "link status: DOWN\n", "no such device\n")] == [
        "UP", "DOWN", None,
    ]  # fmt: skip
