"""Variables of a command that starts the ranks of its node, and their names in its words. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from ma_boot.node.environment.command_words import find_shell_code
from ma_boot.node.launch.launch_plan import Node
from ma_boot.redact import without_secret_words
from ma_boot.wording import Message

# A variable in an argument: $NAME or ${NAME}.
_NAME = r"\$(?:\{(\w+)\}|(\w+))"
# A variable of the platform or of ma_boot, also with an operation such as ${VC_WORKER_HOSTS%%,*}.
_OF_THE_NODE = r"\$\{?((?:VC|MA|MABOOT)_\w+)"


def place_variables(node: Node) -> dict[str, str]:
    """Returns the variables `MABOOT_...` for the node's place in the job."""
    address, port = node.master or ("127.0.0.1", 0)
    return {
        "MABOOT_NNODES": str(node.job.node_count),
        "MABOOT_NODE_RANK": str(node.job.group_rank),
        "MABOOT_NPROC": str(len(node.placement.ranks)),
        "MABOOT_WORLD_SIZE": str(node.placement.world_size),
        "MABOOT_MASTER_ADDR": address,
        "MABOOT_MASTER_PORT": str(port),
    }


def launcher_variables(node: Node, place: Mapping[str, str]) -> dict[str, str]:
    """Returns the node's place under the names that launchers read; the user's values take precedence.

    LLaMA-Factory (src/llamafactory/cli.py), ms-swift (swift/cli/main.py) and PyTorch Lightning read these
    names; without them each node trains a job of its own. `RANK_START` is that of X2MindSpore's script and
    ModelArts' notebook library, `RANK_END` the first rank of the next node. `WORLD_SIZE` is left out: scripts
    disagree whether it counts nodes or ranks.
    """
    values = {
        "NNODES": place["MABOOT_NNODES"],
        "NODE_RANK": place["MABOOT_NODE_RANK"],
        "NPROC_PER_NODE": place["MABOOT_NPROC"],
        "MASTER_ADDR": place["MABOOT_MASTER_ADDR"],
        "MASTER_PORT": place["MABOOT_MASTER_PORT"],
        "RANK_START": str(node.placement.ranks[0]),
        "RANK_END": str(node.placement.ranks[-1] + 1),
    }
    # The platform's MASTER_PORT may be the one on which torchrun, which started ma_boot, listens itself.
    of_user = values.keys() - set(node.job.node_variables)
    return {
        name: (node.environ.get(name) if name in of_user else "") or value for name, value in values.items()
    }


def torchrun_defaults(
    environ: Mapping[str, str], place: Mapping[str, str], argv: Sequence[str]
) -> dict[str, str]:
    """Returns defaults for options of `torchrun`, so that `torchrun train.py` starts the whole job.

    The user's variables in `environ` take precedence; `--standalone` is a job of this node alone. The names
    are PyTorch's (torch/distributed/argparse_util.py).
    """
    if "--standalone" in argv:
        return {}
    defaults = {
        "PET_NNODES": place["MABOOT_NNODES"],
        "PET_NODE_RANK": place["MABOOT_NODE_RANK"],
        "PET_NPROC_PER_NODE": place["MABOOT_NPROC"],
        "PET_MASTER_ADDR": place["MABOOT_MASTER_ADDR"],
        "PET_MASTER_PORT": place["MABOOT_MASTER_PORT"],
    }
    return {name: value for name, value in defaults.items() if name not in environ}


def expand_words(
    words: Sequence[str], values: Mapping[str, str], own_values: Mapping[str, str]
) -> tuple[str, ...]:
    """Returns the words with the values of the variables in them; every other `$` is left to the command.

    In the code of `bash -c` only `own_values` are expanded: it may set variables with the other names itself.
    """
    code_place = find_shell_code(words)

    def expand(place: int, word: str) -> str:
        known = own_values if place == code_place else values
        return re.sub(_NAME, lambda match: known.get(match[1] or match[2], match[0]), word)

    return tuple(expand(place, word) for place, word in enumerate(words))


def explain_unexpanded(typed: Sequence[str], started: Sequence[str], job_dir: str) -> Message | None:
    """Returns the warning for variables in the words `started` that no shell expands; None without any.

    `typed` are the words as the user has written them; `bash -c` expands its own.
    """
    if find_shell_code(started) is not None:
        return None
    names = sorted({name for word in started for name in re.findall(_OF_THE_NODE, word)})
    if not names:
        return None
    python = ["python3"] if typed[0] == "-m" or typed[0].endswith(".py") else []
    # A rehearsal has replaced the script by its path in this sandbox.
    words = [re.sub(f"^{re.escape(job_dir)}/", "$MA_JOB_DIR/", word) for word in typed]
    line = " ".join(map(_quote, without_secret_words([*python, *words])))
    return Message.of(
        "COMMAND contains {}, which nothing expands, since ma_boot starts COMMAND without a shell; write: "
        "bash -c {}",
        ", ".join(f"${name}" for name in names),
        shlex.quote(line),
    )


def _quote(word: str) -> str:
    """Quotes a word so that a shell expands the variables in it, without the quotes of the whole line."""
    return word if shlex.quote(word) == word else '"' + re.sub(r'(["\\`])', r"\\\1", word) + '"'
