"""Property tests: the same examples in every run of a gate, fresh ones in `make explore`."""

from hypothesis import settings

settings.register_profile("gate", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile("gate")
