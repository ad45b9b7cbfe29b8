"""What a dense solve computes, counted call by call, and priced by what each call takes."""

from solvers.dual import matrix_blocks, newton_system

_BESIDE = 2.5e8
"""Checking a problem and its solution."""

_SPECTRA_BESIDE = 6
"""Factorising the workload, and confirming the noise by its own numbers."""


def _spectrum(n, k):
    return 5e6 + 1800.0 * n * k + 5.0 * n * k**2


def _system(n, k):
    return 2e7 + 2400.0 * n * k + 1.8 * n**2 * k


def _product(n, k):
    return 8e6 + 300.0 * n * k + 1.5 * n * k**2


PRICES = {"spectrum": _spectrum, "rough_masses": _spectrum, "system": _system, "times": _product}
"""In operations of large matrix products that take as long, of n weights and rank k; fitted to
the CPU seconds of single calls on one core of 72 gigaflops, k from 8 to 256."""


class Counts:
    """How often each of `PRICES` is called, and the price of all calls."""

    def __init__(self, monkeypatch):
        self.flops, self.calls = _BESIDE, dict.fromkeys(PRICES, 0)
        for name in ("spectrum", "rough_masses"):
            self._count(monkeypatch, matrix_blocks, name, name, _of_factors)
        system = newton_system.PreconditionedSystem
        self._count(monkeypatch, system, "__init__", "system", _of_blocks)
        self._count(
            monkeypatch, system, "times", "times", lambda own, z: _of_blocks(own, own._blocks)
        )

    def _count(self, monkeypatch, owner, name, priced, sizes):
        called = getattr(owner, name)

        def counted(*args, **options):
            self.calls[priced] += 1
            self.flops += PRICES[priced](*sizes(*args))
            return called(*args, **options)

        monkeypatch.setattr(owner, name, counted)

    def with_the_rest(self, n, k):
        """What the solve takes in all."""
        return self.flops + _SPECTRA_BESIDE * _spectrum(n, k)


def _of_factors(factors, p, q):
    return p.size + q.size, factors.rank


def _of_blocks(own, found, *others):
    (only,) = found
    return only.vectors.size, only.singular.size


def _of_system(own, z):
    return _of_blocks(own, own._blocks)
