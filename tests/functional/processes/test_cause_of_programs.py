"""Cause of real programs that fail below a wrapper: its words and place are those of what failed first."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from ma_boot.report.cause import Cause, causes_of
from ma_boot.report.result import WorkerExit

DEADLINE_SECONDS = 60.0
WORKER = "raise ValueError('learning rate must be positive')\n"


def cause_of_program(directory: Path, program: str, *commands: str) -> Cause:
    """Runs a program beside `worker.py`; `commands` replace `python main.py`."""
    (directory / "worker.py").write_text(WORKER)
    (directory / "main.py").write_text(dedent(program))
    ended = subprocess.run(
        commands or [sys.executable, "main.py"], cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, timeout=DEADLINE_SECONDS,
    )  # fmt: skip
    number = -ended.returncode if ended.returncode < 0 else None
    code = 128 + number if number else ended.returncode
    exit = WorkerExit("rank 0", 0, 0, 1, code, number, 0, 1.0, False, "", ended.stdout)
    return causes_of([exit], 0, 0.0)[0]


POOL = """
    import {module}

    def work(number):
        raise ValueError("learning rate must be positive")

    if __name__ == "__main__":
        with {pool}(2) as pool:
            print(list(pool.map(work, range(2))))
"""
PROGRAMS = {
    "subprocess.run": "import subprocess, sys\nsubprocess.run([sys.executable, 'worker.py'], check=True)",
    "subprocess.check_output": (
        "import subprocess, sys\nprint('step 1', flush=True)\nsubprocess.check_output([sys.executable, 'worker.py'])"
    ),
    "two wrappers": """
        import subprocess, sys
        code = "import subprocess, sys; subprocess.run([sys.executable, 'worker.py'], check=True)"
        subprocess.run([sys.executable, '-c', code], check=True)
    """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_cause_below_a_wrapper_is_the_exception_of_its_child(tmp_path: Path, name: str) -> None:
    cause = cause_of_program(tmp_path, PROGRAMS[name])
    assert (cause.words, cause.place) == (
        "ValueError: learning rate must be positive",
        f"{tmp_path.name}/worker.py:1",
    )


@pytest.mark.parametrize(
    ("module", "pool"),
    [
        ("multiprocessing", "multiprocessing.Pool"),
        ("concurrent.futures", "concurrent.futures.ProcessPoolExecutor"),
    ],
)
def test_place_of_a_pools_exception_is_in_its_worker(tmp_path: Path, module: str, pool: str) -> None:
    cause = cause_of_program(tmp_path, POOL.format(module=module, pool=pool))
    assert cause.words == "ValueError: learning rate must be positive"
    assert cause.place.endswith("/main.py:5")


def test_cause_is_the_exception_of_a_child_of_multiprocessing(tmp_path: Path) -> None:
    program = """
        import multiprocessing, sys

        def work():
            raise ValueError("learning rate must be positive")

        if __name__ == "__main__":
            child = multiprocessing.Process(target=work)
            child.start()
            child.join()
            sys.exit(child.exitcode)
    """
    cause = cause_of_program(tmp_path, program)
    assert cause.words == "ValueError: learning rate must be positive"
    assert cause.place.endswith("/main.py:5")


def test_broken_pool_is_explained_by_the_stack_of_its_worker(tmp_path: Path) -> None:
    program = """
        import concurrent.futures, faulthandler, os, signal

        def work(number):
            faulthandler.enable()
            os.kill(os.getpid(), signal.SIGSEGV)

        if __name__ == "__main__":
            with concurrent.futures.ProcessPoolExecutor(1) as pool:
                print(list(pool.map(work, range(1))))
    """
    cause = cause_of_program(tmp_path, program)
    assert cause.words == "Fatal Python error: Segmentation fault"
    assert cause.place.endswith("/main.py:6")


def test_failed_assertion_of_c_is_the_cause(tmp_path: Path) -> None:
    program = """
        import ctypes
        ctypes.CDLL(None).__assert_fail(b"count > 0", b"/src/reduce.c", 17, b"reduce")
    """
    cause = cause_of_program(tmp_path, program)
    assert cause.code == 134
    assert "reduce: Assertion `count > 0' failed." in cause.words
    assert cause.place == "src/reduce.c:17"


@pytest.mark.parametrize("number", ["SIGSEGV", "SIGBUS", "SIGFPE"])
def test_stack_of_faulthandler_is_the_cause_of_a_signal(tmp_path: Path, number: str) -> None:
    program = f"""
        import faulthandler, os, signal
        faulthandler.enable()
        try:
            {{}}["handled"]
        except KeyError:
            import traceback; traceback.print_exc()
        os.kill(os.getpid(), signal.{number})
    """
    cause = cause_of_program(tmp_path, program)
    assert cause.words.startswith("Fatal Python error: ")
    assert cause.place.endswith("/main.py:8")


def test_exit_handlers_exception_does_not_replace_the_cause(tmp_path: Path) -> None:
    program = """
        import atexit
        atexit.register(lambda: {}["at exit"])
        raise ValueError("loss is nan")
    """
    cause = cause_of_program(tmp_path, program)
    assert cause.words == "ValueError: loss is nan"


def test_reason_in_a_later_line_is_in_the_words(tmp_path: Path) -> None:
    assert (
        cause_of_program(tmp_path, "raise RuntimeError('\\n\\nno such layer')").words
        == "RuntimeError: no such layer"
    )
    missing = cause_of_program(
        tmp_path, "raise RuntimeError('Error in loading Net:\\n\\tMissing key: head')"
    ).words
    assert missing == "RuntimeError: Error in loading Net: Missing key: head"


def test_error_of_a_parser_below_a_wrapper_is_the_cause(tmp_path: Path) -> None:
    (tmp_path / "parse.py").write_text("import argparse\nargparse.ArgumentParser().parse_args()\n")
    cause = cause_of_program(
        tmp_path, "import subprocess, sys\nsubprocess.run([sys.executable, 'parse.py', '--lr'], check=True)"
    )
    assert cause.words == "parse.py: error: unrecognized arguments: --lr"


def test_syntax_error_has_its_place(tmp_path: Path) -> None:
    cause = cause_of_program(tmp_path, "x = (\n")
    assert (cause.words, cause.place) == ("SyntaxError: '(' was never closed", f"{tmp_path.name}/main.py:1")
    (tmp_path / "model.py").write_text("\n\nif True\n    pass\n")
    cause = cause_of_program(tmp_path, "import model")
    assert cause.words.startswith("SyntaxError: ")
    assert cause.place.endswith("/model.py:3")


@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
@pytest.mark.parametrize("what", ["unexpected pos 2368", "\\nEI0014: wrong table"])
def test_exception_of_cpp_is_the_cause(tmp_path: Path, what: str) -> None:
    source = tmp_path / "main.cc"
    source.write_text(f'#include <stdexcept>\nint main() {{ throw std::runtime_error("{what}"); }}\n')
    subprocess.run(["g++", "-o", tmp_path / "program", source], check=True, timeout=DEADLINE_SECONDS)
    cause = cause_of_program(tmp_path, "", str(tmp_path / "program"))
    assert cause.words.endswith(f"'std::runtime_error': {what.replace(chr(92) + 'n', '')}")
