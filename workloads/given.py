"""Workloads from a user's matrices or Kronecker factors, and checks of users' arrays and files."""

import zlib
from collections.abc import Sequence
from zipfile import BadZipFile, ZipFile, is_zipfile

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from workloads.errors import WorkloadError
from workloads.operators import Array, Explicit, Kronecker, Matrix
from workloads.parameters import LARGEST_FILE_BYTES, raised_by, regular
from workloads.workload import Workload, in_blocks

_NOT_LOADED = (OSError, ValueError, EOFError, RuntimeError, MemoryError, BadZipFile, zlib.error)
"""What numpy, zipfile and zlib raise for files that are damaged or of another kind."""


def load(path: str) -> NDArray[np.generic] | dict[str, NDArray[np.generic]]:
    """Load the array in a .npy file, or the arrays in a .npz file by name; refuse pickled objects.

    Raises
    ------
    WorkloadError
        If the file is not a regular file, was not written by numpy, or is too large. The file, its
        unpacked content and each array as float64 may take at most `LARGEST_FILE_BYTES` each.
    """
    try:
        file = regular(path)
        if is_zipfile(file):
            with ZipFile(file) as packed:
                _check_bytes(sum(member.file_size for member in packed.infolist()))
        loaded = np.load(file, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            _check_bytes(8 * loaded.size)
            return loaded
        arrays = {name: loaded[name] for name in loaded}
        _check_bytes(8 * max(map(np.size, arrays.values()), default=0))
        return arrays
    except _NOT_LOADED as error:
        pickled = "pickle" in str(error)  # numpy's own message would advise allowing pickles
        reason = "it is not a numpy file" if pickled else getattr(error, "strerror", None) or error
        raise WorkloadError(
            f"file {path!r} cannot be read ({reason}); expected a .npy or .npz file that "
            "numpy.save, numpy.savez or scipy.sparse.save_npz wrote"
        ) from None


def _check_bytes(count: int) -> None:
    if count > LARGEST_FILE_BYTES:
        raise OSError(
            f"its arrays take {count:,} bytes, more than the limit of {LARGEST_FILE_BYTES:,} "
            f"{raised_by('LARGEST_FILE_BYTES')}"
        )


def masked_count(values: object) -> int:
    """Count the masked entries of an array or of a (nested) list of arrays.

    Callers refuse masked entries, because numpy silently drops the mask when it makes a plain
    array.
    """
    if isinstance(values, np.ma.MaskedArray):
        return int(np.ma.getmaskarray(values).sum())
    if isinstance(values, list | tuple):
        return sum(masked_count(item) for item in values if not isinstance(item, int | float))
    return 0


def real_numbers(values: ArrayLike) -> NDArray[np.float64]:
    """Return an array of floats; raise TypeError, ValueError or OverflowError if it cannot be one.

    Complex numbers are refused, because numpy would drop their imaginary parts.
    """
    if np.iscomplexobj(values):
        raise TypeError("some are complex")
    return np.array(values, dtype=np.float64)


def from_matrix(
    matrix: "ArrayLike | scipy.sparse.sparray | scipy.sparse.spmatrix", name: str = "matrix"
) -> Workload:
    """Make a workload from a numpy array or a scipy.sparse matrix.

    The matrix is copied, so that later changes to it do not affect the workload.

    Parameters
    ----------
    matrix : array_like or scipy.sparse matrix, shape (m, d)
        One row for each linear query.
    name : str
        The workload's name in messages and results.

    Raises
    ------
    WorkloadError
        If the matrix is not two-dimensional and real, is empty, has masked, NaN or infinite
        entries, or has only zero entries.
    """
    array: Matrix = matrix if scipy.sparse.issparse(matrix) else _as_array(matrix, name)
    if array.dtype.kind not in "biuf":
        raise WorkloadError(
            f"workload {name!r}: entries of type {array.dtype} are not real numbers; "
            "give an array of integers or floats"
        )
    checked: Matrix
    sparse = scipy.sparse.issparse(array)
    if sparse:
        checked = scipy.sparse.csr_array(array.astype(np.float64, copy=False), copy=True)
        checked.sum_duplicates()
    else:
        checked = np.array(array, dtype=np.float64, order="C")
    operator = Explicit(checked)
    for part in operator.arrays:
        part.flags.writeable = False
    if checked.ndim != 2 or 0 in checked.shape:
        raise WorkloadError(
            f"workload {name!r} has shape {checked.shape}; expected a matrix with at least one "
            "query (row) and one domain cell (column)"
        )
    values = operator.arrays[0]
    if not np.all(np.isfinite(values)):
        entries = scipy.sparse.coo_array(checked)
        at = int(np.flatnonzero(~np.isfinite(entries.data))[0])
        raise WorkloadError(
            f"workload {name!r} has a NaN or infinite entry at row {entries.coords[0][at]}, column "
            f"{entries.coords[1][at]} (counted from 0); every entry must be finite"
        )
    if not np.any(values):
        raise WorkloadError(f"workload {name!r} has only zero entries: it asks nothing")
    return Workload(name, operator)


def from_factors(
    terms: "Sequence[Sequence[ArrayLike | scipy.sparse.sparray | scipy.sparse.spmatrix]]",
    name: str = "products",
    names: Sequence[str] | None = None,
) -> Workload:
    """Make a workload of stacked Kronecker products without computing their matrices.

    Parameters
    ----------
    terms : sequence of sequences of array_like or scipy.sparse matrix
        The factors of each product, one for each attribute; the last attribute varies fastest in
        the order of the domain cells. Each row of a factor is a query over the attribute's values:
        an identity matrix asks for every value separately, a row of ones for the sum of all.
    name : str
        The workload's name in messages and results.
    names : sequence of str, optional
        Names of the products, each of which is a group of queries. The default names are ``"1"``,
        ``"2"``, ...

    Returns
    -------
    Workload
        A workload whose product structure mechanisms can use; the domain may have any size.

    Raises
    ------
    WorkloadError
        If there is no product, a product has no factors, a factor is not a valid matrix (see
        `from_matrix`), or the attributes of two products differ in size.
    """
    checked: dict[int, Matrix] = {}
    for at, term in enumerate(terms, 1):
        for axis, factor in enumerate(term):
            if id(factor) not in checked:  # terms often share factors
                title = f"{name}, factor {axis + 1} of product {at}"
                checked[id(factor)] = from_matrix(factor, title).matrix
    products = tuple(tuple(checked[id(factor)] for factor in term) for term in terms)
    return stacked_products(name, products, names or [str(at + 1) for at in range(len(products))])


def stacked_products(
    name: str, products: Sequence[tuple[Matrix, ...]], titles: Sequence[str]
) -> Workload:
    """Make a workload of stacked Kronecker products whose factors are already checked.

    Each product is a group of queries, named by its entry in ``titles``.

    Raises
    ------
    WorkloadError
        If there is no product, a product has no factors, or two products have attributes of
        different sizes.
    """
    sizes = [tuple(int(factor.shape[1]) for factor in product) for product in products]
    if not sizes or not all(sizes):
        raise WorkloadError(f"workload {name!r}: no products, or a product without factors")
    for title, size in zip(titles, sizes, strict=False):
        if size != sizes[0]:
            raise WorkloadError(
                f"workload {name!r}: product {title!r} is over attributes of {size} values, the "
                f"first over {sizes[0]}; all need the same attributes"
            )
    operator = Kronecker(tuple(products))
    return in_blocks(name, operator, titles, operator.term_sizes)


def _as_array(matrix: object, name: str) -> Array:
    missing = masked_count(matrix)
    if missing:
        raise WorkloadError(
            f"workload {name!r}: {missing} entries are masked; a query weighs every cell: fill "
            "them with numbers (matrix.filled(0)) or leave the cells out"
        )
    try:
        return np.asarray(matrix)
    except ValueError as error:
        raise WorkloadError(f"workload {name!r} is not a matrix: {error}") from None
