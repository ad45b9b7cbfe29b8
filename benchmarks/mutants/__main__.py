"""Draws random mutations of the packages, and names those that no default test notices.

``python -m benchmarks.mutants --count 100 --seed 0``: everything happens in a copy. All tests
run once to find out which of them reach which function. The reach and the verdicts, one JSON line
each, are kept in ``results/mutants`` by the content of the sources and tests, so the same command
continues where it was stopped. A mutant is killed by a test that fails or hangs.
"""

import argparse
import difflib
import hashlib
import json
import math
import random
import tempfile
import time
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path

from benchmarks.mutants.calls import PACKAGES
from benchmarks.mutants.copies import Copy
from benchmarks.mutants.mutations import Mutation, mutations
from benchmarks.mutants.reach import Reach, draw

PROJECT = Path(__file__).parents[2]

PATIENCE = 120.0
"""Seconds that a mutant's tests may take, beside five times what they take without it."""


@dataclass(frozen=True)
class Verdict:
    """The verdict on a mutant: ``killed``, ``hung``, ``survived`` or ``unreached``.

    Attributes
    ----------
    number : int
        Its place in the sample, from 1.
    path, line, kind, diff
        The mutation.
    verdict : str
        What became of it.
    tests, reaching : int
        How many tests were run for it, of how many that call its function.
    seconds : float
        What they took.
    killer : str
        The test that failed.
    """

    number: int
    path: str
    line: int
    kind: str
    diff: str
    verdict: str
    tests: int
    reaching: int
    seconds: float
    killer: str

    @property
    def run(self) -> str:
        """Which tests, in words."""
        left_out = f" of {self.reaching}" if self.tests < self.reaching else ""
        return f"{self.tests}{left_out} tests"


def sample(root: Path, count: int, seed: int) -> list[tuple[str, Mutation]]:
    """A sample of mutations, in which every mutation of every file is equally likely."""
    files = sorted(path for package in PACKAGES for path in (root / package).rglob("*.py"))
    every = [
        (path.relative_to(root).as_posix(), mutation)
        for path in files
        for mutation in mutations(path.read_text(encoding="utf-8"))
    ]
    return random.Random(seed).sample(every, min(count, len(every)))


def judged(
    copy: Copy, number: int, path: str, mutation: Mutation, reach: Reach, seconds: float = math.inf
) -> Verdict:
    """Make the mutation, run the quickest tests that reach it for ``seconds``, and undo it."""
    file, reaching = copy.root / path, reach.tests(path, mutation)
    ends = accumulate(reach.seconds[test] for test in reaching)
    tests = [test for test, end in zip(reaching, ends, strict=True) if end <= seconds]
    source = file.read_text(encoding="utf-8")
    broken = mutation.apply(source)
    started, verdict, killer = time.monotonic(), "unreached", ""
    if reaching:
        file.write_text(broken, encoding="utf-8")
        try:
            outcome = copy.test(tests, PATIENCE + 5 * sum(reach.seconds[test] for test in tests))
        finally:
            file.write_text(source, encoding="utf-8")
        verdict = {0: "survived", None: "hung"}.get(outcome.code, "killed")
        killer = next((t for t in outcome.printed.splitlines() if t.startswith("FAILED ")), "")
    return Verdict(
        number=number,
        path=path,
        line=mutation.line,
        kind=mutation.kind,
        diff=_diff(source, broken),
        verdict=verdict,
        tests=len(tests),
        reaching=len(reaching),
        seconds=time.monotonic() - started,
        killer=killer,
    )


def _diff(source: str, broken: str) -> str:
    lines = difflib.unified_diff(source.splitlines(), broken.splitlines(), n=0, lineterm="")
    return "\n".join(list(lines)[3:])


def fingerprint(root: Path) -> str:
    """Of all sources and tests."""
    content = hashlib.sha256()
    for folder in (*PACKAGES, "tests"):
        for path in sorted((root / folder).rglob("*.py")):
            content.update(path.read_bytes())
    return content.hexdigest()[:12]


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m benchmarks.mutants", description=__doc__)
    options.add_argument("--count", type=int, default=100, help="how many mutants")
    options.add_argument("--seed", type=int, default=0, help="of the sample")
    options.add_argument(
        "--seconds", type=float, default=300.0, help="of tests for each mutant, the quickest first"
    )
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="mutants-") as temporary:
        copy = Copy.of(PROJECT, Path(temporary, "project"))
        kept = PROJECT / "results" / "mutants" / fingerprint(copy.root)
        reach = draw(copy, kept / "reach", print)
        journal = kept / f"seed-{chosen.seed}.jsonl"
        verdicts = [Verdict(**json.loads(line)) for line in _lines(journal)]
        drawn = sample(copy.root, chosen.count, chosen.seed)
        for number, (path, mutation) in enumerate(drawn[len(verdicts) :], len(verdicts) + 1):
            verdict = judged(copy, number, path, mutation, reach, chosen.seconds)
            with journal.open("a", encoding="utf-8") as sink:
                sink.write(json.dumps(asdict(verdict)) + "\n")
            verdicts.append(verdict)
            print(
                f"[{number:3}/{len(drawn)}] {verdict.verdict:9} {path}:{mutation.line} "
                f"{mutation.kind}, {verdict.run}, {verdict.seconds:.0f} s",
                flush=True,
            )
    print(report(verdicts))


def report(verdicts: list[Verdict]) -> str:
    """The score, and every survivor with its place and its diff."""
    alive = [v for v in verdicts if v.verdict in ("survived", "unreached")]
    named = [f"{v.path}:{v.line} {v.kind} {v.verdict}, {v.run}\n{v.diff}" for v in alive]
    score = f"{len(verdicts) - len(alive)} of {len(verdicts)} mutants were noticed"
    return "\n\n".join([*named, score])


def _lines(journal: Path) -> list[str]:
    return journal.read_text(encoding="utf-8").splitlines() if journal.exists() else []


if __name__ == "__main__":
    main()
