import re
import shlex
from pathlib import Path

import pytest
from written import SMALL

from sweep.cli import app
from sweep.experiment.files import experiments
from sweep.runner import commands
from sweep.store import folder


@pytest.fixture
def sweep_command(tmp_path, monkeypatch, command):
    """Calls the command line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return command


@pytest.fixture
def small_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(SMALL)
    return "small.yaml"


@pytest.mark.parametrize("name", [command.name for command in app.registered_commands])
def test_help_teaches_by_example_and_shows_no_python(sweep_command, name):
    shown = sweep_command(name, "--help")
    assert shown.exit_code == 0
    assert re.search(r"Examples?: sweep ", shown.output)
    assert not re.search(r"<\w+|list\[", shown.output)
    assert f"  {name} " in (every := sweep_command("--help").output)
    assert "..." not in every.partition("Commands:")[2]


def test_the_list_names_everything_once(sweep_command):
    named = {"mechanisms": ["wCA-II"], "workloads": ["identity-sum"], "targets": ["uniform"]}
    for kind, names in {"experiments": experiments(), **named}.items():
        found = sweep_command("list", kind)
        assert found.exit_code == 0
        assert all(name in found.output for name in names)


def test_run_show_status_and_rerun(sweep_command, small_file, on_the_test_cluster):
    ran = sweep_command("run", small_file)
    assert ran.exit_code == 0, ran.output
    assert "4 ok" in ran.output
    assert "dataset: results/small/results.zarr" in ran.output

    again = sweep_command("run", small_file)
    assert "all 4 cells are already in the store" in again.output
    assert "IP" in sweep_command("show", "results/small").output
    stands = sweep_command("status", "results/small").output
    assert re.search(r"done +4 of 4 cells", stands)

    chosen = sweep_command("rerun", "results/small", "--where", "mechanism == 'GM' and d > 2")
    assert chosen.exit_code == 0, chosen.output
    assert "1 to do" in chosen.output
    assert sweep_command("rerun", "results/small").exit_code == 0

    Path("results/small").rename("my results")
    sweep_command("forget", "my results", "--where", "d == 4")
    left = sweep_command("status", "my results")
    assert left.exit_code == 1
    assert re.search(r"done +2 of 4 cells", left.output)
    said = re.search(r"2 cells left; .* or `sweep (rerun '.*'\")`", " ".join(left.output.split()))
    assert said is not None
    assert sweep_command(*shlex.split(said[1])).exit_code == 0
    assert re.search(r"done +4 of 4 cells", sweep_command("status", "my results").output)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run vldb-tabel4", "did you mean 'vldb-table"),
        ("plan none.yaml", "neither a file nor one that ships"),
        ("list colours", "there is no listing 'colours'"),
        ("show nowhere", "is not a store"),
        ("status nowhere", "is not a store"),
        ("status ftp://bucket/x", "store 'ftp://bucket/x' is not a valid address"),
        ("plan vldb-table4 --store ''", "the store has an empty name"),
        ("rerun nowhere", "is not a store"),
        ("rerun nowhere --stale --where d==1", "give either --stale or --where, not both"),
        ("run vldb-table4 --cluster none.yaml", "cluster file 'none.yaml' cannot be read"),
        ("plan vldb-table5 --set colour=red", "colour"),
        ("plan vldb-table5 --set d=64,64", "64"),
        ("plan vldb-table5 --store a --store b", "--store is given more than once"),
        ("run vldb-table4 --store results/file", "cannot be written: File exists"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(tmp_path, monkeypatch, refusal, words, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "file").touch()
    assert said in refusal(*shlex.split(words))


def test_a_store_of_another_experiment_is_refused_unharmed(refusal, small_file, tmp_path):
    made = folder.create(tmp_path / "s", "other")
    before = {path: path.stat().st_mtime_ns for path in made.path.rglob("*")}
    assert "was made by experiment 'other'" in refusal("run", small_file, "--store", "s")
    assert {path: path.stat().st_mtime_ns for path in made.path.rglob("*")} == before


def test_an_interrupt_says_how_to_go_on(sweep_command, small_file, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "run", interrupted)
    found = sweep_command("run", small_file)
    assert found.exit_code == 130
    assert "continues where it stopped" in found.stderr


def test_debug_shows_the_traceback(sweep_command):
    found = sweep_command("--debug", "show", "nowhere")
    assert found.exit_code == 2
    assert "Traceback" in found.stderr
    assert "Traceback" not in sweep_command("show", "nowhere").stderr


def test_the_shell_completes_experiments(sweep_command, monkeypatch):
    monkeypatch.setenv("_SWEEP_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "sweep plan vldb-table1")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert sweep_command().stdout.split() == ["vldb-table10", "vldb-table11"]


def test_a_plan_names_groups_whose_ratios_would_refer_to_nothing(sweep_command, tmp_path):
    blocks = (
        "blocks:\n  - workload: {name: prefix, d: 4}\n    mechanism: [IP, GM]\n"
        "  - workload: {name: identity-sum, d: 4}\n    mechanism: [IP, optimal]\n"
    )
    (tmp_path / "x.yaml").write_text(blocks)
    found = sweep_command("plan", "x.yaml").stdout
    assert found.count("gets no variance ratios") == 1
    (tmp_path / "x.yaml").write_text("reference: IP\n" + blocks)
    assert "gets no variance ratios" not in sweep_command("plan", "x.yaml").stdout
