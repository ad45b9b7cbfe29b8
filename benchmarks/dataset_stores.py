"""What each way to keep the dataset of a store costs, on a disk and in an object store.

    python -m benchmarks.dataset_stores [--cells 10000 100000] [--kills 20]

It compares a new version beside the old one and a pointer to it, in zarr's formats 2 and 3, with
commits to an icechunk repository. The object store is moto's server on loopback.
"""

import argparse
import logging
import multiprocessing
import os
import random
import statistics
import tempfile
import time
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import xarray as xr
from zarr.errors import UnstableSpecificationWarning

from sweep.dataset import build
from sweep.experiment.loading import parse_experiment
from sweep.grid.expansion import expand
from sweep.store import disk
from sweep.store.folder import Store, create, open_
from sweep.store.ledger import Ledger
from sweep.store.location import located
from sweep.store.records import CellRecord, Status

BUCKET = "bucket"


def dataset(cells: int) -> xr.Dataset:
    """A dataset as a sweep writes it, of that many cells, all of them solved."""
    text = (
        "reference: IP\ndelta: [1.0e-6, 1.0e-9]\nepsilon: [0.1, 1.0]\nblocks:\n"
        "  - workload: {name: random, d: [2, 3, 4, 5, 6]}\n    mechanism: [IP, GM]\n"
        f"    replicates: {cells // 10}\n"
    )
    grids = expand(parse_experiment(text, "many.yaml"))
    rng, ledger = np.random.default_rng(0), Ledger()
    ledger.add(
        CellRecord(
            cell=cell.id,
            solve=cell.solve_key,
            problem=cell.problem_key,
            status=Status.OK,
            host="node",
            started=1.7e9,
            runtime_s=float(rng.exponential()),
            cpu_s=float(rng.exponential()),
            peak_memory_bytes=10**6,
            numbers={"squared_privacy_cost": float(rng.exponential() + 1.0), "lower_bound": 0.5},
            code="0123456789abcdef",
            versions="python 3.11 numpy 2.4 scipy 1.17",
        )
        for cell in grids[0].cells
    )
    terms = build.Terms(epsilon=(0.1, 1.0), delta=(1e-6, 1e-9), reference="IP")
    made = build.derived(grids, terms, ledger)
    assert isinstance(made, xr.Dataset)
    return made


@dataclass(frozen=True)
class Way:
    """One way to keep a dataset: how it is written to a place and read as a whole."""

    name: str
    write: Callable[[str, xr.Dataset], None]
    read: Callable[[str], xr.Dataset]


def versioned(zarr_format: int) -> Way:
    """A version beside the old one, and a pointer to it: `Store.publish`."""

    def store(place: str) -> Store:
        return create(place, "many") if not _exists(place) else open_(place)

    def write(place: str, data: xr.Dataset) -> None:
        def put(folder: Any) -> None:
            data.to_zarr(
                disk.zarr_store(folder),
                mode="w",
                encoding=build._encoding(data),
                consolidated=True,
                zarr_format=zarr_format,
            )

        store(place).dataset.publish(put)

    def read(place: str) -> xr.Dataset:
        path = open_(place).dataset.path.resolve()
        return xr.open_zarr(disk.zarr_store(path), chunks=None).load()

    return Way(f"versions, zarr {zarr_format}", write, read)


def committed() -> Way:
    """A commit to an icechunk repository."""

    def repository(place: str) -> Any:
        return icechunk.Repository.open_or_create(_storage(place))

    def write(place: str, data: xr.Dataset) -> None:
        session = repository(place).writable_session("main")
        encoding = build._encoding(data)
        data.to_zarr(session.store, mode="w", encoding=encoding, consolidated=False, zarr_format=3)
        session.commit("derived")

    def read(place: str) -> xr.Dataset:
        store = repository(place).readonly_session("main").store
        return xr.open_zarr(store, chunks=None, consolidated=False).load()

    return Way("icechunk", write, read)


def _storage(place: str) -> Any:
    if not place.startswith("s3://"):
        return icechunk.local_filesystem_storage(place)
    bucket, _, prefix = place.removeprefix("s3://").partition("/")
    return icechunk.s3_storage(
        bucket=bucket,
        prefix=prefix,
        region="us-east-1",
        endpoint_url=os.environ["AWS_ENDPOINT_URL"],
        allow_http=True,
        force_path_style=True,
        access_key_id=os.environ["AWS_ACCESS_KEY_ID"],
        secret_access_key=os.environ["AWS_SECRET_ACCESS_KEY"],
    )


