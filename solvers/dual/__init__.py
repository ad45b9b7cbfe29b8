"""Problem 1 and its relatives through their dual, with certificates.

In: the scaled workload, whole or in blocks. Out: weights with certified bounds.
"""

REVISION = 2
"""Raised by whoever changes what the optimiser answers; results of another revision are stale."""
