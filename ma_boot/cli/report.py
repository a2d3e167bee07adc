"""`ma_boot report`: why a job ended, by the events of its nodes; its page, and a bundle for support."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ma_boot.cli.options.click_types import FILE
from ma_boot.cli.options.declared import add_option_of
from ma_boot.cli.report_ledgers import (
    EventsOrUrl,
    ledger_document,
    ledger_lines,
    read_job_ledgers,
    split_places,
)
from ma_boot.errors import UsageError
from ma_boot.node.transfers.options import TransferOptions
from ma_boot.report.console import print_bytes, print_lines
from ma_boot.report.files import write_atomically
from ma_boot.report.job_ledger import JobLedger, job_directory

if TYPE_CHECKING:
    from ma_boot.report.page.read import JobPage
    from ma_boot.report.support.ascend_fd import SecondDiagnosis
    from ma_boot.report.support.bundle import Bundle


@click.command()
@click.argument(
    "events",
    nargs=-1,
    required=True,
    metavar="EVENTS...",
    type=EventsOrUrl(exists=True, path_type=Path),
)
@click.option(
    "--output",
    **FILE,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The page to write; by default report.html in the directory, or beside the first of the EVENTS.",
)
@click.option(
    "--bundle",
    **FILE,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write a zip file for support, without secrets and of at most 50 MB: events, failure files, "
    "ends of the logs of failed processes, CANN's logs, npu-smi, versions. Its contents are listed.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON document.")
@add_option_of(TransferOptions, "obs_root")
@click.pass_obj
def report(
    environ: Mapping[str, str],
    events: Sequence[Path | str],
    output: Path | None,
    *,
    bundle: Path | None,
    as_json: bool,
    obs_root: str | None,
) -> int:
    """Reports why a job ended, and makes one page of it: all its nodes on one timeline.

    EVENTS are directories with logs of the job, such as its log directory or a rehearsal's, or files
    <job>-node-<i>-events.jsonl. The page also shows the ends of the processes' logs if they are beside the
    events. Of a job that failed, the findings of ascend-fd are shown, too, where it is installed.

    The URL of an output with checkpoints (obs://bucket/checkpoints) shows all starts of the job by its
    ledger, alone or together with its events.

    \b
    Example:
      ma_boot report log --output job.html --bundle job.zip
    """
    from ma_boot.report.page.read import event_files, page_of

    if bundle is not None:
        from ma_boot.report.support.bundle import check_bundle

        check_bundle(bundle)
    paths, urls = split_places(events)
    ledgers = read_job_ledgers(urls, obs_root, environ)
    if not paths:
        return _report_ledgers(ledgers, as_json, [*filter(None, [output, bundle])])
    page = output or (paths[0] / "report.html" if paths[0].is_dir() else paths[0].with_name("report.html"))
    files = event_files(paths)
    made = page_of(files, page, ledgers=ledgers)
    if ledgers and job_directory(made.timeline.job) not in ledgers:
        print_lines(f"no ledger of the job {made.timeline.job} below {', '.join(urls)}", 2)
    write_atomically(page, made.text)
    second = _second_diagnosis(made, files, environ)
    document = _document(made, page, second) if as_json or bundle is not None else {}
    written = (
        _bundle(bundle, made, paths, files=files, document=document, environ=environ) if bundle else None
    )
    if as_json:
        document["bundle"] = written.fields() if written is not None else None
        _print_json(document)
        return 0
    time = [f"useful node time: {made.time}"] if made.time else []
    of_others = second.shown() if second is not None else []
    contents = written.lines() if written is not None else []
    print_lines(
        "\n".join([made.end, *made.restarts, *time, *made.starts, *of_others, f"page: {page}", *contents])
    )
    return 0


def _report_ledgers(ledgers: Mapping[str, JobLedger], as_json: bool, files: Sequence[Path]) -> int:
    """Prints all starts of the jobs; raises `UsageError` for files that need events."""
    if files:
        raise UsageError(f"{files[0]} needs the events of a job: name its log directory, too")
    if as_json:
        _print_json(ledger_document(ledgers))
    else:
        print_lines("\n".join(ledger_lines(ledgers)))
    return 0


def _print_json(document: Mapping[str, Any]) -> None:
    # Its values are masked already; the syntax must not be.
    text = json.dumps(document, indent=2, ensure_ascii=False)
    print_bytes(text.encode("utf-8", "backslashreplace") + b"\n")


def _second_diagnosis(
    made: JobPage, files: Sequence[Path], environ: Mapping[str, str]
) -> SecondDiagnosis | None:
    """Returns the findings of ascend-fd on a job that did not succeed; None where it is not installed."""
    if made.timeline.outcome.exit_code == 0 and made.timeline.outcome.doubt is None:
        return None
    from ma_boot.report.support.ascend_fd import (
        DIAGNOSIS_SECONDS,
        PROGRAM,
        diagnose,
        find_ascend_fd,
        log_directories,
    )

    program = find_ascend_fd(environ)
    if program is None:
        return None
    print_lines(f"running {PROGRAM} on the logs, at most {DIAGNOSIS_SECONDS:.0f} s", 2)
    return diagnose(program, log_directories(files), environ)


def _document(made: JobPage, page: Path, second: SecondDiagnosis | None) -> dict[str, Any]:
    from ma_boot.report.support.document import job_document

    findings = second.fields() if second is not None else None
    return {**job_document(made), "page": str(page), "ascend_fd": findings}


def _bundle(
    path: Path,
    made: JobPage,
    events: Sequence[Path],
    *,
    files: Sequence[Path],
    document: Mapping[str, Any],
    environ: Mapping[str, str],
) -> Bundle:
    from ma_boot.report.support.bundle import write_bundle
    from ma_boot.report.support.log_tree import log_roots
    from ma_boot.report.support.machine import tool_outputs, versions

    texts = {
        "report.json": json.dumps(document, indent=2, ensure_ascii=False),
        "versions.json": json.dumps(versions(environ), indent=2, ensure_ascii=False),
        **tool_outputs(environ),
    }
    return write_bundle(path, made, log_roots(events), files, texts=texts)
