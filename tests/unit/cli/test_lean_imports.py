"""What is imported without modules that it hardly needs does what it does with them."""

from __future__ import annotations

import gettext
import inspect
import subprocess
import sys
from typing import List

from hypothesis import given
from hypothesis import strategies as st

from ma_boot.lean_imports import StandIn, cleandoc, counted, untranslated


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


def printed(program: str) -> List[str]:
    """The lines that a new Python prints, where modules of ours are the first to be imported."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_nothing_is_left_of_what_stood_in_for_click() -> None:
    loaded, later = printed(
        "import sys, ma_boot.cli; print({'inspect', 'uuid', 'platform', 'gettext'} & set(sys.modules))\n"
        "import click, gettext, inspect, uuid; assert gettext.find('x') is None\n"
        "print(inspect.signature, click.UUID('0' * 32).hex, uuid.UUID)"
    )
    assert loaded == "set()"
    assert later.startswith("<function signature at ")
    assert later.endswith(f" {'0' * 32} <class 'uuid.UUID'>")


def test_a_job_loads_no_compressor_no_urls_and_no_locale() -> None:
    """All that stood in for them is gone, so that others import the real ones."""
    left_out = "{'bz2', 'lzma', 'zlib', 'urllib.parse', 'ipaddress', 'locale'} & set(sys.modules)"
    loaded, text, url, kinds, urls = printed(
        "import sys; from ma_boot.lean_imports import import_library; import_library()\n"
        f"import ma_boot.cli.execute; print({left_out})\n"
        "import pathlib, shutil, subprocess\n"
        "print(subprocess.run(['echo', 'é'], stdout=-1, text=True).stdout.strip())\n"
        "print(pathlib.Path('/a b').as_uri())\n"
        "print(sorted(kind for kind, about in shutil.get_archive_formats()))\n"
        "import urllib.parse, lzma; print(urllib.parse.urlsplit('obs://b/c').netloc, lzma.compress)"
    )
    assert loaded == "set()"
    assert text == "é"
    assert url == "file:///a%20b"
    assert {"bztar", "gztar", "xztar"} <= set(eval(kinds))
    assert urls.startswith("b <function compress at ")


def test_a_module_that_was_imported_before_stays() -> None:
    assert printed(
        "import urllib.parse; from ma_boot.lean_imports import import_library; import_library()\n"
        "import sys; print(sys.modules['urllib.parse'] is urllib.parse)"
    ) == ["True"]
