"""The engine with which xarray opens a store, given its folder.

    xarray.open_dataset("results/vldb-table4", engine="sweep")
    xarray.open_datatree("results/vldb", engine="sweep")

The engine reads the newest dataset completely into memory, because a running sweep would replace
the files of a dataset that is opened lazily.
"""

from collections.abc import Iterable
from os import PathLike
from pathlib import Path

import xarray as xr
from xarray.backends import BackendEntrypoint

from sweep.errors import StoreError


class StoreBackend(BackendEntrypoint):
    """xarray's backend for ``engine="sweep"``, an entry point of the group ``xarray.backends``."""

    description = "Open the dataset of a sweep's store (fitness-sweep)"
    supports_groups = True

    def guess_can_open(self, filename_or_obj: object) -> bool:
        """Return whether the argument is a store's folder; if it is, ``engine`` may be omitted."""
        return (
            isinstance(filename_or_obj, str | PathLike)
            and (Path(filename_or_obj) / "store.json").is_file()
        )

    def open_dataset(
        self,
        filename_or_obj: object,
        *,
        drop_variables: str | Iterable[str] | None = None,
        group: str | None = None,
    ) -> xr.Dataset:
        """Open the dataset of the named group, or of the only group if the store has just one.

        Parameters
        ----------
        filename_or_obj : str or path-like
            The store's folder.
        drop_variables : str or iterable of str, optional
            Variables to leave out.
        group : str, optional
            The group to open if the store has several groups; None if the store has only one.

        Raises
        ------
        StoreError
            If the folder is not a store, has no dataset yet, has no group of that name, or has
            several groups and ``group`` is missing.
        """
        tree = self.open_datatree(filename_or_obj, drop_variables=drop_variables)
        parts = dict(tree.children) or {"": tree}
        name = (group or "").strip("/")
        if name not in parts:
            raise StoreError(
                f"store {str(filename_or_obj)!r} has no group {name!r}; expected one of: "
                f"{', '.join(map(repr, parts))} as group=..., or "
                'xarray.open_datatree(..., engine="sweep")'
            )
        return parts[name].to_dataset()

    def open_datatree(
        self, filename_or_obj: object, *, drop_variables: str | Iterable[str] | None = None
    ) -> xr.DataTree:
        """Open the datasets of all groups as one tree; a single group is the tree's root."""
        from sweep.dataset.reading import open_dataset
        from sweep.report import notebook

        notebook.register()
        without = [drop_variables] if isinstance(drop_variables, str) else drop_variables or ()
        newest = open_dataset(str(filename_or_obj), tuple(without))
        return newest if isinstance(newest, xr.DataTree) else xr.DataTree(newest)
