"""Configuration of the documentation: everything the build needs lies in the repository."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

import pigmil  # noqa: E402

project = "pigmil"
author = "The pigmil developers"
copyright = "the pigmil developers"
version = release = pigmil.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "sphinx_copybutton",
    "sphinx_design",
    "mathml",  # formulas as MathML, which browsers show without scripts or network
    "method_cards",  # cards, departures and tables drawn from the library itself
]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
exclude_patterns = ["_build", "_parts/**", "reproduction/**", "auto_examples/*.ipynb"]
templates_path = ["_templates"]

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
html_math_renderer = "mathml"

autosummary_generate = True
# Names that differ by case only would share a file where file names have no case.
# MiSVM and MISVM, MiGraph and MIGraph: their pages must differ by more than case.
autosummary_filename_map = {
    "pigmil.MIGraph": "pigmil.MIGraph-edges",
    "pigmil.MISVM": "pigmil.MISVM-bags",
}
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 1,
    "copyfile_regex": r".*\.rst",
    "image_scrapers": ("matplotlib",),
    "matplotlib_animations": False,
    "capture_repr": (),
    "write_computation_times": False,  # its pages would load scripts from elsewhere
}

html_theme = "pydata_sphinx_theme"
html_title = "pigmil"
html_static_path = ["_static"]
html_css_files = ["pigmil.css"]
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
html_sidebars = {
    page: [] for page in ("changelog", "faq", "install", "performance", "reproduction", "tour")
}
