"""Hints for errors of OBS and of the network. Pure, but for the table's file."""

from __future__ import annotations

from ma_boot.wording import Message, in_lines


def with_store_hint(message: str) -> str:
    """Appends a hint to an error message of OBS or of the network, if one matches."""
    from ma_boot.report.hints import store_hint  # few transfers fail

    hint = store_hint(message)
    return message if hint is None else in_lines([message, Message.of("  -> {}", hint)])
