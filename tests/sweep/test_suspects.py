"""Items whose workers died are tried on workers of their own, at once, three times."""

import pytest
from faults import Fault, preloaded, search_path

import sweep
from sweep import events
from sweep.grid.cells import Spec, WorkloadSpec
from sweep.plan.tasks import Bound, Task
from sweep.runner import clusters
from sweep.runner.suspects import Suspects
from sweep.store.ledger import DEADLY
from sweep.store.records import CellRecord, Status


def task(name, *problems):
    prefix, uniform = WorkloadSpec("prefix", {"d": 2}), Spec("uniform")
    return Task(name, tuple(Bound(problem, "key", prefix, uniform) for problem in problems))


def test_each_item_has_a_worker_of_its_own_and_all_workers_have_one():
    suspects = Suspects()
    suspects.add(task("many", "p", "q", "r"))
    suspects.add(task("one", "s"))
    first = suspects.next_trials(["a", "b", "c"])
    assert [worker for _, worker in first] == ["a", "b", "c"]
    assert [[item.problem for item in one.items] for one, _ in first] == [["p"], ["q"], ["r"]]
    assert not suspects.next_trials(["a", "b", "c"])
    assert not suspects.over(first[1][0], 0)
    (second,) = suspects.next_trials(["a", "b", "c"])
    assert (second[0].items[0].problem, second[1]) == ("s", "b")
    assert not suspects


def test_only_what_dies_alone_is_given_up():
    suspects = Suspects()
    suspects.add(task("many", "p", "q"))
    ((killer, _), (innocent, _)) = suspects.next_trials(["a", "b"])
    assert not suspects.over(innocent, 0)
    for _ in range(DEADLY - 1):
        assert not suspects.over(killer, 1)
        suspects.add(killer)
        ((killer, _),) = suspects.next_trials(["c"])
    assert suspects.over(killer, 1)
    assert (suspects.deaths(killer), suspects.deaths(innocent)) == (DEADLY, 0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["segfault", "sigkill", "memory"])
def test_a_cell_that_crashes_is_lost_alone_and_left_alone(
    small, tmp_path, records, monkeypatch, kind
):
    monkeypatch.setenv("PYTHONPATH", search_path())
    preload = preloaded(tmp_path, Fault(kind, "GM"))
    more = {"n_workers": 2, "memory_limit": "900MiB", "preload": [str(preload)]}
    given = {"module": "dask.distributed", "class": "LocalCluster"}
    kwargs = {**clusters.LOCAL.kwargs, **more}
    spec = clusters.ClusterSpec.model_validate({**given, "kwargs": kwargs})
    experiment, heard = small("[4]", "[IP, GM, CA]"), []
    dataset = sweep.run(experiment, tmp_path / "s", cluster=spec)
    status = dataset.status.sel(d=4).to_series().to_dict()
    assert status == {"IP": Status.OK, "GM": Status.LOST, "CA": Status.OK}
    (lost,) = (r for r in records(tmp_path / "s") if isinstance(r, CellRecord) and r.deaths)
    assert lost.deaths == DEADLY
    assert "its worker died each time (killed, crashed or out of memory)" in lost.error
    sweep.run(experiment, tmp_path / "s", "no client is needed", listen=heard.append)
    (started,) = (event for event in heard if isinstance(event, events.RunStarted))
    assert (started.todo, started.deadly) == (0, 1)
