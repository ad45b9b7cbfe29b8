"""The choices, attribute by attribute, of classes' indicators or of the contrasts of one class."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import prod

from solvers.orbits.products import Attribute, Products

INDICATORS = -1

Choice = tuple[int, ...]
"""For every attribute `INDICATORS`, or the class whose contrasts are meant."""


@dataclass(frozen=True, eq=False)
class Component:
    """The contrasts of some attributes.

    Attributes
    ----------
    choice : tuple of int
        For every attribute the class whose contrasts are meant, or `INDICATORS`.
    rank : float
        How many they are: the product of the classes' sizes, less one each.
    joint : tuple of tuple of int
        Attributes whose contrasts are those of their product: all that is not constant over them.
    """

    choice: Choice
    rank: float
    joint: tuple[tuple[int, ...], ...] = ()

    @property
    def chosen(self) -> list[int]:
        """The attributes whose contrasts are meant."""
        return [axis for axis, k in enumerate(self.choice) if k != INDICATORS]

    @property
    def apart(self) -> Iterator[Choice]:
        """The choices that it is made of: any but none of the attributes that are joint."""
        parts = [
            [set(p) for n in range(len(axes)) for p in combinations(axes, n)] for axes in self.joint
        ]
        for left_out in product(*parts):
            without = set().union(*left_out)
            yield tuple(INDICATORS if i in without else k for i, k in enumerate(self.choice))


def components(products: Products, attributes: Sequence[Attribute]) -> Iterator[Component]:
    """Every choice of indicators and contrasts that some group of queries sees."""
    choices: dict[Choice, None] = {}
    for group in products.groups:
        options = [
            [INDICATORS, *attribute.with_contrasts] if axis in group.kept else [INDICATORS]
            for axis, attribute in enumerate(attributes)
        ]
        choices.update(dict.fromkeys(product(*options)))
    for choice in choices:
        pairs = zip(attributes, choice, strict=True)
        ranks = (int(attribute.sizes[k]) - 1 for attribute, k in pairs if k != INDICATORS)
        yield Component(choice, float(prod(ranks)))


def choice_count(products: Products, attributes: Sequence[Attribute]) -> int:
    """At most so many choices there are."""
    options = [1 + len(attribute.with_contrasts) for attribute in attributes]
    return sum(prod(options[axis] for axis in group.kept) for group in products.groups)
