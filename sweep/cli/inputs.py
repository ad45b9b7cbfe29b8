"""What commands are given: a cluster, code of the user's, a store."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sweep.cluster.specification import ClusterSpec


def cluster_of(path: Path | None) -> "ClusterSpec | None":
    """The cluster of a ``--cluster`` file; None if there is none."""
    if path is None:
        return None
    from sweep.cluster import specification

    import_from_here()
    return specification.load(path)


def import_from_here() -> None:
    """Make modules of the current folder importable, for code that the user has named."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)


def default_store(name: str) -> str:
    """The store of an experiment if none is given."""
    return f"results/{name}"
