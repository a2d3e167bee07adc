"""Messages of ma_boot: English where they are printed, both languages on the page."""

from __future__ import annotations

import ast
import html
import json
import re
import string
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ma_boot.errors import OutputLost, listed
from ma_boot.node.observe.rank_stacks.stacks import OWN_WORK
from ma_boot.node.observe.rank_stacks.suspect import suspect
from ma_boot.redact import masked, without_secrets
from ma_boot.report.cause import Cause, cause_of, causes_of
from ma_boot.report.explain import EXIT_CODES, meaning_of
from ma_boot.report.hint_table import hint_table
from ma_boot.report.hints import hints_for, with_store_hint
from ma_boot.report.page.language import catalogue, chinese_template, hints_in_chinese, in_both
from ma_boot.report.page.read import page_of
from ma_boot.report.result import HangSuspect, WorkerExit, node_and_rank
from ma_boot.wording import MOST_NESTED, Message, coded, in_lines, lines_of, text_in
from tests.unit.project.imports import SOURCES, tree

TEXTS = st.recursive(
    st.text(max_size=5),
    lambda parts: st.builds(
        lambda args: Message.of("x" + "{}" * len(args), *args), st.lists(parts, max_size=3)
    ),
    max_leaves=MOST_NESTED,
)


def literals(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from (*literals(node.body), *literals(node.orelse))


def templates() -> set[str]:
    """Every template in the sources; those that are no literals where the message is made are listed here."""
    of_tables = {*(text for _, text in OWN_WORK), *(row.english for row in hint_table())}
    templates: set[str] = {*of_tables, *EXIT_CODES.values(), "in {}", "waiting for the device in {}"}
    for path in SOURCES:
        names: dict[str, list[str]] = {}
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                names.setdefault(node.targets[0].id, []).extend(literals(node.value))
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Message", "Message.of"):
                first = node.args[0]
                templates.update(names.get(first.id, []) if isinstance(first, ast.Name) else literals(first))
    return templates


def gaps(template: str) -> set[int]:
    names = [name for _, name, _, _ in string.Formatter().parse(template) if name is not None]
    return {int(name) if name else number for number, name in enumerate(names)}


def test_every_message_is_there_in_chinese_with_all_that_it_says() -> None:
    known = {**catalogue(), **hints_in_chinese()}
    wanted = {template for template in templates() if any(map(str.isalpha, template))}
    assert len(wanted) > 100
    assert wanted - known.keys() == set()
    for template in wanted:
        assert gaps(known[template]) == set(range(template.count("{}"))), template
    structure = {template for template in known if not any(map(str.isalpha, template))}
    assert known.keys() - wanted - structure == {
        "inputs",
        "checkpoints",
        "not in OBS, neither an object nor anything below it:",
        "objects that cannot be stored below their target:",
        "not enough space; nothing was downloaded:",
        "the patterns of these inputs select none of their objects:",
    }, "nobody says this any more"


# What may stand in a gap: a value, the name of a secret, a text that ends with one.
FILLS = (
    "x",
    "7",
    "OBS_ACCESS_KEY_ID",
    "OBS_ACCESS_KEY_ID and OBS_SECRET_ACCESS_KEY",
    "--token",
    "a password",
)


def keeps(pieces: Sequence[str], shown: str) -> bool:
    """Returns whether a text has all these pieces in their order."""
    at = 0
    for piece in pieces:
        at = shown.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return True


@pytest.mark.invariant("Texts of our own messages are never masked")
@pytest.mark.parametrize("fill", FILLS)
def test_no_word_of_a_message_is_masked(fill: str) -> None:
    """`OBS_ACCESS_KEY_ID: not set` without its `not` says the opposite."""
    english = templates()
    chinese = {
        re.sub(r"\{\d?\}", "{}", found) for found in map(chinese_template, english) if found is not None
    }
    for template in english | chinese:
        message = Message.of(template, *[fill] * template.count("{}"))
        outer = Message.of("{}: {}", "OBS_SECRET_ACCESS_KEY", message)
        for shown in (without_secrets(message), masked({"words": message})["words"], without_secrets(outer)):
            assert keeps(template.split("{}"), shown), template
        event = json.loads(json.dumps(coded(masked({"words": message}))))
        assert keeps(template.split("{}"), event["words"]), template


def texts(path: Path) -> Iterator[list[str]]:
    """The texts in a source file, each as its pieces between the gaps, without docstrings."""
    docstrings = {id(node.value) for node in ast.walk(tree(path)) if isinstance(node, ast.Expr)}
    parts = {
        id(part) for node in ast.walk(tree(path)) if isinstance(node, ast.JoinedStr) for part in node.values
    }
    inner = docstrings | parts
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.JoinedStr):
            pieces = [""]
            for part in node.values:
                if isinstance(part, ast.Constant):
                    pieces[-1] += str(part.value)
                else:
                    pieces.append("")
            yield pieces
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node.value.split("{}")


