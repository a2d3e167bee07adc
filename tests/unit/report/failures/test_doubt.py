"""A command that ended with 0 is in doubt only if its output ends in the failure of a process."""

from __future__ import annotations

from textwrap import dedent

import pytest
from hypothesis import example, given, strategies as st

from ma_boot.report.doubt import Doubt, doubt_of
from ma_boot.report.result import WorkerExit

TRACEBACK = "Traceback (most recent call last):"
REMEDY = 'The command hides its exit code: use "set -o pipefail", or check the return code.'


def ended(output: str, code: int = 0, stopped: bool = False) -> WorkerExit:
    return WorkerExit("rank 3", 3, 3, 1, code, None, 0, 1.0, stopped, "/log/rank-3.txt", output)


def doubt(output: str) -> Doubt | None:
    return doubt_of([ended(output)])


def raised(exception: str, function: str = "<module>", file: str = "/home/me/code/train.py") -> str:
    """A traceback whose first frame is in this function."""
    return f'{TRACEBACK}\n  File "{file}", line 12, in {function}\n    step(model)\n    ^^^^^^^^^^^\n{exception}\n'


NAN = raised("ValueError: loss is nan")
TORCHRUN = (
    "E1128 12:03:27.22 2441 torch/elastic/api.py:1002] failed (exitcode: {code}) local_rank: 0 (pid: 24) of binary: p\n"
    + raised("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ", file="/opt/bin/torchrun")
    + "=" * 60
    + "\ntrain.py FAILED\n"
    + "-" * 60
    + "\nFailures:\n  <NO_OTHER_FAILURES>\n"
    + "-" * 60
    + "\nRoot Cause (first observed failure):\n[0]:\n  time      : 2026-11-28_12:03:27\n  host      : localhost\n"
    + "  rank      : 0 (local_rank: 0)\n  exitcode  : {code} (pid: 24)\n  error_file: <N/A>\n"
    + "  traceback : {traceback}\n"
    + "=" * 60
    + "\n"
)
MPIRUN = """\
[1,0]<stdout>:step 1
[1,1]<stderr>:Traceback (most recent call last):
[1,1]<stderr>:  File "train.py", line 5, in <module>
[1,1]<stderr>:OSError: [Errno 28] No space left on device
--------
mpirun detected that one or more processes exited with non-zero status. The first process to do so was:

  Process name: [[43157,1],1]
  Exit code:    1
--------
""".replace("status. The", "status.\nThe")
ASCEND = """\
RuntimeError: Preprocess failed before run graph 1. The details refer to 'Ascend Error Message'.

----------------------------------------------------
- Ascend Error Message:
----------------------------------------------------
EI0006: Getting socket times out. Reason: some NPUs in the cluster are abnormal.
        Solution: 1. Check the rank service processes with other errors or no errors in the cluster.
        TraceBack (most recent call last):
        Transport init error. Reason: Create DevPort[1] failed[FUNC:Init][FILE:transport.cc][LINE:120]

----------------------------------------------------
- C++ Call Stack: (For framework developers)
----------------------------------------------------
mindspore/ccsrc/plugin/device/ascend/hal/hccl_adapter.cc:402 Init"""


