"""Conditions on named values, such as ``d <= 256 or mechanism != 'SM-II'``.

Conditions consist of comparisons, ``and``, ``or``, ``not``, ``in``, arithmetic, numbers, strings,
lists and names. Anything else is rejected, so a condition from a file can run no code.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from workloads.errors import WorkloadError
from workloads.user_code import syntax_tree

LONGEST = 10_000
"""Largest number of characters that a condition may have; parsing this many takes 30 ms."""

ValueOf = Callable[[Mapping[str, object]], object]
"""The type of the function that computes the value of an expression from those of its names."""

_STRAIGHT = str.maketrans("‘’‚“”„", "'''\"\"\"")
_OPERATORS: Mapping[type[ast.AST], Callable[..., object]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda value, many: value in many,
    ast.NotIn: lambda value, many: value not in many,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.Not: operator.not_,
    ast.USub: operator.neg,
}


class ConditionError(WorkloadError):
    """Raised if a condition cannot be parsed or evaluated."""


class MissingNameError(ConditionError):
    """Raised if a condition uses a name that has no value."""


@dataclass(frozen=True)
class Condition:
    """A parsed condition; `parse` has checked that it contains only allowed syntax."""

    text: str
    names: frozenset[str]
    value_of: ValueOf = field(repr=False, compare=False)

    def holds(self, values: Mapping[str, object]) -> bool:
        """Return whether the condition is true when its names have the values in ``values``.

        Raises
        ------
        MissingNameError
            If a name has no value.
        ConditionError
            If the condition cannot be evaluated, for instance because it compares a text with a
            number.
        """
        try:
            return bool(self.value_of(values))
        except KeyError as error:
            raise MissingNameError(
                f"condition {self.text!r} uses {error}, which has no value here; "
                f"expected one of: {', '.join(values)}"
            ) from None
        except (TypeError, ValueError, ArithmeticError, MemoryError, RecursionError) as error:
            raise ConditionError(
                f"condition {self.text!r} cannot be evaluated: {error}; "
                "expected numbers compared with numbers, and texts with texts"
            ) from None

    def holds_if_known(self, values: Mapping[str, object]) -> bool:
        """Like `holds`, but return False where `holds` raises MissingNameError."""
        try:
            return self.holds(values)
        except MissingNameError:
            return False


def parse(text: str) -> Condition:
    """Parse a condition; the curly quotes of word processors are read as straight quotes.

    Raises
    ------
    ConditionError
        If the text is too long, is not an expression, or contains syntax that is not allowed.
    """
    if len(text) > LONGEST:
        raise ConditionError(
            f"condition {text[:40]!r}... has {len(text):,} characters; expected at most "
            f"{LONGEST:,}, the limit of workloads.conditions.LONGEST"
        )
    try:
        tree = syntax_tree(text.translate(_STRAIGHT).strip(), "eval").body
        value_of = _compile(tree)
    except _StrangeError as error:
        raise ConditionError(
            f"condition {text!r} contains {error}; expected comparisons of names with values, "
            "joined by 'and', 'or' and 'not'"
        ) from None
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise ConditionError(
            f'condition {text!r} cannot be read; expected a form like "d <= 256 and mechanism != '
            "'IP'\""
        ) from None
    names = frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    return Condition(text, names, value_of)


class _StrangeError(Exception):
    """Raised with the text of a part of a condition that is not allowed."""


def _compile(node: ast.expr) -> ValueOf:
    """Return the function that computes the value of an expression.

    Raises
    ------
    _StrangeError
        If the expression contains syntax that is not allowed.
    """
    match node:
        case ast.Constant(value=value):
            return lambda names: value
        case ast.Name(id=name):
            return lambda names: names[name]
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            listed = list(map(_compile, elements))
            return lambda names: [element(names) for element in listed]
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
            apply, inner = _OPERATORS[type(op)], _compile(operand)
            return lambda names: apply(inner(names))
        case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
            compute, pair = _OPERATORS[type(op)], (_compile(left), _compile(right))
            return lambda names: compute(*(_as_number(operand(names)) for operand in pair))
        case ast.BoolOp(op, operands):
            combine, parts = all if isinstance(op, ast.And) else any, list(map(_compile, operands))
            return lambda names: combine(part(names) for part in parts)
        case ast.Compare(left, ops, others) if all(type(op) in _OPERATORS for op in ops):
            ends = pairwise(map(_compile, (left, *others)))
            steps = [(_OPERATORS[type(op)], *pair) for op, pair in zip(ops, ends, strict=True)]
            return lambda names: all(holds(x(names), y(names)) for holds, x, y in steps)
    raise _StrangeError(repr(ast.unparse(node)))


def _as_number(value: object) -> int | float:
    if not isinstance(value, int | float):
        raise TypeError(f"arithmetic needs numbers, and {value!r} is not one")
    return value
