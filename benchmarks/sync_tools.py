"""The tools that `sync.py` measures: ma_boot, and its peers: programs, or libraries with a program around."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Callable, NamedTuple

from summary import AS_INPUTS

BIN = Path(sys.executable).parent
KEYS = {
    "AWS_ACCESS_KEY_ID": "a",
    "AWS_SECRET_ACCESS_KEY": "b",
    "OBS_ACCESS_KEY_ID": "a",
    "OBS_SECRET_ACCESS_KEY": "b",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
    "AWS_RESPONSE_CHECKSUM_VALIDATION": "when_required",
}
BOTO3 = """
import os, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
way, url, local, key = sys.argv[1:]
settings = Config(max_pool_connections=64, s3={"addressing_style": "path"})
client = boto3.client("s3", endpoint_url=url, config=settings)
config = TransferConfig(max_concurrency=8)
with ThreadPoolExecutor(16) as pool:
    if way == "download":
        def get(name):
            target = Path(local, name[len(key):])
            target.parent.mkdir(parents=True, exist_ok=True)
            client.download_file("bucket", name, str(target), Config=config)
        pages = client.get_paginator("list_objects_v2").paginate(Bucket="bucket", Prefix=key)
        list(pool.map(get, [entry["Key"] for page in pages for entry in page.get("Contents", ())]))
    else:
        def put(path):
            client.upload_file(str(path), "bucket", key + path.relative_to(local).as_posix(), Config=config)
        list(pool.map(put, [path for path in Path(local).rglob("*") if path.is_file()]))
"""
OBSTORE = """
import asyncio, sys
from pathlib import Path
import obstore
from obstore.store import S3Store
way, url, local, key = sys.argv[1:]
store = S3Store("bucket", endpoint=url, access_key_id="a", secret_access_key="b", region="us-east-1",
                virtual_hosted_style_request=False, client_options={"allow_http": True},
                unsigned_payload=True)
async def main():
    gate = asyncio.Semaphore(64)
    async def get(name, size):
        async with gate:
            target = Path(local, name[len(key):])
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                if size <= 32 << 20:
                    file.write(await (await obstore.get_async(store, name)).bytes_async())
                    return
                async for piece in (await obstore.get_async(store, name)).stream(min_chunk_size=8 << 20):
                    file.write(piece)
    async def put(path):
        async with gate:
            await obstore.put_async(store, key + path.relative_to(local).as_posix(), path)
    if way == "download":
        found = [entry for page in obstore.list(store, key) for entry in page]
        await asyncio.gather(*[get(entry["path"], entry["size"]) for entry in found])
    else:
        await asyncio.gather(*[put(path) for path in Path(local).rglob("*") if path.is_file()])
asyncio.run(main())
"""
OPENDAL = """
import asyncio, sys
from pathlib import Path
import opendal
way, url, local, key = sys.argv[1:]
store = opendal.AsyncOperator("s3", bucket="bucket", endpoint=url, region="us-east-1", access_key_id="a",
                              secret_access_key="b", disable_config_load="true",
                              disable_ec2_metadata="true")
async def main():
    gate = asyncio.Semaphore(64)
    async def get(name, size):
        async with gate:
            target = Path(local, name[len(key):])
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                if size <= 32 << 20:
                    file.write(await store.read(name))
                    return
                async with await store.open(name, "rb") as source:
                    while piece := await source.read(8 << 20):
                        file.write(piece)
    async def put(path):
        async with gate:
            name = key + path.relative_to(local).as_posix()
            if path.stat().st_size <= 32 << 20:
                await store.write(name, path.read_bytes())
                return
            async with await store.open(name, "wb") as target:
                with path.open("rb") as file:
                    while piece := file.read(16 << 20):
                        await target.write(piece)
    if way == "download":
        found = [entry async for entry in await store.list(key, recursive=True)]
        await asyncio.gather(*[get(entry.path, entry.metadata.content_length) for entry in found])
    else:
        await asyncio.gather(*[put(path) for path in Path(local).rglob("*") if path.is_file()])
asyncio.run(main())
"""
# The cost of a verification, before the same programs: what arrives, or is to be sent, is hashed, in threads
# if it is large, as Python then releases the GIL. Neither library can send or compare an MD5 itself.
HASHING = """
import asyncio, hashlib
async def hashed(piece, digest=None):
    digest = digest or hashlib.md5()
    if len(piece) > 1 << 20:
        await asyncio.to_thread(digest.update, piece)
    else:
        digest.update(piece)
    return piece
"""
HASHING_OBSTORE = """
import obstore
class Hashed:
    def __init__(self, result):
        self.result = result
    async def bytes_async(self):
        return await hashed(await self.result.bytes_async())
    async def stream(self, min_chunk_size):
        digest = hashlib.md5()
        async for piece in self.result.stream(min_chunk_size=min_chunk_size):
            yield await hashed(piece, digest)
get_async, put_async = obstore.get_async, obstore.put_async
async def get_hashed(store, name):
    return Hashed(await get_async(store, name))
