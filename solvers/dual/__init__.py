"""Problem 1 and its relatives through their dual, with certificates.

Input: the scaled workload, whole or in blocks. Output: weights with certified bounds.
"""

REVISION = 3
"""Raise this when the optimiser's answers change; results of other revisions are stale."""
