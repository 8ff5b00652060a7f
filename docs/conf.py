"""The documentation site: Sphinx, with furo and MyST. ``make docs`` builds it; warnings are errors."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from docs.command_pages import write_command_page
from docs.docstrings import as_sections, short_types

from apportion.version import __version__

project = "Apportion"
author = "The Apportion developers"
copyright = "The Apportion developers"
release = version = __version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "Apportion"
html_static_path: list[str] = []

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
# Links to files of the project that are no pages of the site.
myst_url_schemes = ["http", "https", "mailto"]
suppress_warnings = ["myst.xref_missing"]
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 300

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", as_sections, priority=400)  # before napoleon
    app.connect("autodoc-process-signature", short_types)
    app.connect("builder-inited", lambda _: write_command_page(Path(__file__).parent / "reference"))
