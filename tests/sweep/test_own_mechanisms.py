"""Your own mechanisms: by name, in Python and as plug-ins; verified, and compared by code."""

import importlib
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock

import numpy as np
import pytest
import written
from faults import Fault, injected
from programs import installed

import solvers
import sweep
import workloads
from solvers import mechanism
from solvers.errors import OptionError
from sweep import events
from sweep.errors import ClusterError, ExperimentError, StoreError
from sweep.experiment.canonical import Spec
from sweep.runner import dispatch, status
from sweep.runner.selection import STALE
from sweep.store import code
from sweep.store.records import Status
from workloads import family

MINE = "import numpy as np\nfrom helpers import total\n\ndef mine(problem, *, weight=1.0):\n"
MINE += "    return np.vstack([np.eye(problem.workload.d), total(problem.workload.d, weight)])\n"
HELPERS = "import numpy as np\n\ndef total(d, weight):\n    return np.full((1, d), {} * weight)\n"


def cells_and_total(problem, *, weight: float = 1.0):
    """Cells and their total"""
    return np.vstack([np.eye(problem.workload.d), np.full(problem.workload.d, weight)])


def expected(d, weight):
    """Δ² of that strategy on prefixes, by the pseudo-inverse."""
    strategy = np.vstack([np.eye(d), np.full(d, weight)])
    variances = np.square(np.tri(d) @ np.linalg.pinv(strategy)).sum(axis=1)
    return np.square(strategy).sum(axis=0).max() * variances.max()


def experiment(entry, d=4):
    return written.experiment(written.prefix(d, ["IP", entry]))


def as_new():
    """Remove the traces of an import, as if the process had been restarted."""
    for name in ("of_mine", "helpers"):
        sys.modules.pop(name, None)
    code.codes_of_this_process.cache_clear()


def solved_here(options):
    """The state of a worker that has solved with the old function."""
    importlib.import_module("of_mine")
    code.solve_difference("", "prefix", Spec("entry-point", options))


@pytest.fixture
def module(tmp_path, monkeypatch, client):
    """A user's module with a helper beside it, importable here and on the workers."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    (tmp_path / "of_mine.py").write_text(MINE)
    (tmp_path / "helpers.py").write_text(HELPERS.format(1))
    here = str(tmp_path)
    client.run(lambda: sys.path.append(here))
    yield tmp_path
    client.run(lambda: sys.path.remove(here))
    client.run(as_new)
    as_new()


def test_a_function_by_its_name_and_its_edit(module, client, tmp_path):
    entry = {"name": "entry-point", "function": "of_mine:mine", "arguments": {"weight": 0.5}}
    with pytest.raises(ExperimentError, match=r"mechanism\[1\].function: mechanism 'entry-point'"):
        sweep.run(experiment(entry), tmp_path / "s", client)
    data = sweep.run(experiment(entry), tmp_path / "s", client, allow_code=True)
    assert (data.status == 2).all(), data.error.values
    found = data.squared_privacy_cost.sel(mechanism="of_mine:mine")
    assert found.values == pytest.approx(expected(4, 0.5))
    assert float(data.gap.sel(mechanism="of_mine:mine")) > 0
    assert status.status(tmp_path / "s").cells_of_other_code == 0

    client.run(solved_here, entry)  # for a worker that has solved nothing yet
    (module / "of_mine.py").write_text(MINE.replace(", weight)", ", 2 * weight)"))
    assert status.status(tmp_path / "s").cells_of_other_code == 1
    heard = []
    kept = sweep.run(
        experiment(entry), tmp_path / "s", "untouched", allow_code=True, listen=heard.append
    )
    assert heard[-1].of_other_code == 1
    assert kept.squared_privacy_cost.equals(data.squared_privacy_cost)
    kept = sweep.rerun(tmp_path / "s", STALE, client, allow_code=True)  # workers have the old one
    assert kept.squared_privacy_cost.equals(data.squared_privacy_cost)
    assert status.status(tmp_path / "s").cells_of_other_code == 1
    client.run(as_new)
    anew = sweep.rerun(tmp_path / "s", STALE, client, allow_code=True)
    assert anew.squared_privacy_cost.sel(mechanism="of_mine:mine").values == pytest.approx(
        expected(4, 1.0)
    )
    assert status.status(tmp_path / "s").cells_of_other_code == 0


def test_a_function_in_python_and_its_change(client, tmp_path):
    namespace = {"np": np, "__name__": "__main__"}
    text = "def f(problem, *, weight: float = 1.0):\n"
    text += "    return np.vstack([np.eye(4), {} * weight * np.ones(4)])\n"
    exec(text.format(1.0), namespace)
    entry = {"name": "mine", "weight": [0.5, 2.0]}
    data = sweep.run(experiment(entry), tmp_path / "s", client, mechanisms={"mine": namespace["f"]})
    assert (data.status == 2).all(), data.error.values
    found = data.squared_privacy_cost.sel(mechanism="mine (weight=2.0)")
    assert found.values == pytest.approx(expected(4, 2.0))
    assert "mine" not in solvers.all_mechanisms()

    exec(text.format(3.0), namespace)
    heard, given = [], {"mine": namespace["f"]}
    sweep.run(experiment(entry), tmp_path / "s", "no", mechanisms=given, listen=heard.append)
    assert heard[-1].of_other_code == 2
    anew = sweep.rerun(tmp_path / "s", STALE, client, mechanisms=given)
    assert anew.squared_privacy_cost.sel(mechanism="mine (weight=0.5)").values == pytest.approx(
        expected(4, 1.5)
    )


def with_weight(weight):
    """A function that takes the weight from around it, not as an option."""

    def halves(problem):
        return cells_and_total(problem, weight=weight)

    return halves


class Weighted:
    def __init__(self, weight):
        self.weight = weight

    def __call__(self, problem):
        return cells_and_total(problem, weight=float(self.weight))

    def solve(self, problem):
        return self(problem)


def with_arguments(weight, problem):
    return cells_and_total(problem, weight=weight)


def of_notebook(weight):
    """A function of a notebook's cell, whose weight another cell has set."""
    cell = {"cells_and_total": cells_and_total, "weight": weight, "__name__": "__main__"}
    exec("def f(problem):\n    return cells_and_total(problem, weight=weight)\n", cell)
    return cell["f"]


