"""The sweep: from an experiment file to an xarray dataset in zarr, on a Dask cluster.

>>> import sweep
>>> experiment = sweep.load_experiment("vldb-table4")
>>> ds = sweep.run(experiment, "results/vldb-table4")      # doctest: +SKIP
>>> ds = sweep.open("results/vldb-table4")                 # doctest: +SKIP
"""

from sweep.experiment import Experiment, load_experiment
from sweep.keeping import arrays
from sweep.runner import open_dataset as open
from sweep.runner import rerun, run

__all__ = ["Experiment", "arrays", "load_experiment", "open", "rerun", "run"]
