"""The documentation's site: `make docs` builds it, any warning is an error."""

import re
import shutil
import tomllib
from pathlib import Path

import typer
from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator
from typer.cli import get_docs_for_click

from sweep.cli import app as command_line

HERE = Path(__file__).parent
project = "fitness-sweep"
author = "the fitness-sweep authors"
copyright = author
version = release = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"][
    "version"
]

extensions = ["myst_nb", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.autosummary"]
exclude_patterns = ["_build", "generated/command-line.md", "notebooks", "generated/examples"]
smartquotes = False  # or commands that are copied from the site have dashes and quotes of print

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 900
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
html_math_renderer = "mathml"
html_title = project
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_show_copyright = False


def generate(_: Sphinx) -> None:
    """Write the page of commands, and copy the notebooks to where the build runs them."""
    folder = HERE / "generated"
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("notebooks", "examples"):
        shutil.copytree(HERE / name, folder / name)
    command = typer.main.get_command(command_line)
    text = get_docs_for_click(
        obj=command, ctx=typer.Context(command, help_option_names=["-h", "--help"]), name="sweep"
    )
    _, _, commands = text.partition("\n")
    (folder / "command-line.md").write_text(re.sub(r" <[\w\[\]]+>", "", commands))


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


def link_pages(_0: Sphinx, _1: str, _2: str, _3: object, _4: object, lines: list[str]) -> None:
    """Make a link of each page that a docstring names by its path, such as docs/engine.md."""
    lines[:] = [re.sub(r"\bdocs/([\w/-]+)\.md\b", r":doc:`/\1`", line) for line in lines]


def write_formula(writer: HTML5Translator, node: nodes.math | nodes.math_block) -> None:
    """Write a formula as MathML, which browsers show without a script or a network."""
    try:
        writer.body.append(tex2mathml(node.astext(), as_block=isinstance(node, nodes.math_block)))
    except MathError as error:
        logging.getLogger(__name__).warning(f"{error} in {node.astext()}", location=node)
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Generate before anything is read; name pages when all titles are known."""
    app.connect("builder-inited", generate)
    app.connect("autodoc-process-docstring", link_pages)
    app.connect("doctree-resolved", name_pages)
    app.add_html_math_renderer("mathml", (write_formula, None), (write_formula, None))
