"""The output in notebooks: the accessor, solutions, progress."""

import traceback
from functools import partial

import numpy as np
import pytest
import xarray as xr
from rich.console import Console
from written import REPLICATED, described

import solvers
import sweep
from sweep.errors import SweepError
from sweep.experiment.loading import parse_experiment
from sweep.grid.expansion import expand
from sweep.report import notebook
from sweep.store.folder import About, Store, create

MISSING_FILE = """
blocks: [{workload: {name: file, path: nowhere.npy}, mechanism: [IP]}]
reference: IP
"""


@pytest.fixture
def results():
    notebook.register()
    return described(REPLICATED.assign(error=REPLICATED.status.astype(str)))[0]


def test_a_dataset_has_its_tables_and_its_failures(results):
    assert results.sweep.table(rows="d").loc["4", "IP"] == "4.000 ± 1.155"
    failed = results.sweep.failed()
    assert failed[["d", "replicate", "mechanism", "status"]].to_numpy().tolist() == [
        [8, 2, "IP", "failed"]
    ]
    assert repr(results.sweep) == "results: 11 ok, 1 failed of 12 cells"
    assert "<caption>" in results.sweep._repr_html_()
    states = results.sweep.status
    assert int((states == "failed").sum()) == 1
    assert results.variance_ratio.where(states == "ok").count() == 11
    assert list(results.sweep.frame().columns[:2]) == ["group", "d"]
    assert results.assign(cell=states).sweep.frame().columns[-1] == "cell"


def test_a_foreign_dataset_is_refused_in_one_sentence(results):
    with pytest.raises(SweepError, match="no attribute 'experiment_text'"):
        xr.Dataset().sweep.plot.ratio()
    chosen = results[["variance_ratio"]].sweep
    for ask in (chosen.table, chosen.frame, chosen.failed, lambda: chosen.status):
        with pytest.raises(SweepError, match="has no variable 'status'"):
            ask()


@pytest.mark.parametrize(
    "ask",
    [
        lambda folder: sweep.open(folder / "nowhere"),
        lambda folder: sweep.load_experiment("trivia"),
        lambda folder: sweep.run("trivial", folder / "file" / "s"),
        lambda folder: sweep.run("trivial", folder / "s", cluster=folder / "nowhere.yaml"),
        lambda folder: sweep.arrays(create(folder / "s", "x").path, "unknown"),
        lambda folder: expand(parse_experiment(MISSING_FILE, "x.yaml")),
    ],
)
def test_a_notebook_shows_one_error(tmp_path, ask):
    (tmp_path / "file").touch()
    with pytest.raises(SweepError) as raised:
        ask(tmp_path)
    assert "direct cause" not in "".join(traceback.format_exception(raised.value))
    assert "During handling" not in "".join(traceback.format_exception(raised.value))


def test_a_dataset_has_its_figures_by_name(results):
    assert "ratio" in dir(results.sweep.plot)
    shown = results.sweep.plot.ratio(where="d == 4")
    assert len(shown.figure.axes) == 1
    assert shown._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(AttributeError, match="there is no figure 'ratios'"):
        results.sweep.plot.ratios()


def test_a_tree_has_them_for_all_groups(results):
    tree = xr.DataTree.from_dict({"/": xr.Dataset(attrs=results.attrs), "a": results, "b": results})
    assert tree.sweep.table().index.names[0] == "group"
    with pytest.raises(SweepError, match="name one of a, b as group"):
        tree.sweep.plot.ratio()
    assert tree.sweep.plot.ratio(group="a")


def test_a_solution_shows_itself_in_html():
    shown = solvers.solve("CA", np.tri(4))._repr_html_()
    assert '<th scope="row">squared privacy cost</th>' in shown
    assert "on &#x27;matrix&#x27;" in shown


def test_progress_is_shown_in_notebooks_and_on_terminals(monkeypatch, tmp_path):
    heard = []
    monkeypatch.setattr(notebook, "open_dataset", lambda path: path)

    def store(**options):
        heard.append(options)
        return Store(tmp_path, About(2, "identity", "some"))

    work = notebook.watch(store)
    assert work() == tmp_path
    monkeypatch.setattr(notebook, "Console", partial(Console, force_terminal=True))
    work()
    work(listen=print)
    assert heard[0] == {}
    assert isinstance(heard[1]["listen"], notebook.ProgressBar)
    assert heard[2] == {"listen": print}
