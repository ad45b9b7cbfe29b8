"""The cluster files in the documentation, for tests that start the real thing."""

from pathlib import Path
from typing import Any

from pages import blocks
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]


def printed(page: str, mark: str) -> str:
    """The first YAML block of a page that contains ``mark``."""
    return next(text for text in blocks(ROOT / page, "yaml") if mark in text)


def with_kwargs(text: str, path: Path, **changed: Any) -> Path:
    """That file, written to ``path`` with other values of some ``kwargs``; None leaves one out."""
    yaml = YAML()
    content = yaml.load(text)
    for name, value in changed.items():
        content["kwargs"].pop(name, None)
        if value is not None:
            content["kwargs"][name] = value
    with path.open("w") as file:
        yaml.dump(content, file)
    return path


def commands(page: str) -> list[str]:
    """The lines of a page's console blocks."""
    found = blocks(ROOT / page, "console")
    return [line for block in found for line in block.splitlines() if line]
