"""Property tests: the same few examples in every gate, many fresh ones in `make explore`."""

from hypothesis import HealthCheck, settings

any_speed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("gate", any_speed, derandomize=True, max_examples=20)
settings.register_profile("explore", any_speed, print_blob=True, max_examples=200)
settings.load_profile("gate")
