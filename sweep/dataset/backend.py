"""The engine with which xarray opens a store, given its folder.

    xarray.open_dataset("results/vldb-table4", engine="sweep")
    xarray.open_datatree("results/vldb", engine="sweep")

The engine reads the newest dataset completely into memory, because a running sweep would replace
the files of a dataset that is opened lazily.
"""

from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

import xarray as xr
from xarray.backends import BackendEntrypoint

from sweep.errors import StoreError


class StoreBackend(BackendEntrypoint):
    """xarray's backend for ``engine="sweep"``, an entry point of the group ``xarray.backends``."""

    description = "Open the dataset of a sweep's store (fitness-sweep)"
    open_dataset_parameters = ("filename_or_obj", "drop_variables", "group")
    supports_groups = True

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Whether the argument is a store's folder; if so, ``engine`` may be omitted."""
        return (
            isinstance(filename_or_obj, str | PathLike)
            and (Path(filename_or_obj) / "store.json").is_file()
        )

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        drop_variables: str | Iterable[str] | None = None,
        group: str | None = None,
    ) -> xr.Dataset:
        """The dataset of the named group, or of the only group if a store has just one.

        Parameters
        ----------
        filename_or_obj : str or path-like
            The store's folder.
        drop_variables : str or iterable of str, optional
            Variables to leave out.
        group : str, optional
            The group to open; needed if the store has several groups.

        Raises
        ------
        StoreError
            If the folder is not a store, has no dataset yet, has no group of that name, or has
            several groups and ``group`` is missing.
        """
        groups = self.open_groups_as_dict(filename_or_obj, drop_variables=drop_variables)
        path = f"/{(group or '').strip('/')}"
        if path in groups and (group or len(groups) == 1):
            return groups[path]
        store, names = repr(str(filename_or_obj)), [repr(path.strip("/")) for path in groups][1:]
        if not names:
            raise StoreError(f"store {store} has a single group; open it without group={group!r}")
        found = "several groups" if group is None else f"no group {group!r}"
        raise StoreError(
            f"store {store} has {found}; expected one of: {', '.join(names)} as group=..., or "
            'xarray.open_datatree(..., engine="sweep") for all'
        )

    def open_groups_as_dict(
        self, filename_or_obj: Any, *, drop_variables: str | Iterable[str] | None = None
    ) -> dict[str, xr.Dataset]:
        """The dataset of every group, by path; a single group has the path ``"/"``."""
        from sweep.dataset.reading import open_dataset

        newest = open_dataset(filename_or_obj)
        nodes = newest.subtree if isinstance(newest, xr.DataTree) else [xr.DataTree(newest)]
        dropped = (
            [drop_variables] if isinstance(drop_variables, str) else list(drop_variables or ())
        )
        return {n.path: n.to_dataset().drop_vars(dropped, errors="ignore") for n in nodes}

    def open_datatree(
        self, filename_or_obj: Any, *, drop_variables: str | Iterable[str] | None = None
    ) -> xr.DataTree:
        """The datasets of all groups as one tree."""
        return xr.DataTree.from_dict(
            self.open_groups_as_dict(filename_or_obj, drop_variables=drop_variables)
        )
