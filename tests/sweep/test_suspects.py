"""Items whose workers died are tried on workers of their own, at once, three times."""

from sweep.grid.cells import Spec, WorkloadSpec
from sweep.plan.tasks import Bound, Task
from sweep.runner.suspects import Suspects
from sweep.store.ledger import DEADLY


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
