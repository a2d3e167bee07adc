"""Last words of an output, and what an exit code means."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from ma_boot.report.explain import (
    EXIT_CODES,
    explanation,
    failed_mpi_rank,
    missing_files,
    output_of_failed_rank,
    some_mpi_rank_failed,
    tells_of_sigkill,
)
from ma_boot.report.failure import find_failure, last_words
from ma_boot.report.result import WorkerExit

TRACEBACK = "Traceback (most recent call last):"
SIMPLE = f"""{TRACEBACK}
  File "train.py", line 3, in <module>
    main()
ValueError: no data"""
CHAINED = f"""{SIMPLE}

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "train.py", line 9, in <module>
    save()
OSError: [Errno 28] No space left on device"""


def last_exception(output: str) -> str | None:
    failure = find_failure(output)
    return failure.words if failure is not None else None


def place_of_exception(output: str) -> str:
    failure = find_failure(output)
    return failure.place if failure is not None else ""


def ended(code: int, oom: str | None = None, by: int | None = None) -> WorkerExit:
    return WorkerExit("rank 0", 0, 0, 1, code, by, 0, 1.0, False, "/log", oom=oom)


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("", ""),
        ("one\ntwo\n", "one\ntwo"),
        (f"before\n{SIMPLE}\n", SIMPLE),
        (f"{SIMPLE}\nnoise\n\nmore noise", f"{SIMPLE}\nnoise"),
        (f"{SIMPLE}\n\nlater\n{SIMPLE.replace('data', 'more')}", SIMPLE.replace("data", "more")),
        (f"before\n{CHAINED}\n", CHAINED),
        ("\r 10%\r 20%\nlast\r\n", " 20%\nlast"),
        (f"noise\n{CHAINED}\n\n{CHAINED[len(SIMPLE) + 2 :]}", f"{CHAINED}\n\n{CHAINED[len(SIMPLE) + 2 :]}"),
        (f"{SIMPLE}\n\nlater\n{CHAINED}", CHAINED),
        (
            f"{TRACEBACK}\n  File\n    f()\n    ^^^\nE: x\n\nnoise",
            f"{TRACEBACK}\n  File\n    f()\n    ^^^\nE: x",
        ),
        (f"{TRACEBACK}\nKeyboardInterrupt\n\nnoise", f"{TRACEBACK}\nKeyboardInterrupt"),
    ],
)
def test_last_words(output: str, words: str) -> None:
    assert "\n".join(last_words(output)) == words


@pytest.mark.parametrize(
    ("output", "exception"),
    [
        ("one\ntwo\n", None),
        (f"{SIMPLE}\nnoise", "ValueError: no data"),
        (CHAINED, "OSError: [Errno 28] No space left on device"),
        ("Traceback (most recent call last):\n  File", None),
        (f"{TRACEBACK}\nKeyboardInterrupt", "KeyboardInterrupt"),
        (f"{TRACEBACK}\n  File\nE", "E"),
        ("\n".join(f"[rank3]: {line}" for line in SIMPLE.split("\n")), "ValueError: no data"),
    ],
)
def test_the_last_exception(output: str, exception: str | None) -> None:
    assert last_exception(output) == exception


RAY = """\
Traceback (most recent call last):
  File "/code/train.py", line 9, in <module>
    ray.get(results)
  File "/env/lib/python3.11/site-packages/ray/_private/worker.py", line 1053, in get_objects
    raise value.as_instanceof_cause()
