"""Property tests: the same few examples in every gate, many fresh ones in `make explore`."""

import os

from hypothesis import HealthCheck, settings

os.environ.pop("COLUMNS", None)  # pytest-xdist sets it, and output would wrap there alone

any_speed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("gate", any_speed, derandomize=True, max_examples=20)
settings.register_profile("explore", any_speed, print_blob=True, max_examples=200)
settings.load_profile("gate")
