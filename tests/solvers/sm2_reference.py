"""SM-II as PVLDB 14(10) prints it: Algorithms 1 to 3 and equations (8) to (15), slow and plain.

Nothing is shared between two evaluations: every gradient and every product with the Hessian inverts
the covariance again. Equation (8) lacks an exp, which the text above it has, as does this
reference. After raising t, the listing of Algorithm 1 continues with a line search along the old
direction, which need not descend at the new t; the text takes a step only otherwise.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Constants:
    """The constants of Algorithms 1 to 3, by their names there."""

    MAXITER: int = 1000
    MU: float = 2.0
    MAXCG: int = 5
    NTTOL: float = 1e-3
    TOL: float = 1e-3
    TOL2: float = 1e-10
    sigma: float = 0.01
    beta: float = 0.5
    t2_factor: float = 1.0


@dataclass(frozen=True)
class Inputs:
    """B (k, d), L (m, k), c (m,) and the weight of the total variance (arXiv version, 6.1)."""

    B: Array
    L: Array
    c: Array
    total_error_weight: float = 0.0


def privacy(inputs: Inputs, cov: Array) -> Array:
    """g_i = b_i' inv(cov) b_i."""
    return np.diag(inputs.B.T @ np.linalg.inv(cov) @ inputs.B)


def ratios(inputs: Inputs, cov: Array) -> Array:
    """h_j = v_j cov v_j' / c_j."""
    return np.diag(inputs.L @ cov @ inputs.L.T) / inputs.c


def objective(inputs: Inputs, cov: Array, t1: float, t2: float) -> float:
    """Equation (8) with its exp, and the total variance."""
    g, h = privacy(inputs, cov), ratios(inputs, cov)
    total = inputs.total_error_weight * np.sum(inputs.c * h)
    return float(logsumexp(t1 * g) / t1 + logsumexp(t2 * h) / t2 + total)


def gradient(inputs: Inputs, cov: Array, t1: float, t2: float) -> Array:
    """Equation (13)."""
    X = np.linalg.inv(cov) @ inputs.B
    G = softmax(t1 * privacy(inputs, cov))
    H = softmax(t2 * ratios(inputs, cov))
    per_query = H / inputs.c + inputs.total_error_weight
    return -X @ np.diag(G) @ X.T + inputs.L.T @ np.diag(per_query) @ inputs.L


def hess_times_vec(inputs: Inputs, cov: Array, t1: float, t2: float, P: Array) -> Array:
    """Equation (14) times vec(P), by (A kron B) vec(C) = vec(B C A')."""
    inverse = np.linalg.inv(cov)
    X = inverse @ inputs.B
    V = inputs.L / np.sqrt(inputs.c)[:, None]
    G = softmax(t1 * privacy(inputs, cov))
    H = softmax(t2 * ratios(inputs, cov))
    mean_g = -X @ np.diag(G) @ X.T
    mean_h = V.T @ np.diag(H) @ V
    along_g = -np.diag(X.T @ P @ X)
    along_h = np.diag(V @ P @ V.T)
    result = -inverse @ P @ mean_g.T - mean_g @ P @ inverse.T
    result += t1 * -X @ np.diag(G * along_g) @ X.T - t1 * mean_g * np.sum(mean_g * P)
    result += t2 * V.T @ np.diag(H * along_h) @ V - t2 * mean_h * np.sum(mean_h * P)
    return result


def conjugate_gradient(
    inputs: Inputs, cov: Array, t1: float, t2: float, constants: Constants
) -> Array:
    """Algorithm 2."""
    s = np.zeros_like(cov)
    r = -gradient(inputs, cov, t1, t2)
    p = r
    rsold = np.sum(r * r)
    for _ in range(constants.MAXCG):
        Hp = hess_times_vec(inputs, cov, t1, t2, p)
        a = rsold / np.sum(p * Hp)
        s = s + a * p
        r = r - a * Hp
        rsnew = np.sum(r * r)
        if rsnew <= constants.TOL2:
            break
        p = r + rsnew / rsold * p
        rsold = rsnew
    return s


