"""Checks that workers have the same code and the same versions as the command."""

from typing import Any

from sweep.errors import ClusterError
from sweep.store import code, edits, versions
from sweep.worker.broadcast import answers


def check_workers(client: Any, *, allow_mixed: bool) -> None:
    """Refuse a cluster if one of its workers has other code or versions than this process.

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
        If there is one, or the scheduler does not answer.
    """
    expected = "" if allow_mixed else versions.ours()
    try:
        replies = answers(client, difference, code.digest(), expected)
    except TimeoutError as error:
        address = client.scheduler.address
        raise ClusterError(f"scheduler {address} does not answer; start it again") from error
    for address, reply in sorted(replies.items()):
        if isinstance(reply, OSError):
            continue  # dead by now, or stopped
        if isinstance(reply, BaseException):
            raise ClusterError(
                f"worker {address} cannot say which code it has ({type(reply).__name__}: {reply}); "
                "install the same version of this project there and start its workers again"
            ) from reply
        if reply:
            raise ClusterError(f"worker {address}: {reply}")


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
    edits.note_imported()
    other_code = code.difference(expected_code)
    if other_code or not expected_versions:
        return other_code
    return versions.difference(expected_versions)
