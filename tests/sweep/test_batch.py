"""What is read from Slurm's list of jobs."""

import asyncio
from types import SimpleNamespace

from sweep.cluster import batch


def of_jobs(*ids, config_name="slurm"):
    workers = {number: SimpleNamespace(job_id=job) for number, job in enumerate(ids)}
    return SimpleNamespace(job_cls=SimpleNamespace(config_name=config_name), workers=workers)


def listed_by(folder, monkeypatch, script):
    (folder / "squeue").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_jobs_that_wait_and_jobs_that_are_over(tmp_path, monkeypatch):
    listed_by(
        tmp_path, monkeypatch, "echo '7 PENDING Resources\n8 PENDING Resources\n5 RUNNING None'"
    )
    cluster = of_jobs("7", "8", "9", None)
    known = asyncio.run(batch.states(cluster))
    assert known == {"7": "PENDING Resources", "8": "PENDING Resources", "5": "RUNNING None"}
    assert batch.over(cluster, cluster.workers, known) == [2]
    assert batch.summary(cluster, cluster.workers, known) == "2 PENDING (Resources)"
    assert batch.summary(of_jobs("5", "7"), (0, 1), known) == "1 RUNNING, 1 PENDING (Resources)"


def test_a_queue_that_does_not_answer_says_nothing_of_any_job(tmp_path, monkeypatch):
    listed_by(tmp_path, monkeypatch, "exit 1")
    assert asyncio.run(batch.states(of_jobs("7"))) is None
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    assert asyncio.run(batch.states(of_jobs("7"))) is None
    assert asyncio.run(batch.states(of_jobs("7", config_name="pbs"))) is None
