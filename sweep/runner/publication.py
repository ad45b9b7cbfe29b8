"""The dataset on disk, which follows the journal during a run."""

import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sweep.errors import DatasetError
from sweep.events import DatasetNotWritten, DatasetWritten, Listener
from sweep.plan.stored import StoredExperiment
from sweep.store import code
from sweep.store.journal import Journal

if TYPE_CHECKING:
    from sweep.dataset.build import Terms

_FLUSH_SECONDS = 2.0
_FLUSH_SHARE = 20.0
_TRY_AGAIN_SECONDS = 30.0


class Publication:
    """Derives the dataset from the journal at intervals.

    Parameters
    ----------
    stored : StoredExperiment
        The experiment and its store.
    tell : Listener
        Called with an event when the dataset is written, or cannot be.

    Attributes
    ----------
    damaged : bool
        Whether the dataset on disk must be derived again even if it is up to date.
    unwritten : DatasetError, optional
        Why it could not be written the last time; None if it could.
    """

    def __init__(self, stored: StoredExperiment, tell: Listener) -> None:
        self._stored, self._tell = stored, tell
        self.damaged = stored.store.dataset.damage is not None
        self.unwritten: DatasetError | None = None
        self._next = 0.0

    @property
    def is_due(self) -> bool:
        """Whether enough time has passed since the last one."""
        return time.monotonic() >= self._next

    def follow(self, journal: Journal) -> None:
        """Derive the dataset, unless the one on disk is up to date and sound.

        If the disk refuses it, the run continues; the reason is reported and kept in `unwritten`.
        """
        store = self._stored.store.dataset
        state = f"{_deriving_code()}:{self._stored.experiment.digest}:{journal.state}"
        if journal.ledger.altered:
            state += ":altered"
        if store.state == state and not self.damaged:
            return
        from sweep.dataset import build

        started = time.perf_counter()
        dataset = build.derived(self._stored.grids, self._terms, journal.ledger)
        dataset.attrs["journal_state"] = state
        try:
            path = store.publish(lambda folder: build.write(dataset, folder))
        except DatasetError as error:
            self._next = time.monotonic() + _TRY_AGAIN_SECONDS
            if str(error) != str(self.unwritten):
                self._tell(DatasetNotWritten(str(error)))
            self.unwritten = error
            return
        self.damaged, self.unwritten = False, None
        seconds = time.perf_counter() - started
        self._next = time.monotonic() + max(_FLUSH_SECONDS, _FLUSH_SHARE * seconds)
        self._tell(DatasetWritten(str(path), seconds))

    @property
    def _terms(self) -> "Terms":
        """What of the experiment the derivation depends on."""
        from sweep.dataset.build import Terms

        experiment = self._stored.experiment
        attributes = {
            "title": experiment.title or experiment.name,
            "source": experiment.source,
            "experiment": experiment.name,
            "experiment_text": experiment.text,
            "experiment_digest": experiment.digest,
            "reference": experiment.reference,
        }
        return Terms(
            epsilon=experiment.epsilon,
            delta=experiment.delta,
            reference=experiment.reference,
            attributes=attributes,
        )


@cache
def _deriving_code() -> str:
    """The hash of the code that makes a dataset of a journal: it judges, and converts budgets."""
    return code.digest_of([Path(__file__).parents[1] / "dataset"])[:8] + code.digest()[:8]
