"""What commands are given: a cluster, code of the user's, a store."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sweep.runner.clusters import ClusterSpec


def cluster_of(path: Path | None) -> "ClusterSpec | None":
    """The cluster of a ``--cluster`` file; None if there is none."""
    from sweep.runner import clusters

    if path is None:
        return None
    import_from_here()
    return clusters.load(path)


def import_from_here() -> None:
    """Make modules of the current folder importable, for code that the user has named."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)


def default_store(name: str) -> str:
    """The store of an experiment if none is given."""
    return f"results/{name}"
