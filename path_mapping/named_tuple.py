"""Values with named fields, as `typing.NamedTuple` makes them, at a fifth of its cost.

typing compiles the text of every annotation, to see whether it is a type, and a constructor for each class.
mypy has seen the types, and constructors of as many fields differ only in the names of their arguments.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING or sys.version_info < (3, 8):  # 3.7 cannot give code other names
    from typing import NamedTuple as NamedTuple
else:
    from collections import namedtuple
    from functools import lru_cache
    from types import FunctionType

    class _Values(tuple):
        """What all values have."""

        __slots__ = ()

        @classmethod
        def _make(cls, values):
            """Makes it of as many values as it has fields, in their order."""
            made = tuple.__new__(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"{cls.__name__}: expected {len(cls._fields)} values, found {len(made)}")
            return made

        def _replace(_self, **changes):  # a field may be named self
            """The same but for these fields."""
            made = _self._make(map(changes.pop, _self._fields, _self))
            if changes:
                raise TypeError(f"{type(_self).__name__} has no field {', '.join(changes)}")
            return made

        __replace__ = _replace  # for copy.replace

        def _asdict(self):
            """The values by the names of their fields."""
            return dict(zip(self._fields, self))

        def __getnewargs__(self):
            return tuple(self)

        def __repr__(self):
            fields = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self))
            return f"{type(self).__name__}({fields})"

    @lru_cache(maxsize=64)
    def _template(count):
        """A class with so many fields, of which others take the code and what reads a field by its place."""
        return namedtuple("_template", [f"field_{place}" for place in range(count)])

    class _Fields(type):
        """Makes a class of values: what is annotated is a field, what is assigned its default."""

        def __new__(cls, name, bases, body):
            fields = tuple(body["__annotations__"])
            defaults = {field: body[field] for field in fields if field in body}
            template = _template(len(fields))
            code = template.__new__.__code__.replace(co_varnames=("_cls", *fields))
            new = FunctionType(code, template.__new__.__globals__, "__new__", tuple(defaults.values()))
            new.__qualname__ = f"{name}.__new__"  # for the error of an argument that is missing
            values = {
                **body,
                **{field: template.__dict__[given] for field, given in zip(fields, template._fields)},
                "__slots__": (),
                "__match_args__": fields,
                "__new__": new,
                "_fields": fields,
                "_field_defaults": defaults,
            }
            return type(name, (_Values,), values)

    NamedTuple = type.__new__(_Fields, "NamedTuple", (), {})
