"""Files that would hang, exhaust memory or command the terminal are refused in a sentence."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

import sweep
import workloads
from sweep.cluster import specification
from sweep.errors import ClusterError, ExperimentError
from sweep.experiment.loading import load_experiment, parse_experiment
from sweep.grid import grids
from sweep.grid.expansion import expand
from sweep.report import consoles
from workloads import TargetsError, WorkloadError, parameters

SOUND = "reference: IP\nblocks:\n  - workload: {name: prefix, d: 4}\n    mechanism: [IP]\n"


def bomb(one="x", lines=12):
    first = f"a0: &a0 [{', '.join([one] * 9)}]\n"
    return first + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, lines)
    )


HARMFUL = [
    (bomb(), r"more than 100,000 values with this one, aliases expanded"),
    ("title: &a [*a]\n", "line 1, title: lists and mappings nest more than 32 deep"),
    ("source: &a {b: *a}\n", "line 1, source: lists and mappings nest more than 32 deep"),
    ("? [a]\n: 1\n", "a list or a mapping cannot be a key"),
    ("title: " + "[" * 1500 + "\n", "nest more than 32 deep"),
    ("title: !!python/object/apply:os.system [ls]\n", "has the tag '.*os.system'"),
    ("title: !!bool x\n", "not valid YAML"),
    ("title: a\0b\n", "special characters are not allowed"),
    ('title: "\\ud800"\n', r"line 1, title: the text holds '\\ud800', which no text may hold"),
    ('"a\\0b": 1\n', r"line 1: the text holds '\\x00', which no text may hold"),
    ("# \n" * 100_000, "characters; expected at most 100,000"),
]


@pytest.mark.parametrize(("text", "said"), HARMFUL)
def test_yaml_that_does_harm(text, said):
    with pytest.raises(ExperimentError, match=said):
        parse_experiment(text + SOUND, "x.yaml")


@pytest.mark.parametrize("value", ["&a [*a]", "[" * 1500, "!foo 3", "!!python/object:os.x 3"])
def test_settings_that_do_harm(value):
    with pytest.raises(ExperimentError, match="is not a list of values"):
        parse_experiment(SOUND, "x.yaml", [f"d={value}"])


@pytest.mark.parametrize(("text", "said"), [HARMFUL[3], HARMFUL[4], HARMFUL[6]])
def test_cluster_files_that_do_harm(tmp_path, text, said):
    path = tmp_path / "cluster.yaml"
    path.write_text(text)
    with pytest.raises(ClusterError, match=said):
        specification.load(path)
    path.write_text("# \n" * 100_000)
    with pytest.raises(ClusterError, match="more than the limit of 100,000"):
        specification.load(path)


@pytest.fixture(params=["device", "pipe", "folder"])
def no_file(request, tmp_path):
    if request.param == "device":
        return "/dev/zero"
    path = tmp_path / "x.yaml"
    os.mkfifo(path) if request.param == "pipe" else path.mkdir()
    return str(path)


def test_only_regular_files_are_read(no_file, tmp_path):
    with pytest.raises(ExperimentError, match="it is not a regular file"):
        load_experiment(no_file)
    with pytest.raises(ClusterError, match="it is not a regular file"):
        specification.load(tmp_path.__class__(no_file))
    for name in ("file", "edge-list"):
        with pytest.raises(WorkloadError, match="it is not a regular file"):
            workloads.make(name, path=no_file)
    with pytest.raises(TargetsError, match="it is not a regular file"):
        workloads.targets.make("file", workloads.make("prefix", d=2), path=no_file)
    named = SOUND.replace("name: prefix, d: 4", f"name: file, path: {no_file}")
    with pytest.raises(ExperimentError, match=r"workload\.path: .*it is not a regular file"):
        expand(parse_experiment(named, "x.yaml"))


def zeros(path):
    np.savez_compressed(path, x=np.zeros((1000, 1000)))


def bytes_as_floats(path):
    (np.save if path.suffix == ".npy" else np.savez)(path, np.ones((500, 600), np.int8))


def holes(path):
    with path.open("wb") as stream:
        stream.truncate(8 * 10**9)


@pytest.mark.parametrize(
    ("name", "made", "said"),
    [
        ("x.npz", zeros, r"its arrays take 8,000,\d+ bytes, more than"),
        ("x.npy", bytes_as_floats, "its arrays take 2,400,000 bytes, more than the limit"),
        ("x.npz", bytes_as_floats, "its arrays take 2,400,000 bytes, more than the limit"),
        ("x.npy", holes, "it holds 8,000,000,000 bytes, more than the limit"),
    ],
)
def test_arrays_that_unfold(tmp_path, monkeypatch, name, made, said):
    bytes_as_floats(tmp_path / "x.npy")
    monkeypatch.setattr("workloads.given.LARGEST_FILE_BYTES", 2_400_000)
    assert workloads.make("file", path=str(tmp_path / "x.npy")).d == 600
    made(tmp_path / name)
    monkeypatch.setattr("workloads.given.LARGEST_FILE_BYTES", 2_000_000)
    with pytest.raises(WorkloadError, match=said):
        workloads.make("file", path=str(tmp_path / name))


HUGE = 10**9
SIZES = [
    *((name, {"d": HUGE}) for name in ("prefix", "range", "all-range", "identity-sum", "random")),
    *((name, {"d": HUGE}) for name in ("wrange", "wdiscrete", "wrelated", "wmarginal")),
    *((name, {"d": 10**400}) for name in ("prefix", "wmarginal")),
    *((name, {"d": 10**6}) for name in ("random", "wrelated")),
    ("wmarginal", {"d": 9_699_690}),
    *((name, {"n": HUGE}) for name in ("average", "counting", "cycle")),
    ("dynamics", {"A": [[1.0]], "C": [[1.0]], "T": HUGE}),
    ("marginals", {"attributes": HUGE}),
    ("marginals", {"attributes": 60, "orders": [30]}),
    ("marginals", {"attributes": 100_000, "orders": [1]}),
    *(("kronecker", {"terms": [[f"identity:{size}"]]}) for size in (HUGE, "9" * 5000)),
    *(("kronecker", {"terms": [[factor]]}) for factor in ("prefix:100000", "all-range:5000")),
    ("sum", {"u": HUGE, "v": HUGE}),
    ("hamming", {"u": 9_000_000, "values": 9_000_000}),
    ("k-count", {"u": 9_000_000, "k": 9_000_000}),
]


@pytest.mark.parametrize(("name", "params"), SIZES)
def test_sizes_beyond_any_machine(name, params):
    with pytest.raises(WorkloadError, match=r"at most [\d,]+|limit of [\d,]+|has no size"):
        workloads.make(name, **params)


@pytest.mark.parametrize("more", ["replicates: 1000000000", "options: {tol: [%s], max_cg: [%s]}"])
def test_products_beyond_any_machine(more, monkeypatch):
    monkeypatch.setattr(grids, "MOST_POINTS", 1000)
    listed = ", ".join(map(str, range(1, 40)))
    text = SOUND.replace("[IP]", "[SM-II]") + f"    {more.replace('%s', listed)}\n"
    with pytest.raises(ExperimentError, match=r"line \d+.* points; expected at most 1,000"):
        expand(parse_experiment(text.replace("reference: IP", "reference: SM-II"), "x.yaml"))


MEASURED = """
import json, resource, subprocess, sys
ended = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps([ended.returncode, ended.stderr.splitlines(), peak]))
"""
"""In a small intermediate process, because a process starts with the peak memory of the one from
which it is forked, and this one is large."""


@pytest.fixture
def refused(tmp_path):
    """The output of ``sweep plan`` with little memory; anything slow reaches the timeout."""

    def plan(words):
        measured = subprocess.run(
            [sys.executable, "-c", MEASURED, sys.executable, "-m", "sweep.cli", "plan", words],
            cwd=tmp_path,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            capture_output=True,
            check=True,
            timeout=300,
        )
        code, sentences, kilobytes = json.loads(measured.stdout)
        assert code == 2, sentences
        assert len(sentences) == 1, sentences
        assert kilobytes < 500_000
        return sentences[0]

    return plan


AT_ONCE = [
    bomb() + SOUND,
    pytest.param(SOUND.replace("d: 4", f"d: {HUGE}"), marks=pytest.mark.slow),
    pytest.param(SOUND + f"    replicates: {HUGE}\n", marks=pytest.mark.slow),
    SOUND + "    where: \"'a' * 6000000000 == mechanism\"\n",
]
"""Possible effects of building, multiplying out and evaluating."""


@pytest.mark.parametrize("text", AT_ONCE)
def test_a_command_ends_at_once_and_small(tmp_path, refused, text):
    (tmp_path / "x.yaml").write_text(text)
    assert refused("x.yaml").startswith("error: x.yaml, line ")


@pytest.mark.slow
def test_a_command_on_arrays_that_unfold_ends_at_once_and_small(tmp_path, refused):
    np.savez_compressed(tmp_path / "zeros.npz", x=np.zeros((40_000, 40_000 // 8)))
    matrix = SOUND.replace("{name: prefix, d: 4}", "{name: file, path: zeros.npz}")
    (tmp_path / "x.yaml").write_text(matrix)
    assert "more than the limit" in refused("x.yaml")


ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"


def test_output_contains_no_terminal_commands(here, command, on_the_test_cluster):
    text = SOUND.removeprefix("reference: IP\n")
    text = text.replace("[IP]", '[{name: IP, label: "I\\e[2J\\x9bP\\u202E"}, geometric]')
    text += '    group: "g\\e]0;owned\\a"\n'
    (here / "x.yaml").write_text('title: "t\\e[2J"\n' + text)
    (here / "y.yaml").write_text('"k\\e[2J": 1\n' + text)
    for words, code in (
        (("plan", "x.yaml"), 0),
        (("plan", "y.yaml"), 2),
        (("run", "x.yaml"), 0),
        (("status", "results/x", "--errors"), 0),
        (("logs", "results/x"), 0),
        (("logs", "results/x", "--where", "d > 0"), 0),
        (("show", "results/x"), 0),
        (("rerun", "results/x", "--where", ESCAPES), 2),
        (("--debug", "rerun", "results/x", "--where", ESCAPES), 2),
    ):
        found = command(*words)
        assert found.exit_code == code, found.output
        assert not set(found.output) & set(ESCAPES) - set("owned]0;[2J31m"), words
    assert r"I\x1b[2J\x9bP\u202e" in command("show", "results/x").output


def test_escapes_are_written_out_and_the_rest_is_left():
    assert consoles.escape("a\x1b[0m\ud800\u2066b") == r"a\x1b[0m\ud800\u2066b"
    for text in ("Δ² — é 数\n\tb", "a\u00a0b", ""):
        assert consoles.escape(text) == text
    assert consoles.shorten("x" * 10**6).startswith("xxx")
    assert len(consoles.shorten("x" * 10**6)) < 5000


def test_the_environment_raises_limits(monkeypatch):
    assert parameters.limit("MOST", 7) == 7
    monkeypatch.setenv("SWEEP_MOST", "12")
    assert parameters.limit("MOST", 7) == 12
    for wrong in ("many", "0", "-3", ""):
        monkeypatch.setenv("SWEEP_MOST", wrong)
        with pytest.warns(UserWarning, match=f"SWEEP_MOST in the environment is '{wrong}'"):
            assert parameters.limit("MOST", 7) == 7


NONSENSE = [
    b"[" * 200_000,
    b'{"time": NaN, "began": 1e999, "format": 2, "identity": 3, "cells": "many"}',
    b"\xff\xfe",
    b'{"event": "RunEnded", "time": 1, "statuses": [1], "seconds": 1, "interrupted": false}\n'
    b'{"event": "TaskRetried", "time": 1e300, "cells": 1}',
]
SMALL_FILES = [
    "store.json",
    "cells.json",
    "progress.json",
    "runs.jsonl",
    "lease-000001",
    "experiment.yaml",
    "index.npz",
    ".results/000001.json",
    "results.zarr/.zmetadata",
]


@pytest.fixture(scope="module")
def sound_store(pair, tmp_path_factory):
    place = tmp_path_factory.mktemp("sound") / "s"
    sweep.run(parse_experiment(SOUND, "x.yaml"), place, pair.client())
    return place


@pytest.mark.parametrize("name", SMALL_FILES)
def test_a_damaged_file_of_a_store_is_a_sentence_or_is_ignored(
    sound_store, tmp_path, command, name
):
    store = tmp_path / "s"
    shutil.copytree(sound_store, store, symlinks=True)
    file = store / name
    assert file.exists() or name == "lease-000001"
    for number, nonsense in enumerate(NONSENSE):
        file.write_bytes(nonsense)
        packed = tmp_path / f"{number}.tar"
        for words in (("status", store), ("logs", store), ("pack", store, packed)):
            found = command(*words)
            assert found.exit_code in (0, 1, 2), (words, nonsense[:20], found.output)
            assert "Error" not in found.stderr, (words, nonsense[:20], found.stderr)
            assert "nan" not in found.output.lower()
            if found.exit_code == 2:
                assert len(found.stderr.strip().splitlines()) == 1, (words, found.stderr)
                assert name != "experiment.yaml" or str(file) in found.stderr
            if name == "store.json":
                assert f"'{file}' cannot be read" in found.stderr


def test_a_dataset_of_another_format_in_place_of_the_stores_is_named(
    sound_store, tmp_path, command, refusal
):
    store = tmp_path / "s"
    shutil.copytree(sound_store, store, symlinks=True)
    (store / "results.zarr").unlink()
    xr.Dataset({"a": ("x", [1.0])}).to_zarr(
        store / "results.zarr", zarr_format=3, consolidated=False
    )
    assert "not a dataset of zarr format 2; 'sweep run'" in command("status", store).stdout
    assert "is damaged: it is not a dataset of zarr format 2" in refusal("show", store)
