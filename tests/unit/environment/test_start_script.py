"""What a shell script says of the ranks that it starts itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from ma_boot.node.environment.command import find_rank_start, read_start_script
from ma_boot.node.environment.command_words import read_command

LOOP = "for ((i = 0; i < 8; i++)); do\n    export RANK_ID=$i\n    python train.py &\ndone\n"
OWN = Path(__file__).parents[2] / "functional" / "start_scripts"


def numbered(text: str) -> int | None:
    start = find_rank_start(text)
    return None if start is None else start.line


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (LOOP, 2),
        (LOOP.replace("RANK_ID", "DEVICE_ID"), 2),
        (LOOP.replace("export RANK_ID=$i\n    ", "LOCAL_RANK=$i "), 2),
        ("for RANK_ID in 0 1; do python train.py & done; wait", 1),
        ("for((RANK_ID=0;RANK_ID<8;RANK_ID++)); do\nnohup python train.py &\ndone\n", 1),
        (
            "i=0\nwhile [ $i -lt 8 ]\ndo\n  env RANK_ID=$i DEVICE_ID=$i python train.py > $i.log 2>&1 &\ndone",
            4,
        ),
        ("set -e\ntorchrun --nproc_per_node 8 train.py", 2),
        ("cd code && mpirun -n 8 python train.py", 1),
        ("  nohup /opt/bin/msrun --worker_num=8 \\\n train.py &", 1),
        ("python -m torch.distributed.launch train.py", 1),
        ("python3 -m torch.distributed.run train.py", 1),
        ("LAUNCH='torchrun --standalone'\n$LAUNCH train.py", 1),
        ("accelerate launch train.py", 1),
        ("deepspeed --num_gpus 8 train.py", 1),
        ("ray stop; ray start --head --port=6379\npython -m verl.trainer.main_ppo", 1),
        ('if [ "$VC_TASK_INDEX" = 0 ]; then\n  /opt/bin/ray  start --head\nfi', 2),
    ],
)
def test_the_line_that_starts_ranks_is_found(text: str, number: int) -> None:
    assert numbered(text) == number
    assert numbered(text.replace("\n", "\r\n")) == number


@pytest.mark.parametrize(
    "text",
    [
        "python train.py",
        "export DEVICE_ID=$RANK_ID\npython train.py &\nwait\n",  # of one rank
        "export RANK_ID=0\nfor f in a b; do cp $f /cache & done\nwait\npython train.py",
        LOOP.replace(" &", ""),  # one after the other
        LOOP.replace(" &", " && true"),
        LOOP.replace(" &", " > log 2>&1"),
        "# torchrun train.py\npython train.py  # not with torchrun",
        "echo 'start it by torchrun train.py'\npython train.py",
        "pip install deepspeed\npython -m pip install torchrun\npython train.py --deepspeed ds.json",
        "accelerate config\npython train.py --launcher=torchrun.json",
        "command -v mpirun || exit\npython train.py",
        "ray stop\npip install ray\necho 'run ray start first'\nx-ray start\npython train.py",
        "echo for RANK_ID= &\n",
        "",
    ],
)
def test_scripts_that_start_no_ranks_have_no_such_line(text: str) -> None:
    assert find_rank_start(text) is None


@pytest.mark.parametrize("script", sorted(OWN.glob("*.sh")), ids=lambda script: script.name)
def test_the_start_scripts_of_the_guides(script: Path) -> None:
    assert find_rank_start(script.read_text()) is not None


@pytest.mark.parametrize(
    ("text", "description"),
    [
        (LOOP, "line 2 sets RANK_ID in a loop"),
        ("python -m  torch.distributed.run a.py", "line 1 runs -m torch.distributed.run"),
    ],
)
def test_the_line_is_described(text: str, description: str) -> None:
    assert str(find_rank_start(text)) == description


@pytest.mark.parametrize(
    ("words", "number", "starts_ray"),
    [
        (("bash", "-c", "cd code\ntorchrun train.py"), 2, False),
        (("timeout", "1h", "sh", "-ec", "ray start --head && python train.py"), 1, True),
        (("bash", "-eo", "pipefail", "-c", f"{LOOP}ray start --head", "x"), 2, True),
        (("bash", "-c", "python train.py"), None, False),
    ],
)
def test_the_code_of_a_shell_is_read(words: tuple[str, ...], number: int | None, starts_ray: bool) -> None:
    script = read_start_script(read_command(words), "/", "/")
    assert script is not None
    assert (script.name, script.starts_ray) == ("bash -c", starts_ray)
    assert (script.ranks and script.ranks.line) == number


@given(st.lists(st.sampled_from([*"\n;&#'\" ", "for ", "done", "RANK_ID=", "torchrun", "do ", "\\"])))
def test_any_text_is_read(words: list[str]) -> None:
    start = find_rank_start("".join(words))
    assert start is None or start.line >= 1
