"""Stores in an object store: a real server of S3's protocol on loopback, real workers."""

import errno
import json
import os
import shutil
import sys
import urllib.request
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from unittest.mock import Mock

import ledgers
import numpy as np
import pytest
import xarray as xr
from distributed import LocalCluster
from faults import Fault
from processes import ended, local_cluster, until
from written import replicated

import sweep
from sweep.dataset import build, reading
from sweep.errors import StoreError
from sweep.runner import log, maintenance
from sweep.store import folder, lease, paths
from sweep.store.folder import WorkerStore
from sweep.store.journal import Journal, read_segment
from sweep.store.lease import LEASE, Holder
from sweep.store.paths import ObjectPath, locate, parsed
from sweep.store.records import CellRecord, Status

FIRST, SECOND = f"{LEASE}000001", f"{LEASE}000002"


@pytest.fixture(scope="module")
def server():
    from moto.server import ThreadedMotoServer

    started = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    started.start()
    host, port = started.get_host_and_port()
    address = f"http://{host}:{port}"
    urllib.request.urlopen(urllib.request.Request(f"{address}/bucket", method="PUT")).close()
    settings = {
        "AWS_ENDPOINT_URL": address,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "something",
        "AWS_REGION": "us-east-1",
    }
    with pytest.MonkeyPatch.context() as patched:
        for name, value in settings.items():
            patched.setenv(name, value)
        yield address
    started.stop()


@pytest.fixture(scope="module")
def workers(server):
    """A cluster whose workers find the server in their environment."""
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        cluster.get_client() as client,
    ):
        yield client


@pytest.fixture
def address(server, request):
    return f"s3://bucket/{request.node.name.partition('[')[0]}"


@pytest.mark.slow
def test_a_sweep_is_run_resumed_and_read_there(address, small, tmp_path, workers, command):
    first = sweep.run(small(), address, workers)
    assert (first.status == 2).all()
    assert log.read_progress(locate(address)).statuses == {"ok": 4}
    assert [line.content["event"] for line in log.read_lines(locate(address))][-1] == "RunEnded"
    assert "run ended" in command("logs", address).output
    here = sweep.run(small(), tmp_path / "here", workers)
    np.testing.assert_array_equal(first.squared_privacy_cost, here.squared_privacy_cost)
    heard = []
    again = sweep.run(small(), address, workers, listen=heard.append)
    assert heard[0].todo == 0
    assert first.identical(again)
    assert xr.open_dataset(address, engine="sweep").identical(again)


CELLS = 40


def cells_recorded(address):
    """The ids in the journal, as often as they are recorded."""
    held = (read_segment(path) for path in journal_files(address))
    return [one.cell for records in held for one in records if isinstance(one, CellRecord)]


def journal_files(address):
    journal = locate(address) / "journal"
    return [journal / name for name in journal.names()]


