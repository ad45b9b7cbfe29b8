"""Numbers from other code: recognised, refused on workers, solved again on request."""

import importlib.util
import re
import shutil
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path

import ledgers
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from faults import Fault, preloaded
from processes import ended, until
from written import replicated

import solvers.dual
import sweep
import workloads
from sweep import events
from sweep.errors import ClusterError
from sweep.experiment.canonical import Spec
from sweep.runner import log, status
from sweep.runner.selection import STALE
from sweep.store import code
from sweep.store.records import BoundRecord, Status
from sweep.worker import checks

PACKAGES = [Path(package.__path__[0]) for package in (solvers, workloads, sweep)]


@pytest.fixture
def copied(tmp_path):
    """The packages in another place."""

    def copy(name):
        folder = tmp_path / name
        for package in PACKAGES:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(package, folder / package.name, ignore=ignored)
        return folder

    return copy


def edit(folder):
    path = folder / "solvers" / "dual" / "__init__.py"
    text = path.read_text()
    path.write_text(text.replace(f"REVISION = {solvers.dual.REVISION}\n", "REVISION = -1\n"))
    assert path.read_text() != text


def aged(folder, chosen=lambda record: True, digits=0):
    """Let other code have written these records; all but the last six digits are of revisions."""
    ledgers.rewrite(
        folder,
        lambda one: replace(one, code=one.code[:digits] + "other") if chosen(one) else one,
    )


def refusals(store):
    """The sentences on workers that a run has refused, in its store's log."""
    found = log.read_lines(store) if store.exists() else []
    warned = [one.event.message for one in found if isinstance(one.event, events.Warned)]
    return [one for one in warned if one.startswith("worker ")]


def workers(address):
    with Client(address) as client:
        return len(client.nthreads())


def other(folder):
    return status.status(folder).cells_of_other_code


def test_code_is_the_revisions_and_the_module_without_docstrings(monkeypatch, tmp_path):
    before = code.Codes()

    def codes():
        now = code.Codes()
        return now.of_solve("prefix", Spec("GM")), now.of_solve("prefix", Spec("IP"))

    gm, ip = before.of_solve("prefix", Spec("GM")), before.of_solve("prefix", Spec("IP"))
    assert codes() == (gm, ip)
    assert gm.startswith(before.of_bound("prefix"))
    assert gm.certifier == ip.certifier
    known = solvers.all_mechanisms()
    raised = {**known, "GM": type("GM", (known["GM"],), {"revision": 2, "origin": known["GM"]})}
    with monkeypatch.context() as patched:
        patched.setattr(solvers, "all_mechanisms", lambda: raised)
        assert codes()[0][:14] != gm[:14]
        assert codes()[1] == ip
    (tmp_path / "edited.py").write_text("edited = True\n")
    spec = importlib.util.spec_from_file_location("edited", tmp_path / "edited.py")
    with monkeypatch.context() as patched:  # an edit that raises no revision
        for name in ("GM", "IP"):
            patched.setattr(sys.modules[known[name].__module__], "__spec__", spec)
        assert [one[:14] for one in codes()] == [gm[:14], ip[:14]]
        assert len({gm, ip, *codes()}) == 4
    with monkeypatch.context() as patched:
        patched.setattr(solvers.dual, "REVISION", -1)
        assert code.Codes().of_bound("prefix") != before.of_bound("prefix")
        assert code.Codes().of_bound("counting") == before.of_bound("counting")


@pytest.mark.parametrize(
    ("edited", "same"),
    [
        ('"""Other."""\n\n\ndef f(x):  # a remark\n    return (x + 1)\n', True),
        ("def f(x):\n    return x + 2\n", False),
        ("def f(x, y=0):\n    return x + 1\n", False),
    ],
)
def test_an_edit_of_a_module_counts_unless_it_is_of_words(tmp_path, monkeypatch, edited, same):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "of_theirs.py").write_text('def f(x):\n    """Text."""\n    return x + 1\n')
    mechanism = Spec("entry-point", {"function": "of_theirs:f"})
    before = code.Codes().of_solve("prefix", mechanism)
    (tmp_path / "of_theirs.py").write_text(edited)
    assert (code.Codes().of_solve("prefix", mechanism) == before) == same


