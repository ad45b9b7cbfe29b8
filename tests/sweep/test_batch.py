"""What is read from a batch system's list of jobs."""

import asyncio
import os
from types import SimpleNamespace

import pytest

from sweep.cluster import batch
from sweep.cluster.batch import Queue

PBS = """
pbs01:
                                                            Req'd  Req'd   Elap
Job ID          Username Queue    Jobname    SessID NDS TSK Memory Time  S Time
--------------- -------- -------- ---------- ------ --- --- ------ ----- - -----
7.pbs01         user     workq    dask-work*    --    1   1    2gb 00:30 Q   --
5.pbs01         user     workq    dask-work*  23411   1   1    2gb 00:30 R 00:01"""
SGE = """job-ID  prior   name       user         state submit/start at     queue          slots
----------------------------------------------------------------------------------------------
      7 0.00000 dask-worke user         qw    11/20/2026 11:59:11                    1
      5 0.55500 dask-worke user         r     11/20/2026 11:58:02 all.q@node01       1"""
LISTS = {
    "slurm": ("squeue", "7 PENDING Resources\n5 RUNNING None", "PENDING (Resources)"),
    "pbs": ("qstat", PBS, "Q"),
    "sge": ("qstat", SGE, "qw"),
    "lsf": ("bjobs", "7         PEND\n5         RUN", "PEND"),
    "htcondor": ("condor_q", "7.0 JobStatus=1\n5.0 JobStatus=2", "JobStatus=1"),
}


def queue(*ids, system="slurm"):
    workers = {number: SimpleNamespace(job_id=job) for number, job in enumerate(ids)}
    return Queue(SimpleNamespace(job_cls=SimpleNamespace(config_name=system), workers=workers))


@pytest.fixture
def listed_by(tmp_path, monkeypatch):
    """Has a command of that name do this."""

    monkeypatch.setattr(batch, "_SECONDS", 300.0)

    def make(command, script):
        (tmp_path / command).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / command).chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    return make


@pytest.mark.parametrize(("system", "listed"), LISTS.items(), ids=LISTS)
def test_jobs_that_wait_and_jobs_that_are_over(listed_by, system, listed):
    command, text, waiting = listed
    listed_by(command, f"cat <<'END'\n{text}\nEND")
    suffix = ".0" if system == "htcondor" else ""
    jobs = queue(f"7{suffix}", f"8{suffix}", None, system=system)
    known = asyncio.run(jobs.states())
    assert list(known) == [f"7{suffix}", f"5{suffix}"]
    assert jobs.over(range(3), known) == [1]
    assert jobs.summary(range(3), known) == f"1 {waiting}"
    listed_by(command, "exit 0")
    assert asyncio.run(jobs.states()) == {}  # it has shown that it knows our jobs


def test_jobs_in_the_same_state_are_counted(listed_by):
    listed_by("squeue", "printf '7 PENDING Priority\\n8 PENDING Priority\\n5 RUNNING None\\n'")
    jobs = queue("5", "7", "8")
    said = jobs.summary(range(3), asyncio.run(jobs.states()))
    assert said == "2 PENDING (Priority), 1 RUNNING"


@pytest.mark.parametrize("text", ["", "9.pbs01 x", "Fehler: Server antwortet nicht", PBS])
def test_a_list_that_never_showed_our_jobs_is_not_believed(listed_by, text):
    listed_by("qstat", f"cat <<'END'\n{text}\nEND")
    assert asyncio.run(queue("8", system="pbs").states()) is None


def test_a_queue_that_does_not_answer_says_nothing_of_any_job(listed_by, tmp_path, monkeypatch):
    listed_by("squeue", "exit 1")
    assert asyncio.run(queue("7").states()) is None
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    assert asyncio.run(queue("7").states()) is None
    assert asyncio.run(queue("7", system="oar").states()) is None


def test_a_queue_that_hangs_leaves_no_process_behind(listed_by, tmp_path, monkeypatch):
    monkeypatch.setattr(batch, "_SECONDS", 0.1)
    begun = tmp_path / "begun"
    listed_by("squeue", f"echo $$ > {begun}-part\nmv {begun}-part {begun}\nexec sleep 600")

    async def asked():
        while not begun.exists():
            assert await queue("7").states() is None
        number = int(begun.read_text())
        while os.path.exists(f"/proc/{number}"):
            await asyncio.sleep(0.02)

    asyncio.run(asyncio.wait_for(asked(), 300))


def test_a_command_that_is_not_there_says_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert asyncio.run(queue("7").states()) is None
