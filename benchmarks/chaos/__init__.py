"""One sweep through many random faults, and a check of its results afterwards."""
