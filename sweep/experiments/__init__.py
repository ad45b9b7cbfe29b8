"""The experiments that ship, one YAML file each."""
