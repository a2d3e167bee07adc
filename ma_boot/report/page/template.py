"""The template of the page, filled in by Jinja; every value is escaped.

Jinja takes 30 to 50 ms to be imported and to compile the template. This module, like all of the package, is
imported when the ranks have ended.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from ma_boot.report.page.language import Text

TEMPLATES = Path(__file__).with_name("templates")


@cache
def page_template() -> Template:
    """Compiles the template; rendering without one of its values raises `jinja2.UndefinedError`."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # The template is compiled once per process: no cache, and no check for changes.
        cache_size=0,
        auto_reload=False,
    )
    environment.globals["text"] = Text
    return environment.get_template("page.html")


@cache
def style_and_scripts() -> Mapping[str, Markup]:
    """Returns style sheet, scripts, and `script_hashes`: the page's policy (CSP) allows these two scripts
    only.
    """
    scripts = {name: Markup(_read(f"{name}.js")) for name in ("choose_language", "behaviour")}
    digests = (sha256(script.encode()).digest() for script in scripts.values())
    hashes = (f"'sha256-{b2a_base64(digest, newline=False).decode()}'" for digest in digests)
    return {"style": Markup(_read("page.css")), "script_hashes": Markup(" ".join(hashes)), **scripts}


def _read(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")
