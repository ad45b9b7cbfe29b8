import re
import shlex
import shutil
from pathlib import Path

import pytest
import typer
from written import SMALL, block, experiment, prefix

from sweep.cli import app
from sweep.experiment.files import list_experiments

pytestmark = pytest.mark.usefixtures("here")


@pytest.mark.parametrize("name", [one.name for one in app.registered_commands])
def test_help_teaches_by_example_and_shows_no_python(command, name):
    shown = command(name, "--help")
    assert shown.exit_code == 0
    assert re.search(r"Examples?: sweep ", shown.output)
    assert not re.search(r"<\w+|list\[", shown.output)
    assert f"  {name} " in (every := command("--help").output)
    assert "..." not in every.partition("Commands:")[2]


def test_the_list_names_everything_once(command):
    named = {"mechanisms": ["wCA-II"], "workloads": ["identity-sum"], "targets": ["uniform"]}
    for kind, names in {"experiments": list_experiments(), **named}.items():
        found = command("list", kind)
        assert found.exit_code == 0
        assert all(name in found.output for name in names)
        assert "``" not in found.output


def test_run_forget_and_the_rerun_that_is_suggested(command, on_the_test_cluster):
    Path("small.yaml").write_text(SMALL)
    ran = command("run", "small.yaml")
    assert ran.exit_code == 0, ran.output
    assert "4 ok" in ran.output
    assert "dataset: results/small/results.zarr" in ran.output

    again = command("run", "small.yaml")
    assert "all 4 cells are already in the store" in again.output
    Path("results/small").rename("my results")
    command("forget", "my results", "--where", "d == 4")
    left = command("status", "my results")
    assert left.exit_code == 1
    assert re.search(r"done +2 of 4 cells", left.output)
    said = re.search(r"2 cells left; .* or `sweep (rerun '.*'\")`", " ".join(left.output.split()))
    assert said is not None
    assert command(*shlex.split(said[1])).exit_code == 0
    assert re.search(r"done +4 of 4 cells", command("status", "my results").output)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run vldb-tabel4", "did you mean 'vldb-table"),
        ("plan none.yaml", "neither a file nor one that ships"),
        ("list colours", "there is no listing 'colours'"),
        ("show nowhere", "is not a store"),
        ("plan vldb-table4 --store ''", "the store has an empty name"),
        ("rerun nowhere --stale --where d==1", "give either --stale or --where, not both"),
        ("run vldb-table4 --cluster none.yaml", "cluster file 'none.yaml' cannot be read"),
        ("plan vldb-table5 --store a --store b", "--store is given more than once"),
        ("run vldb-table4 --store file", "cannot be written: File exists"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(here, refusal, words, said):
    (here / "file").touch()
    assert said in refusal(*shlex.split(words))


def test_a_dataset_without_its_journal_is_shown(swept, here, command):
    swept(here / "s")
    shown = command("show", "s").output
    shutil.rmtree(here / "s" / "journal")
    assert command("show", "s").output == shown


def test_debug_shows_the_traceback(command):
    found = command("--debug", "show", "nowhere")
    assert found.exit_code == 2
    assert "Traceback" in found.stderr
    assert "Traceback" not in command("show", "nowhere").stderr


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("plan vldb-table1", "vldb-table10 vldb-table11"),
        ("scorecard vldb-table10 vldb-table11", "vldb-table11"),
        ("list m", "mechanisms"),
        ("advise queries.csv --mechanism wCA", "wCA-I wCA-II"),
        ("show s --value variance_ratio_at_b", "variance_ratio_at_budget"),
        ("plot s cost --variable ga", "gap"),
        ("run small.yaml --set m", "mechanism="),
        ("run --set d", ""),
        ("plot s cov", "covariance"),
        ("plot s mi", "mine"),
        ("plot nowhere cov", ""),
        ("show nowhere --value g", ""),
    ],
)
def test_the_shell_completes_names(command, monkeypatch, swept, here, words, completed):
    swept(here / "s", more="figures: [{name: mine, variable: gap, x: d}]")
    Path("small.yaml").write_text(SMALL)
    monkeypatch.setenv("_SWEEP_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"sweep {words}")
    monkeypatch.setenv("COMP_CWORD", str(len(words.split())))
    assert command().stdout.split() == completed.split()


def test_every_option_has_help():
    for name, made in typer.main.get_command(app).commands.items():
        assert [option.name for option in made.params if not option.help] == [], name


def test_a_plan_names_groups_whose_ratios_would_refer_to_nothing(command, tmp_path):
    sums = block({"name": "identity-sum", "d": 4}, ["IP", "optimal"])
    for reference, groups in (("optimal", 1), ("IP", 0)):
        text = experiment(prefix(4, ["IP", "GM"]), sums, reference=reference).text
        (tmp_path / "x.yaml").write_text(text)
        assert command("plan", "x.yaml").stdout.count("gets no variance ratios") == groups
