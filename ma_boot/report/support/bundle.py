"""Writes the bundle for support: one zip file without secrets, and the list of its contents."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ma_boot.errors import CannotCreate, UsageError
from ma_boot.redact import masked, without_secrets
from ma_boot.report.files import read_end
from ma_boot.report.page.read import MOST_EVENT_BYTES, JobPage
from ma_boot.report.support.bundle_plan import BundledFile, failed_logs_of, plan_bundle
from ma_boot.report.support.log_tree import files_below
from ma_boot.report.timeline.events import read_events
from ma_boot.wording import counted, size
from path_mapping.errors import printable

# Kinds of events that say what was started, and how.
_OF_PLAN = ("job", "rehearsal", "software", "routes", "start")
MOST_LISTED = 200


class BundleEntry(NamedTuple):
    """A file in the bundle with its size there; `cut_from` is its whole size if only its end was taken."""

    name: str
    bytes: int
    cut_from: int | None = None

    def __str__(self) -> str:
        cut = "" if self.cut_from is None else f" (the end of {size(self.cut_from)})"
        return f"{size(self.bytes):>8}  {self.name}{cut}"


class Bundle(NamedTuple):
    """A written bundle: its path and size, its contents, and the files that did not fit."""

    path: Path
    bytes: int
    entries: tuple[BundleEntry, ...]
    left_out: tuple[BundleEntry, ...]

    def lines(self) -> list[str]:
        """Returns the list of contents for people."""
        lines = [f"bundle: {self.path}: {counted(len(self.entries), 'file')}, {size(self.bytes)}"]
        lines += [f"  {entry}" for entry in self.entries[:MOST_LISTED]]
        if len(self.entries) > MOST_LISTED:
            lines.append(f"  and {len(self.entries) - MOST_LISTED} more")
        if self.left_out:
            total = size(sum(entry.bytes for entry in self.left_out))
            lines.append(
                f"left out, as the bundle has at most 50 MB: {counted(len(self.left_out), 'file')}, {total}"
            )
            lines += [f"  {entry}" for entry in self.left_out[:MOST_LISTED]]
        return lines

    def fields(self) -> dict[str, Any]:
        """Returns the list of contents for programs."""
        return {
            "path": str(self.path),
            "bytes": self.bytes,
            "files": [entry._asdict() for entry in self.entries],
            "left_out": [entry._asdict() for entry in self.left_out],
        }


def check_bundle(path: Path) -> None:
    """Raises `UsageError` for a file that exists: it may be the only copy of an earlier failure."""
    if os.path.lexists(path):
        raise UsageError(f"--bundle {path}: the file exists: remove it, or choose another name")


def write_bundle(
    path: Path, page: JobPage, roots: Sequence[Path], events: Sequence[Path], *, texts: Mapping[str, str]
) -> Bundle:
    """Writes the bundle of a job; `texts` are further files by name.

    Raises:
        UsageError: The file exists.
        CannotCreate: The system refuses.
    """
    history = [event for file in events for event in _events_of(file)]
    pids = {event["pid"] for event in history if event["kind"] == "exit" and event.get("code")}
    plan = [event for event in history if event["kind"] in _OF_PLAN]
    made = {**texts, "plan.json": json.dumps(masked(plan), indent=2, ensure_ascii=False)}
    contents = [(name, _hidden(name, text).encode("utf-8", "replace")) for name, text in made.items()]
    chosen = plan_bundle(files_below(roots), failed_logs_of(page.timeline), pids)
    try:
        with open(path, "xb") as file:
            try:
                os.fchmod(file.fileno(), 0o640)
                entries = _write(zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED), contents, chosen.files)
                file.flush()
                written = os.fstat(file.fileno()).st_size
            except BaseException:
                os.unlink(path)
                raise
    except FileExistsError as error:
        check_bundle(path)
        raise CannotCreate(f"cannot write {path}: {error.strerror}") from error
    except OSError as error:
        raise CannotCreate(f"cannot write {path}: {error.strerror}") from error
    left_out = tuple(BundleEntry(_shown(one.name), one.bytes) for one in chosen.left_out)
    return Bundle(path, written, entries, left_out)


def _write(
    bundle: zipfile.ZipFile, contents: Sequence[tuple[str, bytes]], files: Sequence[BundledFile]
) -> tuple[BundleEntry, ...]:
    """Writes the contents and the ends of files; one that cannot be read is skipped."""
    entries: list[BundleEntry] = []
    with bundle:
        for name, data in contents:
            bundle.writestr(name, data)
            entries.append(BundleEntry(name, len(data)))
        for file in files:
            with suppress(_Unreadable):
                name, data = _shown(file.source.name), _content(file)
                bundle.writestr(name, data)
                is_cut = file.source.bytes > file.taken
                entries.append(BundleEntry(name, len(data), file.source.bytes if is_cut else None))
    return tuple(entries)


class _Unreadable(Exception):
    """A file of the log tree that cannot be read; an error of the bundle itself is an `OSError`."""


def _content(file: BundledFile) -> bytes:
    """Reads the end of a file without secrets; it never becomes longer than planned."""
    try:
        text = read_end(file.source.path, file.limit)
    except OSError as error:
        raise _Unreadable from error
    if file.source.bytes > file.limit and "\n" not in text:
        # The end begins in the middle of a word, which may be a secret.
        text = (text.split(None, 1) or [""])[-1]
    return _hidden(file.source.name, text).encode("utf-8", "replace")[-file.limit :]


def _hidden(name: str, text: str) -> str:
    """Masks the secrets of a text; of JSON by the names of its fields, too."""
    if name.endswith(".jsonl"):
        return "\n".join(map(_hidden_json, text.split("\n")))
    return _hidden_json(text) if name.endswith(".json") else without_secrets(text)


def _hidden_json(text: str) -> str:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # torn, or not ours
        return without_secrets(text)
    indent = 2 if "\n" in text else None
    return json.dumps(masked(value), indent=indent, ensure_ascii=False)


def _shown(name: str) -> str:
    """Returns the name of a file in the bundle."""
    return printable(without_secrets(name.encode("utf-8", "replace").decode()))


def _events_of(path: Path) -> list[Mapping[str, Any]]:
    with suppress(OSError):
        return [*read_events(read_end(path, MOST_EVENT_BYTES)).events]
    return []
