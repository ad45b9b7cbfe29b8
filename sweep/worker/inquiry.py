"""Questions to all workers of a cluster; one that is stopped or dying keeps no driver waiting."""

import asyncio
from collections.abc import Callable, Collection
from typing import Any

_SECONDS = 10.0


def answers(
    client: Any, ask: Callable[..., Any], *about: Any, workers: Collection[str] | None = None
) -> dict[str, Any]:
    """What a function returns in the process of every worker, by the worker's address.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    ask : callable
        Called with ``about`` in every worker's event loop, also while the worker is solving.
    *about
        Its arguments.
    workers : collection of str, optional
        The addresses to ask, as far as they are there; all by default.

    Returns
    -------
    dict of str to Any
        In place of an answer the error why there is none: a TimeoutError after ten seconds of
        silence, an OSError if the worker is gone, or what the function raised.
    """

    async def answer(address: str) -> Any:
        asked = client.run(ask, *about, workers=[address], on_error="return")
        try:
            return (await asyncio.wait_for(asked, _SECONDS))[address]
        except Exception as error:
            return error

    async def all_answers() -> dict[str, Any]:
        present = await client.scheduler.ncores()
        addresses = [one for one in present if workers is None or one in workers]
        return dict(zip(addresses, await asyncio.gather(*map(answer, addresses)), strict=True))

    found: dict[str, Any] = client.sync(all_answers)
    return found
