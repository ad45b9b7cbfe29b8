"""The documentation's site: `make docs` builds it, any warning is an error."""

import json
import shutil
import tomllib
from pathlib import Path

import typer
from docutils import nodes
from sphinx.application import Sphinx
from typer.cli import get_docs_for_click

from sweep.cli import app as command_line

HERE = Path(__file__).parent
project = "fitness-sweep"
author = "the fitness-sweep authors"
copyright = author
version = release = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"][
    "version"
]

extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.autosummary"]
exclude_patterns = ["_build", "generated/command-line.md"]

myst_heading_anchors = 4
highlight_language = "none"

default_role = "autolink"
autosummary_generate = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
nitpicky = True
# Names between backquotes in docstrings are links where there is a page, and code elsewhere.
nitpick_ignore_regex = [("py:obj", ".*")]

html_theme = "furo"
html_title = project
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_show_copyright = False


def generate(_: Sphinx) -> None:
    """Write what is told by the code itself: the commands, and the notebooks as pages."""
    folder = HERE / "generated"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    command = typer.main.get_command(command_line)
    text = get_docs_for_click(
        obj=command, ctx=typer.Context(command, help_option_names=["-h", "--help"]), name="sweep"
    )
    _, _, commands = text.partition("\n")
    (folder / "command-line.md").write_text(commands)
    notebooks = sorted((HERE / "notebooks").glob("*.ipynb"))
    for notebook in notebooks:
        (folder / f"notebook-{notebook.stem}.md").write_text(page_of(notebook))
    if notebooks:
        names = "\n".join(f"notebook-{notebook.stem}" for notebook in notebooks)
        (folder / "notebooks.md").write_text(f"# Notebooks\n\n```{{toctree}}\n{names}\n```\n")


def page_of(notebook: Path) -> str:
    """Text and code of a notebook, without its results, and a link to the file."""
    parts = []
    for cell in json.loads(notebook.read_text())["cells"]:
        text = "".join(cell["source"])
        parts.append(f"```python\n{text}\n```" if cell["cell_type"] == "code" else text)
    parts.append(
        f"This page is a notebook: {{download}}`{notebook.name} <../notebooks/{notebook.name}>`."
    )
    return "\n\n".join(parts) + "\n"


def name_pages(app: Sphinx, page: nodes.document, name: str) -> None:
    """Let a link such as [engine.md](engine.md), made for readers of the files, show a title."""
    titles = {
        app.builder.get_relative_uri(name, other): title.astext()
        for other, title in app.env.titles.items()
    }
    for link in page.findall(nodes.reference):
        title = titles.get(link.get("refuri", "").partition("#")[0])
        if title is not None and link.astext().endswith(".md"):
            link.children = []
            link += nodes.Text(title)


def setup(app: Sphinx) -> None:
    """Generate before anything is read; name pages when all titles are known."""
    app.connect("builder-inited", generate)
    app.connect("doctree-resolved", name_pages)
