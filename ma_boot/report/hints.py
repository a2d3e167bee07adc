"""Hints for known errors, by patterns of a process's output or of an error of OBS. Pure.

A new hint has a pattern with bounded repetitions (the output may contain the beginning of a match a thousand
times), and a sentence with the remedy. Sources: ModelArts' troubleshooting guide, CANN's HCCL fault diagnosis
(EI and EJ codes), ModelArts' own launcher, the error codes of the OBS API reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from ma_boot.wording import Message, in_lines

MOST_HINTS = 3
_OWN_OPTIONS = r"--(local|nodes|devices-per-node|rendezvous|workdir|path-mapping|obs-root)\b"
OUTPUT_HINTS: tuple[tuple[str, str], ...] = (
    (
        r"EI0004|is not a valid real path",
        "HCCL could not read its rank table: RANK_TABLE_FILE must name the file that ma_boot wrote; does the "
        "script or a sourced file set it again?",
    ),
    (
        r"EI0014|ranktable config devId",
        "HCCL found a different device or address than in the rank table: does the script choose the device "
        "itself? It must use DEVICE_ID as ma_boot sets it and leave ASCEND_RT_VISIBLE_DEVICES alone",
    ),
    (
        r"EI0017",
        "a field is missing in HCCL's rank table: `ma_boot rank-table validate FILE` lists every problem",
    ),
    (
        r"EJ0001|previous training process",
        "a process of an earlier run still held the NPU: wait about 15 s, or find it with `npu-smi info`",
    ),
    (
        r"Connection (closed|reset) by (remote )?peer|remote worker crashing|Socket Timeout.{0,400}store",
        "this rank lost its peer, so another one probably failed first: look for exceptions of the other "
        "ranks, here and in the reports of the other nodes",
    ),
    (
        r"EI0006|Getting socket times out|[Ww]ait for connection.{0,40}time ?out",
        "a rank did not connect in time: look for the first failure in the logs of the other nodes; "
        "HCCL_CONNECT_TIMEOUT must exceed the difference between the nodes' start times",
    ),
    (
        r"EI0002|[Nn]otify.{0,40}time ?out|HCCL_EXEC_TIMEOUT",
        "a collective operation timed out waiting for a rank: look for the first failure on the other ranks, "
        "and for ranks that run fewer steps than others",
    ),
    (
        r"retCode ?= ?0x91",
        "MindSpore could not execute its graph, usually because of missing data or wrong parameters: see the "
        "plog (ASCEND_PROCESS_LOG_PATH)",
    ),
    (
        r"No space left on device|\[Errno 28\]",
        "the disk is full: `/cache` is the large one, shared by inputs, outputs and code; a tree of more "
        "than 500,000 files fills it too",
    ),
    (
        r"UpdateTopoState|The scheduler.{0,40}(disconnect|lost|time)",
        "MindSpore's scheduler lost a worker: the cause is in that worker's log",
    ),
    (
        rf"unrecognized arguments?: .{{0,2000}}{_OWN_OPTIONS}",
        "options of ma_boot go before COMMAND: everything after it belongs to the training",
    ),
    (
        rf"unrecognized arguments?: (?!.{{0,2000}}{_OWN_OPTIONS}).*",
        "ModelArts appends inputs, outputs and hyper-parameters of the job form to the command: let the "
        "script use `parse_known_args()` in place of `parse_args()`",
    ),
    (
        r"environment variable (MASTER_ADDR|MASTER_PORT|RANK|WORLD_SIZE) expected, but not set"
        r"|KeyError: '(MASTER_ADDR|MASTER_PORT|RANK|WORLD_SIZE)'",
        "PyTorch's variables come with --rendezvous torch, before COMMAND",
    ),
    (
        r"EADDRINUSE|[Aa]ddress already in use",
        "a port is in use, by a process of an earlier run or by a second job on this machine",
    ),
    (
        r"[Nn]etwork is unreachable|Name or service not known|Temporary failure in name resolution",
        "ModelArts' nodes may have no Internet access: load packages and data from OBS",
    ),
    (
        r"libascendcl\.so|libhccl\.so|libge_runner\.so",
        "CANN's libraries were not found: add --source /usr/local/Ascend/ascend-toolkit/set_env.sh or the "
        "equivalent of your image",
    ),
    (
        r"Permission denied: '?/home/ma-user",
        "the image's user must be uid 1000 and own the directory: a `ma-user` with another uid may not write "
        "there",
    ),
    (
        r"\$'\\r': command not found|\^M: bad interpreter|env: .{0,400}\\r",
        "the script has Windows line ends (CRLF): convert it by `sed -i 's/\\r$//' FILE`, and set `git "
        "config core.autocrlf false` before the next clone",
    ),
    (
        r"exec format error|Exec format error",
        "the program was built for another architecture than this node's (aarch64 or x86_64)",
    ),
    (
        r"Bus error|unable to open shared memory|/dev/shm",
        "/dev/shm may be full: use fewer data loader workers",
    ),
    (
        r"The specified key does not exist|NoSuchKey",
        "an object does not exist: does the path begin with the bucket?",
    ),
)
STORE_HINTS: tuple[tuple[str, str], ...] = (  # the first match counts
    (
        r"SignatureDoesNotMatch",
        "OBS_SECRET_ACCESS_KEY does not belong to OBS_ACCESS_KEY_ID: copy both again, without spaces",
    ),
    (
        r"InvalidAccessKeyId|InvalidToken",
        "OBS does not know OBS_ACCESS_KEY_ID: was it deleted? Temporary keys need OBS_SECURITY_TOKEN, "
        "permanent ones must not have it",
    ),
    (
        r"ExpiredToken|TokenRefreshRequired",
        "the temporary credentials have expired: create new ones, or set OBS_CREDENTIALS_FILE to a file that "
        "is kept up to date",
    ),
    (r"RequestTimeTooSkewed", "the node's clock is off by more than 15 minutes: see `ma_boot doctor`"),
    (
        r"HTTP 30[1278]|PermanentRedirect",
        "the bucket is in another region: OBS_ENDPOINT must name the bucket's region, and the job must "
        "run in the same one",
    ),
    (
        r"NoSuchBucket",
        "there is no such bucket in the region of OBS_ENDPOINT: does the URL begin with its name?",
    ),
    (
        r"HTTP 40[13]|AccessDenied",
        "the owner of OBS_ACCESS_KEY_ID lacks a permission: list and read for inputs, write for outputs (IAM "
        "or the bucket policy); a bucket of another account or region gives the same error",
    ),
    (
        r"HTTP 4(00|05|09|16)",
        "neither other credentials nor another try help: the error code says what OBS does not do; is "
        "OBS_ENDPOINT an endpoint of OBS, and the bucket an ordinary one?",
    ),
    (
        r"HTTP 429|HTTP 503|SlowDown",
        "OBS had too many requests: start again; finished files are not transferred again",
    ),
    (
        r"gaierror|Name or service not known|name resolution",
        "the host name cannot be resolved: is OBS_ENDPOINT correct (https://obs.REGION.example.com), and "
        "does the job's network resolve the name?",
    ),
    (
        r"obs://[^/\s.]{1,63}\.[^/\s]{1,255}[/\s][\s\S]{0,2000}Hostname mismatch",
        "the bucket's name has a dot, and the certificate of OBS (*.obs.REGION...) is not valid for such "
        "names: use a bucket without dots; SSL_CERT_FILE does not help",
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED|certificate verify failed",
        "the certificate's authority is not trusted here: set SSL_CERT_FILE to its CA bundle; a wrong clock "
        "is another possible cause",
    ),
    (
        r"[Cc]onnection refused|timed out|unreachable|no connection to|no answer from",
        "no response: is OBS_ENDPOINT that of the job's region, and can the job's network reach it (VPC, "
        "proxy, https_proxy)? `ma_boot doctor` tests it",
    ),
    (
        r"not in OBS, neither an object nor anything below it",
        "check the bucket, upper and lower case, and `/` at the end (a directory); for an optional input set "
        "required: false",
    ),
    (
        r"\(the job form's ",
        "does the training write to the path that it got? Remove an output that the job does not need from "
        "the job form; one that may be empty belongs in the path mapping, with required: false",
    ),
    (
        r"left nothing at these output paths",
        "does the training write there, relative to the directory where ma_boot was started? For an output "
        "that may be empty set required: false",
    ),
    (
        r"nothing to upload at these output paths",
        "relative local paths start in the current directory; for an output that may be empty set required: "
        "false",
    ),
    (
        r"the environment does not have",
        "on ModelArts set them in the job's environment variables; on a laptop export them, or use "
        "--obs-root DIR",
    ),
)


def hints_for(output: str) -> list[str]:
    """Returns at most three hints for an output, each with the text that it is for."""
    return [Message.of("{}: {}", *match) for match in islice(_matches(output), MOST_HINTS)]


def first_hint(output: str) -> str:
    """Returns the first hint for an output; empty without one."""
    return next((hint for _, hint in _matches(output)), "")


def _matches(output: str) -> Iterator[tuple[str, Message]]:
    """Yields the known texts in an output, each with its hint."""
    if output:  # most of the time it is empty, and the patterns take some milliseconds to be compiled
        matches = ((re.search(pattern, output), hint) for pattern, hint in OUTPUT_HINTS)
        yield from ((match.group(0), Message(hint)) for match, hint in matches if match)


def with_store_hint(message: str) -> str:
    """Appends a hint to an error message of OBS or of the network, if one matches."""
    hint = next((Message(hint) for pattern, hint in STORE_HINTS if re.search(pattern, message)), None)
    return message if hint is None else in_lines([message, Message.of("  -> {}", hint)])
