"""Values with named fields, as `typing.NamedTuple` makes them, at a third of its cost.

typing compiles the text of every annotation, to see whether it is a type. mypy has seen that; in the hundred
classes of a job it took 10 of the 130 ms of a start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    from collections import namedtuple

    class _Fields(type):
        """Makes a named tuple of a class: what is annotated is a field, what is assigned its default."""

        def __new__(cls, name, bases, body):
            fields = body["__annotations__"]
            defaults = [body[field] for field in fields if field in body]
            made = namedtuple(name, fields, defaults=defaults, module=body["__module__"])
            for key in body.keys() - fields:
                setattr(made, key, body[key])
            made.__annotations__ = fields
            return made

    NamedTuple = type.__new__(_Fields, "NamedTuple", (), {})
