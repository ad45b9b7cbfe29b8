"""Conditions on named values, such as ``d <= 256 or mechanism != 'SM-II'``.

Conditions consist of comparisons, ``and``, ``or``, ``not``, ``in``, arithmetic, numbers, strings,
lists and names. Anything else is rejected, so a condition from a file can run no code.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from workloads.errors import WorkloadError
from workloads.user_code import syntax_tree

LONGEST = 10_000
"""Largest number of characters that a condition may have."""

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
    _tree: ast.expr

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
            return bool(_value(self._tree, values))
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
        strange = [
            ast.unparse(node) or type(node).__name__
            for node in ast.walk(tree)
            if not isinstance(node, _ALLOWED)
        ]
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise ConditionError(
            f'condition {text!r} cannot be read; expected a form like "d <= 256 and mechanism != '
            "'IP'\""
        ) from None
    if strange:
        raise ConditionError(
            f"condition {text!r} contains {strange[0]!r}; expected comparisons of names with "
            "values, joined by 'and', 'or' and 'not'"
        )
    names = frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    return Condition(text, names, tree)


_ALLOWED = (
    ast.BoolOp,
    ast.boolop,
    ast.Compare,
    ast.BinOp,
    ast.UnaryOp,
    ast.Name,
    ast.Load,
    ast.Constant,
    ast.List,
    ast.Tuple,
    *_OPERATORS,
)


def _value(node: ast.expr, names: Mapping[str, object]) -> object:
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return names[node.id]
        case ast.List() | ast.Tuple():
            return [_value(element, names) for element in node.elts]
        case ast.UnaryOp():
            return _OPERATORS[type(node.op)](_value(node.operand, names))
        case ast.BinOp():
            left, right = (_value(operand, names) for operand in (node.left, node.right))
            for operand in (left, right):
                if not isinstance(operand, int | float):
                    raise TypeError(f"arithmetic needs numbers, and {operand!r} is not one")
            return _OPERATORS[type(node.op)](left, right)
        case ast.BoolOp():
            combine = all if isinstance(node.op, ast.And) else any
            return combine(_value(operand, names) for operand in node.values)
        case ast.Compare():
            values = [_value(operand, names) for operand in (node.left, *node.comparators)]
            pairs = zip(node.ops, values[:-1], values[1:], strict=True)
            return all(_OPERATORS[type(op)](left, right) for op, left, right in pairs)
    raise TypeError(f"{ast.unparse(node)!r} has no value")
