"""Step, loss and step time in the lines that frameworks print."""

from __future__ import annotations

import re
import time
from typing import Callable, Optional

import pytest

from ma_boot.node.observe.metrics.pattern_search import PatternSearch
from ma_boot.node.observe.metrics.progress import KNOWN, Pattern, Reading, TrainingProgress, parse_pattern

Expected = tuple[Optional[int], Optional[float], Optional[float]]  # step, step time, loss

# As the frameworks print them: MindSpore 2.9 and PyTorch's peers were run, the others are from their sources and from
# public logs of trainings.
MINDSPORE = b"epoch: 2 step: 5, loss is 0.01726953126490116\n"
TIME_MONITOR = b"Train epoch time: 5126.135 ms, per step time: 51.261 ms\n"
MINDFORMERS = (
    b"2024-06-08 21:06:36,041 - mindformers[mindformers/core/callback/callback.py:319] - INFO - { Epoch:[  1/  2], "
    b"step:[  120/  500], loss: 4.263, per_step_time: 1203ms, lr: 3.0e-05, overflow cond: False, loss_scale: 1.0, "
    b"global_norm: [0.53]\n"
)
NO_SINK = b"{ Epoch:[  1/  1], step:[    7/   20], loss:[10.650/10.651], lm_loss: 10.650, per_step_time: 456ms, lr: 1e-06, }\n"
MEGATRON = (
    b" [2025-08-01 07:19:37] iteration        3/    5000 | consumed samples:          384 | elapsed time per iteration "
    b"(ms): 19138.8 | throughput per GPU (TFLOP/s/GPU): 80.2 | learning rate: 6.976744E-08 | global batch size:   128 | "
    b"lm loss: 1.043863E+01 | loss scale: 1.0 | grad norm: 26.203 | number of skipped iterations:   0 |\n"
)
OLD_MEGATRON = (
    b" iteration      100/   50000 | consumed samples: 6400 | elapsed time per iteration (ms): 13105.3 | learning rate: "
    b"1.2E-05 | global batch size:    64 | lm loss: 1.10E+01 | \n"
)
HF = (
    b"{'loss': 1.0886, 'grad_norm': 2.0026695728302, 'learning_rate': 1e-06, 'epoch': 5.97}\n"
    b"\r 10%|#         | 100/998 [05:24<48:39,  3.25s/it]\r"
)
HF_5 = (
    b"{'loss': '0.7421', 'grad_norm': '1.02', 'learning_rate': '4.9e-05', 'epoch': '0.1'}\n"
    b"\r  5%|5         | 25/500 [00:05<01:35,  5.00it/s]\r"
)


NEOX = (
    b" samples/sec: 7.799 | iteration       34/   10000 | elapsed time per iteration (ms): 4103.1 | learning rate: "
    b"2.111E-06 | lm_loss: 1.118665E+01 | number of skipped iterations:   0 |\n"
)
# From public logs of trainings, shortened.
MMENGINE = (
    b"03/25 23:58:44 - mmengine - INFO - Epoch(train) [100][  50/4309]  base_lr: 2.0000e-03 lr: 5.9600e-05  eta: 12:14:32  "
    b"time: 0.7842  data_time: 0.0205  memory: 7657  loss: 1111.4113  loss_cls: 399.5985\n"
    b"06/16 20:02:03 - mmengine - INFO - Epoch(val) [10][4000/4809]    eta: 0:06:54  time: 0.5256  loss: 7.0\n"
)
MMCV = b"2021-07-14 13:52:26,135 - mmcls - INFO - Epoch [1][10/35]\tlr: 1.000e-02, time: 0.611, data_time: 0.212, loss: 1.4048\n"
TITAN = b"[rank0]:[titan] 2026-05-18 16:04:46,338 - root - INFO - \x1b[31mstep: 14  \x1b[32mloss:  3.24405  \x1b[34mgrad_norm:  0.8319\n"
LIGHTNING = (
    b"Epoch 0:  22%|##2       | 4/18 [00:17<01:02,  4.47s/it, loss=10.072, v_num=193315]\r"
    b"Validation DataLoader 0: 100%|#| 9/9 [00:02<00:00,  0.20s/it, loss=3]\r"
)
LIGHTNING_2 = b"Epoch 0:  93% 1586/1702 [12:50<00:56,  2.00it/s, v_num=0, train_loss=0.149, val_loss=0.2]\n"
DEEPSPEED = b"[2022-03-11 02:06:58,985] [INFO] [logging.py:69:log_dist] [Rank 0] step=40, skipped=2, lr=[5e-05], mom=[[0.9, 0.999]]\n"
DEEPSPEED_PIPE = b"steps: 10 loss: 0.6931 iter time (s): 0.123 samples/sec: 130.081\n"
MEGATRON_NAN = MEGATRON.replace(b"lm loss: 1.043863E+01", b"lm loss: NAN")
EVALUATED = (
    HF.replace(b"100/998", b"500/998")
    + b"  0%|          | 0/36 [00:00<?, ?it/s]\r  3%|2         | 1/36 [00:01<00:40,  1.10s/it]\r"
    + b"100%|##########| 36/36 [00:40<00:00,  1.10s/it]\r{'eval_loss': 2.5, 'epoch': 5.97}\n"
)


