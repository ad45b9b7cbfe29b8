"""Checks that workers have the code, the versions and the user's modules that tasks need."""

import importlib
import sys
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sweep.errors import ClusterError, first_line
from sweep.experiment.files import find_module_file
from sweep.store import code
from sweep.store.folder import WorkerStore

if TYPE_CHECKING:
    from distributed import Client

ANSWER_SECONDS = 10.0
"""Seconds for all workers to import the project and the user's modules and to answer.

Imports from a shared disk take seconds; a worker that needs longer is checked with its first task.
"""


def check_workers(
    client: "Client", worker_store: WorkerStore, modules: Collection[str] = ()
) -> None:
    """Refuse a cluster if a worker has code or versions other than required, or lacks a module.

    A user's module that is a single file is sent to workers that lack it, and to workers that join
    later.

    Parameters
    ----------
    client : distributed.Client
        Client of the cluster. Workers that join later are checked with their first task. If a
        worker does not answer within ten seconds, or the scheduler is lost, all workers are checked
        with their first task.
    worker_store : WorkerStore
        The store as workers see it, with the required code and versions.
    modules : collection of str
        The names of the modules that contain the user's functions.

    Raises
    ------
    ClusterError
        If a worker has code or versions other than required, or lacks a module that cannot be sent
        to it.
    """
    from distributed.diagnostics.plugin import UploadFile

    ask = partial(client.run, _find_difference, worker_store, modules, on_error="return")
    sent = set[str]()
    while True:
        try:
            replies = client.sync(ask, callback_timeout=ANSWER_SECONDS)
        except OSError:  # no answer in time, or the scheduler is lost
            return
        answers = sorted(replies.items())  # a worker without differences returns an empty text
        wrong = [pair for pair in answers if pair[1] and not isinstance(pair[1], OSError)]
        if not wrong:
            return
        address, reply = wrong[0]
        if isinstance(reply, str):
            raise ClusterError(f"worker {address}: {reply}")
        name = reply.name or "" if isinstance(reply, ModuleNotFoundError) else ""
        file = _find_single_file(name)
        if file is None or name in sent:
            raise ClusterError(f"worker {address}: {explain_unreadable(reply)}") from reply
        client.register_plugin(UploadFile(str(file), load=False), name=f"sweep-module-{name}")
        sent.add(name)


def _find_difference(worker_store: WorkerStore, modules: Collection[str]) -> str:
    """Say how this worker's code or versions differ from the command's; empty text if they agree.

    Raises ModuleNotFoundError if a module is missing.
    """
    importlib.invalidate_caches()
    for name in modules:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            raise
        except BaseException:
            continue  # the cells that use the module fail with this error
    return code.worker_difference(worker_store.code, worker_store.versions)


def _find_single_file(name: str) -> Path | None:
    """Return the file of a user's module; None if it is installed or belongs to a package."""
    file = Path(find_module_file(name) or "")
    installed = {"site-packages", "dist-packages"} & set(file.parts)
    importable = file.name == f"{name}.py" and name not in sys.stdlib_module_names
    return file if importable and not installed else None


def explain_unreadable(error: BaseException) -> str:
    """Return a sentence that tells the user why a worker cannot read its tasks."""
    absent = error.name if isinstance(error, ModuleNotFoundError) else None
    if absent and absent.partition(".")[0] != "sweep":
        return (
            f"it has no module {absent!r}; add the module's folder to the PYTHONPATH of the "
            "workers, or install it there, and start them again"
        )
    return (
        f"it cannot read its tasks ({type(error).__name__}: {first_line(error)}); install the same "
        "version of this project there, and the modules that your own mechanisms import, and start "
        "it again"
    )