@pytest.mark.slow
def test_a_command_that_is_killed_is_continued_by_the_next(address, processes, tmp_path):
    (tmp_path / "x.yaml").write_text(replicated(CELLS))
    waits = Fault("wait", "IP", first=CELLS // 2, until=str(tmp_path / "gate"))
    local_cluster(tmp_path, waits)
    words = ("run", "x.yaml", "--store", address, "--cluster", "cluster.yaml")
    first = processes.command(*words)
    until(lambda: journal_files(address) and cells_recorded(address), first)
    assert f"is in use by process {first.pid} on" in ended(processes.command(*words), 2)
    first.kill()
    first.communicate()
    done = cells_recorded(address)
    assert 0 < len(done) < CELLS
    (tmp_path / "gate").touch()
    assert f"{len(done)} already in the store" in ended(processes.command(*words))
    assert set(Counter(cells_recorded(address)).values()) == {1}
    assert (sweep.open(address).status == Status.OK).all()
    assert len(cells_recorded(address)) == CELLS


def test_workers_write_their_results_there(address, small, workers):
    made = folder.create(address, "mine")
    view = WorkerStore(made)
    record = CellRecord("c", "solve", "problem", Status.OK)
    assert workers.submit(lambda: view.reachable and view.write("r1", [record])).result()
    assert ledgers.status(Journal(made.journal).refresh(), "c") is Status.OK
    assert not WorkerStore(replace(made, about=replace(made.about, identity="another"))).reachable


def test_only_one_run_at_a_time_and_readers_see_which(address, monkeypatch):
    store = folder.create(address, "mine")

    refused = Mock(side_effect=PermissionError(errno.EACCES, "AccessDenied"))
    with store.locked():
        ledgers.check_in_use(store, f"process {os.getpid()} on")
        with monkeypatch.context() as patched:
            patched.setattr(ObjectPath, "write_bytes", refused)
            assert store.user == str(lease.ourselves())
    assert store.user is None
    assert not (store.path / FIRST).is_file()


def test_a_lease_whose_answer_was_lost_is_no_one_elses(address, monkeypatch):
    """The client asks again, and finds its own object."""
    store, once = folder.create(address, "mine"), ObjectPath.create

    def twice(path, content):
        once(path, content)
        once(path, content)

    monkeypatch.setattr(ObjectPath, "create", twice)
    with store.locked():
        assert (store.path / FIRST).is_file()


def test_a_lease_from_another_machine_counts_until_it_falls_silent(address, monkeypatch):
    store = folder.create(address, "mine")
    other = json.dumps({**vars(lease.ourselves()), "machine": "far"})
    (store.path / FIRST).write_bytes(other.encode())
    ledgers.check_in_use(store, r"process \d+ on far")
    later = datetime.now(UTC).timestamp() + lease.STALE_SECONDS + 1
    monkeypatch.setattr(lease, "clock", lambda _: later)
    with store.locked():
        assert parsed((store.path / SECOND).read_bytes(), Holder).process == os.getpid()


@pytest.mark.parametrize("disk", [False, True])
def test_the_second_writer_does_not_replace_the_first(address, tmp_path, monkeypatch, disk):
    refused = Mock(side_effect=OSError(errno.EPERM, "Operation not permitted"))
    monkeypatch.setattr(os, "link", refused)  # a disk without links
    path = locate(tmp_path if disk else address) / "one"
    path.create(b"first")
    with pytest.raises(FileExistsError):
        path.create(b"second")
    assert path.read_bytes() == b"first"


def test_a_reader_finds_the_old_dataset_or_the_new_one(address):
    store = folder.create(address, "mine")

    for number in range(4):
        store.dataset.publish(build.make_files(xr.Dataset({"x": number})))
        assert int(reading.open_dataset(address).x) == number
        assert store.dataset.damage is None
    versions = (store.path / ".results").names()
    assert versions == ["000003.json", "000003.zarr", "000004.json", "000004.zarr"]


@pytest.mark.slow
def test_damage_is_noticed_and_derived_or_solved_again(address, small, workers):
    first = sweep.run(small(), address, workers)
    chunk = folder.open_(address).dataset.path / "squared_privacy_cost" / "0.0"
    assert chunk.is_file()
    chunk.write_bytes(b"?")
    with pytest.raises(StoreError, match=r"squared_privacy_cost/0\.0"):
        sweep.open(address)
    again = sweep.run(small(), address, workers)
    assert again.squared_privacy_cost.equals(first.squared_privacy_cost)
    segment, *_ = journal_files(address)
    segment.write_bytes(segment.read_bytes().replace(b"1", b"2"))
    assert (sweep.run(small(), address, workers).status == 2).all()
    assert f"{segment.name}.damaged" in segment.parent.names()


@pytest.mark.slow
def test_a_store_is_packed_into_a_file_that_unpacks_to_a_folder(address, small, tmp_path, workers):
    asked = small(more="keep: [query_variances]")
    first = sweep.run(asked, address, workers)
    with pytest.raises(StoreError, match="in use by process"), folder.open_(address).locked():
        maintenance.pack(address, tmp_path / "ours.tar")
    size = maintenance.pack(address, tmp_path / "ours.tar.gz")
    assert size == (tmp_path / "ours.tar.gz").stat().st_size
    shutil.unpack_archive(tmp_path / "ours.tar.gz", tmp_path)
    assert sweep.open(tmp_path / "ours").identical(first)
    one = first.solve.values.flat[0]
    kept = sweep.arrays(tmp_path / "ours", one)
    assert kept.query_variances.equals(sweep.arrays(address, one).query_variances)
    heard = []
    sweep.run(asked, tmp_path / "ours", "nobody", listen=heard.append)
    assert heard[0].todo == 0


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("ftp://host/x", "is not a valid address; expected a folder, s3://BUCKET/PREFIX"),
        ("az:///", "'az://' is not a valid address"),
        ("s3://bucket/x?key=1", "credentials in the environment"),
        ("s3://missing/x", "has no store.json"),
    ],
)
def test_an_address_that_cannot_be_used_is_one_sentence(server, written, said):
    with pytest.raises(StoreError) as caught:
        sweep.open(written)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_addresses_are_distinguished_from_folders(tmp_path):
    assert locate("s3://b/x/y/") == ObjectPath("s3://b", "x/y") == locate("s3:/b/x/y")
    for key in (".x", "x.", "."):
        store = ObjectPath("s3://b", key)
        assert (store / "journal").parent == store
    assert ObjectPath("s3://b", "x").parent == ObjectPath("s3://b")
    assert locate(tmp_path) is not None
    assert str(locate("s3:x")) == "s3:x"
    assert locate("gs://b/x") == ObjectPath("gs://b", "x")
    assert locate("az://c/x/y") == ObjectPath("az://c", "x/y")
    abfss = "abfss://c@a.dfs.core.windows.net"
    assert locate(f"{abfss}/x") == ObjectPath(abfss, "x")


