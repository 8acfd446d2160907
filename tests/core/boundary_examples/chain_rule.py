"""Valid small calls of the chain rule over trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from core.random_operators import tree_problem

from eigentree.core import _native


def examples(random: np.random.Generator) -> Iterator[tuple[Callable[..., object], tuple[object, ...]]]:
    """Yield functions and arguments, with fresh arrays each."""
    for dtype in (np.uint8, np.uint16, np.uint32):
        tree = tree_problem(random)
        plan = tree.rule.plan
        yield (
            _native.chain_rule_constants,
            (plan.ports, plan.first_value, plan.states, plan.constants, tree.values, np.empty(plan.size)),
        )
        for function in (_native.chain_rule_score, _native.chain_rule_sample):
            own = tree_problem(random)
            codes = np.ascontiguousarray(own.rows(5, random, dtype).T)
            uniform = () if function is _native.chain_rule_score else (random.random(codes.shape),)
            arguments = (*own.rule.plan, own.values, *own.floor(0.1), codes, *uniform, np.empty((3, 5)))
            yield function, arguments