@pytest.mark.invariant("Texts of our own messages are never masked")
def test_no_text_of_ours_is_masked_that_is_no_message_either() -> None:
    """By itself, and where the name of a secret is what it speaks of."""
    for path in SOURCES:
        for pieces in texts(path):
            text = "x".join(pieces)
            if "Proxy-Authorization: " not in text:  # a header, whose value is one
                assert keeps(pieces, without_secrets(text)), (path, text)
            # Behind the name of a key only words that begin a sentence are no key: `_BEGIN_PROSE` has them.
            if len(pieces) > 1 and pieces[0] == "" and re.match(r": [a-z]+ [a-z]", pieces[1]):
                text = "OBS_SECRET_ACCESS_KEY".join(pieces[:2])
                assert keeps(pieces[:2], without_secrets(text)), (path, text)


def test_a_secret_in_a_gap_is_masked_and_the_message_stays_one() -> None:
    message = Message.of("OBS_SECRET_ACCESS_KEY: not set, {}", Message.of("see {}", "sk=planted-1"))
    shown = without_secrets(message)
    assert shown == "OBS_SECRET_ACCESS_KEY: not set, see sk=******"
    assert in_both(shown).zh == shown
    assert coded(masked({"why": message})) == {
        "why": shown,
        "messages": {"why": ["OBS_SECRET_ACCESS_KEY: not set, {}", ["see {}", "sk=******"]]},
    }


def test_an_event_that_is_read_again_keeps_its_hint(tmp_path: Path) -> None:
    hint = next(row.english for row in hint_table() if "OBS_ACCESS_KEY_ID" in row.english)
    fields = {"kind": "end", "cause": Message(hint), "exit_code": 69, "time": 5.0, "node": 0}
    (tmp_path / "a-events.jsonl").write_text(json.dumps(coded(masked(fields))) + "\n")
    page = page_of([tmp_path / "a-events.jsonl"]).text
    assert hints_in_chinese()[hint] in html.unescape(page)
    assert "******" not in page


def ended(**fields: Any) -> WorkerExit:
    end = WorkerExit(
        "rank 3", 3, 3, 9, code=1, signal=None, ended_ns=5, seconds=2.5, stopped=False, log_file=""
    )
    return end._replace(**fields)


def first(**fields: Any) -> str:
    return str(cause_of(causes_of([ended(**fields)], 1, 0.0)))


KILLED = Message.of("the kernel killed {} of this container", Message.of("{} process", 1))
RAISED = 'Traceback (most recent call last):\n  File "t.py", line 7, in f\nOSError: Address already in use'
SILENT = suspect([], [2, 5]) or HangSuspect(0, None, "")