def _exists(place: str) -> bool:
    return (located(place) / "store.json").exists()


def size(place: str) -> tuple[int, int]:
    """Number of files or objects, and their bytes together."""
    files = disk.files(located(place))
    return len(files), sum(
        file.stat().st_size if isinstance(file, Path) else len(file.read_bytes()) for file in files
    )


def seconds(work: Callable[[], Any]) -> float:
    """What it takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def median(work: Callable[..., Any], *about: Any, repeats: int) -> float:
    """Seconds that it takes, the median of some times."""
    return statistics.median(seconds(lambda: work(*about)) for _ in range(repeats))


def ways() -> tuple[Way, ...]:
    """Those that are compared."""
    return versioned(2), versioned(3), committed()


def rewrite(number: int, place: str, data: xr.Dataset, begun: Any) -> None:
    """Write one dataset after the other until killed: `runtime_s` is the same number throughout."""
    warnings.simplefilter("ignore")
    way = ways()[number]
    for version in range(1, 10**6):
        way.write(place, data.assign(runtime_s=data.runtime_s * 0 + version))
        begun.set()


def killed(number: int, place: str, data: xr.Dataset, kills: int) -> tuple[int, int]:
    """How often readers find one whole version after a kill, and the next write succeeds."""
    way, spawn = ways()[number], multiprocessing.get_context("spawn")
    took = seconds(lambda: way.write(place, data.assign(runtime_s=data.runtime_s * 0)))
    whole = goes_on = 0
    for _ in range(kills):
        begun = spawn.Event()
        process = spawn.Process(target=rewrite, args=(number, place, data, begun))
        process.start()
        begun.wait(60)
        time.sleep(random.uniform(0.0, 2.0 * took))
        process.kill()
        process.join()
        try:
            values = way.read(place).runtime_s.values
            whole += bool((values == values.flat[0]).all())
            way.write(place, data.assign(runtime_s=data.runtime_s * 0 - 1.0))
            goes_on += bool((way.read(place).runtime_s == -1.0).all())
        except Exception as error:
            print(f"    {way.name}: {type(error).__name__}: {error}")
    return whole, goes_on


def compare(way: Way, where: str, place: str, data: xr.Dataset, repeats: int) -> None:
    """Print times and sizes."""
    way.write(place, data)
    objects, once = size(place)
    writes = median(way.write, place, data, repeats=repeats)
    reads = median(way.read, place, repeats=repeats)
    later, grown = size(place)
    print(
        f"  {where:4} {way.name:16} write {writes:.2f} s  read {reads:.2f} s  {objects} files, "
        f"{once / 1e6:.2f} MB; after {repeats + 1} writes {later} files, {grown / 1e6:.2f} MB",
        flush=True,
    )


@contextmanager
def object_store() -> Iterator[str]:
    """A server with S3's protocol in its own process, which the environment variables name."""
    ready = multiprocessing.Queue()
    server = multiprocessing.Process(target=_serve, args=(ready,), daemon=True)
    server.start()
    address = ready.get(timeout=60)
    os.environ |= {
        "AWS_ENDPOINT_URL": address,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "something",
        "AWS_REGION": "us-east-1",
    }
    urllib.request.urlopen(urllib.request.Request(f"{address}/{BUCKET}", method="PUT")).close()
    try:
        yield f"s3://{BUCKET}"
    finally:
        server.kill()
        server.join()


def _serve(ready: Any) -> None:
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    ready.put(f"http://{host}:{port}")
    time.sleep(10**6)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", UnstableSpecificationWarning)
    warnings.filterwarnings("ignore", message="Consolidated metadata")
    with object_store() as bucket, tempfile.TemporaryDirectory() as folder:
        roots = (("disk", folder), ("S3", bucket))
        for cells in asked.cells:
            data = dataset(cells)
            print(f"{cells} cells, {data.nbytes / 1e6:.1f} MB in memory")
            for where, root in roots:
                for number, way in enumerate(ways()):
                    compare(way, where, f"{root}/{cells}-{number}", data, asked.repeats)
        data = dataset(min(asked.cells))
        for where, root in roots:
            for number, way in enumerate(ways()):
                place = f"{root}/killed-{number}"
                whole, goes_on = killed(number, place, data, asked.kills)
                print(
                    f"  {where:4} {way.name:16} killed in mid-write: one version in {whole} of "
                    f"{asked.kills}, written again in {goes_on}; {size(place)[0]} files",
                    flush=True,
                )


if __name__ == "__main__":
    main()
