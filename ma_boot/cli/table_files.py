"""Reads and writes the rank tables of `ma_boot rank-table`; `-` is standard input or output."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ma_boot.errors import InputMissing, RankTableInvalid, listed
from ma_boot.rank_table import (
    GLOBAL_NAME,
    TOR_NAME,
    FilesBeside,
    NotYet,
    RankTable,
    TableFinding,
    Unreadable,
    completed,
    convert,
    errors,
    is_tor,
    packed,
    parse,
    parse_tor,
    validate,
    whole_document,
)
from ma_boot.reporting import print_lines, write_atomically


def all_findings(file: str, product: Optional[str]) -> Sequence[TableFinding]:
    """Everything that is wrong with the table, or the file of switches, and with what is beside it.

    Raises `InputMissing` if the file cannot be read, `RankTableInvalid` if the table is not completed.
    """
    document = _document(file)
    try:
        table = _parsed(document, product)
    except Unreadable as error:
        return error.findings
    return [*validate(table, product), *_files_beside(file, table)[1]]


def read_shown(file: str) -> Tuple[RankTable, FilesBeside]:
    """The valid table, or the file of switches, and what is beside it; warnings go to standard error.

    Raises `InputMissing` if the file cannot be read, `RankTableInvalid` if the table is not valid.
    """
    table = checked(_document(file), None, file)
    beside, findings = _files_beside(file, table)
    refuse(findings)
    return table, beside


def read_table(file: str, product: Optional[str] = None) -> RankTable:
    """The valid table in a file; warnings go to standard error.

    Raises `InputMissing` if the file cannot be read, `RankTableInvalid` if the table is not valid.
    """
    document = _document(file)
    if is_tor(document):
        raise RankTableInvalid(
            f"{file} is no rank table: it is the file of switches ({TOR_NAME}) beside one; "
            "show and validate take it"
        )
    return checked(document, product, file)


def checked(document: Mapping[str, Any], product: Optional[str], name: str = "the table") -> RankTable:
    """The valid table; warnings go to standard error. Raises `RankTableInvalid` with every error."""
    try:
        table = _parsed(document, product)
    except Unreadable as error:
        refuse(error.findings, name)
        raise
    refuse(validate(table, product), name)
    return table


def refuse(findings: Sequence[TableFinding], name: str = "the table") -> None:
    """Raises `RankTableInvalid` if a finding is fatal, else prints them as warnings."""
    fatal = [str(finding) for finding in errors(findings)]
    if fatal:
        raise RankTableInvalid(listed(f"{name} is not a valid rank table:", fatal))
    for finding in findings:
        print_lines(f"warning: {finding}", 2)


def ranked(table: RankTable, rank_order: str, host_nic_ip: str = "") -> RankTable:
    """The table with ranks, as template one; new warnings go to standard error."""
    converted = convert(table, rank_order, host_nic_ip)
    refuse(converted.findings[len(table.findings) :])
    return converted


def write_table(table: RankTable, output: str, in_base64: bool = False) -> None:
    """Writes the table to a file, packed or as it is; raises `CannotCreate` if that fails."""
    text = table.dumps()
    if in_base64:
        text = packed(text.encode()).decode() + "\n"
    if output == "-":
        print_lines(text.rstrip("\n"))
    else:
        write_atomically(Path(output).absolute(), text)


def print_json(document: Any) -> None:
    """Prints a JSON document."""
    print_lines(json.dumps(document, indent=2))


def _document(file: str) -> Mapping[str, Any]:
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise InputMissing(f"{file}: {error.strerror}") from error
    document = whole_document(content)
    if not isinstance(document, NotYet) and not is_tor(document):  # whose status stays "initializing"
        document = completed(document)
    if isinstance(document, NotYet):
        raise RankTableInvalid(f"{file}: {document.reason}")
    return document


def _parsed(document: Mapping[str, Any], product: Optional[str] = None) -> RankTable:
    return parse_tor(document) if is_tor(document) else parse(document, product)


def _files_beside(file: str, table: RankTable) -> Tuple[FilesBeside, Sequence[TableFinding]]:
    """What Volcano's controllers wrote beside a table, and warnings about it."""
    if file == "-" or table.template not in ("1.0", "1.2"):
        return FilesBeside(), ()
    found: Dict[str, RankTable] = {}
    findings: List[TableFinding] = []
    for name in (TOR_NAME, GLOBAL_NAME):
        other = Path(file).parent / name
        if not other.is_file():
            continue
        try:
            found[name] = _parsed(_document(str(other)))
            wrong: Sequence[TableFinding] = errors(validate(found[name]))
        except (InputMissing, RankTableInvalid) as error:
            wrong = [TableFinding("$", str(error), "a completed file")]
        except Unreadable as error:
            wrong = error.findings
        findings += [one._replace(path=f"{name}: {one.path}", fatal=False) for one in wrong]
    beside = FilesBeside(found.get(TOR_NAME), found.get(GLOBAL_NAME))
    return beside, [*findings, *beside.differences(table)]
