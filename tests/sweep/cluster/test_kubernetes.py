"""The image and the cluster for Kubernetes, as far as they can be checked without one."""

import importlib
import inspect
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import recipes
from ruamel.yaml import YAML

from sweep.cluster import specification

PAGE = "docs/how-to/kubernetes.md"


def instructions():
    """Each instruction of the Dockerfile, with its arguments."""
    text = re.sub(r"\\\n", " ", (recipes.ROOT / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def copied():
    return [path for word, rest in instructions() if word == "COPY" for path in rest.split()[:-1]]


def test_everything_that_the_image_takes_is_in_the_repository():
    let_in = (recipes.ROOT / ".dockerignore").read_text().splitlines()
    for path in copied():
        assert (recipes.ROOT / path).exists()
        assert f"!{path}" in let_in


@pytest.mark.slow
def test_the_project_installs_from_what_the_image_takes(tmp_path):
    if find_spec("pip") is None:
        pytest.skip("no pip")
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    for path in copied():
        there = recipes.ROOT / path
        (shutil.copytree if there.is_dir() else shutil.copy)(there, source / path)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--target", target]
    subprocess.run([*pip, *offline, source], check=True)
    assert (target / "sweep" / "experiments" / "vldb.yaml").exists()
    assert (target / "sweep" / "plan" / "calibration.json").exists()


def test_the_cluster_is_one_that_the_operator_accepts(tmp_path):
    kubernetes = pytest.importorskip("dask_kubernetes.operator")
    validator = pytest.importorskip("jsonschema").Draft202012Validator
    (tmp_path / "cluster.yaml").write_text(recipes.printed(PAGE, "KubeCluster"))
    spec = specification.load(tmp_path / "cluster.yaml")
    make = kubernetes.KubeCluster
    assert getattr(importlib.import_module(spec.module), spec.cls) is make
    inspect.signature(make).bind(*spec.args, **spec.kwargs)
    taken = inspect.signature(kubernetes.make_cluster_spec).parameters
    rendered = kubernetes.make_cluster_spec(
        **{name: value for name, value in spec.kwargs.items() if name in taken}
    )
    folder = Path(kubernetes.__file__).parent / "deployment/helm/dask-kubernetes-operator/crds"
    definition = YAML(typ="safe").load(folder / "daskcluster.yaml")
    (version,) = (v for v in definition["spec"]["versions"] if v["name"] == "v1")
    faults = list(validator(version["schema"]["openAPIV3Schema"]).iter_errors(rendered))
    assert faults == []
    (worker,) = rendered["spec"]["worker"]["spec"]["containers"]
    assert worker["image"] == spec.kwargs["image"]
    assert worker["args"][:2] == ["dask", "worker"]
    assert worker["resources"]["limits"]["memory"] == "4Gi"
    assert {one["name"] for one in worker["env"]} >= {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
    assert all("SECRET" not in one["name"] or "valueFrom" in one for one in worker["env"])
    assert rendered["spec"]["worker"]["replicas"] == 16
    assert spec.insecure