@pytest.mark.parametrize(
    ("text", "chinese"),
    [
        (first(code=139, signal=11), "节点 1，rank 3 被 SIGSEGV 终止"),
        (first(code=3), "节点 1，rank 3 退出，退出码 3"),
        (first(output="no luck"), "节点 1，rank 3 退出，退出码 1；最后一行输出：no luck"),
        (first(code=137, signal=9, oom=KILLED), "节点 1，rank 3：内存不足：内核终止了本容器的 1 个进程"),
        (
            first(output=RAISED),
            "节点 1，rank 3：OSError: Address already in use，位于 t.py:7。处理建议：端口被占用：可能是上次运行遗留的进程，或本机上的另一个作业",
        ),
        (str(cause_of([], [4])), "节点 4：该节点不再应答"),
        (SILENT.why, "没有应答，其他 rank 因此一直等待；节点 5 同样没有应答"),
        (meaning_of(139, None) or "", "shell 或启动器用该退出码表示信号 11, SIGSEGV"),
        (
            hints_for("EI0017")[0],
            "EI0017：HCCL 的 rank table 缺少字段：`ma_boot rank-table validate FILE` 会列出所有问题",
        ),
        (
            with_store_hint(listed("two failed:", ["a: RequestTimeTooSkewed", "b"])),
            "two failed:\n  - a: RequestTimeTooSkewed\n  - b\n  -> 节点时钟偏差超过 15 分钟：参见 `ma_boot doctor`",
        ),
    ],
)
def test_messages_of_a_failed_job_are_chinese_on_the_chinese_page(text: str, chinese: str) -> None:
    assert in_both(text).zh == chinese
    assert in_both(text).en == text


def test_an_error_hands_its_message_on() -> None:
    message = Message.of("not every output was uploaded: {}", "x")
    assert str(OutputLost(message)) is message
    assert str(OutputLost()) == ""


@given(TEXTS)
def test_a_message_comes_through_an_event_as_it_is(text: str) -> None:
    event = json.loads(json.dumps(coded({"a": [{"words": text}]})))["a"][0]
    read = text_in(event, "words", str)
    assert read == text == event["words"]
    assert in_both(read).zh == in_both(text).zh


@given(
    st.recursive(st.text(max_size=3) | st.none() | st.integers(), lambda parts: st.lists(parts, max_size=4))
)
def test_anything_else_in_its_place_does_no_harm(parts: object) -> None:
    event = {"words": "x\x1b", "messages": {"words": parts}}
    read = text_in(event, "words", lambda text: text.replace("\x1b", ""))
    assert "\x1b" not in read
    assert in_both(read).en == read


@pytest.mark.parametrize(
    "parts",
    [
        ["{}"],
        ["{}", "a", "b"],
        ["{}", 3],
        ["\x1b[31m"],
        [["{}", "a"]],
        ["{}" * 50, *["a"] * 50],
        "{}",
        {"{}": 1},
    ],
)
def test_invalid_messages_fall_back_to_the_plain_text(parts: object) -> None:
    read = text_in({"words": "plain", "messages": {"words": parts}}, "words", str)
    assert (read, isinstance(read, Message)) == ("plain", False)
    assert text_in({"words": "plain", "messages": parts}, "words", str) == "plain"


def test_messages_in_each_other_have_an_end() -> None:
    text = "x"
    for _ in range(MOST_NESTED + 1):
        text = Message.of("{}", text)
    event = json.loads(json.dumps(coded({"words": text})))
    assert not isinstance(text_in(event, "words", str), Message)


def test_each_line_of_a_text_stays_a_message() -> None:
    text = in_lines([Message.of("signal {}", 9), in_lines(["a", "b"]), "c"])
    assert text == "signal 9\na\nb\nc"
    assert [in_both(line).zh for line in lines_of(text)] == ["信号 9", "a", "b", "c"]
    assert lines_of("a\nb") == ["a", "b"]


def test_a_translation_of_another_version_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ma_boot.report.page.language.catalogue", lambda: {"signal {}": "信号 {} {}"})
    assert in_both(Message.of("signal {}", 9)).zh == "signal 9"


def test_a_suspect_and_a_cause_are_named_in_the_same_words() -> None:
    assert str(HangSuspect(1, 3, "")) == node_and_rank(1, 3) == "node 1, rank 3"
    assert str(Cause(1, None, 2, "x", 0.0)) == "node 1: x"
