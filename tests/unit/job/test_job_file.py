"""The job file: what is read from it, and every mistake with its line."""

from __future__ import annotations

import dataclasses
import subprocess

import pytest
import yaml
from hypothesis import given, strategies as st

from ma_boot.desk.job.job_file import KEYS, JobFile, overridden, parse_job, with_settings
from ma_boot.desk.job.readers import JobChannel
from ma_boot.desk.job.request import request_body, shown_body
from ma_boot.desk.job.rules import form_problems
from ma_boot.desk.job.template import Answers, first_job_file
from path_mapping.mapping.routes import ObsUrl
from tests.unit.job.job_files import EVERY_KEY


def mistakes_in(text: str) -> list[str]:
    job, problems = parse_job(text)
    return [str(problem) for problem in (*problems, *form_problems(job))]


def test_each_key_is_read() -> None:
    job, problems = parse_job(EVERY_KEY)
    assert [*problems, *form_problems(job)] == []
    assert job == JobFile(
        name="resnet-2x8",
        description="two nodes",
        image="vision/resnet:2026.1",
        command=("train.py", "--epochs", "90", "--name", "a b"),
        options=("--rendezvous=torch", "--preflight", "--source=a.sh", "--source=b.sh"),
        nodes=2,
        devices_per_node=8,
        pool="pool-a1b2c3d4",
        flavor="modelarts.pool.visual.8xlarge",
        code_dir="src",
        code_url=ObsUrl("bucket", "jobs/"),
        exclude=("*.ckpt",),
        inputs=(JobChannel("data_url", ObsUrl("bucket", "data/")),),
        outputs=(JobChannel("train_url", ObsUrl("bucket", "out/"), by_variable=True),),
        parameters={"lr": "0.10", "flag": "true", "n": "3"},
        environment={"SIZE": "1_000", "A": "x y"},
        secrets=("OBS_ACCESS_KEY_ID",),
        log_url=ObsUrl("bucket", "log/"),
        retries=3,
        retry=("--retry-on=lease expired", "--no-retry-on=bad label", "--no-retry-on=[0-9]+ classes"),
        time_limit=48,
        workspace="0",
        request={"spec": {"schedule_policy": {"priority": 2}}},
        manifest={"spec": {"queue": "vision"}},
    )
    assert job.arguments == ("--lr=0.10", "--flag=true", "--n=3")
    set_here = {key for key in KEYS if getattr(job, key.replace("-", "_"))}
    assert set_here == set(KEYS), "the file above has a value for each key"


def test_the_keys_are_the_fields() -> None:
    names = [field.name.replace("_", "-") for field in dataclasses.fields(JobFile)]
    assert names == [*KEYS, "lines"]


def test_a_number_that_only_some_readers_of_yaml_know_is_one_in_the_request_and_stays_as_written() -> None:
    job, problems = parse_job(
        "parameters: {lr: 1e-4, n: 08}\nrequest: {spec: {x: 1e-4, y: '1e-4', z: [2e3, !!str 2e3]}}\n"
    )
    assert (problems, job.arguments) == ([], ("--lr=1e-4", "--n=08"))
    assert job.request == {"spec": {"x": 0.0001, "y": "1e-4", "z": [2000.0, "2e3"]}}


def test_parts_of_the_request_and_the_manifest_are_set_by_their_places() -> None:
    job, problems = parse_job(EVERY_KEY)
    settings = [
        "manifest.spec.maxRetry=9",
        "manifest.metadata.annotations={a.b/c: 'y'}",
        "request.spec.x=null",
    ]
    job = with_settings(job, settings, problems)
    assert problems == []
    assert job.manifest == {
        "spec": {"queue": "vision", "maxRetry": 9},
        "metadata": {"annotations": {"a.b/c": "y"}},
    }
    assert job.request == {"spec": {"schedule_policy": {"priority": 2}, "x": None}}
    with_settings(job, ["manifest.spec=[", "manifest=1"], problems)
    assert [str(problem).partition(":")[0] for problem in problems][-1:] == ["--set manifest"]
    assert any("--set manifest.spec: " in str(problem) for problem in problems)


