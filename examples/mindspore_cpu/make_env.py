"""Makes a training environment with MindSpore, laid out as conda lays out its own.

    python3 make_env.py CONDA_DIR NAME    ->    CONDA_DIR/envs/NAME
    python3 make_env.py                   says which Python it would take

It takes the Python that runs it, if MindSpore has wheels for it, and finds another one otherwise: on PATH, of
pyenv, of conda, of uv. Any Python 3.6 or later can run it.
"""

import glob
import os
import re
import subprocess
import sys
from typing import Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

HERE = os.path.dirname(os.path.abspath(__file__))
REQUIREMENTS = os.path.join(HERE, "requirements.txt")
OLDEST, NEWEST = (3, 9), (3, 12)  # of the wheels of the version in requirements.txt
MINORS = range(NEWEST[1], OLDEST[1] - 1, -1)
CONDAS = ("miniforge3", "mambaforge", "miniconda3", "anaconda3")
PROBE_SECONDS = 60  # also on a busy machine
# Debian's python3 has no ensurepip without python3-venv; the shims of pyenv and uv stand for another file.
PROBE = """
import platform, sys
try:
    import ensurepip, venv
    lacks = ""
except ImportError as error:
    lacks = error.name
print(".".join(map(str, sys.version_info[:3])), platform.python_implementation(), sys.maxsize > 2**32, lacks)
print(sys.executable)
"""


class Interpreter(NamedTuple):
    """A Python that was found: where, its version, and why it cannot be the training's ("" if it can)."""

    path: str
    version: Tuple[int, ...]
    refused: str = ""

    def __str__(self) -> str:
        return "Python {} ({})".format(".".join(map(str, self.version)), self.path)


def judged(path: str, answer: str) -> Optional[Interpreter]:
    """What the answer to PROBE says about the interpreter at this path; None if that is no answer."""
    lines = answer.split("\n")
    words = lines[0].split(" ")
    if len(lines) < 2 or len(words) != 4 or not re.match(r"\d+(\.\d+){2}$", words[0]):
        return None
    version = tuple(map(int, words[0].split(".")))
    refused = ""
    if words[1] != "CPython" or words[2] != "True":
        refused = "MindSpore has wheels for CPython of 64 bits only"
    elif not OLDEST <= version[:2] <= NEWEST:
        refused = "MindSpore has no wheels for it"
    elif words[3]:
        refused = "it lacks {}: on Debian install python{}.{}-venv".format(words[3], *version)
    return Interpreter(lines[1] or path, version, refused)


def chosen(interpreters: Sequence[Interpreter]) -> Optional[Interpreter]:
    """The first that can be the training's; `interpreters` begins with the requested one."""
    return next((interpreter for interpreter in interpreters if not interpreter.refused), None)


def choice_text(asked: Interpreter, taken: Interpreter) -> str:
    """One line about the choice."""
    if taken == asked:
        return f"MindSpore gets {taken}"
    return f"MindSpore gets {taken}, not {asked}: {asked.refused}"


def refusal(interpreters: Sequence[Interpreter]) -> str:
    """What was found, and what helps, where nothing can be the training's."""
    wanted = "expected a Python from {}.{} to {}.{} for MindSpore, found none:".format(*OLDEST, *NEWEST)
    seen = [f"  {interpreter}: {interpreter.refused}" for interpreter in interpreters]
    ways = ("uv python install {}.{}", "pyenv install {}.{}", "conda create --name py python={}.{}")
    remedy = "install one, for example by " + " or ".join(f"`{way.format(*NEWEST)}`" for way in ways)
    return "\n".join([wanted, *seen, remedy])


