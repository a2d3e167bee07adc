"""Without `inspect`, `uuid` and `gettext` click does what it does with them."""

from __future__ import annotations

import gettext
import inspect
import subprocess
import sys
from typing import List

from hypothesis import given
from hypothesis import strategies as st

from ma_boot.lean_click import StandIn, cleandoc, counted, untranslated


def lines(text: str) -> List[str]:
    """The lines as a help shows them: without blanks at their ends, and without empty ones around."""
    return "\n".join(line.rstrip() for line in text.split("\n")).strip("\n").split("\n")


@given(st.lists(st.text("ab \t", max_size=12)).map("\n".join))
def test_indentation_is_removed_as_by_inspect(text: str) -> None:
    assert lines(cleandoc(text)) == lines(inspect.cleandoc(text))


@given(st.text(), st.text(), st.integers())
def test_messages_are_those_of_gettext_without_translations(one: str, more: str, count: int) -> None:
    none = gettext.NullTranslations()
    assert untranslated(one) == none.gettext(one)
    assert counted(one, more, count) == none.ngettext(one, more, count)


def test_anything_else_is_the_real_one() -> None:
    assert StandIn("inspect").isfunction is inspect.isfunction


def test_nothing_is_left_of_it() -> None:
    program = (
        "import sys, ma_boot.lean_click; print({'inspect', 'uuid', 'platform', 'gettext'} & set(sys.modules))\n"
        "import click, gettext, inspect, uuid; assert gettext.find('x') is None\n"
        "print(inspect.signature, click.UUID('0' * 32).hex, uuid.UUID)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded, later = done.stdout.splitlines()
    assert loaded == "set()"
    assert later.startswith("<function signature at ")
    assert later.endswith(f" {'0' * 32} <class 'uuid.UUID'>")