ray.exceptions.RayTaskError(ValueError): \x1b[36mray::Trainer.step()\x1b[39m (pid=24857, ip=192.0.2.2)
           ^^^^^^^^^
  File "/code/model.py", line 5, in step
    raise ValueError("loss is nan")
"""
AFTER_RAY = "(main pid=7) 2026-11-28 12:00:00 INFO stopped\n"


@pytest.mark.parametrize(
    ("end", "exception"),
    [
        (f"ValueError: loss is nan\n{AFTER_RAY}", "ValueError: loss is nan"),
        (
            'ray.exceptions.RayTaskError(KeyError): ray::f() (pid=1)\n  File "/code/f.py", line 2, in f\nKeyError: 3\n',
            "KeyError: 3",
        ),
        (AFTER_RAY, "ray.exceptions.RayTaskError(ValueError): ray::Trainer.step() (pid=24857, ip=192.0.2.2)"),
        ("", "ray.exceptions.RayTaskError(ValueError): ray::Trainer.step() (pid=24857, ip=192.0.2.2)"),
    ],
)
def test_exception_of_rays_worker_is_the_cause(end: str, exception: str) -> None:
    assert last_exception(RAY + end) == exception


def test_place_of_rays_exception_is_in_the_worker() -> None:
    assert place_of_exception(f"{RAY}ValueError: loss is nan\n") == "code/model.py:5"


def test_without_a_traceback_the_last_lines_count() -> None:
    assert last_words("\n".join(map(str, range(100)))) == [str(n) for n in range(80, 100)]


@given(st.text())
def test_the_last_words_of_any_output_fit_on_a_screen(output: str) -> None:
    assert len(last_words(output)) <= 30
    assert len(last_words(f"{output}\n{SIMPLE}\n{output}")) <= 30


@pytest.mark.parametrize(
    ("code", "oom", "part"),
    [
        (137, "the kernel killed 1 processes", "out of memory: the kernel killed 1 processes"),
        (247, "the kernel killed 1 processes", "out of memory"),
        (1, "the kernel killed 1 processes", "out of memory"),
        (127, None, "does not exist"),
    ],
)
def test_a_code_with_a_meaning_is_explained(code: int, oom: str | None, part: str) -> None:
    assert part in (explanation(ended(code, oom)) or "")


@pytest.mark.parametrize(
    ("signum", "part"), [(4, "illegal instruction"), (9, "SIGKILL, not from ma_boot, and the kernel counted no OOM"),
                         (11, "segmentation fault"), (6, "abort"), (7, "bus error")],
)  # fmt: skip
def test_a_signal_is_explained_where_it_was_seen(signum: int, part: str) -> None:
    assert (explanation(ended(128 + signum, by=signum)) or "").startswith(part)
    by_code = explanation(ended(128 + signum)) or ""
    assert by_code.startswith(f"a shell or launcher uses this code for signal {signum}, SIG"), by_code
    assert part not in by_code


@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        (247, "a shell or launcher uses this code for signal 9, SIGKILL; the kernel counted no OOM kill"),
        (241, "a shell or launcher uses this code for signal 15, SIGTERM"),
        (130, "a shell or launcher uses this code for signal 2, SIGINT"),
        (3, None),
        (128, None),
        (160, None),
        (255, None),
    ],
)
def test_a_code_that_others_use_for_a_signal(code: int, meaning: str | None) -> None:
    assert explanation(ended(code)) == meaning


@pytest.mark.parametrize(
    ("line", "tells"),
    [
        ("  exitcode  : -9 (pid: 4242)", True),  # torchrun 2.13
        ("  exitcode  : 9 (pid: 4242)", False),
        ("  exitcode  : -15 (pid: 9)", False),
        ("RuntimeError: DataLoader worker (pid 4242) is killed by signal: Killed. ", True),
        ("RuntimeError: DataLoader worker (pid 4242) is killed by signal: Terminated. ", False),
        (
            "[2026-11-22 10:00:00] [ERROR] [launch.py:325:sigkill_handler] train.py exits with return code = -9",
            True,
        ),
        ("train.py exits with return code = -91", False),
    ],
)
def test_a_launcher_says_that_sigkill_ended_a_rank(line: str, tells: bool) -> None:
    assert tells_of_sigkill(f"step 1\n{line}\nstep 2\n") is tells


@pytest.mark.parametrize(("lines", "kept"), [(20, 20), (21, 20)])
def test_a_message_of_several_lines_belongs_to_its_exception(lines: int, kept: int) -> None:
    message = [f"line {number}" for number in range(lines)]
    words = last_words("\n".join([*SIMPLE.split("\n")[:-1], *message, "", "noise"]))
    assert words[3:] == message[:kept]


@pytest.mark.parametrize(("frames", "cut"), [(13, False), (14, True)])
def test_a_traceback_of_thirty_lines_is_shown_whole(frames: int, cut: bool) -> None:
    body = [line for number in range(frames) for line in (f'  File "x.py", line {number}', "    f()")]
    whole = ["Traceback (most recent call last):", *body, "E: 1", "2", "3"]
    words = last_words("\n".join(whole))
    assert len(words) == 30
    assert ("  ..." in words) is cut
    if cut:
        assert words == [*whole[:2], "  ...", *whole[-27:]]


def test_every_code_with_a_meaning_is_one_that_a_shell_or_the_kernel_gives() -> None:
    assert sorted(EXIT_CODES) == [126, 127, *(128 + number for number in (4, 6, 7, 9, 11, 15))]


MPIRUN = """[1,0]<stdout>: step 1
[1,1]<stderr>: Traceback
[1,11]<stderr>: other
[1,1]<stdout>:step [1,1]<stdout>: 2
--------
mpirun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[43157,1],{}]
  Exit code:    3
"""


@pytest.mark.parametrize(
    ("output", "rank"),
    [
        (MPIRUN.format(1), 1),
        (MPIRUN.format(12), 12),
        ("mpirun noticed that process rank 7 with PID 31 on node a-1 exited on signal 9 (Killed).", 7),
        ("step 1", None),
    ],
)
def test_the_rank_that_mpirun_blames(output: str, rank: int | None) -> None:
    assert failed_mpi_rank(output) == rank


def test_of_mpiruns_output_only_that_of_the_rank_is_shown() -> None:
    assert output_of_failed_rank(MPIRUN.format(1)) == "Traceback\nstep 2"
    other = f"[1,0]<stderr>: {TRACEBACK}\n"
    assert output_of_failed_rank(other + MPIRUN.format(1)) == "Traceback\nstep 2", "mpirun knows better"
    assert output_of_failed_rank(other + "[1,1]<stdout>: on") == other + "[1,1]<stdout>: on", "no rank failed"
    assert output_of_failed_rank(MPIRUN.format(5)) == MPIRUN.format(5), "it printed nothing"
    assert output_of_failed_rank("[1,1]<stdout>: step 1") == "[1,1]<stdout>: step 1"


# Open MPI 4.1.4, of a rank that failed before all the others had started
MPIRUN_NAMES_NOBODY = """[1,0]<stdout>:step 1
[1,3]<stderr>:Traceback (most recent call last):
[1,1]<stderr>:Traceback (most recent call last):
[1,3]<stderr>:  File "train.py", line 1, in <module>
[1,3]<stderr>:ValueError: of rank 3
[1,1]<stderr>:  File "train.py", line 1, in <module>
[1,1]<stderr>:ValueError: of rank 1
--------------------------------------------------------------------------
Primary job  terminated normally, but 1 process returned
a non-zero exit code. Per user-direction, the job has been aborted.
--------------------------------------------------------------------------
"""


def test_mpirun_may_not_know_which_rank_failed() -> None:
    assert failed_mpi_rank(MPIRUN_NAMES_NOBODY) is None
    assert some_mpi_rank_failed(MPIRUN_NAMES_NOBODY)
    assert not some_mpi_rank_failed("mpirun was unable to find the specified executable file")
    assert last_exception(output_of_failed_rank(MPIRUN_NAMES_NOBODY)) == "ValueError: of rank 3"
    assert last_words(output_of_failed_rank(MPIRUN_NAMES_NOBODY))[-1] == "ValueError: of rank 3"


@pytest.mark.parametrize(
    ("output", "files"),
    [
        ("FileNotFoundError: [Errno 2] No such file or directory: '/data/a b.txt'", ["/data/a b.txt"]),
        ("python: can't open file '/x/train.py': [Errno 2] No such file or directory", ["/x/train.py"]),
        (
            "cat: /data/x: No such file or directory\nbash: line 1: ./y: No such file or directory",
            ["./y", "/data/x"],
        ),
        ("cat: /data/x: No such file or directory\ncat: /data/x: No such file or directory", ["/data/x"]),
        ("all is well", []),
    ],
)
def test_files_that_a_program_did_not_find(output: str, files: list[str]) -> None:
    assert missing_files(output) == files
