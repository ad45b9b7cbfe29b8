"""Pages of the documentation, as tests read them."""

import re
import textwrap
from pathlib import Path


def blocks(page: Path, language: str) -> list[str]:
    """Its blocks of code in a language."""
    code = rf"^( *)```{language}\n(.*?)^\1```"
    found = re.findall(code, page.read_text(), re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(text) for _, text in found]