def read(text: bytes) -> Reading:
    return TrainingProgress().read(len(text), text, 10.0)


PRINTED: dict[str, tuple[bytes, Expected]] = {
    "mindspore": (MINDSPORE, (5, None, 0.01726953126490116)),
    "time-monitor": (TIME_MONITOR, (None, 0.051261, None)),
    "mindformers": (MINDFORMERS, (120, 1.203, 4.263)),
    "mindformers-no-sink": (NO_SINK, (7, 0.456, 10.65)),
    "megatron": (MEGATRON, (3, 19.1388, 10.43863)),
    "old-megatron": (OLD_MEGATRON, (100, 13.1053, 11.0)),
    "transformers": (HF, (100, 3.25, 1.0886)),
    "transformers-5": (HF_5, (25, 0.2, 0.7421)),
    "gpt-neox": (NEOX, (34, 4.1031, 11.18665)),
    "mmengine": (MMENGINE, (50, 0.7842, 1111.4113)),
    "mmcv": (MMCV, (10, 0.611, 1.4048)),
    "torchtitan": (TITAN, (14, None, 3.24405)),
    "lightning": (LIGHTNING, (4, 4.47, 10.072)),
    "lightning-2": (LIGHTNING_2, (1586, 0.5, 0.149)),
    "deepspeed": (DEEPSPEED, (40, None, None)),
    "deepspeed-pipe": (DEEPSPEED_PIPE, (10, 0.123, 0.6931)),
    "evaluation": (EVALUATED, (500, 3.25, 1.0886)),
    "plain": (b"step 3 loss: 0.66\n", (3, None, 0.66)),
    "loss": (b"loss=0.66\n", (None, None, 0.66)),
    "epoch": (b"Epoch 1 [20/300] loss 0.6\n", (20, None, 0.6)),
    "example": (b"Epoch: [0][  10/5005]\tTime  0.35 ( 0.40)\tLoss 6.9 (6.95)\n", (10, None, 6.9)),
    "json": (b'{"step": 10, "epoch": 1, "loss": 0.66, "lr": 1e-4}\n', (10, None, 0.66)),
    "dict": (b"{'train_loss': 0.5, 'iter': 7}\n", (7, None, 0.5)),
    "tqdm": (b"100%|##| 30/30 [00:05<00:00,  5.00it/s, loss=0.5]\n", (30, 0.2, 0.5)),
}


@pytest.mark.parametrize(("text", "expected"), PRINTED.values(), ids=list(PRINTED))
def test_the_lines_of_frameworks_are_known(text: bytes, expected: Expected) -> None:
    reading = read(text)
    assert (reading.step, reading.step_time, reading.loss) == pytest.approx(expected)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"Loading checkpoint shards: 100%|##########| 2/2 [00:00<00:00,  8.66it/s]\n",
        b"Downloading: 10%|#  | 100/998 [05:24<48:39,  3.25s/it]\r",
        b"loss is high, iteration over, epoch: x step: y\n",
        b"\xff\xfe step:[ 1/2], loss: nothing\n",
        b"we are in iteration 3/4 | of the plan\n",
        b"eval loss: 0.5 at step 7\nvalidation loss at iteration 100 | lm loss value: 2.3\nTest: [ 0/9] Loss 0.5\n",
        b"val_loss=0.5 aux_loss: 0.5 loss_scale: 1.0\n",
    ],
)
def test_other_lines_are_ignored(text: bytes) -> None:
    assert read(text) == Reading()


