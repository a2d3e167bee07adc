"""`python -m tests.error_texts` writes docs/error-texts.md and its Chinese page from the table of hints.

The texts that stand for the rows are those by which the rows are tested.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import yaml

from ma_boot.report.hint_table import OBS, Hint, hint_table
from ma_boot.wording import Message

ROOT = Path(__file__).parents[1]
TEXTS: dict[str, dict[str, str]] = yaml.safe_load(
    (ROOT / "tests" / "unit" / "report" / "hint_texts.yaml").read_text(encoding="utf-8")
)
LONGEST = 120  # characters of an error text that are shown
BEFORE = 30  # of them before the known words


class Language(NamedTuple):
    """A page in one language."""

    page: Path
    head: str
    columns: str
    also: str  # before further codes of a row
    is_chinese: bool


ENGLISH = Language(
    page=ROOT / "docs" / "error-texts.md",
    head="""\
# Known error texts

[简体中文](error-texts.zh-CN.md)

Errors of the training and of its libraries that `ma_boot` recognises in the output of a failed rank; its report prints
meaning and remedy as `hint: ...`. Search this page for an error code, or for words of the message without your own names, numbers and paths.
The page is generated from `ma_boot/report/hints.yaml` by `python -m tests.error_texts`. Messages of `ma_boot` itself and
its exit codes: [Troubleshooting](troubleshooting.md).
""",
    columns="error text | meaning, remedy *(source)*",
    also="also",
    is_chinese=False,
)
CHINESE = Language(
    page=ROOT / "docs" / "error-texts.zh-CN.md",
    head="""\
# 已知报错一览

[English](error-texts.md)

`ma_boot` 能在失败 rank 的输出中识别以下报错（来自训练代码及其依赖库），并在报告中以 `hint: ...` 给出处理办法。
请在本页搜索错误码，或报错中不含您自己的名称、数字和路径的部分。本页由 `python -m tests.error_texts` 根据
`ma_boot/report/hints.yaml` 生成。`ma_boot` 自身的报错与退出码见[故障排查](troubleshooting.zh-CN.md)。
""",
    columns="报错 | 含义与处理办法*（来源）*",
    also="另有",
    is_chinese=True,
)
# Titles of the groups, and the rows of each: an expression for `id: source`. The first that matches counts.
GROUPS = (
    ("HCCL", "HCCL", r": HCCL|^(?:E[IJ]|hccl)"),
    (
        "CANN, torch_npu and the driver",
        "CANN、torch_npu 与驱动",
        r": (?:CANN|Ascend|torch_npu|DCMI|MindCluster|vllm-project/vllm-ascend|PaddleNLP)|: PyTorch, torch/__init__",
    ),
    ("MindSpore", "MindSpore", r"^ms-|: (?:MindSpore|candle-org/MindAct)"),
    (
        "PyTorch, CUDA and NCCL",
        "PyTorch、CUDA 与 NCCL",
        r"(?i): (?:pytorch|cuda|cublas|cudnn|nvidia|nccl|triton|flash-attention|bitsandbytes|modelscope/ms-swift#6968)",
    ),
    (
        "Training frameworks",
        "训练框架",
        r"(?i): (?:transformers|tokenizers|huggingface_hub|peft|deepspeed|megatron|llama-factory|ms-swift|vllm|verl|ray)\b",
    ),
    (
        "Python and packages",
        "Python 与软件包",
        r": (?:Python|pip|conda|NumPy|PyYAML|protobuf|sentencepiece|opencv-python|wandb)\b",
    ),
    ("OBS", "OBS", r": OBS"),
    ("The system", "操作系统", r": (?:Linux|Bash|bash|errno|glibc|GCC|pthread_create|apt|git|OpenBMB)\b"),
    ("The platform and ma_boot", "平台与 ma_boot", r": (?:ModelArts|ma_boot)\b"),
)


def page(language: Language) -> str:
    """Returns the text of the page in one language."""
    tables: dict[str, list[str]] = {english: [] for english, _, _ in GROUPS}
    for row in hint_table():
        tables[group_of(row)].append(_line(row, language))
    rule = "|---" * language.columns.count("|") + "|---|"
    parts = [language.head]
    for english, chinese, _ in GROUPS:
        title = chinese if language.is_chinese else english
        parts.append("\n".join([f"## {title}\n", f"| {language.columns} |", rule, *tables[english], ""]))
    return "\n".join(parts)


def group_of(row: Hint) -> str:
    """Returns the English title of a row's group."""
    if row.where == OBS:
        return "OBS"
    known = f"{row.id}: {row.source}"
    title = next((english for english, _, rows in GROUPS if re.search(rows, known)), None)
    if title is None:
        raise ValueError(f"no group of tests/error_texts.py has the hint {known}")
    return title


def _line(row: Hint, language: Language) -> str:
    real = TEXTS[row.id]["real"]
    match = re.search(row.expression, real)
    assert match is not None, row.id
    shown = _excerpt(real, match)
    first = _code(shown)
    others = [code for code in row.codes if code not in shown]
    if others:
        first += f"; {language.also} {', '.join(map(_code, others))}"
    groups = tuple(group or "?" for group in match.groups())
    meaning = Message(row.chinese if language.is_chinese else row.english, groups)
    source = f"*（{_plain(row.source)}）*" if language.is_chinese else f" *({_plain(row.source)})*"
    return f"| {first} | {_plain(meaning)}{source} |"


def _excerpt(real: str, match: re.Match[str]) -> str:
    """Returns the line of the known words; of a long one the part with them."""
    begin = real.rfind("\n", 0, match.start()) + 1
    line = real[begin:].partition("\n")[0]
    at = match.start() - begin
    start = at - BEFORE if at > LONGEST - BEFORE else 0
    shown = line[start:]
    if len(shown) > LONGEST:
        shown = f"{shown[:LONGEST].rpartition(' ')[0]} ..."
    return f"... {shown.partition(' ')[2]}" if start else shown


def _code(text: str) -> str:
    """Returns code within a cell; the fence has more backticks than the text."""
    escaped = text.replace("|", "\\|")
    return f"`` {escaped} ``" if "`" in text else f"`{escaped}`"


def _plain(text: str) -> str:
    outside = re.split(r"(`[^`]*`)", text.replace("|", "\\|"))
    return "".join(part if part.startswith("`") else _escape(part) for part in outside)


def _escape(text: str) -> str:
    """Returns text without Markdown's own meaning of its characters."""
    return re.sub(r"([*<\[]|(?<!\w)_|(?<=_)_)", r"\\\1", text)


if __name__ == "__main__":
    for each in (ENGLISH, CHINESE):
        each.page.write_text(page(each), encoding="utf-8")
