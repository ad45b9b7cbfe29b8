"""Functions that an experiment names run only where the command allows it."""

import json
import sys

import pytest
from written import prefix

import sweep
from sweep.errors import ExperimentError
from sweep.experiment.loading import parse_experiment
from sweep.plan import dry_run
from sweep.runner import status

TRACE = "import pathlib; pathlib.Path({trace!r}).open('a').write('{name} ')\n"
QUERIES = "import numpy as np\ndef queries(d=2):\n    return np.eye(d)\n"


@pytest.fixture
def trace(tmp_path, monkeypatch):
    """A package whose import leaves a trace, in the folder of the command."""
    package = tmp_path / "of_a_stranger"
    package.mkdir()
    path = tmp_path / "trace"
    for name, body in (("__init__", ""), ("inner", QUERIES)):
        (package / f"{name}.py").write_text(TRACE.format(trace=str(path), name=name) + body)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield path
    for name in ("of_a_stranger", "of_a_stranger.inner"):
        sys.modules.pop(name, None)


@pytest.fixture
def experiment(tmp_path, trace):
    workload = {"name": "entry-point", "function": "of_a_stranger.inner:queries"}
    text = json.dumps({"reference": "IP", "blocks": [{"workload": workload, "mechanism": ["IP"]}]})
    (tmp_path / "theirs.yaml").write_text(text)
    return parse_experiment(text, "theirs.yaml")


@pytest.mark.parametrize(
    ("words", "where", "function"),
    [
        (("plan",), "line 1", "of_a_stranger.inner:queries"),
        (("run",), "line 1", "of_a_stranger.inner:queries"),
        (("plan", "--set", "function=os:getcwd"), "--set function=os:getcwd", "os:getcwd"),
    ],
)
def test_no_function_runs_unasked(trace, experiment, words, where, function, refusal):
    said = refusal(words[0], "theirs.yaml", *words[1:])
    place = f"theirs.yaml, {where}, blocks[0].workload.function: "
    assert f"{place}workload 'entry-point' calls {function}" in said
    assert "--allow-code" in said
    assert not trace.exists()


def test_a_plan_calls_it_if_asked(trace, experiment, command):
    found = command("plan", "theirs.yaml", "--allow-code")
    assert found.exit_code == 0, found.output
    assert trace.read_text().split() == ["__init__", "inner"]


@pytest.mark.parametrize("function", ["of_a_stranger.inner:gone", "nowhere:at_all", ""])
def test_a_mechanism_that_is_not_there_is_refused_before_anything_runs(
    trace, tmp_path, refusal, function
):
    mechanism = ["IP", {"name": "entry-point", "function": function}]
    content = {"reference": "IP", "blocks": [prefix(2, mechanism)]}
    (tmp_path / "x.yaml").write_text(json.dumps(content))
    for words in (("plan", "x.yaml"), ("run", "x.yaml", "--store", "s")):
        said = refusal(*words, "--allow-code")
        assert "x.yaml, line 1, blocks[0].mechanism: mechanism 'entry-point'" in said
        assert f"{function!r} " in said
    assert not (tmp_path / "s").exists()


def test_python_callers_ask_too(trace, experiment, tmp_path):
    for call in (dry_run.plan, lambda asked: sweep.run(asked, tmp_path / "s")):
        with pytest.raises(ExperimentError, match="allow_code=True"):
            call(experiment)
    assert not trace.exists()
    assert not (tmp_path / "s").exists()


def test_status_show_and_report_never_run_it(
    trace, experiment, tmp_path, client, monkeypatch, command
):
    client.run(lambda folder: sys.path.append(folder), str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    store = tmp_path / "s"
    sweep.run(experiment, store, client, allow_code=True)
    for name in ("of_a_stranger", "of_a_stranger.inner"):
        sys.modules.pop(name, None)
    trace.unlink()
    found = status.status(store)
    assert found.groups == {"entry-point": {"ok": 1}}
    assert command("status", str(store)).exit_code == 0
    assert command("show", str(store)).exit_code == 0
    assert command("report", str(store), "--output", "page.html").exit_code == 0
    assert command("rerun", str(store), "--where", "mechanism == 'IP'").exit_code == 2
    assert not trace.exists()
    assert "of_a_stranger" not in sys.modules


def test_status_makes_no_workload(swept, tmp_path, monkeypatch):
    swept(tmp_path / "s")
    monkeypatch.setattr("workloads.make", None)
    assert status.status(tmp_path / "s").statuses == {"ok": 4}
