"""Experiments as tests write them: blocks in Python, turned into the text of a file."""

import json
from typing import Any

from sweep.experiment.loading import parse_experiment
from sweep.experiment.schema import Experiment


def block(workload: Any, mechanism: Any, **others: Any) -> dict[str, Any]:
    return {"workload": workload, "mechanism": mechanism, **others}


def prefix(d: Any, mechanism: Any, **others: Any) -> dict[str, Any]:
    return block({"name": "prefix", "d": d}, mechanism, **others)


def experiment(*blocks: dict[str, Any], **others: Any) -> Experiment:
    content = {"reference": "IP", "blocks": list(blocks), **others}
    return parse_experiment(json.dumps(content), "x.yaml")
