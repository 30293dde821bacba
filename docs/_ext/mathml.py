"""Formulas as MathML: no script, no network, nothing to install; bad LaTeX fails the build."""

import re

from docutils.utils.math import MathError, latex2mathml
from sphinx.errors import SphinxError
from sphinx.util import logging

_logger = logging.getLogger(__name__)


def _mathml(self, node, *, block):
    # The converter takes a word with limits for a word with a star before it.
    text = re.sub(r"\\operatorname\*", r"\\operatorname", node.astext())
    try:
        return latex2mathml.tex2mathml(text, as_block=block)
    except (MathError, SphinxError, IndexError) as error:
        _logger.warning("formula cannot be read (%s): %s", error, node.astext(), location=node)
        return f"<code>{self.encode(node.astext())}</code>"


def _visit_inline(self, node):
    self.body.append(_mathml(self, node, block=False))
    raise _skip()


def _visit_block(self, node):
    self.body.append(self.starttag(node, "div", CLASS="math-block"))
    self.body.append(_mathml(self, node, block=True))
    self.body.append("</div>")
    raise _skip()


def _skip():
    from docutils.nodes import SkipNode

    return SkipNode()


def setup(app):
    app.add_html_math_renderer(
        "mathml", inline_renderers=(_visit_inline, None), block_renderers=(_visit_block, None)
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
