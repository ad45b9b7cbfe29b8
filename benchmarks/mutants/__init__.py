"""Random mutations of the packages, and whether the default tests notice them."""
