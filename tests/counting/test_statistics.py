"""Statistics: sums of parts are bit-identical to the whole, what was added can be taken away, arrays come back."""

from __future__ import annotations

import json

import numpy as np
import pytest
from counted_arrays import arrays_of, of_arrays
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import eigentree as et
from eigentree.counting.holdout_sample import EVERY_HASH, RowSample
from eigentree.counting.statistics import Statistics
from eigentree.planning.view_plan import ViewPlan

GRAPH = et.zoo.hmm(6, 1, 2, 3)
LARGE = et.zoo.hmm(6, 1, 2, 50)
"""Its tables are kept as the codes that occur, and a few thousand rows are more than a sample holds."""


def rows_of(seed: int, count: int = 300, holes: float = 0.0, graph: et.LatentGraph = GRAPH) -> np.ndarray:
    rows = et.LatentNetwork.random(graph, seed=0).sample(count, seed=seed)
    return np.where(np.random.default_rng(seed).random(rows.shape) < holes, -1, rows)


def assert_same(one: Statistics, other: Statistics) -> None:
    first, second = arrays_of(one), arrays_of(other)
    assert first.keys() == second.keys()
    for name in first:
        assert_array_equal(first[name], second[name], err_msg=name)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 99),
    st.sets(st.integers(1, 299), max_size=4),
    st.sampled_from([0.0, 0.2]),
    st.sampled_from([1, 10]),
    st.sampled_from([GRAPH, LARGE]),
)
def test_parts_add_up_to_the_whole(
    seed: int, cuts: set[int], holes: float, times: int, graph: et.LatentGraph
) -> None:
    """However rows are cut, in any order of the parts, with tables as arrays and as lists of codes.

    Of a few rows, which the sample keeps all, and of many.
    """
    rows = rows_of(seed, 300 * times, holes, graph)
    weights = np.random.default_rng(seed).integers(0, 4, len(rows))
    whole = Statistics.of(rows, graph, sample_weight=weights)
    assert bool(whole.counts.sparse) == (graph is LARGE)
    assert (whole.sample.known_to < EVERY_HASH) == (graph is LARGE and times == 10)
    parts = [
        Statistics.of(rows[part], graph, sample_weight=weights[part])
        for part in np.split(np.arange(len(rows)), [times * cut for cut in sorted(cuts)])
    ]
    np.random.default_rng(seed).shuffle(parts)
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    assert_same(total, whole)
    assert_same(of_arrays(Statistics, arrays_of(whole)), whole)


@pytest.mark.parametrize("graph", [GRAPH, LARGE], ids=["dense", "sparse"])
@pytest.mark.parametrize("holes", [0.0, 0.2])
def test_what_was_added_can_be_taken_away(holes: float, graph: et.LatentGraph) -> None:
    one, other = (Statistics.of(rows_of(seed, holes=holes, graph=graph), graph) for seed in (1, 2))
    back = (one + other) - other
    assert_same(back, one)
    assert back.rows == 300


def test_a_difference_of_full_samples_is_known_as_far_as_both_are() -> None:
    one, other = (Statistics.of(rows_of(seed, 3_000, graph=LARGE), LARGE) for seed in (3, 4))
    both = one + other
    assert both.sample.known_to < min(one.sample.known_to, other.sample.known_to) < EVERY_HASH
    back = (both - other).sample
    expected = one.sample.up_to(both.sample.known_to)
    assert_array_equal(back.hashes, expected.hashes)
    assert_array_equal(back.weights, expected.weights)
    assert back.known_to == both.sample.known_to
    # Rows beyond what is known stay out: their counts would be too low.
    more = Statistics.of(rows_of(5, 3_000, graph=LARGE), LARGE)
    again = (both - other) + more
    direct = one + more
    assert again.sample.known_to <= both.sample.known_to
    kept = direct.sample.up_to(again.sample.known_to)
    assert_array_equal(again.sample.hashes, kept.hashes)
    assert_array_equal(again.sample.weights, kept.weights)


def test_a_sample_that_is_not_known_stays_unknown() -> None:
    unknown = RowSample.unknown(6)
    known = Statistics.of(rows_of(1), GRAPH).sample
    for sum_ in (unknown + known, known + unknown, known - unknown, unknown.update(known.codes, None)):
        assert len(sum_.hashes) == 0
        assert sum_.known_to == -1


@pytest.mark.parametrize("holes", [0.0, 0.2])
def test_what_comes_back_from_arrays_knows_every_table(holes: float) -> None:
    """Also of groups that are read off a larger one's table, and of a sample that is not known."""
    plan = ViewPlan.build(GRAPH)
    whole = Statistics.of(rows_of(11, holes=holes), GRAPH)
    again = of_arrays(Statistics, arrays_of(whole))
    for group in plan.groups():
        assert_array_equal(again.counts.table(group), whole.counts.table(group))
    unknown = Statistics(whole.counts, RowSample.unknown(6))
    assert of_arrays(Statistics, arrays_of(unknown)).sample.known_to == -1


