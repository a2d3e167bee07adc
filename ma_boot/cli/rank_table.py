"""`ma_boot rank-table`: work on rank tables in files, without a job; `-` is standard input or output."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from ma_boot.cli.help import Group
from ma_boot.cli.options.click_types import FILE, SECONDS, Whole, files
from ma_boot.errors import ConfigError, ExitCode, InputMissing, RankTableInvalid, listed
from ma_boot.node.boot.options import RANK_ORDERS, RankOptions
from ma_boot.platform.modelarts.card_network import read_card_addresses, read_super_pod
from ma_boot.platform.modelarts.network import own_address
from ma_boot.platform.modelarts.rank_table_file import wait_until_completed
from ma_boot.platform.rank_table import (
    PRODUCTS,
    NotYet,
    RankTable,
    TableFinding,
    Unreadable,
    completed_document,
    convert,
    errors,
    fake,
    machine_table,
    merged,
    moved,
    parse,
    rows,
    validate,
)
from ma_boot.processes.signals import SignalInbox
from ma_boot.report.console import print_lines
from ma_boot.report.files import write_atomically
from ma_boot.wording import columns

_COLUMNS = ("rank", "pod", "server_id", "device_id", "device_ip")

_order = click.option(
    "--rank-order",
    type=click.Choice(RANK_ORDERS),
    default=RankOptions().rank_order,
    show_default=True,
    help="Order ranks by pod number or by server_id.",
)
_output = click.option("-o", "--output", default="-", **FILE, help="Output file; default: -.")
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group("rank-table", cls=Group)
def rank_table() -> None:
    """Shows, checks and generates rank tables, without a job.

    FILE is a rank table of any template; - is standard input, and for --output standard output.

    \b
    Example:
      ma_boot rank-table validate jobstart_hccl.json
    """


@rank_table.command()
@click.argument("file", shell_complete=files)
@_order
@_json
def show(file: str, rank_order: str, as_json: bool) -> None:
    """Prints a line for each rank of the table in FILE.

    \b
    Example:
      ma_boot rank-table show jobstart_hccl.json
    """
    ranks = rows(assign_ranks(read_table(file), rank_order))
    if as_json:
        print_lines(json.dumps(ranks, indent=2))
        return
    cells = [["-" if row[name] is None else str(row[name]) for name in _COLUMNS] for row in ranks]
    print_lines("\n".join(columns([_COLUMNS, *cells])))


@rank_table.command(name="validate")
@click.argument("file", shell_complete=files)
@click.option("--product", type=click.Choice(PRODUCTS), help="Ascend product whose rules apply.")
@_json
def validate_command(file: str, product: str | None, as_json: bool) -> int:
    """Checks the table in FILE against HCCL's rules and prints all findings; exits with 65 if one is fatal.

    \b
    Example:
      ma_boot rank-table validate --product 910b jobstart_hccl.json
    """
    try:
        findings: Sequence[TableFinding] = validate(parse(_read_document(file), product), product)
    except Unreadable as error:
        findings = error.findings
    if as_json:
        print_lines(json.dumps([finding._asdict() for finding in findings], indent=2))
    else:
        lines = [f"{'error' if finding.fatal else 'warning'}: {finding}" for finding in findings]
        print_lines("\n".join(lines) or "valid")
    return ExitCode.RANK_TABLE_INVALID if errors(findings) else ExitCode.SUCCESS


@rank_table.command(name="convert")
@click.argument("file", shell_complete=files)
@_output
@_order
def convert_command(file: str, output: str, rank_order: str) -> None:
    """Converts the table in FILE to template one.

    \b
    Example:
      ma_boot rank-table convert jobstart_hccl.json -o rank_table.json
    """
    write_table(assign_ranks(read_table(file), rank_order), output)


@rank_table.command()
@click.argument("files", nargs=-1, required=True, shell_complete=files)
@_output
def merge(files: Sequence[str], output: str) -> None:
    """Merges the tables of several servers into one, in the natural order of their ids.

    \b
    Example:
      ma_boot rank-table merge server_0.json server_1.json -o rank_table.json
    """
    document, findings = merged([assign_ranks(read_table(file), "pod") for file in files])
    check_findings(findings)
    write_table(parse_valid(document), output)


@rank_table.command()
@click.option("--devices", metavar="0,1,...", help="Cards, by physical id; default: all with an address.")
@click.option("--server-id", metavar="ID", help="Default: the address of this host's name.")
@click.option(
    "--hccn-conf",
    **FILE,
    default="/etc/hccn.conf",
    show_default=True,
    help="File with the addresses, used if there is no hccn_tool.",
)
@click.option(
    "--version",
    type=click.Choice(["1.0", "1.2"]),
    default="1.0",
    show_default=True,
    help="Its version; 1.2 has the super pod of an A3, from npu-smi.",
)
@_output
def generate(devices: str | None, server_id: str | None, hccn_conf: str, version: str, output: str) -> None:
    """Generates the table of this machine, from hccn_tool or hccn.conf.

    \b
    Example:
      ma_boot rank-table generate --devices 0,1,2,3 -o rank_table.json
    """
    wanted = _parse_numbers(devices)
    super_pod = read_super_pod(wanted) if version == "1.2" else None
    chosen = _addresses(wanted, Path(hccn_conf), needed=super_pod is None)
    write_table(parse_valid(machine_table(server_id or own_address(), chosen, super_pod)), output)


@rank_table.command(name="fake")
@click.option(
    "--nodes",
    type=Whole(1, 16384),
    default=1,
    show_default=True,
    metavar="N",
    help="Number of servers.",
)
@click.option(
    "--devices-per-node",
    type=Whole(1, 16),
    default=8,
    show_default=True,
    metavar="N",
    help="Cards per server.",
)
@click.option(
    "--template", type=click.Choice(["one", "two"]), default="two", show_default=True, help="Its template."
)
@_output
def fake_command(nodes: int, devices_per_node: int, template: str, output: str) -> None:
    """Generates a sample rank table as ModelArts writes it.

    \b
    Example:
      ma_boot rank-table fake --nodes 2 -o jobstart_hccl.json
    """
    table = parse_valid(fake(nodes, devices_per_node))
    write_table(assign_ranks(table, "pod") if template == "one" else table, output)


@rank_table.command()
@click.argument("file", shell_complete=files)
@click.option("--timeout", **SECONDS, default=1800, show_default=True, help="How long to wait.")
def wait(file: str, timeout: float) -> None:
    """Waits until the table in FILE is completed; exits with 75 if it is not within the timeout.

    \b
    Example:
      ma_boot rank-table wait /user/config/jobstart_hccl.json --timeout 600
    """
    started = time.monotonic()
    with SignalInbox() as inbox:
        wait_until_completed(
            file, timeout, sleep=inbox.wait, check=inbox.check, say=lambda text: print_lines(text, 2)
        )
    print_lines(f"completed after {time.monotonic() - started:.1f} s")


@rank_table.command()
@click.argument("before", shell_complete=files)
@click.argument("after", shell_complete=files)
@_order
def diff(before: str, after: str, rank_order: str) -> int:
    """Prints each rank whose place differs between BEFORE and AFTER; exits with 1 if there is one.

    \b
    Example:
      ma_boot rank-table diff yesterday.json jobstart_hccl.json
    """
    lines = moved(assign_ranks(read_table(before), rank_order), assign_ranks(read_table(after), rank_order))
    print_lines("\n".join(lines) or "no rank has moved")
    return 1 if lines else 0


def _addresses(wanted: Sequence[int], hccn_conf: Path, needed: bool) -> dict[int, str]:
    """Returns the addresses of the cards by device number.

    Cards inside a super pod need none. Raises `ConfigError` or `InputMissing` if a `needed` one is missing.
    """
    try:
        addresses = read_card_addresses(wanted, hccn_conf)
    except InputMissing:
        if needed:
            raise
        return {}
    missing = [device for device in wanted if device not in addresses]
    if needed and (missing or not addresses):
        what = ", ".join(map(str, missing)) or "any card"
        raise ConfigError(f"no address of {what} in hccn_tool or {hccn_conf}; found: {sorted(addresses)}")
    return {device: address for device, address in addresses.items() if not wanted or device in wanted}


def _parse_numbers(text: str | None) -> list[int]:
    words = [word.strip() for word in (text or "").split(",") if word.strip()]
    odd = [word for word in words if not word.isdecimal()]
    if odd:
        raise click.BadParameter(
            f"found {', '.join(odd)}, expected numbers such as 0,1,2,3", param_hint="--devices"
        )
    return sorted({int(word) for word in words})


def read_table(file: str) -> RankTable:
    """Reads a valid table from a file; prints warnings to standard error.

    Raises `InputMissing` if the file cannot be read, `RankTableInvalid` if the table is not valid.
    """
    return parse_valid(_read_document(file), file)


def parse_valid(document: Mapping[str, Any], name: str = "the table") -> RankTable:
    """Parses a valid table; prints warnings to standard error. Raises `RankTableInvalid` with every error."""
    try:
        table = parse(document, None)
    except Unreadable as error:
        check_findings(error.findings, name)
        raise
    check_findings(validate(table, None), name)
    return table


def check_findings(findings: Sequence[TableFinding], name: str = "the table") -> None:
    """Raises `RankTableInvalid` if a finding is fatal, else prints them as warnings."""
    fatal = [str(finding) for finding in errors(findings)]
    if fatal:
        raise RankTableInvalid(listed(f"{name} is not a valid rank table:", fatal))
    for finding in findings:
        print_lines(f"warning: {finding}", 2)


def assign_ranks(table: RankTable, rank_order: str) -> RankTable:
    """Converts the table to template one, which has ranks; prints new warnings to standard error."""
    converted = convert(table, rank_order)
    check_findings(converted.findings[len(table.findings) :])
    return converted


def write_table(table: RankTable, output: str) -> None:
    """Writes the table to a file; raises `CannotCreate` if that fails."""
    text = table.dumps()
    if output == "-":
        print_lines(text.rstrip("\n"))
    else:
        write_atomically(Path(output).absolute(), text)


def _read_document(file: str) -> Mapping[str, Any]:
    """Reads the document in a file.

    Raises `InputMissing` if the file cannot be read, `RankTableInvalid` if the table is not completed.
    """
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise InputMissing(f"{file}: {error.strerror}") from error
    document = completed_document(content)
    if isinstance(document, NotYet):
        raise RankTableInvalid(f"{file}: {document.reason}")
    return document
