"""Where a command names its script, through interpreters, launchers and programs that run another one."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from ma_boot.node.environment.command_words import Script, find_shell_code, read_command


def script(line: str) -> str | None:
    """The script of a command line, marked as `module MODULE` where it is one."""
    named = read_command(line.split()).script
    if named is None:
        return None
    assert named.name in line.split()[named.place]
    return f"module {named.name}" if named.is_module else named.name


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("train.py --epochs 90", "train.py"),
        ("./train --epochs 90", "./train"),
        ("tool train.py", None),
        ("python train.py a.py", "train.py"),
        ("python3 -u train.py", "train.py"),
        ("/opt/conda/bin/python3.11 -uW ignore -X dev train.py", "train.py"),
        ("python train a.py", "train"),
        ("python --check-hash-based-pycs always x.py", "x.py"),
        ("python -m pkg.train -v", "module pkg.train"),
        ("python -um pkg.train", "module pkg.train"),
        ("-m pkg.train", "module pkg.train"),
        ("-m torch.distributed.run --nnodes 2 train.py", "train.py"),
        ("python -c print(1) train.py", None),
        ("python -", None),
        ("python", None),
        ("python -m", None),
        ("python -m cProfile -o out train.py", "train.py"),
        ("python -m pdb -c continue -m pkg.train", "module pkg.train"),
        ("bash run.sh", "run.sh"),
        ("bash -x -eo pipefail run.sh", "run.sh"),
        ("bash run", "run"),
        ("bash +o posix --rcfile rc run", None),  # a limit
        ("mpirun env A=b.py python train.py", "train.py"),
        ("nohup ./run.sh", None),  # a limit
        ("conda run -n python3.7 python train.py", "train.py"),
        ("nsys profile -o x python -u train.py", "train.py"),
        ("env A=b.py python --x=c.py train.py", "train.py"),
        ("sh -ec run.sh", None),
        ("torchrun --standalone --nproc_per_node 2 --tee=3 train.py --standalone", "train.py"),
        ("torchrun --nnodes=2 -m pkg.train", "module pkg.train"),
        ("torchrun --nproc-per-node 2 --no_python bash run.sh", "run.sh"),
        ("python -u -m torch.distributed.run --nproc_per_node=2 --module pkg.train", "module pkg.train"),
        ("python -m torch.distributed.launch --use_env --nproc_per_node 2 train.py", "train.py"),
        ("accelerate launch --config_file c.yaml -m pkg.train", "module pkg.train"),
        ("accelerate config train.py", None),
        ("deepspeed --num_gpus 2 --no_ssh --master_port 1 train.py --deepspeed ds.json", "train.py"),
        ("mpirun -n 2 --mca btl tcp,self -x PATH --allow-run-as-root python -u x.py", "x.py"),
        ("mpirun.openmpi --oversubscribe -np 2 ./a.out", None),
        ("mpiexec -genv A b -ppn 1 -env C d sh run.sh", "run.sh"),
        ("timeout -k 5 1h nohup numactl -N 0 -m 0 stdbuf -oL taskset -c 0-3 python train.py", "train.py"),
    ],
)
def test_the_script_is_found(line: str, expected: str | None) -> None:
    assert script(line) == expected


@pytest.mark.parametrize(
    ("line", "launcher"),
    [
        ("torchrun train.py", "torchrun"),
        ("python -m torch.distributed.run train.py", "python -m torch.distributed.run"),
        ("env A=b mpirun.openmpi -n 2 python train.py", "mpirun"),
        ("mpirun -n 2 accelerate launch train.py", "mpirun"),
        ("torchrun --no-python", "torchrun"),
        ("/opt/bin/ray start --address 10.0.0.1:6379 --block", "ray start"),
        ("ray status", None),
        ("python train.py torchrun", None),
        ("bash run.sh", None),
    ],
)
def test_a_launcher_is_recognised(line: str, launcher: str | None) -> None:
    assert read_command(line.split()).launcher == launcher


def test_a_module_has_two_possible_files() -> None:
    assert Script(0, "pkg.train", True).files == ("pkg/train.py", "pkg/train/__main__.py")


KNOWN = (
    *("python", "bash", "torchrun", "mpirun", "accelerate", "launch"),
    *("-m", "--", "-c", "a.py", "b.sh", "A=c.py"),
)


@given(st.lists(st.one_of(st.text(max_size=6), st.sampled_from(KNOWN))))
def test_any_command_is_read(command: list[str]) -> None:
    named = read_command(command).script
    assert named is None or (0 <= named.place < len(command) and named.name in command[named.place])


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("torchrun train.py", ()),  # takes them from variables
        ("msrun train.py", ("--worker-num",)),
        ("msrun --worker_num 8 train.py", ()),
        ("msrun --worker_num=8 train.py", ()),
        ("msrun train.py --worker_num=8", ("--worker-num",)),  # the script's own option
        ("accelerate launch train.py", ("--num-processes", "--config-file")),
        ("accelerate launch --config_file a.yaml train.py", ()),
        ("python -m deepspeed.launcher.runner train.py", ("--num-nodes", "--hostfile", "-H")),
        ("env A=1 deepspeed -H hosts train.py", ()),
        ("python train.py", ()),
    ],
)
def test_a_launcher_without_a_number_of_ranks_is_found(line: str, counts: tuple[str, ...]) -> None:
    assert read_command(line.split()).counts == counts


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("bash -c CODE a", "CODE"),
        ("/bin/sh -ec CODE", "CODE"),
        ("nohup bash -x -eo pipefail --norc -c CODE -c", "CODE"),
        ("bash -c -o pipefail CODE", "CODE"),
        ("bash -o ec run.sh", None),
        ("bash run.sh -c x", None),
        ("bash +c x", None),
        ("bash --rcfile x run.sh", None),
        ("python -c x", None),
        ("bash -c", None),
        ("train.py sh", None),
    ],
)
def test_the_code_of_a_shell_is_found(line: str, code: str | None) -> None:
    words = line.split()
    place = find_shell_code(words)
    assert (None if place is None else words[place]) == code
