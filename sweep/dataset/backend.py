"""The engine by which xarray opens a store, given its folder.

    xarray.open_dataset("results/vldb-table4", engine="sweep")
    xarray.open_datatree("results/vldb", engine="sweep")

It reads the newest dataset as a whole into memory, since a sweep that goes on writing replaces the
files behind a lazily opened one.
"""

from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

import xarray as xr
from xarray.backends import BackendEntrypoint

from sweep.errors import StoreError


class StoreBackend(BackendEntrypoint):
    """The entry ``sweep`` of the group ``xarray.backends``."""

    description = "Open the dataset of a sweep's store (fitness-sweep)"
    open_dataset_parameters = ("filename_or_obj", "drop_variables", "group")
    supports_groups = True

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Whether it is the folder of a store; if so, ``engine`` may be left out."""
        return isinstance(filename_or_obj, str | PathLike) and _is_store(Path(filename_or_obj))

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        drop_variables: str | Iterable[str] | None = None,
        group: str | None = None,
    ) -> xr.Dataset:
        """The dataset of a store with one group, or that of the named group.

        Parameters
        ----------
        filename_or_obj : str or path-like
            The store's folder.
        drop_variables : str or iterable of str, optional
            Variables to leave out.
        group : str, optional
            The group to open; needed if there are several.

        Raises
        ------
        StoreError
            If the folder is not a store, has no dataset yet, has several groups and none is
            named, or has no group of that name.
        """
        version = _newest(filename_or_obj)
        if isinstance(version, xr.Dataset):
            if group is None:
                return _without(version, drop_variables)
            raise StoreError(
                f"store {str(filename_or_obj)!r} has a single group; open it without "
                f"group={group!r}"
            )
        names = ", ".join(repr(str(name)) for name in version.children)
        if group is None:
            raise StoreError(
                f"store {str(filename_or_obj)!r} has several groups ({names}); open them all with "
                'xarray.open_datatree(..., engine="sweep"), or one with group=...'
            )
        if group.strip("/") not in version.children:
            raise StoreError(
                f"store {str(filename_or_obj)!r} has no group {group!r}; expected one of: {names}"
            )
        return _without(version[group.strip("/")].to_dataset(), drop_variables)

    def open_groups_as_dict(
        self, filename_or_obj: Any, *, drop_variables: str | Iterable[str] | None = None
    ) -> dict[str, xr.Dataset]:
        """The dataset of every group, by path; that of a single group at ``"/"``."""
        version = _newest(filename_or_obj)
        if isinstance(version, xr.Dataset):
            return {"/": _without(version, drop_variables)}
        return {node.path: _without(node.to_dataset(), drop_variables) for node in version.subtree}

    def open_datatree(
        self, filename_or_obj: Any, *, drop_variables: str | Iterable[str] | None = None
    ) -> xr.DataTree:
        """All groups as one tree."""
        return xr.DataTree.from_dict(
            self.open_groups_as_dict(filename_or_obj, drop_variables=drop_variables)
        )


def _newest(folder: Any) -> xr.Dataset | xr.DataTree:
    from sweep.dataset.reading import open_dataset

    return open_dataset(folder)


def _is_store(folder: Path) -> bool:
    return (folder / "store.json").is_file()


def _without(data: xr.Dataset, names: str | Iterable[str] | None) -> xr.Dataset:
    dropped = [names] if isinstance(names, str) else list(names or ())
    return data.drop_vars(dropped, errors="ignore")
