"""One sweep through many random faults, and what is left of it afterwards."""
