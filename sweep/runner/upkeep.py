"""Upkeep of stores: merge several, forget cells, make one segment of many, pack for sending."""

import io
import tarfile
import uuid
from collections.abc import Sequence
from pathlib import Path

from sweep import events
from sweep.errors import StoreError, SweepError
from sweep.experiment.schema import Experiment
from sweep.grid.expansion import lay_out
from sweep.plan.stored import StoredExperiment, of_store, unfinished
from sweep.runner.selection import selected
from sweep.runner.session import recorded
from sweep.store import disk
from sweep.store.dataset_folder import POINTER, RESULTS
from sweep.store.disk_errors import explained
from sweep.store.folder import Store, create, open_
from sweep.store.journal import COMPACT, Journal, write_segment
from sweep.store.lease import LEASE
from sweep.store.location import Location, located
from sweep.store.objects import ObjectPath
from sweep.store.records import ForgottenRecord


def merge(
    stores: Sequence[str | Path],
    into: str | Path,
    *,
    listen: events.Listener = events.ignore,
) -> int:
    """Bring the results of several stores of one experiment together.

    The stores stay as they are. Of a cell that several have solved, the result of the one named
    last counts. The experiment is that of the store whose cells include all others'. What was
    merged from a store before is replaced.

    Parameters
    ----------
    stores : sequence of str or Path
        The stores, on disks or in object stores.
    into : str or Path
        The store that receives them; created if there is none.
    listen : callable, optional
        Called with every event.

    Returns
    -------
    int
        Number of cells that have a record now.

    Raises
    ------
    StoreError
        If one of them is no store, or they belong to different experiments.
    SweepError
        If none of their experiments has all cells.
    """
    target = located(into)
    sources = [of_store(store) for store in stores]
    if any(source.store.path == target for source in sources):
        raise StoreError(f"store {str(target)!r} cannot be merged into itself; give another --into")
    known = [*sources, of_store(into)] if (target / "store.json").exists() else sources
    experiment = _widest(known)
    made = create(target, experiment.name)
    stored = StoredExperiment(experiment, lay_out(experiment), made)
    with recorded(stored, listen) as session:
        for source in sources:
            with explained(made.path):
                _copy_records(source, made.journal, session.run)
                _copy_arrays(source.store.path, made.path)
        everything = stored.cells
        return len(everything) - len(unfinished(everything, session.refresh()))


def forget(
    store: str | Path,
    where: str | None,
    *,
    listen: events.Listener = events.ignore,
) -> int:
    """Count nothing any more that was recorded of some cells.

    Parameters
    ----------
    store : str or Path
        The store.
    where : str, optional
        A condition as for `sweep.rerun`; those cells are pending then. By default the cells that
        are recorded but that the experiment no longer has.
    listen : callable, optional
        Called with every event.

    Returns
    -------
    int
        Number of cells.

    Raises
    ------
    SweepError
        If the condition is not valid or holds for no cell.
    StoreError
        If it is no store, or in use.
    """
    stored = of_store(store)
    with recorded(stored, listen) as session:
        if where is None:
            chosen = stored.hidden(session.ledger)
        else:
            chosen = [cell.id for cell in selected(stored, session.ledger, where)]
            rows = session.ledger.rows(chosen)
            chosen = [cell for cell, row in zip(chosen, rows, strict=True) if row >= 0]
        if chosen:
            session.write(f"{session.run}-forgotten", [ForgottenRecord(cell) for cell in chosen])
    return len(chosen)


def compact(store: str | Path, *, listen: events.Listener = events.ignore) -> int:
    """Put the records of all journal segments into one, which is faster to read and to copy.

    Parameters
    ----------
    store : str or Path
        The store.
    listen : callable, optional
        Called with every event.

    Returns
    -------
    int
        The number of segments before.

    Raises
    ------
    StoreError
        If it is no store, in use, or cannot be written.
    """
    stored = of_store(store)
    with recorded(stored, listen) as session, explained(stored.store.path):
        return session.journal.compact(session.run)


def pack(store: str | Path, file: Path) -> int:
    """Write a store into one file, to send or to archive: ``tar xf`` unpacks it anywhere.

    Parameters
    ----------
    store : str or Path
        The store, on a disk or in an object store; it is a store on a disk once unpacked.
    file : Path
        The file to write: ``NAME.tar``, or ``NAME.tar.gz`` to compress it.

    Returns
    -------
    int
        Bytes of the file.

    Raises
    ------
    SweepError
        If the file is there already, or has another suffix.
    StoreError
        If it is no store, in use, or the file cannot be written.
    """
    found = open_(store)
    if not file.name.endswith((".tar", ".tar.gz")):
        raise SweepError(f"file {str(file)!r} has another suffix; expected .tar or .tar.gz")
    if file.exists():
        raise SweepError(f"file {str(file)!r} is there already; give another name")
    name = file.name.removesuffix(".gz").removesuffix(".tar")
    partial = file.with_name(f".{file.name}.partial")
    with found.locked(), explained(file):
        try:
            with tarfile.open(partial, "w:gz" if file.suffix == ".gz" else "w") as archive:
                if isinstance(found.path, Path):
                    archive.add(found.path, name, filter=_without_lease)
                else:
                    _add_objects(archive, found, found.path, name)
            disk.rename(partial, file)
        finally:
            partial.unlink(missing_ok=True)
    return file.stat().st_size


def _widest(known: Sequence[StoredExperiment]) -> Experiment:
    names = sorted({one.experiment.name for one in known})
    if len(names) > 1:
        raise StoreError(
            f"the stores belong to different experiments ({', '.join(names)}); only stores of one "
            "experiment can be merged"
        )
    widest = max(known, key=lambda one: len(one.cells))
    for one in known:
        missing = int((widest.cells.places(one.cells.ids) < 0).sum())
        if missing:
            raise SweepError(
                f"store {str(one.store.path)!r} has {missing} cells that the experiment of "
                f"{str(widest.store.path)!r} does not have; 'sweep run' one of them with the "
                "values of both (Ctrl-C ends it as soon as it solves), then merge again"
            )
    return widest.experiment


def _copy_records(source: StoredExperiment, journal: Location, run: str) -> None:
    held = Journal(source.store.journal)
    held.refresh()
    mark = f"{COMPACT}{source.store.identity}"
    before = [name for name in disk.names(journal) if mark in name]
    name = f"{run}{mark}-{uuid.uuid4().hex[:8]}"
    write_segment(journal, name, held.records(), before)


def _copy_arrays(source: Location, target: Location) -> None:
    for file in disk.files(source / "arrays"):
        path: Location = target
        for part in str(file)[len(str(source)) + 1 :].split("/"):
            path = path / part
        if not path.exists():
            disk.put(path, file.read_bytes())


def _add_objects(archive: tarfile.TarFile, store: Store, place: ObjectPath, name: str) -> None:
    """Add a store of an object store as the folder that it would be on a disk."""
    for path in place.files():
        inside = path.relative_to(place)
        if str(inside) in (LEASE, POINTER):
            continue
        content = path.read_bytes()
        member = tarfile.TarInfo(f"{name}/{inside}")
        member.size, member.mtime = len(content), path.tagged()[1].timestamp()
        archive.addfile(member, io.BytesIO(content))
    if store.dataset.exists:
        link = tarfile.TarInfo(f"{name}/{RESULTS}")
        link.type, link.linkname = tarfile.SYMTYPE, str(store.dataset.path)[len(str(place)) + 1 :]
        archive.addfile(link)


def _without_lease(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if member.name.rpartition("/")[2] == LEASE else member
