"""Credentials in files: found by the script that runs in an image, on a tree of files, and told from other texts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from ma_boot.desk.image import check
from ma_boot.desk.image.rules.credentials import PRIVATE_KEY, SECRET, TOKEN, credential_in, parsed_search

KEY = "q7" * 20
PLANTED: dict[str, str] = {
    "home/ma-user/code/settings.py": f"secret_access_key='{KEY}'",
    "home/ma-user/code/aws.cfg": f"aws_secret_access_key={KEY}",
    "home/ma-user/code/obs.py": f"client = ObsClient(ak='{KEY}', sk='{KEY}')",
    "home/ma-user/code/only_sk.py": f"sk='{KEY}'",
    "home/ma-user/code/train.yaml": f"obs:\n  secret_access_key: {KEY}\n",
    "home/ma-user/code/conf.json": f'{{"wandbApiKey": "{KEY}"}}',
    "home/ma-user/code/.env": f"DB_PASS={KEY[:8]}",
    "etc/profile.d/keys.sh": f"export OBS_SK={KEY}",
    "etc/environment": "DB_PASS=hunter22",
    "usr/src/app/config.ini": f"[db]\npassword = {KEY[:9]}",
    "usr/src/app/hub.py": "login(token='hf_" + "aB" * 17 + "')",
    "srv/gitlab.sh": "git clone https://oauth2:glpat-" + "a1B2" * 5 + "@host/x.git",
    "opt/work/notes.md": "use ghp_" + "a1B2" * 9,
    "opt/work/id": "AKIA" + "A1B2" * 4,
    "root/key.txt": "-----BEGIN RSA PRIVATE KEY-----",
}
INNOCENT: dict[str, str] = {
    "home/ma-user/code/model.py": "tokens = 4096; secret_access_key = os.environ['SK']; max_tokens=40960",
    "home/ma-user/code/tokenizer.py": "pad_token = '<|pad12|>'; tokenizer = 'bert-base-v1'; token = self.next2()",
    "home/ma-user/code/.env.example": "OBS_SECRET_ACCESS_KEY=your-key-1234",
    "home/ma-user/code/.env": "TOKENIZERS_PARALLELISM=false\nMAX_TOKENS=4096\nPASSWORD_FILE=/run/secrets/pw\n",
    "home/ma-user/code/train.yaml": "sort_key: loss_1\ntoken: ${HF_TOKEN1}\npassword_encryption: scram-sha-256\n",
    "home/ma-user/code/readme.md": "password: at least 8 characters; `api_key = <your key 1>`",
    "home/ma-user/code/doc.py": "client(ak='AKIAIOSFODNN7EXAMPLE', password='changeme1')",
    "etc/login.defs": "PASS_MAX_DAYS\t99999\nENCRYPT_METHOD SHA512\n",
    "usr/share/x.py": f"secret_key='{KEY}'",
    "home/ma-user/anaconda3/lib/python3.9/x.py": f"secret_key='{KEY}'",
}


def credentials_below(root: Path, files: dict[str, str]) -> dict[str, set[str]]:
    """The files with credentials, each with what it holds, as the script and its reader tell."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")
    done = subprocess.run(["sh", "-c", check.CREDENTIALS, "sh", str(root)], capture_output=True, text=True)
    pairs, whole = parsed_search(done.stdout)
    assert whole, done.stderr
    kinds: dict[str, set[str]] = {}
    for kind, file in pairs:
        kinds.setdefault(file.partition(" (")[0].lstrip("/"), set()).add(kind)
    return kinds


@pytest.mark.parametrize("name", PLANTED)
def test_a_credential_in_a_file_is_found(name: str, tmp_path: Path) -> None:
    assert set(credentials_below(tmp_path, {name: PLANTED[name]})) == {name}


def test_what_is_none_is_not_found(tmp_path: Path) -> None:
    assert credentials_below(tmp_path, INNOCENT) == {}


@pytest.mark.parametrize(
    ("file", "text", "kind"),
    [
        ("/x/a.py", f"sk = '{KEY}'", SECRET),
        ("/x/a.py", f"sk = {KEY}", ""),
        ("/x/a.sh", f"sk={KEY}", SECRET),
        ("/x/a.py", "AKIA" + "A1B2" * 4, TOKEN),
        ("/x/a.py", "-----BEGIN PRIVATE KEY", PRIVATE_KEY),
        ("/x/a.ini", "password=letmein", ""),
        ("/x/a.js", "'token': 'utf8.decode'", ""),
    ],
)
def test_what_a_text_holds(file: str, text: str, kind: str) -> None:
    assert credential_in(file, text) == kind


@given(st.text(), st.text())
def test_any_text_is_judged(file: str, text: str) -> None:
    credential_in(file, text)
    parsed_search(f"text\t{file}\t{text}")