@pytest.mark.parametrize(
    ("output", "words", "place"),
    [
        (f"epoch 1\n{NAN}", "ValueError: loss is nan", "code/train.py:12"),
        (f"{NAN}done\n", "ValueError: loss is nan", "code/train.py:12"),
        (f"{NAN}\n\n" + "saved\n" * 10, "ValueError: loss is nan", "code/train.py:12"),
        (f"  3%|3  | 3/90 [00:01<00:32, 2.9it/s]{NAN}", "ValueError: loss is nan", "code/train.py:12"),
        (f"{NAN}  3%|3  | 3/90 [00:01<00:32, 2.9it/s]\n", "ValueError: loss is nan", "code/train.py:12"),
        (NAN + "wandb: Run history: loss 9\n" * 30, "ValueError: loss is nan", "code/train.py:12"),
        (NAN * 8, "ValueError: loss is nan", "code/train.py:12"),
        (f"ERROR:root:x\n{NAN}" * 2, "ValueError: loss is nan", "code/train.py:12"),
        (f"{NAN}2026-11-28 12:00:00 ERROR loss is nan\n{NAN}" * 2, "ValueError: loss is nan", "code/train.py:12"),
        (f"2026-11-28 12:00:00 ERROR loss is nan\n{NAN}", "ValueError: loss is nan", "code/train.py:12"),
        (NAN.replace("\n", "\n[rank1]: ").replace("Trace", "[rank1]: Trace", 1), "ValueError: loss is nan", "code/train.py:12"),
        (raised("RuntimeError: x", "_run_module_as_main", "<frozen runpy>"), "RuntimeError: x", "<frozen runpy>:12"),
        (f"Process Process-1:\n{raised('KeyError: 1', '_bootstrap', '/lib/multiprocessing/process.py')}end\n", "KeyError: 1", "multiprocessing/process.py:12"),
        (f"-- Process 0 terminated with the following error:\n{raised('KeyError: 1', '_wrap', '/torch/multiprocessing/spawn.py')}", "KeyError: 1", "multiprocessing/spawn.py:12"),
        (f"Error executing job with overrides: ['lr=1']\n{raised('KeyError: 1', 'main')}", "KeyError: 1", "code/train.py:12"),
        (f"{raised('KeyError: 1', 'f')}\nDuring handling of the above exception, another exception occurred:\n\n{NAN}", "ValueError: loss is nan", "code/train.py:12"),
        (f"{NAN}Exception ignored in: <function f at 0x7f>\n{raised('TypeError: x', '__del__')}done\n", "ValueError: loss is nan", "code/train.py:12"),
        (raised(ASCEND) + "done\n", "RuntimeError: Preprocess failed before run graph 1. The details refer to 'Ascend Error Message'. EI0006: Getting socket times out. Reason: some NPUs in the cluster are abnormal", "code/train.py:12"),
        (raised("RuntimeError: EJ0001: x\n" + "        Solution: y\n" * 20) + "saved\n" * 10, "RuntimeError: EJ0001: x", "code/train.py:12"),
        (raised("torch.OutOfMemoryError: CUDA out of memory."), "torch.OutOfMemoryError: CUDA out of memory", "code/train.py:12"),
        ('  File "/home/me/code/train.py", line 1\n    x = = 1\n        ^\nSyntaxError: invalid syntax\n', "SyntaxError: invalid syntax", "code/train.py:1"),
        ("terminate called after throwing an instance of 'std::runtime_error'\n  what():  no card\nAborted (core dumped)\n", "terminate called after throwing an instance of 'std::runtime_error': no card", ""),
        ('Fatal Python error: Segmentation fault\n\nCurrent thread 0x7f (most recent call first):\n  File "/lib/python3.9/x.py", line 4 in g\n  File "/a/train.py", line 3 in f\n\nThread 0x8 (most recent call first):\n  File "/a/b.py", line 9 in f\n', "Fatal Python error: Segmentation fault", "a/train.py:3"),
        ("terminate called without an active exception\nFatal Python error: Aborted\n\nCurrent thread 0x7f (most recent call first):\n  File \"/a/train.py\", line 3 in f\n", "terminate called without an active exception", "a/train.py:3"),
        ("Segmentation fault (core dumped)\ndone\n", "Segmentation fault", ""),
        ("run.sh: line 3: 20773 Segmentation fault      (core dumped) python train.py\n", "Segmentation fault: python train.py", "run.sh:3"),
        ("/bin/bash: line 1: 20773 Aborted                 python train.py\n", "Aborted: python train.py", ""),
        ("run.sh: line 1: python: command not found\ndone\n", "run.sh: line 1: python: command not found", ""),
        ("sh: 1: python3.9: not found\n", "sh: 1: python3.9: not found", ""),
        ("/usr/bin/python3: can't open file '/a/train.py': [Errno 2] No such file or directory\n", "/usr/bin/python3: can't open file '/a/train.py': [Errno 2] No such file or directory", ""),
        ("python: No module named trian\n", "python: No module named trian", ""),
        (NAN + TORCHRUN.format(code=1, traceback="To enable traceback see: https://pytorch.org"), "ValueError: loss is nan", "code/train.py:12"),
        (TORCHRUN.format(code=-11, traceback="Signal 11 (SIGSEGV) received by PID 24"), "Signal 11 (SIGSEGV) received by PID 24", ""),
        (NAN + "x\n" * 20 + raised("subprocess.CalledProcessError: Command '['python']' returned non-zero exit status 1."), "ValueError: loss is nan", "code/train.py:12"),
        (MPIRUN, "OSError: [Errno 28] No space left on device", "train.py:5"),
        ("[2026-11-28 12:00:00,1] [ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python', 'x.py'] exits with return code = 1\n", "[2026-11-28 12:00:00,1] [ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python', 'x.py'] exits with return code = 1", ""),
    ],
)  # fmt: skip
def test_a_failure_at_the_end_of_the_output_is_doubted(output: str, words: str, place: str) -> None:
    assert doubt(output) == Doubt("rank 3", 3, words, place, "/log/rank-3.txt")


