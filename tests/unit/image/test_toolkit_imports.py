"""That a toolkit can import what it needs, asked in a real interpreter that lacks modules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ma_boot.desk.image import toolkit_imports
from ma_boot.desk.image.toolkit_imports import Imported, imports_of

PROGRAM = Path(toolkit_imports.__file__).read_text()


def answer(*missing: str) -> subprocess.CompletedProcess[str]:
    """The program's answer where these modules cannot be imported."""
    without = f"import sys; sys.modules.update(dict.fromkeys({missing!r}))\n"
    program = f"{without}exec(compile({PROGRAM!r}, 'toolkit_imports', 'exec'))"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_complete_toolkit_imports_all_its_modules() -> None:
    not_needed = ("docker", "huaweicloudsdkcore", "mindspore", "pynvml")  # extras; the training has mindspore
    done = answer(*not_needed)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("module", ["_sqlite3", "yaml", "json", "crcmod", "path_mapping.planning"])
def test_a_module_that_is_missing_is_named_in_the_last_line(module: str) -> None:
    done = answer(module)
    assert done.returncode == 1
    assert module in done.stderr.splitlines()[-1]


def test_imports_of_a_source(tmp_path: Path) -> None:
    file = tmp_path / "source.py"
    file.write_text(
        "import a.b, c\nfrom . import own\nif TYPE_CHECKING:\n    import types_only\n"
        "def f():\n    from d import e as g\n    try:\n        import h\n    except ImportError:\n        import i\n"
        "    try:\n        import j\n    except OSError:\n        pass\n"
    )
    assert list(imports_of(file)) == [
        Imported("a.b", ""),
        Imported("c", ""),
        Imported("d", "e"),
        Imported("h", "", True),
        Imported("i", "", True),
        Imported("j", ""),
    ]