@pytest.mark.parametrize(
    "name", ["1e-4", "08", "y", "on", "null", ".inf", "a: b", "a b", "vision/x:1", "0x1f", "a "]
)
def test_a_first_job_file_is_the_same_for_each_reader_of_yaml(name: str) -> None:
    text = first_job_file(Answers(name=name, command=("train.py",), image=name))
    (line,) = [line for line in text.splitlines() if line.startswith("name: ")]
    written = line[len("name: ") :]
    assert yaml.safe_load(written) == name
    assert written[0] == '"' or name in ("a b", "vision/x:1")


def test_all_mistakes_are_reported_together_with_their_lines() -> None:
    assert mistakes_in(
        "name: a job\n"
        "nodes: many\n"
        "devices_per_node: 8\n"
        "command: train.py && echo\n"
        "inputs:\n"
        "  data: /bucket/data\n"
        "  a b: obs://bucket/x\n"
        "environment:\n"
        "  MA_JOB: x\n"
        "  A: 1\n"
        "  A: 2\n"
        "time-limit: soon\n"
    ) == [
        "line 2: nodes: found 'many', expected a number from 1 to 1024",
        "line 3: devices_per_node: no such key; did you mean devices-per-node?",
        "line 4: command: found 'train.py && echo', expected one command without a shell's &&: put it into a .sh file",
        "line 6: inputs: data: found '/bucket/data', expected 'obs://bucket/path'",
        "line 7: inputs: a b: expected NAME or NAME@env: letters, digits and _ only",
        "line 11: environment: A: is already on line 10",
        "line 12: time-limit: found 'soon', expected whole hours or days such as 24h or 3d",
        "line 1: name: found 'a job', expected 1 to 64 letters, digits, - and _",
        "line 9: environment: MA_JOB: found MA_JOB, but names that begin with MA_ are ModelArts' own",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "line 1: not YAML"),
        ("- name", "found a list, expected NAME: VALUE"),
        ("name: [x]", "line 1: name: found a list, expected a text or a number"),
        ("command: 'a \"b'", "expected a command (No closing quotation)"),
        ("nodes: true", "found true, expected a number"),
        ("request: 3", "expected fields of the request"),
        ("image: Vision/x:1", "expected ORGANIZATION/NAME:TAG"),
        ("image: vision/x", "expected ORGANIZATION/NAME:TAG"),
        ("description: " + "x" * 257, "found 257 characters, expected at most 256"),
        ("inputs: {a: obs://bucket/x}\noutputs: {a: obs://bucket/y}", "outputs: a: is a name of inputs, too"),
        ("inputs: {a: obs://bucket/x}\nparameters: {a: 1}", "parameters: a: is a name of inputs, too"),
        (
            "outputs: {a: obs://bucket/x, b: obs://bucket/x/}",
            "line 1: outputs: b: goes to the same place as a",
        ),
        ("inputs: {a: obs://bucket/x}\noutputs: {b: obs://bucket/x}", "would be written over the input a"),
        ("pool: p\nflavor: modelarts.bm.d910.xlarge.8", "line 2: flavor: expected modelarts.pool.visual"),
        ("flavor: modelarts.pool.visual.xlarge", "is for a dedicated pool"),
        ("pool: p\nflavor: modelarts.pool.visual.8xlarge", "has 8 cards, but devices-per-node is 1"),
        ("environment: {A: " + "x" * 4097 + "}", "found 4097 characters"),
        ("workspace: " + "w" * 33, "expected 0 or an id of 32 characters"),
        (
            "inputs: {MA_X@env: obs://bucket/x}",
            "line 1: inputs: MA_X: found MA_X, but names that begin with MA_",
        ),
        (
            "inputs: {X@env: obs://bucket/x}\nsecrets: [X]",
            "line 1: inputs: X: is a variable of `environment`",
        ),
        (
            "name: a\ncode-url: obs://bucket/x\noutputs: {o: obs://bucket/}",
            "the code would be inside it: obs://bucket/x/a/",
        ),
        ("\n".join(f"k{i}: 1" for i in range(40_000)), "line 1: 40000 unknown keys: k0, k1, k2, k3, k4, ..."),
        ("parameters: {x: 'a b'}", "parameters: x: found ' ', which a shell may change"),
        ("parameters: {x: '$A;\"'}", "found '\"' '$' ';', which a shell may change"),
        ("parameters: {x: '*'}", "found '*', which a shell may change"),
        ("environment: {" + ", ".join(f"A{i}: 1" for i in range(101)) + "}", "found 101 variables"),
        ("environment: {A: x}\nsecrets: [A]", "line 2: secrets: A has a value in `environment`, too"),
        ('command: [train.py, "a\\nb"]', "found a line break"),
        ("environment: {A: " + "9" * 5000 + "}", "line 1: not YAML: found 999"),
        ("environment: {A: 0." + "3" * 90 + "}", "line 1: environment: A: found 0.333"),
        ('environment: {A: "\\ud800"}', "line 1: environment: A: found '\\ud800', expected"),
        ('environment: {A: "a\\0b"}', "line 1: environment: A: found 'a\\x00b', expected"),
        ("nodes: !!int abc", "line 1: not YAML: found abc, expected"),
        ("parameters: {'a b': 1}", "expected a name of letters"),
    ],
)
def test_mistake(text: str, problem: str) -> None:
    assert problem in "\n".join(mistakes_in(text))


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("5", "request: found 5"),
        ("[1]", "request: found a list"),
        ("{algorithm: 5}", "request: algorithm: found a number, expected fields"),
        ("{algorithm: null}", "request: algorithm: found null, expected fields"),
        ("{metadata: x}", "request: metadata: found a text, expected fields"),
        ("{metadata: {name: null}}", "request: metadata: name: found null, expected a text"),
        ("{spec: [x]}", "request: spec: found a list, expected fields"),
        ("{spec: {x: 2026-01-01}}", "request: spec: x: found 2026-01-01"),
        ("{spec: {x: .nan}}", "request: spec: x: found .nan"),
        ("{spec: {x: [-.inf]}}", "request: spec: x: found -.inf"),
        ("{spec: {x: " + "9" * 5000 + "}}", "not YAML: found 999"),
        ("{spec: {x: " + "9" * 30 + "}}", "request: spec: x: found 999"),
        ("{spec: {x: 0x" + "f" * 5000 + "}}", "request: spec: x: found 0xfff"),
        ("{spec: {x: 1:30}}", "request: spec: x: found 1:30"),
        ("{spec: {x: 010}}", "request: spec: x: found 010"),
        ("{spec: {x: 0x_}}", "not YAML: found 0x_"),
        ("{spec: {x: 2026-13-45}}", "not YAML: found 2026-13-45"),
        ('{spec: {x: "\\ud800"}}', "request: spec: x: found '\\ud800'"),
        ('{spec: {"\\ud800": x}}', "request: spec: found '\\ud800', expected a name"),
        ("{algorithm: {parameters: [5]}}", "request: algorithm: parameters: expected `name"),
        ("{algorithm: {parameters: [{value: 1}]}}", "request: algorithm: parameters: expected `name"),
        ("{algorithm: {parameters: [{name: 5}]}}", "request: algorithm: parameters: expected `name"),
        (
            "{algorithm: {environments: [1]}}",
            "request: algorithm: environments: found a list, expected fields",
        ),
        (
            "{algorithm: {environments: {A: 1}}}",
            "request: algorithm: environments: A: found a number, expected a text",
        ),
        ("{null: 2}", "request: found null, expected a name"),
        ("{[a]: 2}", "request: found a list, expected a name"),
        ("{2026-01-01: 2}", "request: found 2026-01-01, expected a name"),
        ("{a: !!python/object/apply:os.system ['echo x']}", "found the tag"),
        ("{a: !!python/name:os.system }", "could not determine a constructor"),
        ("{a: !x [y]}", "found the tag !x"),
        ("{a: !!set {y, z}}", "found the tag"),
        ("{a: !!bool maybe}", "not YAML: found maybe, expected a value of its tag"),
        ("{a: !!timestamp x}", "not YAML: found x, expected a value of its tag"),
        ("{a: !!int ''}", "expected a value of its tag"),
        ("{a: &x {b: c}, d: *x}", "found an alias"),
        ("{<<: {a: b}, c: d}", "merge"),
        ("{a: 1, a: 2}", "request: a: is already on line"),
        ("{1: 2, '1': 3}", "request: 1: is already on line"),
        ("{a: " + "[" * 5000 + "]" * 5000 + "}", "not YAML: nested too deeply"),
        ("{a: " + "[" * 500 + "]" * 500 + "}", "not YAML: nested too deeply"),
    ],
)
def test_an_odd_value_of_the_request_is_an_error_with_its_line(value: str, problem: str) -> None:
    (text, *more) = mistakes_in(f"name: x\nrequest: {value}\n")
    assert text.startswith("line 2: ")
    assert problem in text
    assert more == []