def test_a_model_learned_from_a_sum_is_the_model_of_all_rows() -> None:
    rows = rows_of(6, count=900, holes=0.1)
    parts = [Statistics.of(part, GRAPH) for part in np.array_split(rows, 4)]
    added = et.SpectralJunctionTree(GRAPH).fit_statistics(parts[2] + parts[0] + parts[3] + parts[1])
    whole = et.SpectralJunctionTree(GRAPH).fit(rows)
    assert added.shrinkage_ == whole.shrinkage_
    assert added.report_.tried == whole.report_.tried
    assert_array_equal(added.operators_.joint((0, 5)), whole.operators_.joint((0, 5)))


def test_a_template_is_built_from_the_columns_of_the_statistics() -> None:
    template = et.zoo.HMM(order=1, hidden_states=2)
    statistics = Statistics.of(rows_of(7), template)
    assert et.SpectralJunctionTree(template).fit_statistics(statistics).graph_ == GRAPH


def test_statistics_of_other_columns_or_views_are_refused() -> None:
    statistics = Statistics.of(rows_of(8), GRAPH, views=1)
    with pytest.raises(et.DataError, match=r"were not counted together; count for the same structure, views and"):
        et.SpectralJunctionTree(GRAPH, views=6).fit_statistics(statistics)
    et.SpectralJunctionTree(GRAPH, views=1, shrinkage=1.0).fit_statistics(statistics)
    with pytest.raises(et.DataError, match="other columns than the structure's"):
        et.SpectralJunctionTree(et.zoo.hmm(6, 1, 2, 4)).fit_statistics(statistics)
    with pytest.raises(et.DataError, match=r"takes what Statistics\.of makes"):
        et.SpectralJunctionTree(GRAPH).fit_statistics(statistics.counts)
    with pytest.raises(et.DataError, match="add up only when"):
        statistics + Statistics.of(rows_of(8), GRAPH, views=3)
    with pytest.raises(
        et.DataError, match="600 rows cannot be taken from these 300: some of them were never added"
    ):
        statistics - Statistics.of(rows_of(8, count=600), GRAPH, views=1)
    with pytest.raises(et.DataError, match="some of them were never added"):
        statistics - Statistics.of(rows_of(11), GRAPH, views=1)
    with pytest.raises(et.DataError, match="add up with Statistics, not with 1"):
        statistics + 1
    with pytest.raises(et.DataError, match="add up with Statistics, not with <"):
        statistics - statistics.counts


def test_damaged_arrays_are_refused() -> None:
    arrays = arrays_of(Statistics.of(rows_of(9), GRAPH))
    for name in ("dense", "sample_codes", "sample_weights"):
        with pytest.raises(et.FileError, match=f"'{name}' is not an array of the right type and shape"):
            of_arrays(Statistics, arrays | {name: arrays[name][1:]})
    with pytest.raises(et.FileError, match="numbers do not fit"):
        of_arrays(Statistics, arrays | {"dense": arrays["dense"] + 1_000})
    document = json.loads(bytes(arrays["content"]))
    document["groups"] = [[column + 1 for column in group] for group in document["groups"]]
    with pytest.raises(et.FileError, match="columns that they do not have"):
        of_arrays(Statistics, arrays | {"content": np.frombuffer(json.dumps(document).encode(), np.uint8)})


def test_counts_never_change() -> None:
    statistics = Statistics.of(rows_of(9), GRAPH)
    with pytest.raises(AttributeError, match="Counts never change: 'dense' cannot be set"):
        statistics.counts.dense = None


def test_a_difference_that_leaves_no_sample_is_learned_from_at_the_usual_shrinkage() -> None:
    one, other = (Statistics.of(rows_of(seed, count=2_000), GRAPH) for seed in (12, 13))
    rest = (one + other) - other
    empty = Statistics(rest.counts, rest.sample.up_to(0))
    assert len(empty.sample.hashes) == 0
    assert et.SpectralJunctionTree(GRAPH).fit_statistics(empty).shrinkage_ == 0.4


def test_parts_of_large_sparse_tables_are_all_kept() -> None:
    """Parts are merged every 32 chunks; one that got lost there would go unnoticed below half a million rows."""
    plan = ViewPlan.build(LARGE)
    rows = rows_of(10, count=700, graph=LARGE)
    codes = np.asfortranarray(rows.astype(np.uint8))
    chunks = [(np.asfortranarray(codes[k : k + 10]), None) for k in range(0, 700, 10)]
    in_chunks = Statistics.empty(plan).count(iter(chunks))
    at_once = Statistics.empty(plan).count(iter([(codes, None)]))
    assert in_chunks.counts.sparse
    assert_same(in_chunks, at_once)
    assert in_chunks.rows == 700


def test_a_repr_shows_how_much_there_is() -> None:
    assert repr(Statistics.of(rows_of(1), GRAPH)).startswith("<Statistics of 300 rows: ")
