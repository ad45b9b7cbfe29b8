"""Load experiments from YAML; error messages name the line and the key."""

import os
from collections.abc import Mapping
from dataclasses import replace
from importlib import resources
from pathlib import Path

from pydantic import BaseModel, ValidationError

from sweep.errors import ExperimentError
from sweep.experiment.canonical import canonical, digest
from sweep.experiment.document import LARGEST_TEXT, Document, KeyPath, explain_error, read_document
from sweep.experiment.files import SHIPPED, list_experiments, read_text_file
from sweep.experiment.overrides import Settings, apply
from sweep.experiment.schema import DERIVED, Block, Claim, ComparisonTable, Experiment, Figure
from workloads.parameters import nearest


def load_experiment(name_or_path: str | Path, overrides: Settings = ()) -> Experiment:
    """Load a shipped experiment or a YAML file, and check its keys and types.

    Parameters
    ----------
    name_or_path : str or pathlib.Path
        A name that `sweep.experiment.files.list_experiments` lists, or the path of a YAML file.
    overrides : str, sequence of str, or mapping
        Changes, as on the command line: ``"d=64,128"``, ``["d=64,128", "replicates=3"]`` or
        ``{"d": [64, 128]}``; see `sweep.experiment.overrides.apply`.

    Raises
    ------
    ExperimentError
        If there is no such experiment, or it is not valid; the message names file, line and key.
    """
    name, shipped = str(name_or_path), resources.files(SHIPPED) / f"{name_or_path}.yaml"
    if name == Path(name).name and os.path.isfile(str(shipped)):
        return parse_experiment(shipped.read_text("utf-8"), f"{name}.yaml", overrides)
    if not os.path.lexists(os.path.expanduser(name)):
        is_path = Path(name).suffix in (".yaml", ".yml")
        hint = "give its path" if is_path else nearest(name, list_experiments())
        raise ExperimentError(f"no experiment {name!r}: neither a file nor one that ships; {hint}")
    advice = "give the path of a YAML file"
    text = read_text_file("experiment file", name, advice, ExperimentError, LARGEST_TEXT)
    return parse_experiment(text, name, overrides)


def parse_experiment(text: str, file: str, overrides: Settings = ()) -> Experiment:
    """Parse an experiment from its YAML text; error messages call the text ``file``.

    Raises
    ------
    ExperimentError
        If the experiment is not valid; the message names file, line and key.
    """
    document = read_document(text, file)
    experiment = _validate(document, text)
    if overrides:
        document = apply(document, experiment, overrides)
        experiment = _validate(document, document.text())
    return experiment


def _validate(document: Document, text: str) -> Experiment:
    content, location = document.content, document.location
    for key in content:
        if key not in _FILE_KEYS:
            raise (location / key).error(f"no such key; {nearest(key, _FILE_KEYS)}")
    named = {"name": Path(location.file).stem, **content}
    try:
        return Experiment(**named, text=text, digest=digest(canonical(named)), location=location)
    except ValidationError as error:
        steps, problem = explain_error(error, _MODELS)
        if steps == ("name",) and "name" not in content:
            problem += "; it is that of the file: rename it, or give 'name:' in it"
        path: KeyPath = ()
        for part in steps:  # pydantic adds steps that are not in the file
            path = (*path, part) if (*path, part) in location.written else path
        raise replace(location, path=path).error(problem) from None


_FILE_KEYS = tuple(name for name in Experiment.model_fields if name not in DERIVED)


_MODELS: Mapping[object, type[BaseModel]] = {
    None: Experiment,
    "blocks": Block,
    "published": ComparisonTable,
    "closed_form": ComparisonTable,
    "claims": Claim,
    "figures": Figure,
}
