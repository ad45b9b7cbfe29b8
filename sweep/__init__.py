"""The sweep: from an experiment file to an xarray dataset in zarr, on a Dask cluster."""
