"""What a model was not fitted on: unknown codes and labels are errors, or missing cells, and never other labels."""

from __future__ import annotations

import numpy as np
import pytest

import eigentree as et

CODES = et.LatentNetwork.random(et.zoo.mixture(4, 2, 3), seed=0).sample(300, seed=1)


@pytest.mark.parametrize("structure", [et.zoo.Mixture(2), et.zoo.mixture(4, 2, 3)], ids=["template", "graph"])
@pytest.mark.parametrize("kind", [np.int64, np.float64, object])
def test_what_is_unknown_is_a_missing_cell_where_that_is_wanted(structure: object, kind: type) -> None:
    def table(codes: np.ndarray) -> np.ndarray:
        if kind is object:
            return np.where(codes < 0, None, np.array(list("abcdefghij"), object)[codes])
        return codes.astype(kind)

    model = et.EMJunctionTree(structure, random_state=0, handle_unknown="missing").fit(table(CODES))
    rows = CODES[:20].copy()
    rows[::2, 1] = 9
    rows[5, 3] = 7
    expected = np.where(rows > 2, -1, rows)
    strict = et.EMJunctionTree(structure, random_state=0).fit(table(CODES))
    np.testing.assert_array_equal(model.score_samples(table(rows)), strict.score_samples(table(expected)))
    with pytest.raises(et.DataError, match="row 0, column"):
        strict.score_samples(table(rows))
