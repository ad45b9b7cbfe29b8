"""The format of a ``cluster.yaml``: the format of dask-ctl, with further keys for a sweep."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, FilePath, ValidationError, model_validator

from sweep.errors import ClusterError, ExperimentError
from sweep.experiment import document
from sweep.experiment.files import read_text_file


class Adapt(BaseModel):
    """The range within which Dask adapts the number of workers to the load."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    minimum: int = Field(default=0, ge=0)
    maximum: int = Field(ge=1)


class KeyFiles(BaseModel):
    """Paths of PEM files, the same for scheduler, workers and clients.

    Attributes
    ----------
    ca : Path
        The certificate that signed all other certificates.
    cert, key : Path
        The certificate to present, and its key.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    ca: FilePath
    cert: FilePath
    key: FilePath

    @property
    def dask_settings(self) -> dict[str, object]:
        """Dask settings for TLS with these keys.

        SSHCluster passes keys on to its hosts only if they are settings.
        """
        pair = {"cert": str(self.cert.absolute()), "key": str(self.key.absolute())}
        return {
            "distributed.comm.require-encryption": True,
            "distributed.comm.tls.ca-file": str(self.ca.absolute()),
            **{f"distributed.comm.tls.{role}": pair for role in ("client", "scheduler", "worker")},
        }


class ClusterSpec(BaseModel):
    """The specification of a cluster: a class with arguments, or the address of a scheduler.

    Attributes
    ----------
    version : int
        Version of dask-ctl's format: 1.
    module : str
        The module of the cluster class.
    cls : str
        The name of the class (key ``class``).
    args : tuple
        Positional arguments of the class.
    kwargs : dict
        Keyword arguments of the class.
    address : str, optional
        Address of a running scheduler, instead of a class and its arguments.
    scale : int, optional
        Number of workers to request after the cluster has started.
    adapt : Adapt, optional
        The range in which Dask itself chooses the number of workers, instead of ``scale``.
    patience : float
        Seconds that a run waits for workers, or for a scheduler that does not answer.
    security : KeyFiles, optional
        Keys for TLS; without them a local or batch cluster gets a temporary key.
    insecure : bool
        Whether a cluster may be unprotected, even if others can reach it.
    allow_mixed : bool
        Whether workers may have other versions of Python and of libraries than the command.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int = Field(default=1, ge=1, le=1)
    module: str = ""
    cls: str = Field(default="", alias="class")
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = Field(default_factory=dict)
    address: str | None = Field(default=None, min_length=1)
    scale: int | None = Field(default=None, ge=0)
    adapt: Adapt | None = None
    patience: float = Field(default=600.0, ge=0.0)
    security: KeyFiles | None = None
    insecure: bool = False
    allow_mixed: bool = False

    @model_validator(mode="after")
    def _one_way(self) -> "ClusterSpec":
        named = bool(self.module) and bool(self.cls)
        sizes = [size for size in (self.scale, self.adapt) if size is not None]
        more = self.args or self.kwargs or sizes
        if (self.address is None) is not named or (self.address and more):
            raise ValueError("expected either 'module' and 'class', or 'address' alone")
        if len(sizes) > 1:
            raise ValueError("expected either 'scale' or 'adapt'")
        if self.security is not None and (self.insecure or "security" in self.kwargs):
            raise ValueError("expected either 'security', or 'insecure', or a 'security' in kwargs")
        return self


_MODELS: dict[object, type[BaseModel]] = {None: ClusterSpec, "adapt": Adapt, "security": KeyFiles}

LOCAL = ClusterSpec.model_validate(
    {
        "module": "dask.distributed",
        "class": "LocalCluster",
        "kwargs": {
            "n_workers": None,
            "threads_per_worker": 1,
            "host": "127.0.0.1",
            "dashboard_address": "127.0.0.1:0",
        },
    }
)
"""A cluster on this machine's loopback address, with a one-thread process for every processor."""


def load(path: str | Path) -> ClusterSpec:
    """Read and check a ``cluster.yaml``.

    Parameters
    ----------
    path : str or Path
        The file. It must be trusted, since it names a class to be called.

    Raises
    ------
    ClusterError
        If the file cannot be read or is not a valid ``cluster.yaml``.
    """
    file = f"cluster file {str(path)!r}"
    advice = "give a file; for a running scheduler, one with the line 'address: ADDRESS'"
    text = read_text_file("cluster file", path, advice, ClusterError, document.LARGEST_TEXT)
    try:
        read = document.read_document(text, file)
        return ClusterSpec.model_validate(read.content)
    except ValidationError as error:
        steps, problem = document.explain_error(error, _MODELS)
        raise ClusterError(str(replace(read.location, path=steps).error(problem))) from None
    except ExperimentError as error:
        raise ClusterError(str(error)) from None


def requested(
    given: ClusterSpec | str | Path | None, patience: float | None, *, allow_mixed: bool
) -> ClusterSpec:
    """Return the specification of the cluster to use, with the options applied.

    Parameters
    ----------
    given : ClusterSpec, str or Path, optional
        The specification, or the path of its file; `LOCAL` if None.
    patience : float, optional
        Seconds that replace the specification's patience.
    allow_mixed : bool
        Whether to allow workers with other versions even if the specification does not.

    Raises
    ------
    ClusterError
        If the file is not valid, or the patience is negative or not a number.
    """
    spec: object = load(given) if isinstance(given, str | Path) else given or LOCAL
    if not isinstance(spec, ClusterSpec):
        running = "pass a running cluster as client=CLUSTER.get_client()"
        raise ClusterError(f"cluster is {given!r}; expected the path of a cluster.yaml; {running}")
    if patience is not None and not patience >= 0:
        raise ClusterError(f"patience is {patience}; expected a number of seconds, 0 or more")
    return spec.model_copy(
        update={
            "allow_mixed": spec.allow_mixed or allow_mixed,
            "patience": spec.patience if patience is None else patience,
        }
    )
