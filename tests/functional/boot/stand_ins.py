"""Programs that stand in for tools of a driver."""

from __future__ import annotations

from pathlib import Path


def stand_in(directory: Path, name: str, text: str) -> None:
    """A program with the name of a tool that needs a card."""
    directory.mkdir(exist_ok=True)
    (directory / f"{name}.txt").write_text(text)
    (directory / name).write_text(f'#!/bin/sh\necho "$@" >>"$0.asked"\ncat "{directory / name}.txt"\n')
    (directory / name).chmod(0o755)
