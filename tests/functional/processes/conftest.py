"""An inbox for the signals of the tests' process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ma_boot.processes.signals import SignalInbox


@pytest.fixture
def inbox() -> Iterator[SignalInbox]:
    with SignalInbox() as inbox:
        yield inbox
