"""Errors of transfers as boot errors, with their exit codes; and the loss of outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ma_boot.errors import (
    CannotCreate,
    InputMissing,
    InternalError,
    OutputLost,
    PhaseCancelled,
    StoreUnavailable,
    listed,
)
from ma_boot.processes.control_group import limit_reached, no_more_processes
from ma_boot.report.hints import with_store_hint
from ma_boot.wording import Message, in_lines
from path_mapping import errors as mapping_errors

if TYPE_CHECKING:
    from path_mapping.mapping.routes import Route
    from path_mapping.planning.prepared_transfer import EmptyRoute
    from path_mapping.stores.store import Store
    from path_mapping.transfer.transfer import Transferred

NOTHING_LEFT = Message.of("the training ended well, but left nothing at these output paths:")
NONE_SELECTED = Message.of("the patterns of these outputs select none of their files:")
# Errors of this node, of the mapping or the bucket, and else of the store.
_LOCAL = (OSError, mapping_errors.UnsafeTarget, mapping_errors.NoSpace, mapping_errors.TargetRemoved)
_ABSENT = (mapping_errors.MissingInputs, mapping_errors.NothingSelected, mapping_errors.NotFound)


def to_boot_error(
    error: mapping_errors.PathMappingError, store: Store | None = None, what: str = "inputs"
) -> Exception:
    """Returns the error of a download from `store` with its exit code; `PhaseCancelled` if cancelled."""
    if isinstance(error, mapping_errors.Cancelled):
        return PhaseCancelled("cancelled")
    if isinstance(error, mapping_errors.NoWorkers):
        return no_more_processes(f"{what}: {error}")
    failures = error.failures if isinstance(error, mapping_errors.TransferFailed) else ()
    causes = [failure.error for failure in failures] or [error]
    if any(isinstance(cause, _LOCAL) for cause in causes):
        return CannotCreate(_with_headline(what, error))
    if isinstance(error, mapping_errors.MissingInputs) and store is not None:
        from path_mapping.mapping.routes import ObsUrl

        def locate(text: str) -> str:
            url = ObsUrl.parse(text)
            return store.place(url.bucket, url.key)

        error = error.located(locate)
    message = with_store_hint(_with_headline(what, error))
    if any(isinstance(cause, _ABSENT) for cause in causes):
        return InputMissing(message)
    return StoreUnavailable(message)


def _with_headline(what: str, error: mapping_errors.PathMappingError) -> str:
    """Returns the message of an error of `what`; a headline above listed problems can be translated."""
    headline, *problems = str(error).split("\n")
    if problems and "{}" not in headline:
        headline = Message(headline)
    return in_lines([Message.of("{}: {}", Message(what), headline), *problems])


def explain_upload_error(error: Exception) -> Exception:
    """Returns the error of an upload with a known explanation, or else with its traceback."""
    if isinstance(error, mapping_errors.NoWorkers):
        return no_more_processes(str(error))
    if isinstance(error, (mapping_errors.PathMappingError, OSError)):
        return limit_reached(error) or error
    return limit_reached(error) or InternalError.of(error)


def missing_outputs(outputs: Sequence[str], headline: str = NOTHING_LEFT) -> OutputLost:
    """Returns the loss of outputs whose local paths are missing or empty."""
    return OutputLost(with_store_hint(listed(headline, outputs)))


def find_missing_outputs(done: Transferred, headline: str) -> tuple[list[str], list[str]]:
    """Returns the messages about missing outputs: those that are lost, and those that are only noted.

    Without a `headline` for missing outputs none of them is lost.
    """
    # An output with checkpoints may be empty: the training may remove what was published.
    empty = [found for found in done.empty if found.why or found.route.more is None]
    absent = [*done.missing, *(found.route for found in empty if not found.why)]
    unselected = [found for found in empty if found.why]
    losses = [
        (headline, [_show_route(route) for route in absent if route.required]),
        (NONE_SELECTED, [_show_unselected(found) for found in unselected if found.route.required]),
    ]
    lost = [listed(text, outputs) for text, outputs in losses if outputs] if headline else []
    noted = [*map(_show_route, absent), *map(_show_unselected, unselected)]
    return lost, noted


def _show_route(route: Route) -> str:
    return f"{route.local} (for {route.remote})"


def _show_unselected(found: EmptyRoute) -> str:
    return f"{_show_route(found.route)}: {found.why}"
