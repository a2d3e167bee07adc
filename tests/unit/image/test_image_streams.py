"""What the engine streams while it builds and pushes, and what is shown of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from ma_boot.desk.image import build, push
from ma_boot.desk.image.check import ImageRejected
from ma_boot.desk.image.container_engine import EngineProgress, EngineRefused, shown
from ma_boot.errors import UsageError
from ma_boot.report.console import Console
from tests.functional.terminal import screen_lines

DIGEST = "sha256:" + "0" * 64


class Pipe:
    """A console whose text can be read."""

    def __init__(self, interactive: bool = False) -> None:
        self.ends = os.pipe()
        self.console = Console(self.ends[1], interactive)
        self.progress = EngineProgress(self.console, lambda lines: None)

    def text(self) -> str:
        self.console.flush()
        return os.read(self.ends[0], 1 << 16).decode()


@pytest.fixture
def pipe(request: pytest.FixtureRequest) -> Iterator[Pipe]:
    pipe = Pipe(getattr(request, "param", False))
    yield pipe
    pipe.console.flush()
    for end in pipe.ends:
        os.close(end)


def steps() -> Iterator[dict[str, Any]]:
    yield {"stream": "Step 1/2 : FROM https://me:planted@host/base\n"}
    yield {"stream": "earlier output\n"}
    yield {"stream": "Step 2/2 : RUN make\n"}
    yield {"stream": " ---> Running in 0123\nno rule\n"}


@pytest.mark.invariant("No login appears in an argument, a log or an image")
def test_a_build_shows_its_steps_and_no_login(pipe: Pipe) -> None:
    build.follow(steps(), pipe.progress)
    assert pipe.text() == "Step 1/2 : FROM https://******@host/base\nStep 2/2 : RUN make\n"


@pytest.mark.parametrize("pipe", [True], ids=["terminal"], indirect=True)
def test_on_a_terminal_output_moves(pipe: Pipe) -> None:
    with shown(pipe.console) as progress:
        build.follow(steps(), progress)
        pipe.console.flush()
    written = pipe.text()
    assert "no rule" in written
    lines = screen_lines(written.replace("\n", "\r\n").encode(), rows=24, columns=80)
    assert list(filter(None, lines)) == ["Step 1/2 : FROM https://******@host/base", "Step 2/2 : RUN make"]


def test_a_build_that_fails_ends_with_the_step_that_failed(pipe: Pipe) -> None:
    stream = [*steps(), {"error": "make returned 2: https://me:planted@host"}]
    with pytest.raises(EngineRefused) as raised:
        build.follow(stream, pipe.progress)
    assert "no rule" in str(raised.value)
    assert "make returned 2" in str(raised.value)
    assert "earlier output" not in str(raised.value)
    assert "planted" not in str(raised.value) + pipe.text()


def test_an_error_has_no_codes_of_a_terminal(pipe: Pipe) -> None:
    stream = [
        {"stream": "Step 1/1 : RUN x\n"},
        {"stream": "\x1b[91mno rule\x1b[0m\n"},
        {"error": "\x1b[1mreturned 2"},
    ]
    with pytest.raises(EngineRefused) as raised:
        build.follow(stream, pipe.progress)
    assert str(raised.value).splitlines() == ["the build failed:", "  - no rule", "  - returned 2"]


@pytest.mark.parametrize(
    ("step", "error", "advice"),
    [
        ("FROM python:3.11", "lookup registry-1.docker.io: no such host", "make image BASE_IMAGE=NAME"),
        ("FROM absent", "pull access denied for absent", "registry-mirrors"),
        ("FROM a", "no matching manifest for linux/arm64", "another --platform"),
        ("RUN sh x", "Temporary failure resolving 'deb.debian.org'", "a wheel of crcmod"),
        ("RUN sh x", "ERROR: No matching distribution found for click", "PIP_INDEX_URL"),
        ("RUN sh x", "THESE PACKAGES DO NOT MATCH THE HASHES", "image/toolkit.txt"),
    ],
)
def test_failed_build_has_a_remedy(pipe: Pipe, step: str, error: str, advice: str) -> None:
    with pytest.raises(EngineRefused) as raised:
        build.follow([{"stream": f"Step 1/9 : {step}\n"}, {"error": error}], pipe.progress)
    assert advice in str(raised.value).splitlines()[-1]


def test_a_push_shows_each_layer_and_returns_the_digest(pipe: Pipe) -> None:
    layer = {"current": 2_000_000, "total": 4_000_000}
    stream: list[dict[str, Any]] = [
        {"status": "The push refers to repository [host/org/name]"},
        {"status": "Pushing", "id": "aa", "progressDetail": layer},
        {"status": "Layer already exists", "id": "bb"},
        {"status": "Retrying in 5 seconds", "id": "aa"},
        {"status": "Pushed", "id": "aa"},
        {"progressDetail": {}, "aux": {"Tag": "v1", "Digest": DIGEST}},
    ]
    assert push.follow(stream, pipe.progress) == DIGEST
    assert pipe.text() == (
        "layer bb: layer already exists\nlayer aa: retrying in 5 seconds, 2.0 MB\nlayer aa: pushed, 2.0 MB\n"
    )


@pytest.mark.parametrize(("stream", "message"), [([{"error": "EOF"}], "EOF"), ([], "without a digest")])
def test_a_push_that_fails(pipe: Pipe, stream: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(push.PushFailed, match=message):
        push.follow(stream, pipe.progress)


def test_build_arguments_with_and_without_a_value() -> None:
    environ = {"PIP_INDEX_URL": "https://x"}
    arguments = build.build_arguments(["A=1=2", "PIP_INDEX_URL", "B="], environ)
    assert arguments == {"A": "1=2", "PIP_INDEX_URL": "https://x", "B": ""}
    with pytest.raises(UsageError, match=r"C is not set in the environment(.|\n)*D is not set"):
        build.build_arguments(["C", "D"], environ)


def test_the_size_budget() -> None:
    build.check_size(2 * 10**9, 2.0, "image")
    build.check_size(2 * 10**9, None, "image")
    with pytest.raises(ImageRejected, match=r"2\.10 GB, the budget is 2 GB"):
        build.check_size(2_100_000_000, 2.0, "image")
