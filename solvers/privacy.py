"""From privacy cost to (epsilon, delta) and back, by the exact Gaussian condition."""