@pytest.mark.parametrize(
    ("value", "request_part"),
    [
        ("{1: 2, true: -3}", {"1": 2, "true": -3}),
        (
            "{a: 0.10, b: yes, c: null, d: '1:30', e: \"2026-01-01\"}",
            {"a": 0.1, "b": True, "c": None, "d": "1:30", "e": "2026-01-01"},
        ),
        ("{a: !!str 5, b: &x [1, [2, []]]}", {"a": "5", "b": [1, [2, []]]}),
        (
            "{algorithm: {environments: {TOKEN: '1'}, parameters: [{name: a, value: 1}]}}",
            {"algorithm": {"environments": {"TOKEN": "1"}, "parameters": [{"name": "a", "value": 1}]}},
        ),
    ],
)
def test_a_value_of_the_request_is_sent_as_it_is(value: str, request_part: object) -> None:
    job, problems = parse_job(f"request: {value}")
    assert [*problems, *form_problems(job)] == []
    assert job.request == request_part
    shown_body(request_body(job, "x", ObsUrl("bucket", ""), {}), {})


def test_an_image_may_be_written_with_its_registry() -> None:
    assert mistakes_in("image: swr.cn-north-4.myhuaweicloud.com/vision/resnet:1") == []


def test_other_values_replace_those_of_the_file() -> None:
    job, _ = parse_job(EVERY_KEY)
    given_here = {
        "nodes": 1,
        "options": ("--tee=first",),
        "environment": {"A": "z"},
        "inputs": (JobChannel("data_url", ObsUrl("other", "")),),
    }
    changed = overridden(job, given_here)
    assert (changed.nodes, changed.options[-1]) == (1, "--tee=first")
    assert changed.environment == {"SIZE": "1_000", "A": "z"}
    assert [str(channel) for channel in changed.inputs] == ["data_url=obs://other/"]
    assert changed.problem("nodes", "x").line is None, "it is not the file's any more"
    assert changed.problem("retries", "x").line == 22


