"""What pydantic finds wrong with a file, in words for those who wrote it."""

from collections.abc import Collection

from pydantic_core import ErrorDetails

from workloads.parameters import nearest


def worst(found: list[ErrorDetails]) -> ErrorDetails:
    """The error to tell: that a key does not exist may be the cause of the others."""
    return next((one for one in found if one["type"] == "extra_forbidden"), found[0])


def complaint(found: ErrorDetails, keys: Collection[str]) -> str:
    """A clause on an error; ``keys`` are those that are valid where it was found."""
    said = found["msg"].removeprefix("Value error, ")
    match found["type"]:
        case "extra_forbidden":
            return f"no such key; {nearest(str(found['loc'][-1]), keys)}"
        case "missing":
            return f"needs {found['loc'][-1]!r}"
        case "value_error":
            return said
        case "too_short":
            return "is empty; expected at least one"
        case "string_pattern_mismatch":
            expected = "letters, digits, '.', '_' and '-'"
            return f"{found['input']!r} is not a valid name; expected {expected}"
        case "model_type" | "dict_type":
            return f"should be keys, each with a value, not {found['input']!r}"
        case _:
            plain = said.replace("valid tuple", "list").replace("valid list", "list")
            return f"{plain[0].lower()}{plain[1:]}, not {found['input']!r}".replace(
                "input should be", "should be"
            )