def test_the_last_line_counts_and_step_times_are_averaged() -> None:
    text = b"per step time: 10.0 ms\nepoch: 1 step: 1, loss is 3.0\nper step time: 30.0 ms\nepoch: 1 step: 2, loss is 2.0\n"
    assert read(text) == Reading(2, 0.02, 2.0)


@pytest.mark.parametrize("text", [b"epoch: 1 step: 9, loss is nan\n", MEGATRON_NAN, b"step 3 loss: NaN\n"])
def test_a_loss_that_is_not_finite_is_read(text: bytes) -> None:
    loss = read(text).loss
    assert loss is not None
    assert loss != loss


def test_a_missing_step_time_is_computed_from_two_readings() -> None:
    progress = TrainingProgress()
    first = b"epoch: 1 step: 10, loss is 3.0\n"
    assert progress.read(len(first), first, at=100.0).step_time is None
    second = b"epoch: 1 step: 20, loss is 2.5\nepoch: 1 step: 30, loss is 2.0\n"
    assert progress.read(len(first + second), second, at=110.0).step_time == 0.5


def test_steps_are_counted_over_the_end_of_an_epoch() -> None:
    progress = TrainingProgress()
    first = b"epoch: 1 step: 4, loss is 3.0\n"
    progress.read(len(first), first, at=100.0)
    second = b"epoch: 1 step: 5, loss is 2.5\nepoch: 2 step: 1, loss is 2.0\nepoch: 2 step: 2, loss is 2.0\n"
    assert progress.read(len(first + second), second, at=106.0).step_time == 2.0


def test_silence_between_two_readings_belongs_to_the_step() -> None:
    progress = TrainingProgress()
    first, second = b"epoch: 1 step: 1, loss is 3.0\n", b"epoch: 1 step: 2, loss is 2.5\n"
    progress.read(len(first), first, at=100.0)
    progress.read(len(first), b"", at=100.0)
    assert progress.read(len(first + second), second, at=130.0).step_time == 30.0


def test_an_incomplete_line_is_left_to_the_next_reading() -> None:
    progress = TrainingProgress()
    text = b"epoch: 1 step: 1, loss is 3.0\nepoch: 1 step: 2, loss is 2.4567\n"
    cut = text.index(b"567")
    assert progress.read(cut, text[:cut], 1.0).loss == 3.0
    assert progress.position == text.index(b"\n") + 1
    assert progress.read(len(text), text[progress.position :], 2.0).loss == 2.4567


Searched = Callable[[Pattern], TrainingProgress]


@pytest.fixture
def searched() -> Searched:
    """Makes a progress with a pattern of the user's."""
    search = PatternSearch(pytest.fail)
    return lambda pattern: TrainingProgress((pattern,), search.last_value)


def test_a_line_without_its_beginning_is_skipped(searched: Searched) -> None:
    text = b"3.0\nx\n"
    own = parse_pattern("loss=([0-9.]+)")
    assert searched(own).read(len(text), text, 1.0).loss == 3.0
    assert searched(own).read(1000, text, 1.0).loss is None


def test_a_line_without_end_does_not_stay_forever() -> None:
    progress = TrainingProgress()
    text = b"x" * 70_000
    progress.read(len(text), text[-65536:], 1.0)
    assert progress.position == len(text)


