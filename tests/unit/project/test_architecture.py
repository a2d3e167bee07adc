"""Rules that keep the project readable: imports between rooms, access to the system, sizes and names."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.project.imports import (
    MODULES,
    ROOMS,
    ROOT,
    SOURCES,
    imports,
    own_imports,
    room_of,
    tree,
)

OUTSIDE = {"ma_boot.__main__"} | {name for name in MODULES if name.startswith("ma_boot.for_training.")}
LIBRARIES = {"path_mapping", "path_mapping.file", "ma_boot.training", "ma_boot.platform.rank_table"}


@pytest.mark.invariant("Imports go down only; files are short")
def test_rooms_import_only_rooms_below_them() -> None:
    """Contracts in pyproject.toml: layers, no circles of rooms or modules, no import of ma_boot in path_mapping."""
    pytest.importorskip("importlinter", reason="import-linter needs Python 3.10")
    program = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache", "--no-logo"]
    done = subprocess.run(program, cwd=Path(__file__).parents[3], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_names_are_imported_from_the_module_that_defines_them() -> None:
    """Only the packages that users import re-export names; `cli.job` defines the group of its commands."""
    exporting = {room for room in ROOMS if own_imports(MODULES[room])}
    assert exporting <= LIBRARIES | {"ma_boot.cli.job"} | {name for name in ROOMS if ".for_training" in name}


def modules_of(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("__"))


def test_room_fits_on_a_screen_and_has_a_docstring() -> None:
    for room in ROOMS:
        path = MODULES[room].parent
        modules = modules_of(path)
        assert len(modules) <= {"ma_boot": 3, "path_mapping": 2}.get(room, 20), f"{room}: {modules}"
        docstring = ast.get_docstring(tree(MODULES[room]))
        assert docstring, f"{room}: expected the purpose of the room in the first line"


def test_folder_of_tests_or_benchmarks_fits_on_a_screen_and_has_a_docstring() -> None:
    folders = {path.parent for kind in ("tests", "benchmarks") for path in (ROOT / kind).rglob("*.py")}
    crowded = {str(folder.relative_to(ROOT)) for folder in folders if len(modules_of(folder)) > 20}
    assert crowded == set()
    packages = [folder / "__init__.py" for folder in folders if (folder / "__init__.py").exists()]
    assert [str(init) for init in packages if not ast.get_docstring(ast.parse(init.read_text()))] == []


def test_class_names_are_unique() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for module, path in MODULES.items():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module)
    assert {name: at for name, at in places.items() if len(at) > 1} == {}


def test_only_the_command_line_reads_the_environment_and_the_arguments() -> None:
    own_programs = {"attach.py", "guard.py", "sandbox.py", "__main__.py"}
    in_the_training = {"file_tree.py", "sitecustomize.py"}
    reads = {
        str(path.relative_to(ROOT))
        for path in SOURCES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in {"os.environ", "os.getenv", "sys.argv"}
        if path.name not in own_programs | in_the_training
        and not {"training", "for_training"} & set(path.parts)
    }
    assert reads == {"ma_boot/cli/app.py"}


@pytest.mark.invariant("Retries are in one place, the SDK in one module")
@pytest.mark.parametrize(
    ("sdk", "adapter"),
    [
        ("obs", {"obs_sdk.py", "obs_store.py"}),
        ("huaweicloudsdkcore", {"api.py"}),
        ("huaweicloudsdkmodelarts", set()),
    ],
)
def test_only_the_adapter_imports_the_sdk(sdk: str, adapter: set[str]) -> None:
    users = {path.name for path in SOURCES for used in imports(path) if used.module.partition(".")[0] == sdk}
    assert users == adapter


@pytest.mark.invariant("Only the parent reaps: no `waitpid(-1)`, no shell, no `preexec_fn`")
def test_calls_that_lose_exit_codes_or_quotes_are_not_used() -> None:
    wrong = []
    for path in SOURCES:
        names = {node.attr for node in ast.walk(tree(path)) if isinstance(node, ast.Attribute)}
        keywords = {node.arg for node in ast.walk(tree(path)) if isinstance(node, ast.keyword)}
        forbidden = names & {"waitpid", "wait3", "wait4", "system", "popen"} | keywords & {
            "shell",
            "preexec_fn",
        }
        wrong += [f"{path.relative_to(ROOT)}: {name}" for name in forbidden]
    assert wrong == []


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Yields each function and the number of its lines without the docstring."""
    for node in ast.walk(tree(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0]
            has_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            docstring = (first.end_lineno or 0) - first.lineno + 1 if has_docstring else 0
            yield node.name, (node.end_lineno or 0) - node.lineno + 1 - docstring


NO_NAMES = {"manager", "helper", "helpers", "util", "utils", "common", "base", "handler", "values"}


def test_files_and_functions_are_short_and_have_names_of_the_domain() -> None:
    for path in SOURCES:
        name = path.relative_to(ROOT)
        assert len(path.read_text().splitlines()) <= 500, f"{name}: at most 500 lines"
        assert [function for function, lines in functions(path) if lines > 50] == [], (
            f"{name}: at most 50 lines"
        )
        assert path.stem not in NO_NAMES
        assert ast.get_docstring(tree(path)), f"{name}: expected the purpose of the module in the first line"


STATES = {"ObsFault"}


def test_values_are_frozen() -> None:
    """Plans do not change after they are made; `STATES` are no values."""
    mutable = {
        node.name
        for path in SOURCES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef)
        for decorator in map(ast.unparse, node.decorator_list)
        if decorator.startswith("dataclass") and "frozen=True" not in decorator
    }
    assert mutable == STATES


@pytest.mark.invariant("The help loads no heavy module, fits a screen, and its examples work")
def test_the_command_line_loads_nothing_heavy() -> None:
    program = "import sys, ma_boot.cli.app; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    foreign = {"obs", "docker", "rich", "mindspore", "tenacity", "yaml", "pathspec", "huaweicloudsdkcore"}
    assert not foreign & {name.partition(".")[0] for name in loaded}
    rooms = {room_of(name) for name in loaded & set(MODULES)}
    light = {f"ma_boot{room}" for room in ("", ".errors", ".redact", ".wording", ".cli", ".cli.options")}
    assert rooms - light == set(), "these rooms are not needed for the help or completion"


def test_importing_every_module_leaves_nothing_behind(tmp_path: Path) -> None:
    wanted = [name for name in MODULES if name not in OUTSIDE and not name.endswith("__main__")]
    program = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    subprocess.run([sys.executable, "-B", "-c", program, *wanted], cwd=tmp_path, check=True)
    assert list(tmp_path.iterdir()) == []