async def put_hashed(store, name, path):
    digest = hashlib.md5()
    with path.open("rb") as file:
        while piece := file.read(16 << 20):
            await hashed(piece, digest)
    await put_async(store, name, path)
obstore.get_async, obstore.put_async = get_hashed, put_hashed
"""
HASHING_OPENDAL = """
import opendal
class Hashed:
    def __init__(self, *service, **settings):
        self.real = Real(*service, **settings)
        self.list = self.real.list
    async def read(self, name):
        return await hashed(await self.real.read(name))
    async def write(self, name, content):
        await self.real.write(name, await hashed(content))
    async def open(self, name, mode):
        return HashedFile(await self.real.open(name, mode))
class HashedFile:
    def __init__(self, file):
        self.file, self.digest = file, hashlib.md5()
    async def __aenter__(self):
        await self.file.__aenter__()
        return self
    async def __aexit__(self, *error):
        await self.file.__aexit__(*error)
    async def read(self, size):
        return await hashed(await self.file.read(size), self.digest)
    async def write(self, piece):
        await self.file.write(await hashed(piece, self.digest))
Real, opendal.AsyncOperator = opendal.AsyncOperator, Hashed
"""
AWSCRT = """
import os, sys
from pathlib import Path
from urllib.parse import quote, urlsplit
import obstore
from awscrt.auth import AwsCredentialsProvider
from awscrt.http import HttpHeaders, HttpRequest
from awscrt.io import ClientTlsContext, TlsConnectionOptions, TlsContextOptions
from awscrt.s3 import S3Client, S3RequestTlsMode, S3RequestType
from obstore.store import S3Store
way, url, local, key = sys.argv[1:]
place = urlsplit(url)
tls = {"tls_mode": S3RequestTlsMode.DISABLED}
if place.scheme == "https":
    trust = TlsContextOptions()
    trust.override_default_trust_store_from_path(None, os.environ["SSL_CERT_FILE"])
    options = TlsConnectionOptions(ClientTlsContext(trust))
    options.set_server_name(place.hostname)
    tls = {"tls_mode": S3RequestTlsMode.ENABLED, "tls_connection_options": options}
keys = AwsCredentialsProvider.new_static("a", "b")
client = S3Client(region="us-east-1", credential_provider=keys, throughput_target_gbps=10.0, **tls)
def request(method, name, length, type, **file):
    headers = HttpHeaders([("Host", place.netloc), ("Content-Length", str(length))])
    whole = HttpRequest(method, "/bucket/" + quote(name), headers)
    return client.make_request(type=type, request=whole, **file).finished_future
def get(name):
    target = Path(local, name[len(key):])
    target.parent.mkdir(parents=True, exist_ok=True)
    return request("GET", name, 0, S3RequestType.GET_OBJECT, recv_filepath=str(target))
def put(path):
    name = key + path.relative_to(local).as_posix()
    return request("PUT", name, path.stat().st_size, S3RequestType.PUT_OBJECT, send_filepath=str(path))
if way == "download":
    store = S3Store("bucket", endpoint=url, access_key_id="a", secret_access_key="b", region="us-east-1",
                    virtual_hosted_style_request=False, client_options={"allow_http": True})
    work = [get(entry["path"]) for page in obstore.list(store, key) for entry in page]
else:
    work = [put(path) for path in Path(local).rglob("*") if path.is_file()]
for done in work:
    done.result()
"""
SDK = """
import os, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from obs import ObsClient
way, url, local, key = sys.argv[1:]
trust = {"ssl_verify": os.environ["SSL_CERT_FILE"]} if url.startswith("https") else {}
client = ObsClient("a", "b", server=url, path_style=True, long_conn_mode=True, **trust)
def check(answer):
    assert answer.status < 300, answer
with ThreadPoolExecutor(8) as pool:
    if way == "download":
        names, marker = [], None
        while True:
            page = client.listObjects("bucket", prefix=key, marker=marker).body
            names += [entry.key for entry in page.contents]
            if not page.is_truncated:
                break
            marker = page.next_marker
        def get(name):
            target = Path(local, name[len(key):])
            target.parent.mkdir(parents=True, exist_ok=True)
            check(client.downloadFile("bucket", name, str(target), partSize=16 << 20, taskNum=8))
        list(pool.map(get, names))
    else:
        def put(path):
            name = key + path.relative_to(local).as_posix()
            check(client.uploadFile("bucket", name, str(path), partSize=16 << 20, taskNum=8))
        list(pool.map(put, [path for path in Path(local).rglob("*") if path.is_file()]))
