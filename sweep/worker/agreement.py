"""Workers that solve with what the command has: the same code and the same versions."""

from typing import Any

from sweep.errors import ClusterError
from sweep.store import closure, code, versions
from sweep.worker.inquiry import answers


def check_workers(client: Any, *, allow_mixed: bool) -> None:
    """Refuse a cluster of which a worker has other code, or other versions, than this process.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster. Workers that join later, or do not answer, are checked with their first
        task.
    allow_mixed : bool
        Whether versions may differ; code may not.

    Raises
    ------
    ClusterError
        If there is one.
    """
    expected = "" if allow_mixed else versions.ours()
    asked = answers(client, difference, code.digest(), expected)
    for address, said in sorted(asked.items()):
        if isinstance(said, OSError):
            continue  # died meanwhile, or stopped
        if isinstance(said, BaseException):
            raise ClusterError(
                f"worker {address} cannot say which code it has ({type(said).__name__}: {said}); "
                "install the same version of this project there and start its workers again"
            ) from said
        if said:
            raise ClusterError(f"worker {address}: {said}")


def difference(expected_code: str, expected_versions: str) -> str:
    """How this process differs from the command, in a sentence; empty if it does not.

    It also notes what is imported, so that an edit is noticed when it is used.

    Parameters
    ----------
    expected_code : str
        As `sweep.store.code.digest` has it.
    expected_versions : str
        As `sweep.store.versions.ours` has them; empty if any will do.
    """
    closure.note_imported()
    other_code = code.difference(expected_code)
    if other_code or not expected_versions:
        return other_code
    return versions.difference(expected_versions)
