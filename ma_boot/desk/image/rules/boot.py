"""Rules for the boot: the toolkit and its command, the stop signal, the entry point, a given boot command."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ma_boot import __version__
from ma_boot.desk.image.rules.facts import ImageFacts, Python, Version, error, remedy_for, warning
from ma_boot.platform.modelarts.findings import Finding
from ma_boot.redact import without_secret_words

# Output of `ma_boot --version`.
_VERSION = re.compile(r"ma_boot (\S+) from (/.+) \(Python [\d.]+\)")
_REBUILD = "build with ma_boot's Dockerfile and BASE_IMAGE=<this image>"
# What ma_boot does not take for a stop, or cannot catch; after any other signal it uploads the outputs.
_NO_STOP = {"KILL", "STOP", "USR1", "USR2", "CHLD", "CONT", "9", "19", "10", "12", "17", "18"}
_NOT_FOUND = re.compile(r"([^\s:]+): command not found")
_SYNTAX = re.compile(r"syntax error|unexpected EOF|unexpected end of file")


def this_toolkit(answer: str) -> str | None:
    """Parses the output of `ma_boot --version` into version and place; None for another program."""
    match = _VERSION.fullmatch(answer.strip())
    return f"{match.group(1)} from {match.group(2)}" if match else None


def toolkit(facts: ImageFacts) -> Iterator[Finding]:
    """The boot command `ma_boot` starts as uid 1000, and is this toolkit."""
    if facts.refusal:
        return
    inside = facts.inside
    installed, boot = inside.toolkit, inside.boot
    if inside.libc and inside.libc_need and inside.libc_need[0] > inside.libc:
        yield _too_new(inside.libc, *inside.libc_need)
    elif installed is None and boot is None:
        yield error("toolkit", "no ma_boot: neither /opt/ma_boot nor on PATH", _REBUILD)
    elif installed is not None and not installed.runs:
        yield error(
            "toolkit",
            f"{installed.prefix} does not run: {installed.answer}",
            remedy_for(
                facts,
                installed.answer,
                "rebuild /opt/ma_boot with ma_boot's Dockerfile; TOOLKIT_PYTHON must be 3.9 or later, and "
                "uid 1000 must be able to read all of it",
            ),
        )
    elif inside.imports is not None and not inside.imports.runs:
        yield error(
            "toolkit",
            f"{inside.imports.prefix} cannot import all that it needs: {inside.imports.answer}",
            remedy_for(facts, inside.imports.answer, "rebuild /opt/ma_boot with ma_boot's Dockerfile"),
        )
    elif boot is None:
        yield error(
            "boot-command",
            f"no ma_boot on PATH={facts.environ.get('PATH', '')}, although there is /opt/ma_boot",
            f"keep /usr/local/bin/ma_boot, and its directory in PATH; or {_REBUILD}",
        )
    elif not boot.runs:
        if inside.home == "ok" or inside.home == "read-only":  # the home's own finding says the rest
            yield _not_running(facts, boot)
    else:
        yield from _another(boot, installed)


def _too_new(has: Version, needs: Version, file: str) -> Finding:
    return error(
        "toolkit",
        f"{file} needs glibc {needs[0]}.{needs[1]}, the image has {has[0]}.{has[1]}",
        "build with a TOOLKIT_IMAGE whose Python needs no newer glibc than BASE_IMAGE has: that of "
        "manylinux2014, or conda's, needs 2.17 (docs/image.md); so must wheels in image/wheels",
    )


def _not_running(facts: ImageFacts, boot: Python) -> Finding:
    if facts.inside.boot_has_crlf:
        return error(
            "boot-command",
            f"{boot.prefix} has Windows line ends (CRLF), so no program is found for its first line",
            "clone again with `git config core.autocrlf false` (or `git add --renormalize .`), build again",
        )
    denied = "ermission denied" in boot.answer
    return error(
        "boot-command",
        f"{boot.prefix} does not start: {boot.answer or 'no output'}",
        remedy_for(facts, boot.answer, f"RUN chmod 755 {boot.prefix}" if denied else _REBUILD),
    )


def _another(boot: Python, installed: Python | None) -> Iterator[Finding]:
    """Reports an `ma_boot` that is not the toolkit of this image, or another version."""
    known, expected = this_toolkit(boot.answer), this_toolkit(installed.answer) if installed else None
    if known is None or (expected and known != expected):
        what = "is not this toolkit" if known is None else f"is another copy of the toolkit than {expected}"
        yield error(
            "boot-command",
            f"{boot.prefix} {what}: `ma_boot --version` answers {boot.answer[:100]!r}",
            f"remove {boot.prefix}, or put /usr/local/bin before its directory in PATH; or {_REBUILD}",
        )
    elif known.partition(" ")[0] != __version__:
        yield warning(
            "toolkit",
            f"the image has ma_boot {known.partition(' ')[0]}, this is {__version__}",
            "build the image again, or check it with its own version",
        )


def stop_signal(facts: ImageFacts) -> Iterator[Finding]:
    """The container is stopped by SIGTERM, with which ma_boot uploads the outputs."""
    name = facts.stop_signal.upper()
    name = name[3:] if name.startswith("SIG") else name
    if name in ("", "TERM", "15"):
        return
    lost = name in _NO_STOP or name.startswith("RT")
    report = error if lost else warning
    meaning = "does not stop ma_boot, so a stopped job uploads no outputs" if lost else "is not SIGTERM"
    yield report("stop-signal", f"STOPSIGNAL {facts.stop_signal} {meaning}", "STOPSIGNAL SIGTERM")


def entry_point(facts: ImageFacts) -> Iterator[Finding]:
    """The image has no entry point before the boot command."""
    if facts.entrypoint:
        shown = " ".join(without_secret_words(facts.entrypoint))
        yield warning(
            "entry-point",
            f"ENTRYPOINT {shown}: the platform runs the boot command instead of it",
            "use ENTRYPOINT [], and move its setup into ENV or the boot command",
        )


def tried_command(facts: ImageFacts) -> Iterator[Finding]:
    """The boot command of `--command` starts as uid 1000 (docker-modelarts_0029 recommends to try it)."""
    run = facts.started
    if run is None:
        return
    lines = run.output.splitlines()
    tail = lines[-1] if lines else "no output"
    lost = next((line for line in lines if _NOT_FOUND.search(line)), None)
    denied = next((line for line in lines if "permission denied" in line.lower()), None)
    if run.exit_code is not None and run.exit_code != 0 and any(map(_SYNTAX.search, lines)):
        yield error(
            "command", f"{run.command}: {tail}", "correct its quotes and brackets: bash cannot read it"
        )
    elif lost or "conda init" in run.output:
        yield error(
            "command",
            f"{run.command}: {lost or tail}",
            "use a program that the image contains; `conda activate` needs an interactive shell",
        )
    elif denied:
        yield error("command", f"{run.command}: {denied}", "make it readable or writable for uid 1000")
    elif run.exit_code in (126, 127):
        yield warning(
            "command",
            f"{run.command} exited with {run.exit_code}: {tail}",
            "nothing to do if the missing file is part of the training code in OBS",
        )
