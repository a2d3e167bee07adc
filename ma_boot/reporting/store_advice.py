"""What to do about what OBS, or the way to it, has said: one line below the error. Pure.

To add one: a pattern of the error's text, and a sentence that says what to do; the first that fits is taken.
Sources: the error codes of the OBS API reference, ModelArts' trouble shooting guide on OBS.
"""

from __future__ import annotations

import re
from typing import Tuple

STORE_ADVICE: Tuple[Tuple[str, str], ...] = (
    (
        r"SignatureDoesNotMatch",
        "OBS_SECRET_ACCESS_KEY is not the secret of OBS_ACCESS_KEY_ID: copy both anew, without spaces",
    ),
    (
        r"InvalidAccessKeyId|InvalidToken",
        "OBS does not know OBS_ACCESS_KEY_ID: was it deleted? Temporary ones need OBS_SECURITY_TOKEN beside "
        "them, lasting ones must not have it",
    ),
    (
        r"ExpiredToken|TokenRefreshRequired",
        "the temporary credentials have ended: make new ones, or name a file that is renewed with "
        "OBS_CREDENTIALS_FILE",
    ),
    (r"RequestTimeTooSkewed", "the node's clock is wrong by more than 15 minutes: see `ma_boot doctor`"),
    (
        r"HTTP 30[127]|HTTP 405|PermanentRedirect",
        "the bucket is elsewhere: OBS_ENDPOINT must be that of the bucket's region, and that the job's",
    ),
    (
        r"NoSuchBucket",
        "there is no such bucket in the region of OBS_ENDPOINT: does the URL begin with its name?",
    ),
    (
        r"HTTP 40[13]|AccessDenied",
        "the owner of OBS_ACCESS_KEY_ID lacks the permission: listing and reading for inputs, writing for "
        "outputs (IAM, or the bucket's policy); a bucket of another account or region is refused so too",
    ),
    (
        r"HTTP 429|HTTP 503|SlowDown",
        "OBS had too many requests: start again; what arrived is not moved again",
    ),
    (
        r"gaierror|Name or service not known|name resolution",
        "the host has no address: is OBS_ENDPOINT written well, https://obs.REGION.example.com, and does the "
        "job's network know the name?",
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED|certificate verify failed",
        "the certificate is of an authority that is not known here: name its file with SSL_CERT_FILE; a "
        "wrong clock is another cause",
    ),
    (
        r"[Cc]onnection refused|timed out|unreachable|no connection to|no answer from",
        "nothing answers there: is OBS_ENDPOINT that of the job's region, and does the job's network reach "
        "it (VPC, proxy, https_proxy)? `ma_boot doctor` tries it",
    ),
    (
        r"not in OBS, neither an object nor anything below it",
        "look at bucket, upper and lower case, and `/` at the end (a directory); an input that may be "
        "missing says required: false",
    ),
    (
        r"left nothing at these output paths",
        "does the training write there, relative to where ma_boot was started? An output that may be empty "
        "says required: false",
    ),
    (
        r"the environment does not have",
        "set them, on ModelArts in the job's environment variables; in a rehearsal --obs-root DIR stands for "
        "OBS",
    ),
)
_SEARCHES = tuple((re.compile(pattern), sentence) for pattern, sentence in STORE_ADVICE)


def with_store_advice(message: str) -> str:
    """The message, and below it what to do where that is known."""
    for pattern, sentence in _SEARCHES:
        if pattern.search(message):
            return f"{message}\n  -> {sentence}"
    return message
