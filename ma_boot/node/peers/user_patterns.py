"""Regular expressions of `--retry-on` and `--no-retry-on`, each searched for within a limit of time.

The package `regex` can interrupt a search, which `re` cannot. It is imported only if a job has an expression.
"""

from __future__ import annotations

from collections.abc import Sequence

# Characters of an expression, and expressions of an option.
LONGEST_EXPRESSION = 500
MOST_EXPRESSIONS = 20
# Seconds of CPU time of the process; an expression that needs more matches nothing.
SEARCH_SECONDS = 0.5


def parse_expression(text: str) -> str:
    """Checks an expression; raises `ValueError` with the reason if it is none."""
    import regex

    if not text or len(text) > LONGEST_EXPRESSION:
        raise ValueError(f"expected a regular expression of 1 to {LONGEST_EXPRESSION} characters")
    try:
        regex.compile(text)
    except (regex.error, RecursionError) as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from error
    return text


def first_match(expressions: Sequence[str], text: str) -> str | None:
    """Returns the first of these expressions that is found in the text; None if none is."""
    import regex

    for expression in expressions[:MOST_EXPRESSIONS]:
        try:
            if regex.search(expression, text, timeout=SEARCH_SECONDS):
                return expression
        # A search that takes too long is no evidence.
        except TimeoutError:
            continue
    return None
