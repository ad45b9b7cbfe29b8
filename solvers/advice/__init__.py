"""Advice on queries and targets: what they cost, why, and what comes for free.

`report` says what advice consists of, `candidates` solves every mechanism, `prices` finds what
each target costs and what relaxing the dearest saves, `advise` puts them together.
"""

from solvers.advice.advise import advise
from solvers.advice.report import (
    Advice,
    Answers,
    Budget,
    Candidate,
    FreeAnswer,
    Price,
    Relaxation,
)

__all__ = [
    "Advice",
    "Answers",
    "Budget",
    "Candidate",
    "FreeAnswer",
    "Price",
    "Relaxation",
    "advise",
]
