"""`ma_boot rank-table ...`: the library's tools on files, without a job; `-` is standard input or output."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import click

from ma_boot.cli.help import Group
from ma_boot.cli.options.completion import FILE, files
from ma_boot.errors import ConfigError, InputMissing, RankTableInvalid, listed
from ma_boot.modelarts.rank_table_file import wait_until_completed, write_atomically
from ma_boot.processes import SignalInbox
from ma_boot.rank_table import (
    PRODUCTS,
    RANK_ORDERS,
    Finding,
    NotYet,
    RankTable,
    Unreadable,
    completed_document,
    convert,
    errors,
    fake,
    parse,
    validate,
)
from ma_boot.rank_table.operations import hccn_addresses, merged, moved, of_machine, rows, tool_address
from ma_boot.reporting.console import print_lines

HCCN_CONF = "/etc/hccn.conf"
HCCN_TOOL_SECONDS = 30.0

_product = click.option("--product", type=click.Choice(PRODUCTS), help="Ascend product, for its rules.")
_order = click.option(
    "--rank-order",
    type=click.Choice(RANK_ORDERS),
    default="pod",
    show_default=True,
    help="Ranks by the number of the pod, or by server_id.",
)
_output = click.option("-o", "--output", default="-", **FILE, help="Where to write it; default: -.")
_json = click.option("--json", "as_json", is_flag=True, help="For programs.")


@click.group("rank-table", cls=Group)
def rank_table() -> None:
    """Shows, checks and makes rank tables, without a job.

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
    """Prints one line for each rank of the table in FILE.

    \b
    Example:
      ma_boot rank-table show jobstart_hccl.json
    """
    found = rows(_ranked(_read(file), rank_order))
    if as_json:
        _print(json.dumps(found, indent=2))
        return
    names = ("rank", "pod", "server_id", "device_id", "device_ip")
    lines = [
        names,
        *(tuple(str(row[name] if row[name] is not None else "-") for name in names) for row in found),
    ]
    widths = [max(len(line[i]) for line in lines) for i in range(len(names))]
    _print(
        "\n".join(
            "  ".join(word.ljust(width) for word, width in zip(line, widths)).rstrip() for line in lines
        )
    )


@rank_table.command(name="validate")
@click.argument("file", shell_complete=files)
@_product
@_json
def validate_command(file: str, product: Optional[str], as_json: bool) -> int:
    """Checks the table in FILE against HCCL's rules: every finding at once, 65 if one is fatal.

    \b
    Example:
      ma_boot rank-table validate --product 910b jobstart_hccl.json
    """
    try:
        findings: Sequence[Finding] = validate(_parsed(file), product)
    except Unreadable as error:
        findings = error.findings
    if as_json:
        _print(json.dumps([finding.__dict__ for finding in findings], indent=2))
    else:
        lines = [f"{'error' if finding.fatal else 'warning'}: {finding}" for finding in findings]
        _print("\n".join(lines) or "valid")
    return RankTableInvalid.exit_code if errors(findings) else 0


@rank_table.command(name="convert")
@click.argument("file", shell_complete=files)
@_output
@_order
@_product
@click.option("--host-nic-ip", default="", metavar="TEXT", help="host_nic_ip of each server, e.g. reserve.")
def convert_command(
    file: str, output: str, rank_order: str, product: Optional[str], host_nic_ip: str
) -> None:
    """Writes the table in FILE as template one.

    \b
    Example:
      ma_boot rank-table convert jobstart_hccl.json -o rank_table.json
    """
    table = _read(file, product)
    _write(output, _ranked(table, rank_order, host_nic_ip))


@rank_table.command()
@click.argument("files", nargs=-1, required=True, shell_complete=files)
@_output
@_product
def merge(files: Sequence[str], output: str, product: Optional[str]) -> None:
    """Makes one table of the tables of several servers, in the natural order of their ids.

    \b
    Example:
      ma_boot rank-table merge server_0.json server_1.json -o rank_table.json
    """
    document, findings = merged([_ranked(_read(file), "pod") for file in files])
    _refuse(findings)
    _write(output, _checked(document, product))


@rank_table.command()
@click.option(
    "--devices", metavar="0,1,...", help="Cards, by physical id; default: all that have an address."
)
@click.option("--server-id", metavar="ID", help="Default: the address of this host's name.")
@click.option(
    "--hccn-conf", **FILE, default=HCCN_CONF, show_default=True, help="Addresses, where no hccn_tool is."
)
@_output
@_product
def generate(
    devices: Optional[str], server_id: Optional[str], hccn_conf: str, output: str, product: Optional[str]
) -> None:
    """Makes the table of this machine, from hccn_tool or, without it, from hccn.conf.

    \b
    Example:
      ma_boot rank-table generate --devices 0,1,2,3 -o rank_table.json
    """
    wanted = _numbers(devices)
    addresses = _addresses(wanted, hccn_conf)
    missing = [device for device in wanted if device not in addresses]
    if missing or not addresses:
        what = ", ".join(map(str, missing)) or "any card"
        raise ConfigError(f"no address of {what} in hccn_tool or {hccn_conf}; found: {sorted(addresses)}")
    chosen = {device: addresses[device] for device in wanted or sorted(addresses)}
    _write(output, _checked(of_machine(server_id or _own_address(), chosen), product))


