"""What the papers say, computed apart from the solvers: formulas and orderings to compare with."""

import numpy as np


def laplace_scale(sensitivity, epsilon):
    """The scale of the Laplace noise that is ε-private: ``sensitivity / ε``.

    Proposition 3 of Farokhi and Sandberg prints its inverse; its proof ends with
    ``sensitivity / b = ε``.
    """
    return sensitivity / epsilon


def gaussian_deviation(sensitivity, epsilon, delta):
    """A standard deviation of Gaussian noise that suffices for (ε, δ), δ at most 1/2.

    Equation (16) of Farokhi and Sandberg. Their Proposition 4 calls it ϑ, the variance; the
    lemma that its proof cites bounds the standard deviation.
    """
    return sensitivity * (np.sqrt(2 * np.log(1 / (2 * delta))) / epsilon + 1 / np.sqrt(2 * epsilon))


def information_about_cell(noise, slope_of_tilt):
    """The Fisher information about x of cos² noise whose tilt has this derivative at x.

    ``4 π² / width² + tilt² + 2 tilt' + tilt'² variance``, by parts from the score
    ``-d/dw log density + tilt' (w - mean)``.
    """
    return noise.fisher_information + 2 * slope_of_tilt + slope_of_tilt**2 * noise.variance


def refined_order(first, second, tolerance=1e-9):
    """Definition 5 of arXiv v1 on two privacy profiles: -1 if the first is more private, 1, or 0.

    Entries closer than the tolerance, relative to the largest, count as equal.
    """
    a, b = np.sort(first)[::-1], np.sort(second)[::-1]
    differs = np.flatnonzero(np.abs(a - b) > tolerance * max(a[0], b[0]))
    return int(np.sign(a[differs[0]] - b[differs[0]])) if differs.size else 0
