"""The rules that keep the project readable: who imports whom, who touches what, how long things are."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Dict, Iterator, Set, Tuple

import pytest

import ma_boot

ROOT = Path(ma_boot.__file__).parents[1]  # the wheel's, for `make release-check`
SOURCES = sorted([*ROOT.glob("ma_boot/**/*.py"), *ROOT.glob("path_mapping/**/*.py")])
IDS = [str(path.relative_to(ROOT)) for path in SOURCES]
EFFECTS = {"subprocess", "socket", "threading", "time", "tempfile", "shutil", "signal", "selectors", "select"}
PURE: Dict[str, Set[str]] = {
    "ma_boot/modelarts/channels.py": set(),
    "ma_boot/cli/completion.py": set(),
    "ma_boot/cli/help.py": set(),
    "ma_boot/doctor/findings.py": set(),
    "ma_boot/doctor/npu.py": set(),
    "ma_boot/doctor/platform.py": set(),
    "ma_boot/errors.py": {"signal"},  # for the names of signals
    "ma_boot/modelarts/job.py": set(),
    "ma_boot/environment/patch.py": set(),
    "ma_boot/rank_table/__init__.py": set(),
    "ma_boot/rank_table/table.py": set(),
    "ma_boot/rank_table/read.py": set(),
    "ma_boot/rank_table/rules.py": set(),
    "ma_boot/rank_table/convert.py": set(),
    "ma_boot/rank_table/identity.py": set(),
    "ma_boot/rank_table/fake.py": set(),
    "ma_boot/rank_table/tools.py": set(),
    "ma_boot/modelarts/old_variables.py": set(),
    "ma_boot/redact.py": set(),
    "ma_boot/reporting/result.py": set(),
    "ma_boot/reporting/hints.py": set(),
    "ma_boot/reporting/store_advice.py": set(),
    "ma_boot/reporting/explain.py": set(),
    "ma_boot/reporting/mpirun_output.py": set(),
    "ma_boot/modelarts/cpu_affinity.py": set(),
    "ma_boot/rehearsal/platform/simulated_job.py": set(),
    "ma_boot/reporting/page/compose.py": set(),
    "ma_boot/reporting/timeline/events.py": set(),
    "ma_boot/reporting/page/lanes.py": set(),
    "ma_boot/reporting/page/markup.py": set(),
    "ma_boot/reporting/page/scale.py": set(),
    "ma_boot/reporting/page/sections.py": set(),
    "ma_boot/reporting/timeline/node_start.py": set(),
    "ma_boot/reporting/page/style.py": set(),
    "ma_boot/reporting/page/throughput.py": set(),
    "ma_boot/reporting/timeline/merge.py": set(),
    "ma_boot/reporting/timeline/job_timeline.py": set(),
    "ma_boot/reporting/page/verdict.py": set(),
    "ma_boot/reporting/page/words.py": set(),
    "ma_boot/rehearsal/containers/container_plan.py": set(),
    "ma_boot/rehearsal/sandbox/mounts.py": set(),
    "ma_boot/rehearsal/platform/starts.py": set(),
    "ma_boot/rehearsal/platform/table_writes.py": set(),
    "ma_boot/rehearsal/faults/catalogue.py": set(),
    "ma_boot/rehearsal/faults/expect.py": {"signal"},  # for the numbers of signals
    "ma_boot/rehearsal/faults/grammar.py": {"signal"},
    "ma_boot/rehearsal/obs_server/wire/answers.py": set(),
    "ma_boot/rehearsal/obs_server/wire/conditions.py": set(),
    "ma_boot/rehearsal/obs_server/wire/faults.py": set(),
    "ma_boot/rehearsal/obs_server/storage/listing.py": set(),
    "ma_boot/rehearsal/obs_server/wire/refusals.py": set(),
    "ma_boot/rehearsal/obs_server/wire/request.py": set(),
    "ma_boot/rehearsal/obs_server/wire/signatures.py": set(),
    "ma_boot/rehearsal/obs_server/storage/stored.py": set(),
    "ma_boot/image/facts.py": set(),
    "ma_boot/image/rules.py": set(),
    "ma_boot/image/traps.py": set(),
    "ma_boot/image/swr.py": set(),
    "path_mapping/errors.py": set(),
    "path_mapping/mapping/routes.py": set(),
    "path_mapping/mapping/document.py": set(),
    "path_mapping/mapping/documents.py": set(),
    "path_mapping/mapping/literal.py": set(),
    "path_mapping/mapping/entries.py": set(),
    "path_mapping/mapping/overlaps.py": set(),
    "path_mapping/mapping/selection.py": set(),
    "path_mapping/planning/plan.py": set(),
    "path_mapping/planning/compare.py": set(),
    "path_mapping/localfs/names.py": set(),
    "path_mapping/transfer/quiet.py": set(),
    "path_mapping/stores/store.py": set(),
}
WORK = {
    "ma_boot.node.boot",
    "ma_boot.node.request",
    "ma_boot.node.sync",
    "ma_boot.rehearsal",
    "path_mapping.transfer.transfer",
}
FOREIGN = {"obs", "docker", "rich", "mindspore", "tenacity", "yaml", "pathspec"}


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imported(path: Path) -> Iterator[str]:
    """The modules that a file names in imports, wherever they stand."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def packages(path: Path) -> Set[str]:
    return {name.split(".")[0] for name in imported(path)}


