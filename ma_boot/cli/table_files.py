"""Reads and writes the rank tables of `ma_boot rank-table`; `-` is standard input or output."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence

from ma_boot.errors import InputMissing, RankTableInvalid, listed
from ma_boot.rank_table import (
    NotYet,
    RankTable,
    TableFinding,
    Unreadable,
    completed_document,
    convert,
    errors,
    parse,
    validate,
)
from ma_boot.reporting import print_lines, write_atomically


def all_findings(file: str, product: Optional[str]) -> Sequence[TableFinding]:
    """Everything that is wrong with the table.

    Raises `InputMissing` if the file cannot be read, `RankTableInvalid` if the table is not completed.
    """
    try:
        return validate(parse(_document(file), product), product)
    except Unreadable as error:
        return error.findings


def read_table(file: str) -> RankTable:
    """The valid table in a file; warnings go to standard error.

    Raises `InputMissing` if the file cannot be read, `RankTableInvalid` if the table is not valid.
    """
    return checked(_document(file), file)


def checked(document: Mapping[str, Any], name: str = "the table") -> RankTable:
    """The valid table; warnings go to standard error. Raises `RankTableInvalid` with every error."""
    try:
        table = parse(document, None)
    except Unreadable as error:
        refuse(error.findings, name)
        raise
    refuse(validate(table, None), name)
    return table


def refuse(findings: Sequence[TableFinding], name: str = "the table") -> None:
    """Raises `RankTableInvalid` if a finding is fatal, else prints them as warnings."""
    fatal = [str(finding) for finding in errors(findings)]
    if fatal:
        raise RankTableInvalid(listed(f"{name} is not a valid rank table:", fatal))
    for finding in findings:
        print_lines(f"warning: {finding}", 2)


def ranked(table: RankTable, rank_order: str) -> RankTable:
    """The table with ranks, as template one; new warnings go to standard error."""
    converted = convert(table, rank_order)
    refuse(converted.findings[len(table.findings) :])
    return converted


def write_table(table: RankTable, output: str) -> None:
    """Writes the table to a file; raises `CannotCreate` if that fails."""
    text = table.dumps()
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
    document = completed_document(content)
    if isinstance(document, NotYet):
        raise RankTableInvalid(f"{file}: {document.reason}")
    return document
