"""Property tests: the same few examples in every gate, many fresh ones in `make explore`."""

from hypothesis import settings

settings.register_profile("gate", deadline=None, derandomize=True, max_examples=20)
settings.register_profile("explore", deadline=None, print_blob=True, max_examples=200)
settings.load_profile("gate")