PURE.update({str(path.relative_to(ROOT)): set() for path in ROOT.glob("ma_boot/launch/*.py")})
PURE.update({str(path.relative_to(ROOT)): set() for path in ROOT.glob("ma_boot/cli/options/*.py")})


def is_pure(module: str) -> bool:
    path = module.replace(".", "/")
    return f"{path}.py" in PURE or f"{path}/__init__.py" in PURE


def functions(path: Path) -> Iterator[Tuple[str, int]]:
    """Each function and the number of its lines, without the docstring."""
    for node in ast.walk(tree(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0]
            has_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            docstring = (first.end_lineno or 0) - first.lineno + 1 if has_docstring else 0
            yield node.name, (node.end_lineno or 0) - node.lineno + 1 - docstring


def test_path_mapping_knows_nothing_of_ma_boot() -> None:
    assert [path for path in ROOT.glob("path_mapping/**/*.py") if "ma_boot" in packages(path)] == []


@pytest.mark.parametrize("name", PURE)
def test_a_pure_module_imports_no_effect(name: str) -> None:
    assert packages(ROOT / name) & EFFECTS <= PURE[name]


@pytest.mark.parametrize("name", [name for name in PURE if name.startswith("ma_boot/")])
def test_a_pure_module_imports_only_pure_ones(name: str) -> None:
    own = {module for module in imported(ROOT / name) if module.startswith("ma_boot.")}
    assert {module for module in own if not is_pure(module)} == set()


@pytest.mark.parametrize("path", SOURCES, ids=IDS)
def test_only_the_command_line_reads_the_environment_and_the_arguments(path: Path) -> None:
    reads = {
        node.attr
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and (node.value.id, node.attr) in {("os", "environ"), ("os", "getenv"), ("sys", "argv")}
    }
    # In other processes, as training is.
    others = ("own_store.py", "orphan_guard.py", "attach.py", "trivial_training.py", "__main__.py")
    allowed = path.name in ("app.py", *others) or path.parent.name == "training"
    assert not reads or allowed


@pytest.mark.parametrize("path", SOURCES, ids=IDS)
def test_only_the_adapter_imports_the_sdk(path: Path) -> None:
    assert "obs" not in packages(path) or path.name == "obs_store.py"


@pytest.mark.parametrize("path", SOURCES, ids=IDS)
def test_nothing_that_loses_exit_codes_or_quotes(path: Path) -> None:
    names = {node.attr for node in ast.walk(tree(path)) if isinstance(node, ast.Attribute)}
    keywords = {node.arg for node in ast.walk(tree(path)) if isinstance(node, ast.keyword)}
    assert not names & {"waitpid", "wait3", "wait4", "system", "popen"}
    assert not keywords & {"shell", "preexec_fn"}


@pytest.mark.parametrize("path", SOURCES, ids=IDS)
def test_files_and_functions_are_short_and_named_for_what_they_are(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 350
    assert [(name, lines) for name, lines in functions(path) if lines > 50] == []
    assert path.stem not in {"manager", "helper", "helpers", "util", "utils", "common", "base", "handler"}
    assert ast.get_docstring(tree(path)), "the first line says what the module is for"


def test_boot_reads_in_under_60_lines() -> None:
    story = next(n for n in tree(ROOT / "ma_boot/node/boot.py").body if isinstance(n, ast.FunctionDef))
    assert story.name == "boot"
    assert (story.end_lineno or 0) - story.lineno + 1 < 60


def test_the_command_line_loads_nothing_heavy() -> None:
    program = "import sys, ma_boot.cli.app; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not FOREIGN & {name.split(".")[0] for name in loaded}
    assert not WORK & loaded, "the help and a shell that completes are quick: nothing works for them"


def test_importing_every_module_leaves_nothing_behind(tmp_path: Path) -> None:
    modules = [name[:-3].replace("/", ".").replace(".__init__", "") for name in IDS]
    wanted = [name for name in modules if "for_training" not in name and not name.endswith("__main__")]
    program = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    subprocess.run([sys.executable, "-B", "-c", program, *wanted], cwd=tmp_path, check=True)
    assert list(tmp_path.iterdir()) == []
