"""Source texts can be parsed in several threads at once."""

import ast
import gc
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from workloads.user_code import syntax_tree

SOURCE = "\n".join(f"def f{n}(x):\n    return [x + {n}, {{'a': (x, {n})}}]" for n in range(100))


@pytest.fixture
def threads_that_switch_anywhere():
    """Each collection lets other threads run, as Dask's callbacks do."""
    thresholds = gc.get_threshold()

    def let_others_run(phase, info):
        time.sleep(0)

    gc.callbacks.append(let_others_run)
    gc.set_threshold(20)
    yield
    gc.set_threshold(*thresholds)
    gc.callbacks.remove(let_others_run)


def test_threads_that_parse_at_once_do_not_disturb_one_another(threads_that_switch_anywhere):
    with ThreadPoolExecutor(4) as pool:
        trees = list(pool.map(syntax_tree, [SOURCE] * 40))
    assert {ast.dump(tree) for tree in trees} == {ast.dump(ast.parse(SOURCE))}
