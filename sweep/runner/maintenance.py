"""Upkeep of stores: merge them, forget cells, join journal segments, pack a store into a file."""

import io
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Literal

import numpy as np

from sweep import events
from sweep.errors import ExperimentError, StoreError, SweepError
from sweep.experiment.document import read_document
from sweep.experiment.loading import parse_experiment
from sweep.grid.expansion import lay_out
from sweep.runner.selection import select_cells
from sweep.runner.session import open_session
from sweep.state.stored import StoredExperiment, load_stored, select_unfinished
from sweep.store import arrays
from sweep.store.folder import POINTER, RESULTS, Store, create, open_
from sweep.store.journal import Journal
from sweep.store.keys import to_texts
from sweep.store.lease import LEASE, check_free
from sweep.store.ledger import Ledger
from sweep.store.paths import Location, locate, store_errors, unreadable
from sweep.store.records import ForgottenRecord


def merge(
    stores: Sequence[str | Path],
    into: str | Path,
    *,
    listen: events.Listener | None = None,
) -> int:
    """Merge the results of several stores.

    The source stores are not changed. If several of them have solved a cell, the result of the
    store named last is used. The merged store gets the experiment with the most cells, and the
    blocks of those experiments that have further cells. Results from an earlier merge stay, even if
    their source store has forgotten them since.

    Parameters
    ----------
    stores : sequence of str or Path
        The stores, on disks or in object stores.
    into : str or Path
        The store that receives the results; created if it does not exist.
    listen : callable, optional
        Called with every event.

    Returns
    -------
    int
        Number of cells that now have a final result.

    Raises
    ------
    StoreError
        If one of the paths is not a store, a journal is damaged, or ``into`` is one of ``stores``.
    ExperimentError
        If the experiments do not fit into one.
    """
    target = locate(into)
    sources = [load_stored(store) for store in stores]
    if any(source.store.path.resolve() == target.resolve() for source in sources):
        raise StoreError(f"store {str(target)!r} cannot be merged into itself; give another --into")
    involved = [*sources, load_stored(into)] if (target / "experiment.yaml").is_file() else sources
    united = reduce(_join, sorted(involved, key=lambda stored: -len(stored.cells)))
    journals = [Journal(source.store.journal) for source in sources]
    for journal in journals:
        journal.refresh()
        for damage in journal.damaged.values():
            raise StoreError(damage)
    target_store = create(target, united.experiment.name)
    stored = replace(united, store=target_store)
    with open_session(stored, listen) as session:
        with store_errors(target_store.path):
            for place, journal in enumerate(journals):
                journal.copy(target_store.journal, f"{session.run}-{place:04d}")
            merged = session.refresh()
            for source, journal in zip(sources, journals, strict=True):
                _copy_arrays(source.store.path, journal.ledger, target_store.path, merged)
        return len(stored.cells) - len(select_unfinished(stored.cells, merged))


def _join(whole: StoredExperiment, part: StoredExperiment) -> StoredExperiment:
    """Return ``whole``; if it lacks cells of ``part``, with the blocks of ``part`` appended.

    Raises
    ------
    ExperimentError
        If the two have different cells with the same labels, or a value that is set for the whole
        of an experiment decides its cells and differs.
    """
    if (whole.cells.index.positions(part.cells.ids) >= 0).all():
        return whole
    file = f"{whole.experiment.name}.yaml"
    document, added = (read_document(stored.experiment.text, file) for stored in (whole, part))
    blocks = document.content["blocks"]
    blocks += [block for block in added.content["blocks"] if block not in blocks]
    experiment = parse_experiment(document.text(), file)
    joined = replace(whole, experiment=experiment, grids=lay_out(experiment))
    if missing := int((joined.cells.index.positions(part.cells.ids) < 0).sum()):
        raise ExperimentError(
            f"store {str(part.store.path)!r} has {missing} cells that the experiment of "
            f"{str(whole.store.path)!r} does not have even with its blocks: a value that is set "
            "for all blocks, such as simulate, differs; 'sweep run' one of them with the value of "
            "the other, then merge again"
        )
    return joined


