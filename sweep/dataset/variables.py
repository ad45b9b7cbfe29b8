"""The attributes of every variable of the dataset."""

from typing import Any

from sweep.experiment.meanings import MEANINGS
from sweep.store.records import Status


def attributes(name: str) -> dict[str, Any]:
    """``long_name`` and ``units`` of a variable or coordinate; its name in words if unknown."""
    if name == "started":
        return {"long_name": MEANINGS[name][0]}
    long_name, units = MEANINGS.get(name, (name.replace("_", " "), "1"))
    found: dict[str, Any] = {"long_name": long_name, "units": units}
    if name == "status":
        found["flag_values"] = [int(status) for status in Status]
        found["flag_meanings"] = " ".join(status.label for status in Status)
    return found
