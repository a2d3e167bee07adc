"""Which mutants a room has: what cosmic-ray proposes, less what only repeats another one."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import List, NamedTuple, Sequence, Tuple

from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

# One replacement for an arithmetic operator, the neighbour and the opposite for a comparison: the others die with these.
_OPERATORS = re.compile(
    "core/(?!ReplaceBinaryOperator|ReplaceComparison|ReplaceUnary|Variable).*"
    "|core/ReplaceBinaryOperator_(Add_Sub|Sub_Add|Mul_Div|Div_Mul|FloorDiv_Mul|Mod_Mul|Pow_Mul|RShift_LShift|LShift_RShift"
    "|BitOr_BitAnd|BitAnd_BitOr|BitXor_BitAnd)"
    "|core/ReplaceComparisonOperator_(Eq_NotEq|NotEq_Eq|Lt_LtE|Lt_GtE|LtE_Lt|LtE_Gt|Gt_GtE|Gt_LtE|GtE_Gt|GtE_Lt|Is_IsNot"
    "|IsNot_Is)"
    "|core/ReplaceUnaryOperator_(Delete_.*|USub_UAdd)"
)

_OF_TEST_ARCHITECTURE = "@dataclass(frozen=True)"  # test_values_are_frozen


class Place(NamedTuple):
    """Where an operator can change a file: at its `occurrence`-th place there, in this line."""

    path: str
    line: int
    operator: str
    occurrence: int


class Mutant(NamedTuple):
    """A change of one place; `before` and `after` are its lines, stripped, `source` is the whole changed file."""

    path: str
    line: int
    operator: str
    before: str
    after: str
    source: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.operator}\n  - {self.before}\n  + {self.after}"


def places_of(root: Path, folder: str) -> List[Place]:
    """All places of a folder, in the order of its files."""
    return [
        place
        for path in sorted((root / folder).rglob("*.py"))
        if path.name != "__init__.py"
        for place in _places(root, path)
    ]


def shuffled(places: List[Place], seed: int) -> List[Place]:
    """The places in a random order: as many of them as there is time for are a sample."""
    return random.Random(seed).sample(places, len(places))


def mutant_at(root: Path, place: Place) -> Mutant:
    """The change at a place."""
    code = (root / place.path).read_text(encoding="utf-8")
    source = mutate_code(code, get_operator(f"core/{place.operator}")(), place.occurrence) or code
    before, after = _changed(code, source)
    return Mutant(place.path, place.line, place.operator, before, after, source)


def _places(root: Path, path: Path) -> List[Place]:
    nodes = list(ast_nodes(get_ast_from_path(path)))
    lines = path.read_text(encoding="utf-8").splitlines()
    found = []
    for name in filter(_OPERATORS.fullmatch, operator_names()):
        operator = get_operator(name)()
        starts = [start for node in nodes for start, _ in operator.mutation_positions(node)]
        for occurrence, (line, _) in enumerate(starts):
            if lines[line - 1] != _OF_TEST_ARCHITECTURE:
                found.append(Place(str(path.relative_to(root)), line, name.partition("/")[2], occurrence))
    return sorted(found)


def _changed(code: str, source: str) -> Tuple[str, str]:
    """The lines that differ."""
    old, new = code.splitlines(), source.splitlines()
    start = next((at for at, pair in enumerate(zip(old, new)) if pair[0] != pair[1]), min(len(old), len(new)))
    same = 0
    while same < min(len(old), len(new)) - start and old[-1 - same] == new[-1 - same]:
        same += 1
    return _stripped(old[start : len(old) - same]), _stripped(new[start : len(new) - same])


def _stripped(lines: Sequence[str]) -> str:
    return " / ".join(line.strip() for line in lines)