def test_records_of_earlier_versions_are_of_other_code_their_bounds_too(swept, client, tmp_path):
    made = tmp_path / "s"
    dataset = swept(made, "[2]")
    ledgers.rewrite(
        made,
        lambda one: (
            BoundRecord(one.problem, 1.9) if isinstance(one, BoundRecord) else replace(one, code="")
        ),
    )
    assert other(made) == 2
    heard = []
    first = sweep.rerun(made, "mechanism == 'IP'", client, listen=heard.append)
    assert heard[0].bounds == other(made) == 1
    np.testing.assert_array_equal(first.lower_bound, dataset.lower_bound)
    sweep.rerun(made, STALE, client)
    assert other(made) == 0


def test_the_command_names_cells_of_other_or_edited_code_and_solves_them(
    client, small, tmp_path, monkeypatch, command, on_the_test_cluster
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    Path("small.yaml").write_text(small().text)
    ids = sweep.run("small.yaml", "s", client).cell.sel(mechanism="GM").values.tolist()
    aged(Path("s"), lambda one: getattr(one, "cell", None) in ids)
    said = "2 of 4 cells were solved by other code; 'sweep rerun s --stale' solves them again"
    assert said in command("status", "s").output
    assert said in command("run", "small.yaml", "--store", "s").output
    for words in ("show s", "show s --value gap", "plan small.yaml --store s"):
        assert said in command(*words.split()).output, words
    assert said not in command("show", "s", "--format", "csv").stdout
    table = command("show", "s", "--where", "code == 'other'", "--format", "csv").stdout
    assert pd.read_csv(StringIO(table))["mechanism"].to_list() == ["GM", "GM"]
    assert command("plot", "s", "cost", "--where", "code == 'other'").exit_code == 0
    rerun = command("rerun", "s", "--stale")
    assert rerun.exit_code == 0, rerun.output
    assert "2 to do" in rerun.output
    assert "other code" not in "".join(command(verb, "s").output for verb in ("status", "show"))
    assert "other code" not in rerun.output
    aged(Path("s"), lambda one: getattr(one, "cell", None) in ids, digits=14)
    said = command("status", "s").output
    assert "2 cells were solved before the module of their mechanism or workload was edited" in said
    assert "other code" not in said
    assert "all 4 cells are already in the store" in command("rerun", "s", "--stale").output
    assert "2 to do" in command("rerun", "s", "--where", "code == 'edited'").output
    assert "was edited" not in command("status", "s").output


def without_the_project(folder):
    shutil.rmtree(folder / "sweep")
    (folder / "sweep.py").write_text("raise ModuleNotFoundError('not installed here')\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (edit, r"a worker on .* has other code \(fitness-sweep"),
        (without_the_project, r"it cannot read its tasks \(ModuleNotFoundError: not inst"),
    ],
)
def test_a_worker_of_other_code_that_joins_in_mid_run_solves_nothing(
    processes, tmp_path, copied, records, change, why
):
    gate, address, folder = tmp_path / "gate", processes.scheduler(), copied("theirs")
    change(folder)
    preload = preloaded(tmp_path, Fault("wait", "IP", until=str(gate)))
    processes.worker(address, "--preload", preload)
    running = processes.run(replicated(60))
    until((tmp_path / "fault-0").exists, running)
    processes.worker(address, path=folder)
    until(lambda: refusals(tmp_path / "s"), running)
    assert workers(address) == 1
    assert (tmp_path / "fault-0").stat().st_size == 1
    gate.touch()
    ended(running)
    (said,) = refusals(tmp_path / "s")
    assert re.match(rf"worker tcp\S+ is closed, .*: {why}", said)
    assert [(one.status, one.code) for one in records(tmp_path / "s")] == [
        (Status.OK, code.Codes().of_solve("prefix", Spec("IP")))
    ] * 60
    assert (tmp_path / "fault-0").stat().st_size == 60


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (edit, r"has other code \(fitness-sweep .*\) than the command \(fitness"),
        (without_the_project, r"it cannot read its tasks \(.*ModuleNotFoundError.*not inst"),
    ],
)
def test_a_cluster_with_a_worker_of_other_code_is_refused_before_it_starts(
    small, processes, tmp_path, copied, change, why, monkeypatch
):
    monkeypatch.setattr(checks, "ANSWER_SECONDS", 300.0)
    folder = copied("theirs")
    change(folder)
    heard = []
    with (
        LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0") as nobody,
        Client(nobody) as client,
    ):
        processes.worker(nobody.scheduler_address, "--no-nanny", path=folder)
        client.wait_for_workers(1, timeout=300)
        with pytest.raises(ClusterError, match=rf"worker tcp.*: .*{why}"):
            sweep.run(small(), tmp_path / "s", client, listen=heard.append)
        processes.close()
    assert isinstance(heard[-1], events.RunEnded)
    assert heard[-1].statuses == {"pending": 4}
