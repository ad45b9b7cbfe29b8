"""What the engine itself costs: the whole command on 10 000 trivial cells, first and again.

``python -m pytest benchmarks/bench_engine.py --benchmark-only``
"""

import subprocess
import sys

import pytest

WORDS = ("run", "trivial", "--store", "store")


@pytest.fixture
def command(tmp_path):
    """Runs ``sweep run trivial`` in an empty folder, as a user would."""

    def run():
        subprocess.run(
            [sys.executable, "-m", "sweep.cli", *WORDS],
            cwd=tmp_path,
            check=True,
            capture_output=True,
        )

    return run


def test_ten_thousand_trivial_cells(benchmark, command):
    benchmark.pedantic(command, rounds=1)


def test_ten_thousand_trivial_cells_again(benchmark, command):
    command()
    benchmark.pedantic(command, rounds=3)
