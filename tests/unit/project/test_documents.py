"""Agreement of the documents with the code, and of the two languages with each other."""

from __future__ import annotations

import ast
import importlib.metadata
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from ma_boot import __version__
from ma_boot.errors import ExitCode
from ma_boot.report.hint_table import hint_table
from tests import error_texts, invariants, options_page
from tests.command_lines import find_wrong_lines, lines_in_blocks
from tests.unit.project.imports import SOURCES, tree

ROOT = Path(__file__).parents[3]
TROUBLES = [ROOT / "docs" / "troubleshooting.md", ROOT / "docs" / "troubleshooting.zh-CN.md"]
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*/*.md"), *ROOT.glob("image/*.md")]
)
CHINESE = [path for path in DOCUMENTS if path.name.endswith(".zh-CN.md")]
PAIRS = [(path.with_name(path.name.replace(".zh-CN", "")), path) for path in CHINESE]
VALUE = "\0"  # stands for a value in a message


def code_blocks(text: str) -> list[str]:
    """Returns the blocks of commands and code without comments, which may be in another language."""
    blocks = re.findall(r"^ *```(?:sh|python|yaml)\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    return [re.sub(r" *#.*", "", block) for block in blocks]


def rows(text: str, title: str) -> list[list[str]]:
    """Returns the cells of the first table below a title."""
    chapter = re.split(r"^#+ ", text, flags=re.MULTILINE)
    below = next(part for part in chapter if part.startswith(title + "\n"))
    table = [line for line in below.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table[2:]]


def options_in(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", text))


class TestOptions:
    def test_pages_of_options_are_up_to_date(self) -> None:
        for language in (options_page.ENGLISH, options_page.CHINESE):
            assert language.page.read_text() == options_page.page(language), (
                "python -m tests.options_page writes it"
            )

    def test_every_chinese_text_of_an_option_is_of_use(self) -> None:
        said: set[str] = set()

        def say(text: str) -> str:
            said.add(text)
            return text

        options_page.page(options_page.ENGLISH._replace(say=say))
        assert options_page.chinese_texts().keys() == said

    def test_both_languages_have_the_same_options(self) -> None:
        for pair in PAIRS:
            english, chinese = (options_in(path.read_text()) for path in pair)
            assert english == chinese, pair[0].name


class TestErrorTexts:
    def test_pages_of_error_texts_are_up_to_date(self) -> None:
        for language in (error_texts.ENGLISH, error_texts.CHINESE):
            assert language.page.read_text() == error_texts.page(language), (
                "python -m tests.error_texts writes it"
            )

    def test_every_hint_is_in_both_languages_by_the_same_text(self) -> None:
        english, chinese = (
            first_cells(each.page.read_text()) for each in (error_texts.ENGLISH, error_texts.CHINESE)
        )
        assert len(english) == len(hint_table())
        assert english == [cell.replace("; 另有", "; also") for cell in chinese]


def test_tables_of_exit_codes_are_complete() -> None:
    for page, title in zip(TROUBLES, ("Exit codes", "退出码")):
        cells = " ".join(row[0] for row in rows(page.read_text(), title)).replace("128+n", "")
        single = {int(number) for number in re.findall(r"(?<![\d-])\d+(?![\d+-])", cells)}
        assert single == {int(code) for code in ExitCode}, page.name


def chapters(text: str) -> list[tuple[str, str]]:
    """Returns the title of each chapter and its text, without blocks of code."""
    outside = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    parts = (part.partition("\n") for part in re.split(r"^#+ ", outside, flags=re.MULTILINE)[1:])
    return [(title, body) for title, _, body in parts]


def names_in(chapter: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", chapter))


def items(chapter: str) -> tuple[int, int, int]:
    """Counts items of lists, numbered items and rows of tables."""
    lines = (re.findall(start, chapter, re.MULTILINE) for start in (r"^- ", r"^\d+\. ", r"^\|"))
    bullets, numbers, table = map(len, lines)
    return bullets, numbers, table


class TestLanguages:
    def test_pages_for_new_users_are_in_both_languages(self) -> None:
        names = {english.name for english, _ in PAIRS}
        assert names > {"README.md", "index.md", "tutorial.md", "troubleshooting.md", "restart.md", "hang.md"}

    def test_both_languages_have_the_same_code(self) -> None:
        for pair in PAIRS:
            english, chinese = (code_blocks(path.read_text()) for path in pair)
            assert english == chinese, pair[0].name

    def test_both_languages_have_the_same_chapters(self) -> None:
        for pair in PAIRS:
            english, chinese = (re.findall(r"^(#+) ", path.read_text(), re.MULTILINE) for path in pair)
            assert english == chinese, pair[0].name

    def test_chapters_have_the_same_names_and_items_in_both_languages(self) -> None:
        """Chapters have the same names in backticks and as many items and rows, so a missing one is noticed."""
        for pair in PAIRS:
            if pair[0] in (*TROUBLES, error_texts.ENGLISH.page):
                continue  # their tables are compared by their texts
            for (title, in_english), (_, in_chinese) in zip(*(chapters(path.read_text()) for path in pair)):
                assert names_in(in_english) == names_in(in_chinese), (pair[0].name, title)
                assert items(in_english) == items(in_chinese), (pair[0].name, title)

    def test_glossaries_have_the_same_terms_in_the_same_order(self) -> None:
        english, chinese = (
            rows((ROOT / "docs" / name).read_text(), title)
            for name, title in (("glossary.md", "Glossary"), ("glossary.zh-CN.md", "术语表"))
        )
        assert len(english) > 40
        assert [row[0] for row in english] == [row[1] for row in chinese]

    def test_chinese_texts_use_the_words_of_the_glossary(self) -> None:
        messages = ROOT / "ma_boot/report/page/templates/chinese.txt"
        others = re.compile("挂死|挂起|算数|接着跑|你")
        found = [
            (path.name, word) for path in [*CHINESE, messages] for word in others.findall(path.read_text())
        ]
        assert found == []

    def test_both_languages_link_each_other_at_the_top(self) -> None:
        for english, chinese in PAIRS:
            assert f"]({chinese.name})" in english.read_text()[:200]
            assert f"]({english.name})" in chinese.read_text()[:200]

    def test_both_languages_have_the_same_error_texts(self) -> None:
        english, chinese = (first_cells(path.read_text()) for path in TROUBLES)
        assert english == chinese


def first_cells(text: str) -> list[str]:
    return [line.split("|")[1].strip() for line in text.splitlines() if line.startswith(("| `", "| ``"))]


def anchors(text: str) -> set[str]:
    """Returns the anchors that GitHub makes of titles: lower case, hyphens for blanks, no punctuation."""
    outside = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", outside, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken_links(document: Path) -> Iterator[str]:
    for words, link in re.findall(r"\[([^]]*)\]\(([^)\s]+)\)", document.read_text()):
        if "://" in link:
            continue
        file, _, anchor = link.partition("#")
        target = (document.parent / file).resolve() if file else document
        if not target.exists():
            yield f"{document.name}: {link}: no such file"
        elif anchor and anchor not in anchors(target.read_text()):
            yield f"{document.name}: {link}: no such title"
        elif words.endswith(".md") and not str(target).endswith("/" + words):
            yield f"{document.name}: {link}: its text names {words}"


def test_links_into_the_repository_have_a_target() -> None:
    assert len(DOCUMENTS) > 15
    assert [broken for document in DOCUMENTS for broken in broken_links(document)] == []


# `pip install ma-boot`, `uv tool install 'ma_boot[job]'`, `uvx ma-boot`: what a stranger may register on an index.
BY_NAME = re.compile(
    r"ma[-_]boot\[|(?:uvx|pipx run|uv tool run) ma[-_]boot\b"
    r"|(?:pip|pipx|uv)\b[^\n`]*\binstall\b[^\n`#]*?[ '\"]ma[-_]boot(?![\w/.-])"
)


def texts_of_the_tree() -> Iterator[Path]:
    """Yields the files that users read, run or see messages of."""
    yield from DOCUMENTS
    yield from (
        ROOT / name for name in ("Makefile", "Dockerfile", "mkdocs.yml", "pyproject.toml", "entrypoint")
    )
    for directory in ("ma_boot", "path_mapping", "image", "examples", "docs", "benchmarks"):
        for path in (ROOT / directory).rglob("*"):
            if path.is_file() and path.suffix in (
                "",
                ".py",
                ".md",
                ".sh",
                ".txt",
                ".yaml",
                ".svg",
                ".Dockerfile",
            ):
                yield path


@pytest.mark.parametrize(
    "line", ["pip install 'ma-boot[job]'", "pipx install ma-boot", "uvx ma_boot", "uv tool install ma_boot"]
)
def test_a_line_that_installs_by_name_is_found(line: str) -> None:
    assert BY_NAME.search(line)


def test_no_text_tells_users_to_install_a_package_of_this_name_from_an_index() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in texts_of_the_tree()
        for match in BY_NAME.finditer(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_a_sentence_that_requires_ma_boot_links_to_the_page_on_installing() -> None:
    for document in DOCUMENTS:
        links = re.findall(r"\[(?:install|Install|安装) ma_boot\]\(([^)#]*)", document.read_text())
        assert all(Path(link).name.startswith("install.") for link in links), document.name


def test_command_lines_of_documents_are_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_text("command: train.py\n")
    for name in ("log", "LOGS"):
        Path(name).mkdir()
        Path(name, "job-node-0-events.jsonl").touch()
    texts = {document: document.read_text() for document in DOCUMENTS if document.name != "CHANGELOG.md"}
    assert sum(len(list(lines_in_blocks(text))) for text in texts.values()) > 90
    wrong = {document.name: find_wrong_lines(text) for document, text in texts.items()}
    assert {name: lines for name, lines in wrong.items() if lines} == {}


def messages() -> Iterator[str]:
    """Yields every string of the sources, with `VALUE` for each filled-in value."""
    for path in SOURCES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
            elif isinstance(node, ast.JoinedStr):
                parts = (part.value if isinstance(part, ast.Constant) else VALUE for part in node.values)
                yield "".join(map(str, parts))


@cache
def source() -> str:
    """Returns all messages, each in lines of its own."""
    return "".join(f"{message}\n" for message in messages())


def lines_with(words: str) -> Iterator[str]:
    """Yields the lines of messages that have these words."""
    at = source().find(words)
    while at >= 0:
        end = source().find("\n", at)
        yield source()[source().rfind("\n", 0, at) + 1 : end]
        at = source().find(words, end + 1)


def in_one_line(text: str) -> bool:
    """Returns True if a line of a message has all parts of the text, in this order."""
    parts = text.split("...")
    pattern = re.compile(".*?".join(map(re.escape, parts)))
    return any(pattern.search(line) for line in lines_with(max(parts, key=len)))


def kinds_of_events() -> set[str]:
    """Returns the first argument of each call of `event` or `_event`."""
    return {
        str(node.args[0].value)
        for path in SOURCES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, (ast.Name, ast.Attribute))
        and (node.func.id if isinstance(node.func, ast.Name) else node.func.attr).lstrip("_") == "event"
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }


def test_every_kind_of_event_is_described() -> None:
    text = (ROOT / "docs" / "report.md").read_text()
    described = {row[0].strip("`") for row in rows(text, "The events (`<job>-node-<i>-events.jsonl`)")}
    assert len(described) > 20
    assert kinds_of_events() == described


def quoted(text: str) -> list[str]:
    """Returns the texts in the first column of tables that are marked as of ma_boot."""
    marked = re.findall(r"<!-- texts of ma_boot -->(.*?)<!-- end of", text, re.DOTALL)
    cells = [line.split("|")[1] for part in marked for line in part.splitlines() if line.startswith("| `")]
    return [
        quotation.strip()
        for cell in cells
        for either in re.findall(r"`` (.+?) ``|`([^`]+)`", cell)
        for quotation in either
        if quotation
    ]


@cache  # both languages quote the same texts
def is_printed(text: str) -> bool:
    """Returns True if a message has all parts of the text; the sides of a colon may be in different messages."""
    text = re.sub(r'"\w+"', '"..."', text)  # a quoted word is a value
    head, colon, rest = text.partition(": ")
    return in_one_line(text) or (bool(colon) and in_one_line(head) and in_one_line(rest))


class TestTroubleshooting:
    """The pages on troubleshooting in both languages."""

    def test_quoted_messages_of_ma_boot_are_in_the_sources(self) -> None:
        for page in TROUBLES:
            texts = quoted(page.read_text())
            assert len(texts) > 50
            assert [text for text in texts if not is_printed(text)] == [], page.name

    def test_every_exit_code_has_a_text(self) -> None:
        for page in TROUBLES:
            cells = [line.split("|") for line in page.read_text().splitlines() if line.startswith("| `")]
            codes = {int(code) for row in cells if len(row) > 4 for code in re.findall(r"\d+", row[2])}
            assert {int(code) for code in ExitCode} - codes == {0}, page.name


def test_distribution_has_the_version_of_the_package() -> None:
    assert importlib.metadata.version("ma-boot") == __version__


def test_changelog_begins_with_this_version() -> None:
    headings = re.findall(
        r"^## (\S+) \((unreleased|\d{4}-\d\d-\d\d)\)$", (ROOT / "CHANGELOG.md").read_text(), re.M
    )
    assert headings[0][0] == __version__


def test_pictures_are_small_and_shown() -> None:
    pictures = [*(ROOT / "docs" / "pictures").iterdir()]
    texts = "".join(document.read_text() for document in DOCUMENTS)
    assert len(pictures) > 8
    assert [path.name for path in pictures if path.stat().st_size > 150_000] == []
    assert [path.name for path in pictures if f"pictures/{path.name})" not in texts] == []


def test_page_of_invariants_is_that_of_the_markers() -> None:
    assert invariants.PAGE.read_text() == invariants.page(), "python -m tests.invariants writes it"
