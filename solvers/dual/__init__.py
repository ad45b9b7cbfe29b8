"""Problem 1 and its relatives, solved through their dual, with certified bounds.

Input: the scaled workload, as one matrix or in blocks. Output: weights with certified bounds.
"""

REVISION = 3
"""Version of the optimiser: increase it when the optimiser's answers change.

Stored results of earlier versions are then stale.
"""
