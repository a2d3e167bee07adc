"""An inbox for the signals of the tests' process."""

from __future__ import annotations

from typing import Iterator

import pytest

from ma_boot.processes import SignalInbox


@pytest.fixture
def inbox() -> Iterator[SignalInbox]:
    with SignalInbox() as inbox:
        yield inbox
