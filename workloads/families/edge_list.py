"""Any query graph, from its edges."""

from workloads.errors import WorkloadError
from workloads.family import Family
from workloads.graphs import QueryGraph, from_edges
from workloads.parameters import FilePath, regular

LARGEST_LIST_BYTES = 2**26
"""The largest file of edges."""


def build(path: FilePath | None = None, edges: list[list[int]] | None = None) -> QueryGraph:
    """The pairs of adjacent answers, from a text file or given as ``edges``.

    The file has one edge on a line, its two answers apart by blanks or a comma; what follows
    a # is a comment.
    """
    if (path is None) is (edges is None):
        raise WorkloadError("workload 'edge-list': give either a path or the edges, not both")
    return from_edges(edges if edges is not None else _read(str(path)))


def _read(path: str) -> list[list[str]]:
    try:
        text = regular(path, LARGEST_LIST_BYTES).read_text(encoding="utf-8")
    except (OSError, ValueError, RuntimeError) as error:
        raise WorkloadError(
            f"workload 'edge-list': {path!r} cannot be read ({error}); expected a text file with "
            "two answers on each line"
        ) from error
    lines = (line.partition("#")[0].replace(",", " ").split() for line in text.splitlines())
    return [line for line in lines if line]


FAMILY = Family(
    "edge-list",
    "query graph with any edges, from a text file or a list",
    build,
    source="POST 2013, Definition 3",
    kind="graph",
)
