"""Hints for known errors; the table and its search are imported for an error only, as most jobs have none."""

from __future__ import annotations

from ma_boot.wording import Message, in_lines


def hints_for(output: str, plog: str = "") -> list[str]:
    """Returns at most three hints for an output and a plog, each with the text that it is for."""
    if not output and not plog:
        return []
    from ma_boot.report.hint_search import find_hints

    return find_hints(output, plog)


def first_hint(output: str, plog: str = "") -> str:
    """Returns the first hint for an output and a plog; empty without one."""
    if not output and not plog:
        return ""
    from ma_boot.report.hint_search import matches_in

    return next((match.hint for match in matches_in(output, plog)), "")


def with_store_hint(message: str) -> str:
    """Appends a hint to an error message of OBS or of the network, if one matches."""
    from ma_boot.report.hint_search import store_hint

    hint = store_hint(message)
    return message if hint is None else in_lines([message, Message.of("  -> {}", hint)])