FALSE_ALARMS = {
    "no output": "",
    "a good end": "step 1 loss 0.5\ndone\n",
    "an error that was printed": "ValueError: loss is nan\nError: retrying is useless\n",
    "the training went on": f"{NAN}step 13: loss 0.4\n",
    "the training went on, indented": f"{NAN}  step 13: loss 0.4\n",
    "the training went on, in another format": f"{NAN}{{'loss': 0.41, 'learning_rate': 1e-5}}\n",
    "a bar came to its end": f"{NAN}100%|##########| 90/90 [00:31<00:00, 2.9it/s]\n",
    "much output follows": NAN + "saved\n" * 11,
    "long output follows": NAN + "x" * 2049 + "\n",
    "the script starts the training again": f"{NAN}restarting from the last checkpoint\nfine\n",
    "torchrun starts the ranks again": f"{NAN}{TORCHRUN.format(code=1, traceback='').splitlines()[0]}\nfine\n",
    "a destructor at the end": f"Exception ignored in: <function A.__del__ at 0x7f>\n{raised('TypeError: x', '__del__')}",
    "a stream at the end": "Exception ignored in: <_io.TextIOWrapper name='<stdout>'>\nOSError: [Errno 9] Bad file\n",
    "a thread": f"Exception in thread Thread-1:\n{raised('KeyError: 1', 'run')}",
    "a thread without its name": raised("KeyError: 1", "_bootstrap", "/lib/threading.py"),
    "another function of multiprocessing": raised("KeyError: 1", "_clean", "/lib/multiprocessing/process.py"),
    "an exit handler": f"Error in atexit._run_exitfuncs:\n{raised('KeyError: 1')}",
    "a task": f"Task exception was never retrieved\nfuture: <Task finished>\n{raised('KeyError: 1')}",
    "logging": f"--- Logging error ---\n{raised('KeyError: 1', 'emit')}Call stack:\n",
    "a traceback that a function prints": f"ERROR:root:no report\n{raised('KeyError: 1', 'report')}",
    "an indented traceback": "".join(f"    {line}\n" for line in NAN.splitlines()),
    "a traceback behind a prefix": "".join(f"[ERROR] {line}\n" for line in NAN.splitlines()),
    "a failure that is logged at the same place again and again": f"ERROR:root:no card yet\n{NAN}" * 3,
    "a warning with a traceback": f"/lib/x.py:3: UserWarning: no apex\n{raised('ImportError: no apex')}\n  warnings.warn(text)\n",
    "a source line in quotes": "def f():\n    raise ValueError('x')\n",
    "an interrupt": raised("KeyboardInterrupt"),
    "a reader that has enough": raised("BrokenPipeError: [Errno 32] Broken pipe"),
    "a child that outlives its parent": f"Process Process-2:\n{raised('EOFError', '_bootstrap', '/lib/multiprocessing/process.py')}",
    "a tracker of resources": raised("KeyError: '/psm_1'", "main", "/lib/multiprocessing/resource_tracker.py"),
    "a monitor that the script ends": "run.sh: line 9: 77 Terminated              python monitor.py\nrun.sh: line 9: 78 Killed  npu-smi\n",
    "a dump of all stacks": 'Timeout (0:00:05)!\nThread 0x7f (most recent call first):\n  File "/a/train.py", line 3 in f\n',
    "a command that the script can do without": "run.sh: line 1: npu-smi: command not found\nulimit: Operation not permitted\n",
    "a module that is missing and not needed": "No module named 'apex', going on without it\n",
    "a word in a sentence": "Aborted by the user\nSegmentation fault is what 139 means\n",
    "a rank of DeepSpeed that ended with 0": "[launch.py:325:sigkill_handler] p exits with return code = 0\n",
    "a traceback without its end": NAN.rpartition("\nValueError")[0] + "\n",
    "a group without its end": "Exception Group Traceback (most recent call last):\n",
}  # fmt: skip


@pytest.mark.parametrize("output", FALSE_ALARMS.values(), ids=FALSE_ALARMS)
def test_output_without_a_failure_at_the_end_is_not_doubted(output: str) -> None:
    assert doubt(output) is None


