"""Tests that need a program that is not on every machine."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def unavailable(reason: str) -> NoReturn:
    """Skips a test because a program is missing; fails it with CI=1."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