@rank_table.command(name="fake")
@click.option(
    "--nodes", type=click.IntRange(1, 16384), default=1, show_default=True, metavar="N", help="Servers."
)
@click.option(
    "--devices-per-node",
    type=click.IntRange(1, 16),
    default=8,
    show_default=True,
    metavar="N",
    help="Cards of each server.",
)
@click.option(
    "--template", type=click.Choice(["one", "two"]), default="two", show_default=True, help="Its form."
)
@_output
@_product
def fake_command(
    nodes: int, devices_per_node: int, template: str, output: str, product: Optional[str]
) -> None:
    """Makes the table of a job that does not exist.

    \b
    Example:
      ma_boot rank-table fake --nodes 2 -o jobstart_hccl.json
    """
    table = _checked(fake(nodes, devices_per_node), product)
    _write(output, _ranked(table, "pod") if template == "one" else table)


@rank_table.command()
@click.argument("file", shell_complete=files)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=1800,
    show_default=True,
    metavar="SECONDS",
    help="Longest wait.",
)
def wait(file: str, timeout: float) -> None:
    """Waits until the table in FILE is completed; 75 when the time is over.

    \b
    Example:
      ma_boot rank-table wait /user/config/jobstart_hccl.json --timeout 600
    """
    started = time.monotonic()
    with SignalInbox() as inbox:
        wait_until_completed(
            file,
            timeout,
            sleep=inbox.wait,
            check=inbox.check,
            say=lambda text: print_lines(text, 2),
            taken=lambda document: None,
        )
    _print(f"completed after {time.monotonic() - started:.1f} s")


@rank_table.command()
@click.argument("before", shell_complete=files)
@click.argument("after", shell_complete=files)
@_order
def diff(before: str, after: str, rank_order: str) -> int:
    """Prints each rank that is somewhere else in AFTER than in BEFORE; 1 if there is any.

    \b
    Example:
      ma_boot rank-table diff yesterday.json jobstart_hccl.json
    """
    lines = moved(_ranked(_read(before), rank_order), _ranked(_read(after), rank_order))
    _print("\n".join(lines) or "every rank is where it was")
    return 1 if lines else 0


def _parsed(file: str) -> RankTable:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputMissing(f"{file}: {error}") from error
    document = completed_document(text)
    if isinstance(document, NotYet):
        raise RankTableInvalid(f"{file}: {document.reason}")
    return parse(document)


def _read(file: str, product: Optional[str] = None) -> RankTable:
    """The table in a file, valid; warnings go to standard error."""
    try:
        table = _parsed(file)
    except Unreadable as error:
        raise RankTableInvalid(
            listed(f"{file} is no valid rank table:", list(map(str, error.findings)))
        ) from error
    _refuse(validate(table, product), file)
    return table


def _checked(document: Dict[str, Any], product: Optional[str]) -> RankTable:
    table = parse(document)
    _refuse(validate(table, product))
    return table


def _refuse(findings: Sequence[Finding], what: str = "the table") -> None:
    fatal = [str(finding) for finding in errors(findings)]
    if fatal:
        raise RankTableInvalid(listed(f"{what} is no valid rank table:", fatal))
    for finding in findings:
        print_lines(f"warning: {finding}", 2)


def _ranked(table: RankTable, rank_order: str, host_nic_ip: str = "") -> RankTable:
    ranked = convert(table, rank_order, host_nic_ip)
    for finding in ranked.findings[len(table.findings) :]:
        print_lines(f"warning: {finding}", 2)
    return ranked


def _write(output: str, table: RankTable) -> None:
    if output == "-":
        _print(table.dumps().rstrip("\n"))
    else:
        write_atomically(Path(output).absolute(), table.dumps())


def _print(text: str) -> None:
    print_lines(text)


def _numbers(text: Optional[str]) -> List[int]:
    words = [word.strip() for word in (text or "").split(",") if word.strip()]
    odd = [word for word in words if not word.isdecimal()]
    if odd:
        raise click.BadParameter(
            f"found {', '.join(odd)}, expected numbers as in 0,1,2,3", param_hint="--devices"
        )
    return sorted({int(word) for word in words})


def _addresses(wanted: Sequence[int], hccn_conf: str) -> Dict[int, str]:
    tool = shutil.which("hccn_tool")
    if tool is not None:
        found = {device: _ask(tool, device) for device in wanted or range(16)}
        return {device: address for device, address in found.items() if address}
    try:
        return hccn_addresses(Path(hccn_conf).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputMissing(f"no hccn_tool on PATH, and {hccn_conf}: {error.strerror}") from error


def _ask(tool: str, device: int) -> str:
    argv = [tool, "-i", str(device), "-ip", "-g"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=HCCN_TOOL_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"{' '.join(argv)} did not answer within {HCCN_TOOL_SECONDS:.0f} s") from error
    return tool_address(done.stdout)


def _own_address() -> str:
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError as error:
        raise ConfigError(f"this host's name has no address ({error}): give --server-id") from error