CAPTURING = {
    "a closure": with_weight,
    "a closure of an array": lambda weight: with_weight(np.float64(weight)),
    "a callable object": Weighted,
    "a method": lambda weight: Weighted(np.array(weight)).solve,
    "a partial": lambda weight: partial(with_arguments, weight),
    "a global variable": of_notebook,
}


@pytest.mark.parametrize("kind", CAPTURING)
def test_a_changed_value_around_a_function_is_other_code(client, tmp_path, kind):
    made = CAPTURING[kind]
    first = sweep.run(experiment("mine"), tmp_path / "s", client, mechanisms={"mine": made(0.5)})
    cost = first.squared_privacy_cost.sel(mechanism="mine")
    assert cost.values == pytest.approx(expected(4, 0.5)), first.error.values
    heard, same, changed = [], {"mine": made(0.5)}, {"mine": made(2.0)}
    for given in (same, changed):
        sweep.run(experiment("mine"), tmp_path / "s", "no", mechanisms=given, listen=heard.append)
    ended = [one for one in heard if isinstance(one, events.RunEnded)]
    assert [one.of_other_code for one in ended] == [0, 1]
    anew = sweep.rerun(tmp_path / "s", "code == 'other'", client, mechanisms=changed)
    cost = anew.squared_privacy_cost.sel(mechanism="mine")
    assert cost.values == pytest.approx(expected(4, 2.0)), anew.error.values


def test_a_value_around_a_function_that_cannot_be_compared_is_refused(tmp_path):
    lock = Lock()

    def guarded(problem):
        with lock:
            return np.eye(4)

    with pytest.raises(ExperimentError, match=r"'mine' uses the variable 'lock'.*make it an opt"):
        sweep.run(experiment("mine"), tmp_path / "s", "no", mechanisms={"mine": guarded})
    assert not (tmp_path / "s").exists()


@dataclass(frozen=True)
class CellsAndTotal(solvers.Mechanism):
    """Cells and their total."""

    weight: float = 1.0

    def on_matrix(self, problem):
        return cells_and_total(problem, weight=self.weight)