def test_a_server_that_does_not_answer_is_one_sentence(server, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setattr("sweep.store.paths.RETRIES", {"max_retries": 0})
    with pytest.raises(StoreError, match=r"store\.json' cannot be read \(Generic S3"):
        sweep.open("s3://elsewhere/x")


def test_a_profile_is_read_from_its_file(tmp_path, monkeypatch):
    (tmp_path / "credentials").write_text(
        "[mine]\naws_access_key_id = a\naws_secret_access_key = b\nregion = eu-central-1\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_PROFILE", "mine")
    made = paths.connect("s3://mine/x")
    assert made.config["region"] == "eu-central-1"
    assert made.credential_provider()["access_key_id"] == "a"
    monkeypatch.setenv("AWS_PROFILE", "other")
    with pytest.raises(StoreError, match=r"profile \(other\) could not be found; install"):
        paths.connect("s3://other/x")
    monkeypatch.setitem(sys.modules, "obstore.auth.boto3", None)
    with pytest.raises(StoreError, match="and boto3 for AWS_PROFILE"):
        paths.connect("s3://another/x")


def test_a_missing_extra_is_one_sentence(refusal, monkeypatch):
    paths.connect.cache_clear()
    monkeypatch.setitem(sys.modules, "obstore", None)
    assert "install fitness-sweep[objects]" in refusal("status", "s3://b/x")


def test_an_environment_without_credentials_is_one_sentence(refusal, monkeypatch):
    for name in [name for name in os.environ if name.startswith(("AWS_", "AZURE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(paths, "RETRIES", {"max_retries": 0})
    paths.connect.cache_clear()
    assert "169.254.169.254" in refusal("status", "s3://elsewhere/x")
    assert "Account must be specified" in refusal("status", "az://elsewhere/x")
    paths.connect.cache_clear()
