"""The errors that pydantic finds in a file, worded for its author."""

from collections.abc import Collection

from pydantic_core import ErrorDetails

from workloads.parameters import nearest

_PLAIN = {
    "valid tuple": "list",
    "valid list": "list",
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid boolean": "true or false",
    "a valid string": "a text",
}
"""Pydantic's words, and those of everybody."""


def worst(errors: list[ErrorDetails]) -> ErrorDetails:
    """The error to report: an unknown key first, since it may cause the others."""
    return next((error for error in errors if error["type"] == "extra_forbidden"), errors[0])


def message(error: ErrorDetails, keys: Collection[str]) -> str:
    """A clause on an error; ``keys`` are those that are valid where it was found."""
    text = error["msg"].removeprefix("Value error, ")
    match error["type"]:
        case "extra_forbidden":
            return f"no such key; {nearest(str(error['loc'][-1]), keys)}"
        case "missing":
            return f"needs {error['loc'][-1]!r}"
        case "value_error":
            return text
        case "too_short":
            return "is empty; expected at least one"
        case "string_pattern_mismatch":
            expected = "letters, digits, '.', '_' and '-'"
            return f"{error['input']!r} is not a valid name; expected {expected}"
        case "model_type" | "dict_type":
            return f"should be keys, each with a value, not {error['input']!r}"
        case _:
            plain = text.partition(", unable")[0].partition(", got")[0]
            for theirs, ours in _PLAIN.items():
                plain = plain.replace(theirs, ours)
            return f"{plain[0].lower()}{plain[1:]}, not {error['input']!r}".replace(
                "input should be", "should be"
            )