def test_a_class_in_python(client, tmp_path):
    entry = {"name": "mine", "weight": [0.5, 2.0]}
    data = sweep.run(experiment(entry), tmp_path / "s", client, mechanisms={"mine": CellsAndTotal})
    assert (data.status == 2).all(), data.error.values
    found = data.squared_privacy_cost.sel(mechanism="mine (weight=2.0)")
    assert found.values == pytest.approx(expected(4, 2.0))


def test_status_works_without_the_python_function(client, tmp_path):
    def fails(problem):
        raise ValueError("not for prefixes")

    sweep.run(experiment("mine"), tmp_path / "s", client, mechanisms={"mine": fails})
    found = status.status(tmp_path / "s")
    assert found.cells_of_other_code == 0
    assert "has results of 'mine'" in found.obstacle
    assert "mechanisms={NAME: FUNCTION}" in found.obstacle
    (failed,) = found.troubles
    assert "not for prefixes" in failed.record.traceback
    assert failed.coords == {"cell": failed.record.cell}
    with pytest.raises(StoreError, match="has results of 'mine'"):
        sweep.rerun(tmp_path / "s", client=client)


def plug_in(folder, name, points, module):
    """An installed package that adds something, as pip leaves it."""
    installed(folder, name, **{"entry_points.txt": points})
    (folder / f"{name}.py").write_text(module)