@given(st.text())
def test_no_text_breaks_the_reader(text: str) -> None:
    job, problems = parse_job(text)
    form_problems(job)
    assert problems or job is not None


@pytest.mark.parametrize(
    "words", [["train.py"], ["torchrun", "train.py", "--name", "a: b # c"], ["1e3"], ["-m", "x"]]
)
@pytest.mark.parametrize("bucket", ["", "bucket"])
def test_the_first_file_is_right_also_without_its_comments(words: list[str], bucket: str) -> None:
    text = first_job_file(Answers("first", tuple(words), "a/b:1", 2, 8, "pool-1", bucket, "mapping.py"))
    job, problems = parse_job(text)
    assert [*problems, *form_problems(job)] == []
    assert (job.name, job.command, job.nodes, job.devices_per_node) == ("first", tuple(words), 2, 8)
    assert job.options == ("--path-mapping=mapping.py",)
    uncommented = "\n".join(
        line[2:]
        if line.startswith("# ") and ":" in line and "ma_boot" not in line and "submit" not in line
        else line
        for line in text.splitlines()
        if "flavor" not in line
    )
    job, problems = parse_job(uncommented)
    assert [*problems, *form_problems(job)] == []
    assert job.retries == 3
    assert job.time_limit == 24


def test_hyper_parameter_is_the_same_word_for_a_shell() -> None:
    characters = [chr(code) for code in range(1, 0x250)]
    taken = "".join(
        character for character in characters if not [*form_problems(JobFile(parameters={"x": character}))]
    )
    assert set("azAZ09_.,:/=+-%@é") <= set(taken)
    printed = subprocess.run(["sh", "-c", f"printf %s --x={taken}"], capture_output=True, check=True).stdout
    assert printed.decode() == f"--x={taken}"


def test_expressions_for_failures_are_options_of_the_boot_command() -> None:
    job, problems = parse_job("options: {tee: first}\nretry: {when: [lease expired]}\n")
    assert job.boot_options == ("--tee=first", "--retry-on=lease expired")
    assert with_settings(job, ["retry.never=bad label"], problems).retry == (
        "--retry-on=lease expired",
        "--no-retry-on=bad label",
    )
    assert problems == []
    assert mistakes_in("retry: {always: x}\n")[0] == "line 1: retry: always: expected when or never"
