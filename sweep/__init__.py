"""Run experiment files on a Dask cluster; the result of a run is an xarray dataset in zarr.

A notebook needs little more than `load_experiment`, `run`, `rerun`, `open`, `arrays` and
`to_frame`:

    experiment = sweep.load_experiment("vldb-table4")
    dataset = sweep.run(experiment, "results/vldb-table4")

Each public name is imported when it is first used, so that ``import sweep`` itself is fast.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sweep.dataset.frames import to_frame
    from sweep.dataset.reading import open_dataset as open
    from sweep.experiment.loading import load_experiment
    from sweep.experiment.schema import Experiment
    from sweep.report.advice import advise
    from sweep.report.notebook import rerun, run
    from sweep.store.arrays import arrays

__all__ = ["Experiment", "advise", "arrays", "load_experiment", "open", "rerun", "run", "to_frame"]

_HOMES = {
    "Experiment": ("sweep.experiment.schema", "Experiment"),
    "advise": ("sweep.report.advice", "advise"),
    "arrays": ("sweep.store.arrays", "arrays"),
    "load_experiment": ("sweep.experiment.loading", "load_experiment"),
    "open": ("sweep.dataset.reading", "open_dataset"),
    "rerun": ("sweep.report.notebook", "rerun"),
    "run": ("sweep.report.notebook", "run"),
    "to_frame": ("sweep.dataset.frames", "to_frame"),
}

_GIVE_RESULTS = ("open", "rerun", "run", "to_frame")
"""Functions whose first use registers the accessor ``.sweep`` of xarray's datasets and trees."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sweep' has no attribute {name!r}")
    from importlib import import_module
    from pathlib import Path

    import fitness_sweep

    fitness_sweep.check(Path(__file__).parents[1])
    module, attribute = _HOMES[name]
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    if name in _GIVE_RESULTS:
        import_module("sweep.report.notebook").register()
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