def forget(
    store: str | Path,
    where: str | None,
    *,
    listen: events.Listener | None = None,
) -> int:
    """Forget everything that is recorded about some cells.

    Parameters
    ----------
    store : str or Path
        The store.
    where : str, optional
        A condition as for `sweep.rerun`; the cells for which it holds become pending. By default,
        the cells that the experiment no longer has are forgotten.
    listen : callable, optional
        Called with every event.

    Returns
    -------
    int
        Number of cells that were forgotten.

    Raises
    ------
    SweepError
        If the condition is not valid or holds for no cell.
    StoreError
        If ``store`` is not a store, or is in use.
    """
    stored = load_stored(store)
    with open_session(stored, listen) as session:
        if where is None:
            chosen = session.journal.ledger.others(stored.cells.ids)
        else:
            ids = select_cells(stored, session.journal.ledger, where).ids
            chosen = to_texts(ids[session.journal.ledger.rows(ids) > 0])
        if chosen:
            session.write(f"{session.run}-forgotten", [ForgottenRecord(cell) for cell in chosen])
            session.remove_forgotten_arrays()
    return len(chosen)


def compact(store: str | Path, *, listen: events.Listener | None = None) -> int:
    """Join all journal segments into one, which is faster to read and copy.

    Parameters
    ----------
    store : str or Path
        The store.
    listen : callable, optional
        Called with every event.

    Returns
    -------
    int
        The number of segments that were joined.

    Raises
    ------
    StoreError
        If ``store`` is not a store, is in use, or cannot be written.
    """
    stored = load_stored(store)
    with open_session(stored, listen) as session, store_errors(stored.store.path):
        return session.journal.compact(session.run)


def pack(store: str | Path, file: Path) -> int:
    """Write a store into one file to send or archive; ``tar xf`` unpacks it anywhere.

    Parameters
    ----------
    store : str or Path
        The store, on a disk or in an object store; unpacked, it is a store on a disk.
    file : Path
        The file to write: ``NAME.tar``, or ``NAME.tar.gz`` to compress it.

    Returns
    -------
    int
        Size of the file in bytes.

    Raises
    ------
    SweepError
        If the file already exists, or has a suffix other than these two.
    StoreError
        If ``store`` is not a store, is in use or cannot be read, or if the file cannot be written.
    """
    opened = open_(store)
    Journal(opened.journal).refresh()  # raises an error if the folder is missing or cannot be read
    if not file.name.endswith((".tar", ".tar.gz")):
        raise SweepError(f"file {str(file)!r} has another suffix; expected .tar or .tar.gz")
    if file.exists():
        raise SweepError(f"file {str(file)!r} already exists; give another name")
    name = file.name.removesuffix(".gz").removesuffix(".tar")
    form: Literal["w", "w:gz"] = "w:gz" if file.suffix == ".gz" else "w"

    with store_errors(locate(file)), locate(file).writing() as stream:
        check_free(opened.path)
        with tarfile.open(fileobj=stream, mode=form) as archive:
            _add_files(archive, opened, name)
        check_free(opened.path)
    return file.stat().st_size


def _copy_arrays(source: Location, ledger: Ledger, target: Location, merged: Ledger) -> None:
    """Copy the arrays of solves whose merged result comes from ``source`` or is not ``ok``."""
    solves = np.array(arrays.list_solves(source), dtype=np.str_)
    theirs, ours = ledger.solved(solves), merged.solved(solves)
    # the starting time identifies one attempt at a solve, which may serve several cells
    same = ledger.numbers("started", theirs) == merged.numbers("started", ours)
    for solve in solves[(ours == 0) | same].tolist():
        arrays.locate_file(target, solve).write_bytes(
            arrays.locate_file(source, solve).read_bytes()
        )


def _add_files(archive: tarfile.TarFile, store: Store, name: str) -> None:
    """Add a store's files to the archive, as a folder called ``name``."""
    place, remedy = store.path.resolve(), "let it be read, and pack the store again"
    try:
        files = place.files()
    except OSError as error:
        raise unreadable(place, error, remedy) from error
    for inside, path in files.items():
        if inside == POINTER or inside.startswith(LEASE):
            continue
        try:
            content = path.read_bytes()
        except OSError as error:
            raise unreadable(path, error, remedy) from error
        member = tarfile.TarInfo(f"{name}/{inside}")
        member.size, member.mtime = len(content), path.stat().st_mtime
        archive.addfile(member, io.BytesIO(content))
    if store.dataset.exists:
        link, version = tarfile.TarInfo(f"{name}/{RESULTS}"), store.dataset.path.resolve()
        link.type, link.linkname = tarfile.SYMTYPE, str(version.relative_to(place))
        archive.addfile(link)