"""


class Job(NamedTuple):
    """One transfer: `way` is download or upload."""

    way: str
    tree: str
    url: str
    local: Path
    key: str
    latency: float
    trusted: Mapping[str, str] = {}

    def environ(self) -> dict[str, str]:
        """The variables of the tool: the keys, and which certificates it trusts."""
        return {**os.environ, **KEYS, **self.trusted, "OBS_ENDPOINT": self.url}


def python(program: str) -> Callable[[Job], list[str]]:
    """A tool that is a program of ours around a library. All start and end as ma_boot does."""
    whole = f"import gc\ngc.set_threshold(50_000)\n{program}\nimport os\nos._exit(0)"
    return lambda job: [sys.executable, "-c", whole, job.way, job.url, str(job.local), job.key]


def ours(job: Job) -> list[str]:
    """The whole program, as a user calls it."""
    return [sys.executable, "-m", "ma_boot", "sync", job.way, mapping_of(job)]


def as_inputs(job: Job) -> list[str]:
    """The same transfer at the start of a whole job, whose command does nothing."""
    boot = ["--rendezvous", "none", "--per-node", "--path-mapping", mapping_of(job)]
    home = f"HOME={job.local}"  # where the logs are
    return ["env", home, sys.executable, "-m", "ma_boot", *boot, "true"]


def mapping_of(job: Job) -> str:
    """The path mapping for ma_boot, as a file."""
    way = "input" if job.way == "download" else "output"
    mapping = Path(os.environ["BENCH_OUT"], "mapping.yaml")
    mapping.write_text(f"{way}: {{{job.local}: obs://bucket/{job.key}}}")
    return str(mapping)


def cp(job: Job) -> list[str]:
    """A local copy: no network at all."""
    source = job.local if job.way == "upload" else Path(os.environ["BENCH_TREE"], "bucket", job.tree)
    target = job.local if job.way == "download" else Path(os.environ["BENCH_OUT"], "copy")
    return ["cp", "-r", str(source), str(target)]


def curl(job: Job) -> list[str]:
    """What the network and the disk let a program in C do: no listing, no signature, nothing compared."""
    tree = Path(os.environ["BENCH_TREE"], "bucket", job.tree)
    names = [path.relative_to(tree) for path in tree.rglob("*") if path.is_file()]
    wanted = (f'url="{job.url}/bucket/{job.tree}/{name}"\noutput="{job.local / name}"\n' for name in names)
    config = Path(os.environ["BENCH_OUT"], "curl")
    config.write_text("".join(wanted))
    common = ["--parallel", "--parallel-max", "32", "--create-dirs", "--no-progress-meter"]
    trusted = ["--cacert", job.trusted["SSL_CERT_FILE"]] if job.trusted else []
    return ["curl", *common, *trusted, "--config", str(config)]


def rclone(job: Job) -> list[str]:
    """With as many streams as it takes to be fast."""
    remote = f":s3,provider=Other,endpoint='{job.url}',access_key_id=a,secret_access_key=b:bucket/{job.key}"
    ends = [remote, str(job.local)] if job.way == "download" else [str(job.local), remote]
    few = ["--transfers", "4", "--multi-thread-streams", "8", "--s3-upload-concurrency", "8"]
    many = ["--transfers", "64" if job.latency else "32", "--checkers", "16"]
    common = ["--config", "/dev/null", "--s3-no-check-bucket"]
    return [str(BIN / "rclone"), "copy", *ends, *(few if job.tree in ("B", "E") else many), *common]


def s5cmd(job: Job) -> list[str]:
    """As it comes, with 256 workers."""
    ends = [f"s3://bucket/{job.key}*", f"{job.local}/"]
    if job.way == "upload":
        ends = [f"{job.local}/", f"s3://bucket/{job.key}"]
    return [str(BIN / "s5cmd"), "--endpoint-url", job.url, "--log", "error", "sync", *ends]


def aws(job: Job) -> list[str]:
    """As it comes."""
    remote = f"s3://bucket/{job.key}"
    ends = [remote, str(job.local)] if job.way == "download" else [str(job.local), remote]
    return [str(BIN / "aws"), "--endpoint-url", job.url, "s3", "sync", "--quiet", *ends]


TOOLS: dict[str, Callable[[Job], list[str]]] = {
    "cp": cp,
    "curl": curl,
    "ours": ours,
    AS_INPUTS: as_inputs,
    "rclone": rclone,
    "obstore": python(OBSTORE),
    "obstore + MD5": python(HASHING + HASHING_OBSTORE + OBSTORE),
    "opendal": python(OPENDAL),
    "opendal + MD5": python(HASHING + HASHING_OPENDAL + OPENDAL),
    "awscrt": python(AWSCRT),
    "s5cmd": s5cmd,
    "aws": aws,
    "boto3": python(BOTO3),
    "sdk": python(SDK),
}
# By tool: what it compares of the content with this store, which states the CRC-64 of objects and parts.
_OURS = "length and CRC-64 of each object and part"
VERIFIES = {
    **dict.fromkeys(
        ("cp", "curl", "obstore", "opendal", "awscrt", "s5cmd", "aws", "boto3", "sdk"), "nothing"
    ),
    **dict.fromkeys(("ours", AS_INPUTS), _OURS),
    "rclone": "length; sends the MD5 of uploads",
    "obstore + MD5": "the cost of an MD5, compared with nothing",
    "opendal + MD5": "the cost of an MD5, compared with nothing",
}
