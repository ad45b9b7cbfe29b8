"""The small mistakes that a source file could have, each as a replacement of some bytes.

Comparisons moved by one or reversed, arithmetic operators exchanged, ``and`` for ``or``, numbers
off by one, conditions negated, a ``not`` or a minus sign gone. Annotations and formatted strings
are not mutated.
"""

import ast
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

COMPARISONS = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
ARITHMETIC = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "/"),
    ast.Mod: ("%", "*"),
    ast.Pow: ("**", "*"),
}
LOGIC = {ast.And: ("and", "or"), ast.Or: ("or", "and")}


@dataclass(frozen=True)
class Mutation:
    """One mistake.

    Attributes
    ----------
    kind : str
        What is changed.
    line : int
        Where, counted from 1.
    function : str
        The qualified name of the outermost function around it; empty at the level of a module.
    start, stop : int
        The bytes that are replaced.
    text : str
        What replaces them.
    """

    kind: str
    line: int
    function: str
    start: int
    stop: int
    text: str

    def apply(self, source: str) -> str:
        """The source with the mistake in it."""
        old = source.encode()
        return (old[: self.start] + self.text.encode() + old[self.stop :]).decode()


def mutations(source: str) -> list[Mutation]:
    """All mistakes of a source, in the order of their places."""
    return sorted(_Places(source).found(), key=lambda found: (found.start, found.stop, found.kind))


class _Places:
    """The positions of the nodes of a source in its bytes."""

    def __init__(self, source: str) -> None:
        self.source = source.encode()
        self.tree = ast.parse(source)
        self.lines = [0]
        for line in self.source.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))

    def found(self) -> Iterator[Mutation]:
        for node, function in _nodes(self.tree):
            for kind, start, stop, text in self._replacements(node):
                line = bisect_right(self.lines, start)
                yield Mutation(kind, line, function, start, stop, text)

    def _replacements(self, node: ast.AST) -> Iterator[tuple[str, int, int, str]]:
        match node:
            case ast.Compare(left, ops, right):
                for (before, after), operator in zip(pairwise([left, *right]), ops, strict=True):
                    old, new = COMPARISONS[type(operator)]
                    yield from self._between("comparison", before, after, old, new)
            case ast.BinOp(left, operator, right) if type(operator) in ARITHMETIC:
                yield from self._between("arithmetic", left, right, *ARITHMETIC[type(operator)])
            case ast.BoolOp(operator, values):
                for before, after in pairwise(values):
                    yield from self._between("and/or", before, after, *LOGIC[type(operator)])
            case ast.AugAssign(target, operator, value) if type(operator) in ARITHMETIC:
                yield from self._between("arithmetic", target, value, *ARITHMETIC[type(operator)])
            case ast.Constant(int() | float() as value) if not isinstance(value, bool):
                yield "number", self._start(node), self._stop(node), repr(value + 1)
            case ast.UnaryOp(ast.Not()):
                yield "not removed", self._start(node), self._start(node) + len("not"), ""
            case ast.UnaryOp(ast.USub()):
                yield "sign", self._start(node), self._start(node) + len("-"), ""
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
                yield from self._negated(test)
            case ast.comprehension(ifs=ifs):
                for test in ifs:
                    yield from self._negated(test)

    def _negated(self, test: ast.expr) -> Iterator[tuple[str, int, int, str]]:
        if not isinstance(test, ast.UnaryOp | ast.NamedExpr):
            start, stop = self._start(test), self._stop(test)
            yield "condition", start, stop, f"(not ({self.source[start:stop].decode()}))"

    def _between(
        self, kind: str, before: ast.expr, after: ast.expr, old: str, new: str
    ) -> Iterator[tuple[str, int, int, str]]:
        """The operator in the gap between two operands, where that holds no comment."""
        start, stop = self._stop(before), self._start(after)
        gap = self.source[start:stop].decode()
        if "#" not in gap and old in gap:
            at = start + len(gap[: gap.index(old)].encode())
            yield kind, at, at + len(old), new

    def _start(self, node: ast.expr) -> int:
        return self.lines[node.lineno - 1] + node.col_offset

    def _stop(self, node: ast.expr) -> int:
        return self.lines[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)


def _nodes(node: ast.AST, scope: str = "", function: str = "") -> Iterator[tuple[ast.AST, str]]:
    """All nodes but annotations and f-strings, each with its outermost function."""
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if name in ("annotation", "returns") or not isinstance(child, ast.AST):
                continue
            if isinstance(child, ast.JoinedStr):
                continue
            outer, inner = scope, function
            if isinstance(child, ast.ClassDef):
                outer = f"{scope}{child.name}."
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                inner = function or scope + child.name
            yield child, inner
            yield from _nodes(child, outer, inner)