def candidates(environ: Mapping[str, str], home: str) -> Iterator[str]:
    """Programs that may be a Python, the likeliest ones first: on PATH, of pyenv, of conda, of uv."""
    path = environ.get("PATH", "").split(os.pathsep)
    for name in [f"python3.{minor}" for minor in MINORS] + ["python3", "python"]:
        yield from (os.path.join(directory, name) for directory in path if directory)
    pyenv = os.path.join(environ.get("PYENV_ROOT") or os.path.join(home, ".pyenv"), "versions")
    for minor in MINORS:
        yield from sorted(glob.glob(os.path.join(glob.escape(pyenv), f"3.{minor}.*", "bin", "python")))
    for conda in conda_roots(environ, home):
        yield os.path.join(conda, "bin", "python")
        yield from sorted(glob.glob(os.path.join(glob.escape(conda), "envs", "*", "bin", "python")))
    versions = ">={}.{},<{}.{}".format(*OLDEST, NEWEST[0], NEWEST[1] + 1)
    yield from answer_of(["uv", "python", "find", "--system", "--no-project", versions]).split()[:1]


def conda_roots(environ: Mapping[str, str], home: str) -> List[str]:
    """Where conda and its environments may be: its own variable, its list of environments, usual places."""
    roots = [os.path.join(home, name) for name in CONDAS] + ["/opt/conda", "/opt/miniconda3"]
    if environ.get("CONDA_EXE"):
        roots.insert(0, os.path.dirname(os.path.dirname(environ["CONDA_EXE"])))
    try:
        with open(os.path.join(home, ".conda", "environments.txt")) as file:
            roots += file.read().split("\n")
    except OSError:
        pass
    return [root for root in roots if root]


def answer_of(argv: Sequence[str]) -> str:
    """What the program prints; nothing if it is not there, fails, or does not answer."""
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            timeout=PROBE_SECONDS, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace")


def probed(asked: Interpreter, paths: Iterable[str]) -> List[Interpreter]:
    """The interpreters behind these programs, each once, until one can be the training's.

    The one that was asked for is the first, and stays as it is if it does not answer.
    """
    first = judged(asked.path, answer_of([asked.path, "-I", "-c", PROBE])) or asked
    seen: Dict[str, Interpreter] = {os.path.realpath(first.path): first}
    for path in paths if first.refused else ():
        new = judged(path, answer_of([path, "-I", "-c", PROBE]))
        if new is not None and seen.setdefault(os.path.realpath(new.path), new) is new and not new.refused:
            break
    return list(seen.values())


def make(python: str, env: str) -> None:
    """Makes the environment, for conda too, with a variable as `conda env config vars set` keeps it."""
    subprocess.run(
        [python, "-m", "venv", "--clear", env], check=True
    )  # what is there may be of another Python
    print(f"installing MindSpore into {env} (about 1 GB to download)", flush=True)
    pip = [os.path.join(env, "bin", "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--requirement", REQUIREMENTS], check=True)
    meta = os.path.join(env, "conda-meta")
    os.makedirs(meta, exist_ok=True)
    with open(os.path.join(meta, "history"), "w"):
        pass
    with open(os.path.join(meta, "state"), "w") as state:  # MindSpore's log at errors only
        state.write('{"version": 1, "env_vars": {"GLOG_v": "3"}}\n')


def main(arguments: Sequence[str]) -> int:
    if len(arguments) not in (0, 2):
        print("usage: make_env.py [CONDA_DIR NAME]", file=sys.stderr)
        return 64
    asked = Interpreter(sys.executable, sys.version_info[:3], "it did not answer")
    interpreters = probed(asked, candidates(os.environ, os.path.expanduser("~")))
    taken = chosen(interpreters)
    if taken is None:
        print("make_env.py: " + refusal(interpreters), file=sys.stderr)
        return 78
    print(choice_text(interpreters[0], taken), flush=True)
    if arguments:
        try:
            make(taken.path, os.path.join(arguments[0], "envs", arguments[1]))
        except subprocess.CalledProcessError as error:  # it has said why
            print(f"make_env.py: {' '.join(error.cmd)} ended with {error.returncode}", file=sys.stderr)
            return 69
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