@pytest.mark.parametrize(
    ("pattern", "line", "expected"),
    [
        ("loss=total ([0-9.]+)", b"total 3.5 of 9\n", Reading(loss=3.5)),
        ("loss=(?<=total )[0-9.]+", b"total 3.5\n", Reading(loss=3.5)),
        ("step=it ([0-9]+)", b"it 12\n", Reading(step=12)),
        ("step_time=took ([0-9.]+) s", b"took 0.5 s\n", Reading(step_time=0.5)),
        ("step_time_ms=took ([0-9.]+) ms", b"took 500 ms\n", Reading(step_time=0.5)),
        ("lr=lr ([0-9.e-]+)", b"lr 1e-4\n", Reading(values={"lr": 1e-4})),
        ("step=it (\\S+)", b"it nan\n", Reading()),
        ("step=it (\\S+)", b"it " + b"9" * 400 + b"\n", Reading()),
        ("step=it (\\S+)", b"it 1e300\n", Reading()),
        ("step_time=it (\\S+)", b"it 1e300\n", Reading()),
        ("step_time=it (\\S+)", b"it nan\n", Reading()),
        ("loss=it (\\S+)", b"it " + b"9" * 400 + b"\n", Reading()),
        ("loss=(?:(a|b)+,)+ (?P<v>[0-9]+)", b"ab,b, 7\n", Reading()),
        ("loss=(?:(?:a|b)+,)+ ([0-9]+)", b"ab,b, 7\n", Reading(loss=7.0)),
        ("lr=lr (\\S+)", b"lr 1e-4\nlr none\n", Reading(values={"lr": 1e-4})),
    ],
)
def test_patterns_of_the_user(searched: Searched, pattern: str, line: bytes, expected: Reading) -> None:
    assert searched(parse_pattern(pattern)).read(len(line), line, 1.0) == expected


def test_a_users_pattern_replaces_the_known_forms_of_its_name(searched: Searched) -> None:
    text = b"total 9.0\nepoch: 1 step: 2, loss is 2.0\n"
    assert searched(parse_pattern("loss=total ([0-9.]+)")).read(len(text), text, 1.0) == Reading(2, None, 9.0)
    other = b"epoch: 1 step: 2, loss is 2.0\n"
    assert searched(parse_pattern("loss=total ([0-9.]+)")).read(len(other), other, 1.0) == Reading(2)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("loss", "expected NAME=REGEX"),
        ("=x", "expected NAME=REGEX"),
        ("a loss=x", "expected NAME=REGEX"),
        ("loss=", "expected NAME=REGEX"),
        ("loss=([0-9", "is no regular expression"),
        ("loss=a{99999999999}", "is no regular expression"),
        ("loss=" + "(" * 10_000 + ")" * 10_000, "is no regular expression"),
    ],
)
def test_invalid_patterns_are_rejected(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        parse_pattern(text)


@pytest.mark.parametrize(
    ("pattern", "line"),
    [("acc=(,|,,)+$", b"," * 480 + b"x"), ("acc=(a+)+b", b"a" * 480), ("acc=(?:a|aa)+$", b"a" * 480 + b"b")],
)
def test_a_pattern_that_takes_too_long_is_dropped_without_harm_to_the_others(
    pattern: str, line: bytes
) -> None:
    lines: list[str] = []
    search = PatternSearch(lines.append)
    own = (parse_pattern(pattern), parse_pattern("loss=total ([0-9.]+)"))
    progress, text = TrainingProgress(own, search.last_value), line + b"\ntotal 3.5\n"
    assert progress.read(len(text), text, 1.0).loss == 3.5
    assert progress.read(2 * len(text), text, 2.0).loss == 3.5
    assert lines == [
        f"--metric acc is no longer used: a search for {pattern[4:]} took more than 0.1 s of CPU time"
    ]


@pytest.mark.parametrize("filling", [b"1", b" ", b"1:", b".", b"[", b"1/", b"|", b"e"])
def test_known_lines_take_little_time_in_any_output(filling: bytes) -> None:
    """64 KiB of one thing after each part of each expression: quadratic time would be 20 s and more."""
    printed = [
        b"epoch: 2 step: 5, loss is ", b"per step time: ", b"{ Epoch:[  1/  2], step:[  120/  500], loss: ",
        b"per_step_time: ", b" iteration  5/ 10 |", b"elapsed time per iteration (ms): ", b"| lm loss: ",
        b"] step=5, skipped=", b"{'loss': ", b"| 7/10 [00:01<00:02,  1.5s/it", b"| 7/10 [00:01<00:02,  1.5it/s",
    ]  # fmt: skip
    assert len(printed) == len(KNOWN)
    began = time.process_time()
    for start, pattern in zip(printed, KNOWN):
        for cut in range(len(start) + 1):
            text = pattern.marker + b"\n" + start[:cut] + filling * (65536 // len(filling)) + b"\n"
            list(re.finditer(pattern.expression, text))
    for line in (b"Epoch 1 [", b"step: ", b"|", b"loss "):
        read((line + filling * (900 // len(filling)) + b" loss: 0.5\n") * 72)
    assert time.process_time() - began < 10