FRAMES = "".join(f'  File "a.py", line {number}, in f\n' for number in range(20))
FATAL = "Fatal Python error: Segmentation fault\n"
# Reports of failures by their words. What follows one is none of its lines.
REPORTS = {
    "ValueError: loss is nan": NAN,
    "Signal 11 (SIGSEGV) received by PID 2": TORCHRUN.format(
        code=-11, traceback="Signal 11 (SIGSEGV) received by PID 2"
    ),
    "SyntaxError: invalid syntax": '  File "/a/train.py", line 1\nSyntaxError: invalid syntax\n',
    "terminate called recursively": "terminate called recursively\n",
    "Fatal Python error: Segmentation fault": FATAL,
    "Segmentation fault": "Segmentation fault\n",
    "Segmentation fault: python b.py": "run.sh: line 3: 7 Segmentation fault  python b.py\n",
    "python: No module named trian": "python: No module named trian\n",
    "mpirun noticed that process rank 1 with PID 7 on node a exited on signal 9": (
        "mpirun noticed that process rank 1 with PID 7 on node a exited on signal 9.\n"
    ),
}


@pytest.mark.parametrize(("words", "report"), REPORTS.items(), ids=REPORTS)
def test_a_report_may_be_followed_by_ten_lines_and_by_no_step(words: str, report: str) -> None:
    for output in (report, report.rstrip("\n"), report + "saved\n" * 10):
        found = doubt(output)
        assert found is not None
        assert found.words == words
    assert doubt(report + "saved\n" * 11) is None
    assert doubt(f"{report}step 13: loss 0.4\n") is None


@pytest.mark.parametrize(
    "handled",
    [
        "Exception ignored in: <_io.TextIOWrapper name='<stdout>'>\nOSError: [Errno 9] Bad file\n",
        f"Exception ignored in: <function f>\n{TRACEBACK}\n{FRAMES}TypeError: x\n",
        f"{TRACEBACK}\n{FRAMES}TypeError: x\n",
    ],
)
def test_exceptions_of_an_interpreter_that_ends_do_not_count_as_lines_after_the_failure(handled: str) -> None:
    assert doubt(f"{NAN}{handled}" + "saved\n" * 10) == doubt(NAN)
    assert doubt(f"{NAN}{handled}" + "saved\n" * 11) is None
    assert doubt(f"{NAN}{handled}step 13: loss 0.4\n") is None


@pytest.mark.parametrize(
    "line", ["Exception ignored in: x", "future: <Task>", "x.py:3: UserWarning: y", TRACEBACK]
)
@pytest.mark.parametrize("after", ["", "\n", "\ndone\n"])
def test_a_line_that_announces_an_exception_is_none(line: str, after: str) -> None:
    assert doubt(NAN + line + after) == doubt(NAN)


@pytest.mark.parametrize(
    ("stacks", "place"),
    [
        ('Current thread 0x7f (most recent call first):\n  File "/a/in.py", line 4 in g\n  File "/a/out.py", line 3 in f\n', "a/in.py:4"),
        ('Thread 0x8 (most recent call first):\n  File "/a/b.py", line 9 in h\n\nCurrent thread 0x7f (most recent call first):\n  File "/a/in.py", line 4 in g\n', "a/in.py:4"),
        ('Current thread 0x7f (most recent call first):\n  File "/lib/python3.9/x.py", line 4 in g\n\nThread 0x8 (most recent call first):\n  File "/a/b.py", line 9 in h\n', "python3.9/x.py:4"),
        ("Current thread 0x7f (most recent call first):\n  <no Python frame>\n", ""),
    ],
)  # fmt: skip
def test_place_of_a_death_is_the_innermost_frame_of_its_thread(stacks: str, place: str) -> None:
    found = doubt(f"{FATAL}\n{stacks}")
    assert found is not None
    assert found.place == place


@pytest.mark.parametrize("between", ["x\n", " x\n" * 4, "  x\ny\n"])
def test_a_syntax_error_far_from_its_file_is_none(between: str) -> None:
    assert doubt(f'  File "/a/train.py", line 1\n{between}SyntaxError: invalid syntax\n') is None


def test_the_sentence_names_failure_place_and_remedy() -> None:
    found = doubt(NAN)
    assert (
        str(found)
        == f"a process of the training failed: ValueError: loss is nan, at code/train.py:12. {REMEDY}"
    )
    assert (
        str(doubt("Segmentation fault\n"))
        == f"a process of the training failed: Segmentation fault. {REMEDY}"
    )


