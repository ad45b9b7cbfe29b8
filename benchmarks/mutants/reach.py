"""Which tests reach which function, found once by running every test file with `calls`."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from benchmarks.mutants.calls import FOLDER
from benchmarks.mutants.copies import Copy
from benchmarks.mutants.mutations import Mutation

_LONGEST_FILE = 1800.0


@dataclass(frozen=True)
class Reach:
    """The functions that each test calls, and the time of the tests that passed.

    Attributes
    ----------
    calls : frozenset of (str, str, str)
        Test or test file, path and function.
    seconds : dict
        By test.
    """

    calls: frozenset[tuple[str, str, str]]
    seconds: dict[str, float]

    def tests(self, path: str, mutation: Mutation) -> list[str]:
        """The tests that call the function with the mutation, the quickest first.

        Of a line at the level of a module, those that call any function of the module.
        """
        module = self._by_path[path]
        whole = set().union(*module.values())
        contexts = module[mutation.function] if mutation.function else whole
        reached = [t for t in self.seconds if t in contexts or t.partition("::")[0] in contexts]
        return sorted(reached, key=self.seconds.__getitem__)

    @cached_property
    def _by_path(self) -> dict[str, dict[str, set[str]]]:
        found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for context, path, function in self.calls:
            found[path][function].add(context)
        return found


def draw(copy: Copy, folder: Path, say: Callable[[str], None]) -> Reach:
    """Run every test file of the copy that the folder does not have yet."""
    files = sorted(path.relative_to(copy.root) for path in (copy.root / "tests").rglob("test_*.py"))
    for number, path in enumerate(files, 1):
        kept = folder / "-".join(path.with_suffix("").parts)
        if not (kept / "done").exists():
            kept.mkdir(parents=True, exist_ok=True)
            for old in kept.iterdir():
                old.unlink()
            copy.test([path.as_posix()], _LONGEST_FILE, {FOLDER: str(kept)})
            (kept / "done").touch()
            say(f"[{number:3}/{len(files)}] reach of {path}")
    calls, times = _lines(folder, "*/*.calls"), list(_lines(folder, "*/tests.times"))
    wrong = sorted({test for test, how, _ in times if how == "failed"})
    for test in wrong:
        say(f"left out, it fails without a mutation: {test}")
    return Reach(
        frozenset(calls),
        {test: float(took) for test, how, took in times if how == "passed" and test not in wrong},
    )


def _lines(folder: Path, pattern: str) -> Iterator[tuple[str, str, str]]:
    for path in folder.glob(pattern):
        for line in path.read_text(encoding="utf-8").splitlines():
            first, second, third = line.split("\t")
            yield first, second, third
