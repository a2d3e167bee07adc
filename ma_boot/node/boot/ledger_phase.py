"""Begins the ledger of a start on node 0: where it is, and what the start runs."""

from __future__ import annotations

from ma_boot.errors import RepeatedFailure, Stopped, described
from ma_boot.node.boot.boot_state import Boot
from ma_boot.node.boot.job_code import code_of
from ma_boot.node.boot.request import boot_command
from ma_boot.node.boot.start_ledger import LedgerOfStart, LedgerRun
from ma_boot.node.checkpoints.options import options_of
from ma_boot.node.checkpoints.records.keys import Place
from ma_boot.node.environment.command import find_file
from ma_boot.node.environment.run_digest import digest_of, run_digest
from ma_boot.node.transfers.mapping import configured_store, outputs_of
from ma_boot.report.job_ledger import RunDigest
from path_mapping.mapping.routes import ObsUrl, Route
from path_mapping.stores.store import Store


def open_ledger(boot: Boot, python: str) -> LedgerOfStart | None:
    """Begins the ledger of this start on node 0; None without a place for it, or if OBS fails.

    `python` is the training's. Raises `RepeatedFailure` and `Stopped`.
    """
    url = _ledger_url(boot)
    if url is None or boot.job.node_rank:
        return None
    try:
        store = boot.transfers.store if boot.transfers is not None else _configured_store(boot)
        places = tuple(Place.of(route.remote) for route in _checkpoint_routes(boot))
        run = LedgerRun(store, Place.of(url), _digest(boot, python), places)
        ledger = LedgerOfStart(boot.context, boot.request.run, boot.job, run)
        ledger.begin()
    except (RepeatedFailure, Stopped):
        raise
    except Exception as error:
        boot.journal.warn(f"the job's ledger is not used: {described(error)}")
        return None
    return ledger


def _ledger_url(boot: Boot) -> ObsUrl | None:
    given = boot.request.run.ledger
    if given is not None:
        return ObsUrl.typed(given)
    return next((route.remote for route in _checkpoint_routes(boot)), None)


def _checkpoint_routes(boot: Boot) -> list[Route]:
    return [route for route in outputs_of(boot.transfers) if options_of(route) is not None]


def _configured_store(boot: Boot) -> Store:
    return configured_store(boot.request.transfers, boot.context.environ, boot.context.cwd)


def _digest(boot: Boot, python: str) -> RunDigest:
    """Returns the digests of this start; options of the ledger itself change nothing."""
    request, context = boot.request, boot.context
    mapping, (root, without) = request.transfers.path_mapping, code_of(boot)
    run = request.run._replace(ledger=None, ignore_ledger=False)
    # Secrets are masked in the command; 16 bits show a change.
    secret = digest_of(request.command.words)[:4]
    return run_digest(
        root,
        f"{boot_command(request._replace(run=run))} {secret}",
        find_file(mapping, context.cwd, boot.job.job_dir) if mapping is not None else None,
        python,
        environ=context.environ,
        without=without,
    )
