"""Links from the HTML picture of an estimator to its page in the documentation."""

import functools
import os
from importlib.metadata import PackageNotFoundError, metadata

# Pages whose name is not that of the class: names must differ by more than case.
PAGES = {"MIGraph": "pigmil.MIGraph-edges", "MISVM": "pigmil.MISVM-bags"}


class DocLinks:
    """Mixin that lets scikit-learn's HTML picture of an estimator link to our documentation.

    The address of the documentation is the variable ``PIGMIL_DOCS`` of the environment (a folder of
    built pages, such as ``file:///home/me/pigmil/docs/_build/html``, will do), or the one in the
    metadata of the installed package. Without an address there is no link.
    """

    _doc_link_module = "pigmil"

    @property
    def _doc_link_template(self) -> str:
        address = os.environ.get("PIGMIL_DOCS") or _documentation_address()
        return f"{address.rstrip('/')}/api/generated/{{page}}.html" if address else ""

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        name = type(self).__name__
        return {"page": PAGES.get(name, f"pigmil.{name}")}


@functools.cache
def _documentation_address() -> str:
    try:
        addresses = metadata("pigmil").get_all("Project-URL") or []
    except PackageNotFoundError:
        return ""
    for label, _, address in (entry.partition(", ") for entry in addresses):
        if label.lower() == "documentation":
            return address
    return ""
