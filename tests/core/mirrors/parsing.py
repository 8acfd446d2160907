"""Charts of sentences as the equations say, without rescaling."""

from __future__ import annotations

from typing import Any

import numpy as np


def filled(problem: Any) -> tuple[float, np.ndarray]:
    """Return the log probability of the words, and the posterior probability of each label at each span."""
    states, rules, values, root, pair, children = problem.grammar
    count, labels = len(problem.emissions), len(states)
    first = np.cumsum(states) - states
    own = [slice(a, a + k) for a, k in zip(first, states, strict=True)]
    sizes = [states[b] * states[c] * states[a] for b, c, a in rules]
    ends = np.cumsum(sizes).astype(int)
    tables = [
        values[end - size : end].reshape(states[a], states[b], states[c])
        for end, size, (b, c, a) in zip(ends, sizes, rules, strict=True)
    ]
    spans = [(i, j) for i in range(count) for j in range(i + 1, count + 1)]
    allowed = dict(zip(spans, problem.allowed, strict=True))
    inside = {span: np.zeros(len(root)) for span in spans}
    for i, j in sorted(spans, key=lambda span: span[1] - span[0]):
        here = inside[i, j]
        if j == i + 1:
            here[:] = problem.emissions[i]
        for k in range(i + 1, j):
            here += pair * (children @ inside[i, k]) * (children @ inside[k, j])
            for (b, c, a), table in zip(rules, tables, strict=True):
                here[own[a]] += table @ inside[k, j][own[c]] @ inside[i, k][own[b]]
        here *= np.repeat(allowed[i, j], states)
    outside = {span: np.zeros(len(root)) for span in spans}
    outside[0, count][:] = root
    for i, j in sorted(spans, key=lambda span: span[0] - span[1]):
        above = outside[i, j] = outside[i, j] * np.repeat(allowed[i, j], states)
        for k in range(i + 1, j):
            left, right = inside[i, k], inside[k, j]
            any_two = pair @ above
            outside[i, k] += any_two * children * (children @ right)
            outside[k, j] += any_two * children * (children @ left)
            for (b, c, a), table in zip(rules, tables, strict=True):
                outside[i, k][own[b]] += np.einsum("s,stu,u->t", above[own[a]], table, right[own[c]])
                outside[k, j][own[c]] += np.einsum("s,stu,t->u", above[own[a]], table, left[own[b]])
    total = root @ inside[0, count]
    both = np.array([inside[span] * outside[span] for span in spans])
    posteriors = np.add.reduceat(both, first, axis=1) / total if total > 0 else np.zeros((len(spans), labels))
    with np.errstate(divide="ignore"):
        return float(np.log(total)), posteriors * problem.allowed
