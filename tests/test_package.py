"""The installed files: everything that the code reads, nothing else, one version everywhere."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from programs import installed, ran
from ruamel.yaml import YAML

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PACKAGES = ("workloads", "solvers", "sweep")
EXPERIMENT = """\
blocks:
  - workload: {name: prefix, d: [4, 8]}
    mechanism: [IP, optimal]
"""
ASKED = """\
import json, sweep, xarray
ds = xarray.open_dataset('results', engine='sweep')
print(json.dumps([sweep.__file__, ds.status.values.tolist()]))
"""
WORKFLOWS = ROOT / ".github" / "workflows"
NOT_SOURCES = (".*", "*.egg-info", "__pycache__", "_build", "build", "dist", "results")


def git(*arguments):
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()


def installed_files():
    """The files of the packages that are neither rubbish nor caches."""
    return {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    } | {"fitness_sweep.py"}


def test_tags_the_changelog_and_the_citation_agree_on_the_version():
    cited = YAML(typ="safe").load((ROOT / "CITATION.cff").read_text())
    bibtex = re.search(r"^  version += \{(.*)\},$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert cited["version"] == bibtex[1] == PROJECT["version"]
    if not (ROOT / ".git").exists():
        return
    tags = [tag for tag in git("tag", "--points-at", "HEAD") if re.fullmatch(r"v\d.*", tag)]
    assert tags in ([], [f"v{PROJECT['version']}"])
    logged = re.findall(r"^## \[(\d[^]]*)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert {tag.removeprefix("v") for tag in git("tag", "--list", "v[0-9]*")} <= set(logged)


def test_what_both_requirements_files_lock_has_one_version():
    runtime, dev = (
        set(re.findall(r"^\S+==\S+", (ROOT / name).read_text(), re.MULTILINE))
        for name in ("requirements.txt", "requirements-dev.txt")
    )
    assert len(runtime) > 20
    assert runtime - dev == set(), "'make lock' makes them agree"


@pytest.mark.skipif(not WORKFLOWS.exists(), reason="the source archive has no workflows")
def test_workflows_call_make_and_test_every_python_that_the_package_names():
    jobs = {
        name: job
        for path in WORKFLOWS.glob("*.yml")
        for name, job in YAML(typ="safe").load(path.read_text())["jobs"].items()
    }
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    steps = [step["run"].split() for job in jobs.values() for step in job["steps"] if "run" in step]
    assert {words[1] for words in steps if words[0] == "make"} <= set(targets)
    assert {words[0] for words in steps} == {"make", ".ci/run"}
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert named
    assert set(named) <= set(jobs["test"]["strategy"]["matrix"]["python"])


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel, built from the source archive, and that archive."""
    folder = tmp_path_factory.mktemp("dist")
    copy = tmp_path_factory.mktemp("source") / "project"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*NOT_SOURCES))
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, copy],
        check=True,
        capture_output=True,
    )
    (wheel,), (archive,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, archive


@pytest.mark.slow
def test_the_wheel_holds_the_packages_whole_and_nothing_else(built):
    wheel, _ = built
    with zipfile.ZipFile(wheel) as opened:
        held = {name for name in opened.namelist() if ".dist-info/" not in name}
    assert held == installed_files()


@pytest.mark.slow
def test_the_archive_has_what_its_tests_and_its_site_need(built):
    _, archive = built
    with tarfile.open(archive) as opened:
        held = {name.partition("/")[2] for name in opened.getnames()}
    wanted = {"LICENSE", "CITATION.cff", "CHANGELOG.md", "docs/index.md", "docs/conf.py"}
    assert wanted | {"tests/conftest.py", "Makefile", "requirements.txt"} <= held
    assert installed_files() <= held


@pytest.fixture(scope="module")
def fresh(built, tmp_path_factory):
    """A new environment with the wheel, which finds the other libraries of this one."""
    wheel, _ = built
    home = tmp_path_factory.mktemp("fresh")
    venv.create(home, with_pip=True)
    (site,) = home.glob("lib/python*/site-packages")
    ours = [path for path in map(Path, sys.path) if path.name in ("site-packages", "dist-packages")]
    (site / "dependencies.pth").write_text("\n".join(map(str, ours)))
    subprocess.run(
        [home / "bin" / "python", "-m", "pip", "install", "--no-deps", "--no-index", "-q", wheel],
        check=True,
        env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
    )
    return home


def run(fresh, *arguments, cwd):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return ran(fresh / "bin" / arguments[0], *arguments[1:], cwd=cwd, env=environment)


@pytest.mark.slow
def test_the_installed_command_lists_and_sweeps_outside_the_repository(fresh, tmp_path):
    (tmp_path / "mine.yaml").write_text(EXPERIMENT)
    said = run(fresh, "sweep", "--version", cwd=tmp_path)
    assert said.stdout.split()[:2] == ["fitness-sweep", PROJECT["version"]]
    listed = run(fresh, "sweep", "list", cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    shipped = {path.stem for path in (ROOT / "sweep" / "experiments").glob("*.yaml")}
    assert shipped <= set(listed.stdout.split())
    swept = run(fresh, "sweep", "run", "mine.yaml", "--store", "results", cwd=tmp_path)
    assert swept.returncode == 0, swept.stdout + swept.stderr
    assert (tmp_path / "results" / "results.zarr").exists()
    asked = run(fresh, "python", "-c", ASKED, cwd=tmp_path)
    origin, statuses = json.loads(asked.stdout)
    assert Path(origin).is_relative_to(fresh)
    assert statuses == [[2, 2], [2, 2]]


@pytest.mark.slow
def test_a_distribution_that_overwrote_a_package_is_named(fresh, tmp_path):
    (site,) = fresh.glob("lib/python*/site-packages")
    ours = site / "solvers" / "__init__.py"
    content = ours.read_text()
    named = {"RECORD": "solvers/__init__.py,,\n", "top_level.txt": "solvers\n"}
    described = installed(site, "solvers", **named)
    ours.write_text("answer = 42\n")
    try:
        ended = run(fresh, "sweep", "list", cwd=tmp_path)
    finally:
        ours.write_text(content)
        (described / "METADATA").unlink()
    assert ended.returncode == 2
    assert f"{str(ours)!r} was overwritten by distribution 'solvers'" in ended.stderr
    assert ended.stderr.count("\n") == 1
