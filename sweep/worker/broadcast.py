"""Questions to all workers of a cluster, with no wait for those that are stopped or dying."""

import asyncio
from collections.abc import Callable, Collection
from typing import Any

_SECONDS = 10.0


def answers(
    client: Any, ask: Callable[..., Any], *args: Any, workers: Collection[str] | None = None
) -> dict[str, Any]:
    """What a function returns in the process of every worker, by the worker's address.

    Parameters
    ----------
    client : distributed.Client
        Of the cluster.
    ask : callable
        Called with ``args`` in every worker's event loop, also while the worker is solving.
    *args
        Its arguments.
    workers : collection of str, optional
        The addresses to ask, as far as they are there; all by default.

    Returns
    -------
    dict of str to Any
        In place of an answer the error why there is none: a TimeoutError after ten seconds of
        silence, an OSError if the worker is gone, or what the function raised.

    Raises
    ------
    TimeoutError
        If the scheduler does not answer.
    """

    async def answer(address: str) -> Any:
        call = client.run(ask, *args, workers=[address], on_error="return")
        try:
            return (await asyncio.wait_for(call, _SECONDS))[address]
        except Exception as error:
            return error

    async def all_answers() -> dict[str, Any]:
        present = await asyncio.wait_for(client.scheduler.ncores(), _SECONDS)
        addresses = [address for address in present if workers is None or address in workers]
        return dict(zip(addresses, await asyncio.gather(*map(answer, addresses)), strict=True))

    by_address: dict[str, Any] = client.sync(all_answers)
    return by_address