def line_search(
    inputs: Inputs, cov: Array, s: Array, t1: float, t2: float, constants: Constants
) -> float:
    """Algorithm 3."""
    last = objective(inputs, cov, t1, t2)
    slope = np.sum(s * gradient(inputs, cov, t1, t2))
    j = 1
    while True:
        alpha = constants.beta ** (j - 1)
        j += 1
        trial = cov + alpha * s
        try:
            np.linalg.cholesky(trial)
        except np.linalg.LinAlgError:
            continue
        current = objective(inputs, trial, t1, t2)
        if current <= last + alpha * constants.sigma * slope:
            return alpha


def optimize(inputs: Inputs, start: Array, constants: Constants) -> tuple[Array, int]:
    """Algorithm 1: the covariance and the iterations."""
    cov, t1, t2 = start, 1.0, 1.0
    size = inputs.B.shape[1] + inputs.L.shape[0]
    for iteration in range(1, constants.MAXITER + 1):
        s = conjugate_gradient(inputs, cov, t1, t2, constants)
        decrement = np.sum(s * gradient(inputs, cov, t1, t2))
        if abs(decrement) < constants.NTTOL:
            if size / t1 < constants.TOL:
                return cov, iteration
            t1 = constants.MU * t1
            t2 = constants.t2_factor * t1
            continue
        cov = cov + line_search(inputs, cov, s, t1, t2, constants) * s
    return cov, constants.MAXITER


def equation_14(inputs: Inputs, cov: Array, t1: float, t2: float) -> tuple[Array, Array]:
    """Equation (14) as arXiv v1 prints it, (k², k²): the parts of the profile and of the ratios."""
    inverse = np.linalg.inv(cov)
    of_profile = [-inverse @ np.outer(b, b) @ inverse for b in inputs.B.T]
    of_ratios = [np.outer(v, v) / c for v, c in zip(inputs.L, inputs.c, strict=True)]
    G, H = softmax(t1 * privacy(inputs, cov)), softmax(t2 * ratios(inputs, cov))
    second = [-np.kron(g, inverse) - np.kron(inverse, g) + np.kron(g, g) for g in of_profile]
    mean_g = np.tensordot(G, of_profile, 1)
    mean_h = np.tensordot(H, of_ratios, 1)
    left = t1 * (np.tensordot(G, second, 1) - np.kron(mean_g, mean_g))
    right = t2 * np.tensordot(H, [np.kron(h, h) for h in of_ratios], 1)
    return left, right - t2 * np.kron(mean_h, mean_h)


def program(inputs: Inputs, start: Array, constants: Constants) -> tuple[Array, int]:
    """SM-II as the authors' program ran it: the covariance and the iterations.

    The objective is t1 times the soft maximum of the profile plus t2 times that of the ratios, the
    tolerances apply to it, and t2 is MU t1 after the first level.
    """
    k, cov, t1, t2 = len(start), start, 1.0, 1.0
    size = inputs.B.shape[1] + inputs.L.shape[0]

    def value(cov: Array) -> float:
        g, h = privacy(inputs, cov), ratios(inputs, cov)
        return float(logsumexp(t1 * g) + logsumexp(t2 * h))

    for iteration in range(1, constants.MAXITER + 1):
        X = np.linalg.inv(cov) @ inputs.B
        G, H = softmax(t1 * privacy(inputs, cov)), softmax(t2 * ratios(inputs, cov))
        slope = t2 * inputs.L.T @ np.diag(H / inputs.c) @ inputs.L - t1 * X @ np.diag(G) @ X.T
        left, right = equation_14(inputs, cov, t1, t2)
        matrix, r = t1 * left + t2 * right, -slope.ravel()
        s, p = np.zeros(k * k), r
        for _ in range(constants.MAXCG):
            a = r @ r / (p @ matrix @ p)
            s, rest = s + a * p, r - a * matrix @ p
            if rest @ rest < constants.TOL2:
                break
            p, r = rest + rest @ rest / (r @ r) * p, rest
        delta = s @ slope.ravel()
        if delta >= 0:
            s = -slope.ravel()
            delta = s @ slope.ravel()
        if abs(delta) < constants.NTTOL:
            if size / t1 < constants.TOL:
                return cov, iteration
            t1 = constants.MU * t1
            t2 = constants.MU * t1
            continue
        alpha, before = 1.0, value(cov)
        while True:
            trial = cov + alpha * s.reshape(k, k)
            positive = np.linalg.eigvalsh(trial)[0] > 0
            if positive and value(trial) < before + alpha * constants.sigma * delta:
                break
            alpha *= constants.beta
        cov = trial
    return cov, constants.MAXITER