@pytest.mark.parametrize(
    ("output", "words", "place"),
    [
        (f"{NAN}{FATAL}", "ValueError: loss is nan", "code/train.py:12"),
        (f"{FATAL}\nCurrent thread 0x7f (most recent call first):\n  File \"/a/in.py\", line 4 in g\nSegmentation fault\n", "Fatal Python error: Segmentation fault", "a/in.py:4"),
        (f"{NAN}{raised('KeyError: 1')}", "KeyError: 1", "code/train.py:12"),
        (f"{NAN}Segmentation fault\n{TORCHRUN.format(code=-11, traceback='')}", "ValueError: loss is nan", "code/train.py:12"),
        (TORCHRUN.format(code=-9, traceback="Signal 9 (SIGKILL) received by PID 2") + raised("subprocess.CalledProcessError: x"), "Signal 9 (SIGKILL) received by PID 2", ""),
        (TORCHRUN.format(code=-9, traceback="Signal 9 (SIGKILL) received by PID 2") + "Aborted\n", "Aborted", ""),
        ("  + Exception Group Traceback (most recent call last):\n  |   File \"/a/b.py\", line 3, in <module>\n  | ExceptionGroup: g (1 sub-exception)\n  +-+---------------- 1 ----------------\n    | ValueError: a\n    +------------------------------------\n", "ExceptionGroup: g (1 sub-exception): ValueError: a", "a/b.py:3"),
    ],
)  # fmt: skip
def test_the_failure_that_explains_the_last_one_is_named(output: str, words: str, place: str) -> None:
    found = doubt(output)
    assert found is not None
    assert (found.words, found.place) == (words, place)


@pytest.mark.parametrize("rules", [0, 1])
def test_a_torn_report_of_torchrun_ends_with_its_first_line(rules: int) -> None:
    report = TORCHRUN.format(code=1, traceback="x").partition("=")[0] + ("=" * 60 + "\n") * rules
    left = 10 - rules
    assert doubt(report + "saved\n" * left) is not None
    assert doubt(report + "saved\n" * (left + 1)) is None
    assert doubt(f"{report}step 13: loss 0.4\n") is None


def test_the_shell_names_a_death_that_nothing_before_it_explains() -> None:
    shell = "run.sh: line 3: 7 Segmentation fault  python b.py\n"
    explained, unexplained = doubt(NAN + shell), doubt(NAN + "step 3 loss 0.5\n" + shell)
    assert explained is not None
    assert explained.words == "ValueError: loss is nan"
    assert unexplained is not None
    assert unexplained.words == "Segmentation fault: python b.py"


def test_only_a_process_that_ended_with_0_by_itself_is_doubted() -> None:
    assert doubt_of([]) is None
    assert doubt_of([ended(NAN, code=1), ended(NAN, stopped=True), ended("done\n")]) is None
    first, second = ended(NAN)._replace(label="first"), ended(NAN)._replace(label="second")
    found = doubt_of([ended("done\n"), first, second])
    assert found is not None
    assert found.label == "first"


def test_secrets_and_control_characters_do_not_reach_the_doubt() -> None:
    found = doubt(raised("ValueError: token=planted-0815 \x1b[31mred\x1b[0m \x07"))
    assert found is not None
    assert found.words == "ValueError: token=****** red \\x07"


ORDINARY = st.text("abc ÄÖ中:", min_size=1, max_size=30).filter(str.strip)


@given(st.lists(ORDINARY, max_size=15))
@example([" :", *":" * 10])
def test_at_most_ten_lines_may_follow_the_failure(lines: list[str]) -> None:
    found = doubt(NAN + "\n\n" + "".join(f"{line}\n" for line in lines))
    assert (found is not None) is (len(lines) <= 10)


@given(st.text(max_size=200))
def test_output_before_the_failure_changes_nothing(before: str) -> None:
    assert doubt(f"{before}\n\n{NAN}") == doubt(NAN)


PIECES = [
    *dedent("".join(FALSE_ALARMS.values())).splitlines(),
    *NAN.splitlines(),
    *ASCEND.splitlines(),
    *TORCHRUN.splitlines(),
    *MPIRUN.splitlines(),
    "",
]


@given(st.lists(st.sampled_from(PIECES), max_size=40))
def test_a_torn_output_is_read_without_an_error(lines: list[str]) -> None:
    found = doubt("\n".join(lines))
    assert found is None or found.words
