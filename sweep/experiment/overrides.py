"""Changes to an experiment from the command line: ``--set d=64,128``."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sweep.errors import ExperimentError
from sweep.experiment import scope
from sweep.experiment.document import Document, KeyPath, read, scalar_list
from workloads.parameters import nearest

_SINGLE = ("time_limit", "simulate", "reference")
_BLOCK = ("mechanism", "targets", "neighbours", "replicates")

Settings = Sequence[str] | Mapping[str, Any]
"""``["d=64,128"]`` or ``{"d": [64, 128]}``."""


def parse(settings: Settings) -> dict[str, list[Any]]:
    """The values of each key.

    Raises
    ------
    ExperimentError
        If one has no ``=``, or its values cannot be read.
    """
    if isinstance(settings, Mapping):
        plain = {key: _plain(value) for key, value in settings.items()}
        return {key: value if isinstance(value, list) else [value] for key, value in plain.items()}
    parsed: dict[str, list[Any]] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        try:
            values = scalar_list(text)
        except ValueError as error:
            raise ExperimentError(f"--set {setting}: {error}") from error
        if not equals or not key.strip() or not values:
            raise ExperimentError(f"--set {setting or repr('')}: expected key=value[,value...]")
        parsed[key.strip()] = values
    return parsed


def _plain(value: Any) -> Any:
    """The value with numpy arrays and numbers as Python lists and numbers."""
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def apply(text: str, file: str, settings: Settings) -> Document:
    """The experiment of a text, with the settings replacing the written values.

    A key is ``epsilon``, ``delta``, ``keep``, ``time_limit``, ``simulate``, ``reference``,
    ``replicates``, ``mechanism``, ``targets``, ``neighbours``, a parameter of a workload or of
    targets (set in every block whose workload or targets take it), or an option that a block
    writes for all its mechanisms, ``epsilon`` too. Of zipped axes, the rows with the given
    values are kept.

    Raises
    ------
    ExperimentError
        If no block takes the key; with the nearest valid one.
    """
    document = read(text, file)
    tree, origin = document.tree, document.origin
    for key, values in parse(settings).items():
        source = f"--set {key}={','.join(map(str, values))}"
        if key in (*_SINGLE, "replicates") and len(values) != 1:
            raise ExperimentError(f"{source}: expected one value")
        try:
            _keep(tree, scope.kept(tree, key, values))
            paths = _set(tree, key, values, source)
        except ExperimentError:
            raise
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise ExperimentError(
                f"{source}: does not fit what the file says there ({error}); 'sweep plan' without "
                "--set shows what is wrong with the file, if anything"
            ) from error
        for path in paths:
            origin = origin.moved(path, source)
    return Document(tree, origin)


def _keep(tree: dict[str, Any], kept: Mapping[str, Sequence[dict[str, Any] | None]]) -> None:
    """Replace tables and claims one by one, so that comments stay where they are."""
    for kind, statements in kept.items():
        for at in reversed(range(len(statements))):
            if statements[at] is None:
                del tree[kind][at]
            else:
                tree[kind][at] = statements[at]


def _set(tree: dict[str, Any], key: str, values: list[Any], source: str) -> list[KeyPath]:
    """Set a key of a tree; the places where that was."""
    if scope.is_whole(tree, key):
        tree[key] = values
        return [(key,)]
    if key in _SINGLE:
        tree[key] = values[0]
        return [(key,)]
    paths: list[KeyPath] = []
    names = {*scope.WHOLE, *_SINGLE, *_BLOCK}
    for at, block in scope.blocks(tree):
        if key in _BLOCK:
            block[key] = _block_value(key, values, block.get(key))
            paths.append(("blocks", at, key))
            continue
        for part, owner in scope.owners(block):
            names |= owner.keys()
            if key in owner:
                paths.append(_set_parameter(block, at, part, key, values, source))
    if not paths:
        raise ExperimentError(f"{source}: no block takes {key!r}; {nearest(key, sorted(names))}")
    return paths


def _block_value(key: str, values: list[Any], written: Any) -> Any:
    if key == "replicates":
        return values[0]
    entries = written if isinstance(written, list) else [] if written is None else [written]
    chosen: list[Any] = []
    for value in values:
        chosen += [entry for entry in entries if value in scope.names(entry)] or [value]
    return chosen if key == "mechanism" or len(chosen) > 1 else chosen[0]


def _set_parameter(
    block: dict[str, Any], at: int, part: str, key: str, values: list[Any], source: str
) -> KeyPath:
    owner = block.get(part, "uniform")
    if not isinstance(owner, dict):
        block[part] = owner = {"name": owner}
    together = next((names for names in block.get("zip", ()) if key in names), None)
    if together is None:
        written = owner.get(key)
        axis = isinstance(written, list) or (isinstance(written, dict) and "axis" in written)
        axis = axis or len(values) > 1
        owner[key] = {"axis": values} if axis else values[0]
    else:
        _keep_rows(block, together, key, values, source)
    return ("blocks", at, part, key)


def _keep_rows(
    block: dict[str, Any], together: Sequence[str], key: str, values: list[Any], source: str
) -> None:
    holders = [holder for holder in (block["workload"], block.get("targets")) if holder]
    lists = {
        name: (holder, holder[name])
        for holder in holders
        if isinstance(holder, dict)
        for name in together
        if isinstance(holder.get(name), list)
    }
    written = lists[key][1] if key in lists else []
    missing = [value for value in values if value not in written]
    if missing or len(lists) != len(together):
        raise ExperimentError(
            f"{source}: {key!r} is zipped with {[n for n in together if n != key]}; expected some "
            f"of its values {list(written)}, or change the file"
        )
    rows = [row for value in values for row, one in enumerate(written) if one == value]
    for name, (holder, listed) in lists.items():
        holder[name] = [listed[row] for row in rows]