@pytest.fixture
def packages(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    forget()
    yield folder
    forget()
    for name in ("good", "bad"):
        sys.modules.pop(name, None)


def forget():
    for known in (mechanism.plugged, mechanism.all_mechanisms, family.plugged, family.all_families):
        known.cache_clear()


GOOD = """\
import numpy as np
from workloads import Family, from_matrix

def plus(problem, *, weight: float = 1.0):
    "cells and their total, of another package"
    return np.vstack([np.eye(problem.workload.d), np.full(problem.workload.d, weight)])

@Family.of("ones")
def ones(d: int):
    "the total"
    return from_matrix(np.ones((1, d)))
"""


def test_other_packages_add_mechanisms_and_workloads(packages, command):
    points = "[fitness_sweep.mechanisms]\nplus = good:plus\n"
    plug_in(packages, "good", f"{points}\n[fitness_sweep.workloads]\nones = good:ones\n", GOOD)
    wrong = "[fitness_sweep.mechanisms]\nbroken = bad:nothing\nIP = bad:solve\n"
    plug_in(packages, "bad", wrong, "def solve(problem):\n    return None\n")
    found = solvers.solve("plus", np.tri(4), weight=0.5)
    assert found.squared_privacy_cost == pytest.approx(expected(4, 0.5))
    assert workloads.make("ones", d=3).shape == (1, 3)
    said = " ".join(command("list").output.split())
    assert "cells and their total, of another package" in said
    assert "plug-in 'broken' of package 'bad' is left out, because it cannot be loaded" in said
    assert "plug-in 'IP' of package 'bad' is left out, because 'IP' exists already" in said
    with pytest.raises(solvers.UnknownMechanismError, match=r"'broken'; .*plug-in 'broken' of"):
        solvers.solve("broken", np.tri(4))
    before = code.Codes()
    ours = before.of_solve("prefix", Spec("IP")), before.of_bound("prefix")
    theirs = before.of_solve("prefix", Spec("plus")), before.of_bound("ones")
    (packages / "good.py").write_text(GOOD.replace("np.ones((1, d))", "np.ones((2, d))"))
    after = code.Codes()
    assert (after.of_solve("prefix", Spec("IP")), after.of_bound("prefix")) == ours
    assert after.of_solve("prefix", Spec("plus")) != theirs[0]
    assert after.of_bound("ones") != theirs[1]


@pytest.mark.parametrize("name", ["status", "cell", "runtime_s", "group", "targets", "replicate"])
def test_a_parameter_named_like_something_of_the_dataset_is_refused(
    packages, refusal, monkeypatch, name
):
    monkeypatch.chdir(packages)
    module = GOOD.replace("def ones(d: int):", f"def ones(d: int, {name}: int = 1):")
    plug_in(packages, "good", "[fitness_sweep.workloads]\nones = good:ones\n", module)
    workload = f"{{name: ones, d: 3, {name}: [1, 2]}}"
    Path("e.yaml").write_text(f"blocks:\n  - workload: {workload}\n    mechanism: IP\n")
    for asked in ("plan", "run"):
        place = f"e.yaml, line 2, blocks[0].workload.{name}: "
        assert f"{place}{name!r} is a parameter of" in refusal(asked, "e.yaml")
    assert not Path("results").exists()


def test_functions_that_are_no_mechanisms_are_refused():
    sound = mechanism.adopt("mine", cells_and_total)
    assert (sound.summary, list(sound.params())) == ("Cells and their total", ["weight"])
    wrong = lambda: None, lambda problem, weight: None, lambda problem, *, weight: None
    asked = [({"mine": function}, "expected f.problem") for function in wrong]
    for functions, said in [*asked, ({"IP": cells_and_total}, "'IP' exists already")]:
        with pytest.raises(OptionError, match=said), mechanism.added(functions):
            pass


def test_a_function_that_takes_longer_than_the_time_limit_is_a_timeout(client, small, tmp_path):
    def late(problem):
        time.sleep(0.3)
        return np.eye(problem.workload.d)

    experiment = small("[2]", "[IP, late]", more="time_limit: 0.2")
    dataset = sweep.run(experiment, tmp_path / "s", client, mechanisms={"late": late})
    said = dataset.sel(d=2, mechanism="late")
    assert Status(int(said.status)) is Status.TIMEOUT
    assert "more than its time limit of 0.2 s" in str(said.error.item())
    assert float(said.squared_privacy_cost) == pytest.approx(2.0)


def test_a_function_that_the_experiment_does_not_name_is_refused(small, tmp_path):
    with pytest.raises(ExperimentError, match=r"'halves' is not a mechanism of .* which has GM"):
        sweep.run(small(), tmp_path / "s", "nobody", mechanisms={"halves": cells_and_total})


def test_a_module_that_workers_lack_is_sent_and_a_package_is_named(client, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "sent_along.py").write_text(
        "import sent_helper\n\ndef mine(problem):\n    return sent_helper.eye(2)\n"
    )
    (tmp_path / "sent_helper.py").write_text("from numpy import eye\n")
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed" / "__init__.py").write_text("from sent_along import mine\n")

    def run(module):
        entry = {"name": "entry-point", "function": f"{module}:mine"}
        place = tmp_path / f"store-{module}"
        return sweep.run(experiment(entry, 2), place, client, allow_code=True)

    assert (run("sent_along").status == Status.OK).all()
    with pytest.raises(ClusterError, match=r"worker tcp.* no module 'packed'; add .* PYTHONPATH"):
        run("packed")


def test_a_mechanism_whose_first_cells_fail_alike_is_sent_no_more(client, tmp_path):
    def broken(problem, *, fails: bool = True):
        if fails:
            raise ValueError("always the same")
        return np.eye(2)

    labels = {"good": False, "bad": True}
    both = [{"name": "broken", "fails": fails, "label": one} for one, fails in labels.items()]
    asked = written.experiment(written.prefix(2, both, replicates=600), reference="good")
    heard, given = [], {"broken": broken}
    found = sweep.run(asked, tmp_path / "s", client, mechanisms=given, listen=heard.append)
    failed = int((found.status.sel(mechanism="bad") == Status.FAILED).sum())
    pending = int((found.status.sel(mechanism="bad") == Status.PENDING).sum())
    assert failed >= dispatch.MOST_ALIKE
    assert failed + pending == 600
    assert pending > 0
    assert (found.status.sel(mechanism="good") == Status.OK).all()
    (stopped,) = (event.message for event in heard if isinstance(event, events.Warned))
    assert stopped.startswith("no more cells of bad are sent, since the first 20 all failed")
    assert "ValueError: always the same" in stopped


def test_a_built_in_mechanism_whose_first_cells_fail_alike_gets_the_rest(client, tmp_path):
    """It may refuse the large cells, which are sent first."""
    file, heard = written.experiment(written.prefix(2, ["IP", "GM"], replicates=100)), []
    first = Fault("raise", "GM", times=2 * dispatch.MOST_ALIKE)
    with injected(client, tmp_path, first):
        found = sweep.run(file, tmp_path / "s", client, listen=heard.append)
    statuses = found.status.sel(mechanism="GM")
    assert int((statuses == Status.FAILED).sum()) == 2 * dispatch.MOST_ALIKE
    assert int((statuses == Status.OK).sum()) == 100 - 2 * dispatch.MOST_ALIKE
    assert not any(isinstance(event, events.Warned) for event in heard)
