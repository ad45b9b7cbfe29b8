"""Families of the user's own queries: from files, or from a Python function."""

from pathlib import Path

import numpy as np
import scipy

from workloads import user_code
from workloads.errors import WorkloadError
from workloads.family import Family
from workloads.given import from_matrix, load
from workloads.parameters import FilePath, FunctionName, nearest
from workloads.queries import from_queries
from workloads.workload import Workload


@Family.of("file")
def matrix_file(path: FilePath, array: str | None = None) -> Workload:
    """The matrix in a .npy or .npz file, dense or sparse.

    ``array`` names the array to use if a .npz file contains several.
    """
    content = load(path)
    if isinstance(content, np.ndarray):
        return from_matrix(content, "file")
    if array is None and {"format", "shape"} <= content.keys():
        try:
            sparse = scipy.sparse.csr_array(scipy.sparse.load_npz(Path(path).expanduser()))
        except (OSError, ValueError, KeyError) as error:
            raise WorkloadError(
                f"workload 'file': {path!r} has no valid sparse matrix ({error}); write it with "
                "scipy.sparse.save_npz",
                "path",
            ) from None
        return from_matrix(sparse, "file")
    names = list(content)
    chosen = names[0] if array is None and len(names) == 1 else array
    if chosen not in names:
        raise WorkloadError(
            f"workload 'file': {path!r} holds {len(names)} arrays, and array is {array!r}; "
            f"{nearest(array, names)}",
            "array",
        )
    return from_matrix(content[chosen], "file")


@Family.of("csv")
def csv_file(queries: FilePath, domain: FilePath) -> Workload:
    """The queries in the rows of a CSV file, over the domain that a YAML file describes.

    With the targets rule ``stated``, the targets come from the CSV file too.
    """
    return from_queries(queries, domain, names_files=False)


@Family.of("entry-point", runs_code=True)
def entry_point(function: FunctionName, arguments: dict[str, object] | None = None) -> Workload:
    """The matrix or workload returned by a Python function of your own, named module:function."""
    result = user_code.call("workload 'entry-point'", function, arguments=arguments or {})
    return result if isinstance(result, Workload) else from_matrix(result, "entry-point")
