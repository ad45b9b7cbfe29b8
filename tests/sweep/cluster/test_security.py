"""Who gets in: clusters that the sweep starts are closed; open ones are named."""

import importlib
import os
import socket
import ssl
import sys
from urllib.parse import urlsplit

import dask
import pytest
from distributed import Client, LocalCluster, Security
from processes import local, refused, until
from programs import ran, script

from sweep.cluster import clusters, specification
from sweep.errors import ClusterError

KNOCK = """
import asyncio
import os
import sys
from distributed import Client, Security
user, seconds, keys, *doors = sys.argv[1:]
KEYS = {"no key": None, "another key": Security.temporary()}
async def knock(address, key):
    try:
        asked = {"timeout": float(seconds), "security": key, "asynchronous": True}
        async with Client(address, **asked) as client:
            await client.submit(int, 1)
    except Exception as error:
        return type(error).__name__
    return "in"
async def knock_at_all():
    shown = [KEYS[key] for key in keys.split(",")]
    return await asyncio.gather(*(knock(door, key) for door in doors for key in shown))
answers = asyncio.run(knock_at_all())
if user:  # who may not be able to read the environment: all that it imports is imported by now
    os.setuid(int(user))
    answers = asyncio.run(knock_at_all())
print(*answers)
"""
ONE = local(n_workers=1)


def knock(*doors, keys="no key,another key", user="", seconds=3):
    """The result of each key at each door, in little time unless it opens."""
    return ran(sys.executable, "-c", KNOCK, user, seconds, keys, *doors).stdout.split()


def are_errors(answers, count):
    return [answer[-5:] for answer in answers] == ["Error"] * count


def lets_in_whoever_trusts_it(address):
    """Whether a client without a certificate gets an answer."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    place = urlsplit(address)
    with socket.create_connection((place.hostname, place.port), timeout=120) as plain:
        try:
            with trusting.wrap_socket(plain) as talk:
                return talk.recv(1) != b""
        except (ssl.SSLError, ConnectionResetError):
            return False


def test_a_cluster_started_by_the_sweep_admits_nobody_else():
    with clusters.connected(ONE) as client:
        address = client.scheduler.address
        assert address.startswith("tls://127.0.0.1:")
        assert client.submit(sum, [1, 2]).result(timeout=300) == 3
        assert are_errors(knock(address, address.replace("tls:", "tcp:")), 4)
        assert not lets_in_whoever_trusts_it(address)
        assert client.submit(sum, [1, 3]).result(timeout=300) == 4


@pytest.fixture
def key_files(tmp_path):
    made = Security.temporary()
    (tmp_path / "cert.pem").write_text(made.tls_ca_file)
    (tmp_path / "key.pem").write_text(made.tls_client_key)
    files = {"ca": tmp_path / "cert.pem", "cert": tmp_path / "cert.pem"}
    return {**files, "key": tmp_path / "key.pem"}


def test_keys_in_files_open_a_scheduler_that_runs(key_files):
    keys = specification.KeyFiles(**key_files)
    with dask.config.set(keys.dask_settings), LocalCluster(**local(n_workers=0).kwargs) as theirs:
        spec = specification.ClusterSpec(address=theirs.scheduler_address, security=keys)
        with clusters.connected(spec) as client:
            assert isinstance(client, Client)
            assert client.nthreads() == {}


def test_nobody_gets_in_without_these_keys(key_files):
    keys = specification.KeyFiles(**key_files)
    with clusters.connected(ONE.model_copy(update={"security": keys})) as client:
        address = client.scheduler.address
        assert client.submit(sum, [1, 2]).result(timeout=300) == 3
        assert are_errors(knock(address), 2)


@pytest.mark.filterwarnings("error:cluster .* may have left workers")
def test_a_batch_job_reads_the_key_from_files_that_only_the_user_can_read(tmp_path, monkeypatch):
    pytest.importorskip("dask_jobqueue")
    script(tmp_path / "sbatch", 'cp "$1" part; mv part job; echo Submitted batch job 1')
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scancel").symlink_to("/bin/true")
    monkeypatch.setattr(clusters, "CLOSE_SECONDS", 300.0)
    kwargs = {"cores": 1, "memory": "1GB", "n_workers": 1, "interface": "lo"}
    kwargs["job_script_prologue"] = ["module load python"]
    spec = specification.ClusterSpec.model_validate(
        {"module": "dask_jobqueue", "class": "SLURMCluster", "kwargs": kwargs}
    )
    with clusters.connected(spec) as client:
        assert client.scheduler.address.startswith("tls://127.0.0.1:")
        keys = list(tmp_path.glob(".dask-jobqueue.worker.*"))
        assert {path.stat().st_mode & 0o777 for path in keys} == {0o600}
        until((tmp_path / "job").exists)
        assert keys
        job = (tmp_path / "job").read_text()
        assert all(str(path) in job for path in keys)
        assert "module load python\nexport DASK_DISTRIBUTED__WORKER__MEMORY__PAUSE=False\n" in job
        assert are_errors(knock(client.scheduler.address, keys="no key"), 1)
    assert list(tmp_path.glob(".dask-jobqueue.worker.*")) == []


def test_keys_are_files_and_exclude_insecure(tmp_path, key_files):
    path = tmp_path / "cluster.yaml"
    files = ", ".join(f"{name}: {at}" for name, at in key_files.items())
    path.write_text(f"address: tls://a:1\nsecurity: {{{files}}}\n")
    assert specification.load(path).security == specification.KeyFiles(**key_files)
    path.write_text(f"address: tls://a:1\ninsecure: true\nsecurity: {{{files}}}\n")
    with pytest.raises(ClusterError, match="expected either 'security', or 'insecure'"):
        specification.load(path)
    path.write_text("address: tls://a:1\nsecurity: {ca: gone, cert: gone, key: gone}\n")
    with pytest.raises(ClusterError, match=r"security\.ca: 'gone' is not a file"):
        specification.load(path)


@pytest.mark.parametrize("address", ["tcp://192.0.2.1:8786", "192.0.2.1:8786", "tcp://host:1"])
def test_a_scheduler_that_other_machines_reach_without_a_key_is_refused(address):
    spec = specification.ClusterSpec(address=address)
    refused(spec, r"has no key: anyone who can reach it.*insecure: true")
    assert clusters.describe_exposure(address) == "every machine that reaches it"


@pytest.mark.parametrize(
    ("address", "who"),
    [
        ("tls://192.0.2.1:1", ""),
        ("tcp://[::1]:1", "every user of this machine"),
        ("localhost:1", "every user of this machine"),
    ],
)
def test_encrypted_addresses_are_open_to_nobody_and_local_ones_to_users(address, who):
    assert clusters.describe_exposure(address) == who


class Wide:
    """A cluster class whose scheduler listens to other machines."""

    scheduler_address = "tcp://192.0.2.1:8786"
    closed = False

    def close(self, timeout):
        Wide.closed = True


def test_a_cluster_that_listens_to_other_machines_is_refused_and_closed():
    refused(specification.ClusterSpec(module="test_security", **{"class": "Wide"}), "has no key")
    assert importlib.import_module("test_security").Wide.closed


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("insecure", [False, True])
def test_another_user_of_the_machine_is_refused_unless_the_file_says_so(insecure):
    with clusters.connected(ONE.model_copy(update={"insecure": insecure})) as client:
        door, seconds = client.scheduler.address, 240 if insecure else 3
        said = knock(door, keys="no key", user="65534", seconds=seconds)
    assert said == ["in"] if insecure else are_errors(said, 1)
