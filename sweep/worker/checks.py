"""Checks that workers have the same code and the same versions as the command."""

from typing import Any

from sweep.errors import ClusterError, first_line
from sweep.store import code
from sweep.store.view import StoreView

_ANSWER_SECONDS = 10.0


def check_workers(client: Any, view: StoreView) -> None:
    """Refuse a cluster if one of its workers has other code or versions than this process.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster. Workers that join later are checked with their first task, and all of them
        if one does not answer in ten seconds.
    view : StoreView
        Sent with every task: the code and the versions of the command, and the user's mechanisms.

    Raises
    ------
    ClusterError
        If there is one.
    """
    try:
        replies = client.sync(_asked, client, view, callback_timeout=_ANSWER_SECONDS)
    except TimeoutError:
        return
    for address, reply in sorted(replies.items()):
        if isinstance(reply, OSError):
            continue  # dead by now
        if isinstance(reply, BaseException):
            raise ClusterError(f"worker {address}: {unreadable(reply)}") from reply
        if reply:
            raise ClusterError(f"worker {address}: {reply}")


async def _asked(client: Any, view: StoreView) -> dict[str, Any]:
    replies: dict[str, Any] = await client.run(difference, view, on_error="return")
    return replies


def unreadable(error: BaseException) -> str:
    """A sentence on a worker that cannot read what it is sent."""
    return (
        f"it cannot read its tasks ({type(error).__name__}: {first_line(error)}); install the same "
        "version of this project there, and what mechanisms of your own import, and start it again"
    )


def difference(view: StoreView) -> str:
    """How this process differs from the command, in a sentence; empty if it does not.

    Parameters
    ----------
    view : StoreView
        The code and the versions of the command; no versions if any will do.
    """
    return code.worker_difference(view.code, view.versions)
