"""``.. offered:: plot``: every public name of `eigentree.plot`, whole, in the order of its ``__all__``."""

from __future__ import annotations

import inspect

from docutils.nodes import Node
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import eigentree


class Offered(SphinxDirective):
    required_arguments = 1

    def run(self) -> list[Node]:
        module = getattr(eigentree, self.arguments[0])
        lines = []
        for name in module.__all__:
            kind = (
                "autoclass"
                if inspect.isclass(getattr(module, name))
                else "autofunction"
            )
            lines += [f".. {kind}:: eigentree.{self.arguments[0]}.{name}", ""]
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("offered", Offered)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
