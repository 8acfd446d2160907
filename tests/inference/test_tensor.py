"""The laws of labelled tensors: Eq. 1-5, 9-12 and 14-19 of the paper, checked against plain loops."""

from __future__ import annotations

import copy
import pickle
import re
from collections import Counter
from dataclasses import FrozenInstanceError
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentree.errors import TensorError
from eigentree.inference.tensors.tensor import LabeledTensor

NAMES = ("a", "b", "c", "x1", "x10")
modest = settings(max_examples=40, deadline=None)
seeds = st.integers(0, 2**32 - 1)
sizes_of_names = st.fixed_dictionaries({name: st.integers(1, 3) for name in NAMES})


def randomly(labels, sizes, seed):
    """A tensor with standard normal entries."""
    rng = np.random.default_rng(seed)
    return LabeledTensor(rng.normal(size=[sizes[label] for label in labels]), labels)


def first_modes(labels, wanted):
    """The position of each wanted label: its first mode, then its second, and so on."""
    taken = []
    for name in wanted:
        taken.append(next(mode for mode, label in enumerate(labels) if label == name and mode not in taken))
    return taken


def with_rank(rows, columns, rank, seed):
    """A matrix of known rank whose other singular values lie between 1 and 2."""
    rng = np.random.default_rng(seed)
    left = np.linalg.qr(rng.normal(size=(rows, rows)))[0][:, :rank]
    right = np.linalg.qr(rng.normal(size=(columns, columns)))[0][:, :rank]
    return left * rng.uniform(1, 2, size=rank) @ right.T


def conditional(shape, given_modes, seed):
    """A random table that sums to 1 over all but the last `given_modes` modes."""
    table = np.random.default_rng(seed).uniform(0.1, 1, size=shape)
    return table / table.sum(axis=tuple(range(len(shape) - given_modes)), keepdims=True)


@st.composite
def tensors(draw, min_order=0, unique=False):
    sizes = draw(sizes_of_names)
    labels = draw(st.lists(st.sampled_from(NAMES), min_size=min_order, max_size=4, unique=unique))
    return randomly(labels, sizes, draw(seeds))


@st.composite
def products(draw):
    """Two tensors, labels perhaps repeated, and some labels that both of them have."""
    sizes = draw(sizes_of_names)
    over = draw(st.lists(st.sampled_from(NAMES), max_size=2))
    rest = st.lists(st.sampled_from(NAMES), max_size=2)
    left, right = (draw(st.permutations(over + draw(rest))) for _ in range(2))
    return randomly(left, sizes, draw(seeds)), randomly(right, sizes, draw(seeds)), over


# --- The tensor itself


def test_attributes():
    tensor = LabeledTensor(np.zeros((2, 3, 2)), ["B", "D", "B"])
    assert tensor.labels == ("B", "D", "B")
    assert tensor.shape == (2, 3, 2)
    assert tensor.order == 3
    assert tensor.size_of("D") == 3
    assert tensor.size_of("B") == 2
    assert repr(tensor) == "<LabeledTensor: B 2, D 3, B 2>"


def test_one_string_is_one_label():
    assert LabeledTensor([1, 2], "x10").labels == ("x10",)


def test_a_number_is_a_tensor_without_modes():
    number = LabeledTensor(2, ())
    assert (number.order, number.shape, repr(number)) == (0, (), "<LabeledTensor: a number>")
    assert number.multiply(number, over=()).array == 4
    assert number.equivalent(LabeledTensor(2.0, ()))
    assert number.diagonal({}).array == 2
    assert number.matrix(()).tolist() == [[2.0]]


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float32, np.float64])
def test_entries_become_float64(dtype):
    assert LabeledTensor(np.ones(2, dtype), "A").array.dtype == np.float64


def test_the_array_is_a_copy_and_read_only():
    source = np.arange(4.0).reshape(2, 2)
    tensor = LabeledTensor(source, ["A", "B"])
    source[0, 0] = 9
    assert tensor.array[0, 0] == 0
    with pytest.raises(ValueError, match="read-only"):
        tensor.array[0, 0] = 1
    with pytest.raises(FrozenInstanceError):
        tensor.labels = ("C", "D")


@pytest.mark.parametrize("rows", [["A"], ["B"], ["C", "A"], []])
def test_matrices_are_read_only(rows):
    flat = LabeledTensor(np.ones((2, 3, 4)), ["A", "B", "C"]).matrix(rows)
    with pytest.raises(ValueError, match="read-only"):
        flat[0, 0] = 2


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))])
def test_copies_stay_read_only(duplicate):
    tensor = LabeledTensor([[1, 2], [3, 4]], ["A", "B"])
    other = duplicate(tensor)
    assert other.labels == tensor.labels
    np.testing.assert_array_equal(other.array, tensor.array)
    assert not other.array.flags.writeable


# --- Eq. 1: equivalence


@modest
@given(tensors(), st.data())
def test_any_permutation_of_the_modes_is_equivalent(tensor, data):
    order = data.draw(st.permutations(range(tensor.order)))
    other = LabeledTensor(tensor.array.transpose(order), [tensor.labels[mode] for mode in order])
    assert tensor.equivalent(other)
    assert other.equivalent(tensor)


@modest
@given(tensors(min_order=1), st.data())
def test_one_changed_entry_is_not_equivalent(tensor, data):
    place = tuple(data.draw(st.integers(0, size - 1)) for size in tensor.shape)
    changed = tensor.array.copy()
    changed[place] += 1
    other = LabeledTensor(changed, tensor.labels)
    assert not tensor.equivalent(other)
    assert tensor.equivalent(other, atol=1.001)
    assert tensor.equivalent(other, atol=2**70)


def test_equivalence_needs_the_same_labels_and_sizes():
    tensor = LabeledTensor(np.ones((2, 2)), ["A", "B"])
    assert not tensor.equivalent(LabeledTensor(np.ones((2, 2)), ["A", "C"]))
    assert not tensor.equivalent(LabeledTensor(np.ones((2, 2)), ["A", "A"]))
    assert not tensor.equivalent(LabeledTensor(np.ones((2, 2, 2)), ["A", "B", "B"]))
    assert not tensor.equivalent(LabeledTensor(np.ones((2, 1)), ["A", "B"]))
    assert not tensor.equivalent(LabeledTensor(np.ones((1, 1)), ["A", "B"]))


def test_labels_are_aligned_before_entries_are_compared():
    entries = np.array([[1.0, 2.0], [3.0, 4.0]])
    tensor = LabeledTensor(entries, ["A", "B"])
    assert tensor.equivalent(LabeledTensor(entries.T, ["B", "A"]))
    assert not tensor.equivalent(LabeledTensor(entries, ["B", "A"]))
    duplicated = LabeledTensor(entries, ["A", "A"])
    assert duplicated.equivalent(LabeledTensor(entries.T, ["A", "A"]))


# --- Orders of modes and matrices


@modest
@given(tensors(unique=True), st.data())
def test_transpose_moves_entries_with_their_labels(tensor, data):
    labels = data.draw(st.permutations(tensor.labels))
    moved = tensor.transpose(labels)
    assert moved.labels == tuple(labels)
    for place in np.ndindex(*tensor.shape):
        at = dict(zip(tensor.labels, place, strict=True))
        assert moved.array[tuple(at[label] for label in labels)] == tensor.array[place]


def test_transpose_keeps_the_order_of_duplicated_modes():
    entries = np.arange(12.0).reshape(2, 3, 2)
    moved = LabeledTensor(entries, ["B", "C", "B"]).transpose(["C", "B", "B"])
    np.testing.assert_array_equal(moved.array, entries.transpose(1, 0, 2))


def test_matrix_flattens_rows_in_the_order_given():
    entries = np.arange(24.0).reshape(2, 3, 4)
    flat = LabeledTensor(entries, ["A", "B", "C"]).matrix(["C", "A"])
    assert flat.shape == (8, 3)
    for a, b, c in np.ndindex(2, 3, 4):
        assert flat[c * 2 + a, b] == entries[a, b, c]


@modest
@given(tensors())
def test_matrix_over_no_label_or_all_of_them(tensor):
    np.testing.assert_array_equal(tensor.matrix(()), tensor.array.reshape(1, -1))
    np.testing.assert_array_equal(tensor.matrix(tensor.labels), tensor.array.reshape(-1, 1))


# --- Eq. 2 and 3: multiplication


@modest
@given(products())
def test_multiply_is_the_sum_over_shared_indices(case):
    left, right, over = case
    mine, theirs = first_modes(left.labels, over), first_modes(right.labels, over)
    left_rest = [mode for mode in range(left.order) if mode not in mine]
    right_rest = [mode for mode in range(right.order) if mode not in theirs]
    rest = [left.shape[mode] for mode in left_rest] + [right.shape[mode] for mode in right_rest]
    expected = np.zeros(rest)
    for i in np.ndindex(*left.shape):
        for j in np.ndindex(*right.shape):
            if [i[mode] for mode in mine] == [j[mode] for mode in theirs]:
                place = tuple(i[mode] for mode in left_rest) + tuple(j[mode] for mode in right_rest)
                expected[place] += left.array[i] * right.array[j]
    result = left.multiply(right, over=over)
    assert result.labels == tuple([left.labels[m] for m in left_rest] + [right.labels[m] for m in right_rest])
    np.testing.assert_allclose(result.array, expected, atol=1e-12)


@modest
@given(products())
def test_multiply_is_symmetric_in_its_arguments(case):
    left, right, over = case
    assert left.multiply(right, over).equivalent(right.multiply(left, over))


@modest
@given(products(), st.data())
def test_multiply_does_not_depend_on_the_order_of_over(case, data):
    left, right, over = case
    other = left.multiply(right, data.draw(st.permutations(over)))
    np.testing.assert_allclose(other.array, left.multiply(right, over).array, atol=1e-12)


@modest
@given(products())
def test_many_modes_are_one_reshaped_mode(case):
    left, right, over = case
    merged = [
        LabeledTensor(tensor.matrix(over), ["merged", f"rest {side}"]) for side, tensor in enumerate((left, right))
    ]
    flat = merged[0].multiply(merged[1], over="merged")
    assert flat.labels == ("rest 0", "rest 1")
    np.testing.assert_allclose(left.multiply(right, over).array.ravel(), flat.array.ravel(), atol=1e-12)


@modest
@given(tensors(unique=True), tensors(unique=True))
def test_over_no_label_is_the_outer_product(left, right):
    right = LabeledTensor(right.array, [f"other {label}" for label in right.labels])
    np.testing.assert_allclose(left.multiply(right, over=()).array, np.multiply.outer(left.array, right.array))


def test_the_first_modes_meet():
    first, second = np.arange(4.0).reshape(2, 2), np.array([[5.0, 7.0], [11.0, 13.0]])
    result = LabeledTensor(first, ["B", "B"]).multiply(LabeledTensor(second, ["B", "B"]), over="B")
    np.testing.assert_allclose(result.array, first.T @ second)
    twice = LabeledTensor(first, ["B", "B"]).multiply(LabeledTensor(second, ["B", "B"]), over=["B", "B"])
    assert twice.array == (first * second).sum()


# --- Eq. 4: identity


@modest
@given(tensors(), st.data())
def test_multiplying_with_the_identity_changes_nothing(tensor, data):
    over = data.draw(st.lists(st.sampled_from(tensor.labels), unique=True)) if tensor.order else []
    identity = LabeledTensor.identity(over, [tensor.size_of(label) for label in over])
    assert tensor.multiply(identity, over).equivalent(tensor)
    assert identity.multiply(tensor, over).equivalent(tensor)


@modest
@given(st.lists(st.sampled_from(NAMES), unique=True, max_size=3), sizes_of_names)
def test_the_identity_flattens_to_the_identity_matrix(labels, sizes):
    identity = LabeledTensor.identity(labels, [sizes[label] for label in labels])
    assert identity.labels == (*labels, *labels)
    total = prod(sizes[label] for label in labels)
    np.testing.assert_array_equal(identity.matrix(labels), np.eye(total))


def test_the_identity_of_a_repeated_label():
    tensor = randomly(["B", "B", "C"], {"B": 2, "C": 3}, seed=0)
    identity = LabeledTensor.identity(["B", "B"], [2, 2])
    assert tensor.multiply(identity, over=["B", "B"]).equivalent(tensor)


# --- Eq. 5: inversion


@st.composite
def of_known_rank(draw):
    """A tensor, the labels ω, the labels σ and the rank of the tensor matricised with rows ω."""
    sizes = draw(sizes_of_names)
    labels = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=4))
    cut = draw(st.integers(0, len(labels)))
    omega, sigma = labels[:cut], labels[cut:]
    rows, columns = (prod(sizes[label] for label in side) for side in (omega, sigma))
    rank = draw(st.integers(0, min(rows, columns)))
    flat = with_rank(rows, columns, rank, draw(seeds)) * draw(st.sampled_from([1e-12, 1.0, 1e12]))
    tensor = LabeledTensor(flat.reshape([sizes[label] for label in labels]), labels)
    return tensor.transpose(draw(st.permutations(labels))), omega, sigma, rank


@modest
@given(of_known_rank())
def test_inverse_reports_the_rank_and_projects(case):
    tensor, omega, sigma, rank = case
    inverse, found = tensor.inverse(omega)
    assert found == rank
    assert inverse.labels == tensor.labels
    result = tensor.multiply(inverse, omega)
    identity = LabeledTensor.identity(sigma, [tensor.size_of(label) for label in sigma])
    full = rank == prod(tensor.size_of(label) for label in sigma)
    assert result.equivalent(identity) == full
    projection = result.matrix([label for label in tensor.labels if label in sigma])
    np.testing.assert_allclose(projection @ projection, projection, atol=1e-12)
    np.testing.assert_allclose(projection, projection.T, atol=1e-12)
    assert np.trace(projection) == pytest.approx(rank)


@modest
@given(of_known_rank())
def test_inverse_is_the_pseudo_inverse_of_the_matrix(case):
    tensor, omega, _, _ = case
    inverse, _ = tensor.inverse(omega)
    # Compared on one scale, since the entries of the tensor span 24 orders of magnitude.
    expected = np.linalg.pinv(tensor.matrix(omega), rcond=1e-9).T
    scale = max(np.abs(expected).max(), 1e-300)
    np.testing.assert_allclose(inverse.matrix(omega) / scale, expected / scale, atol=1e-12)


def test_inverse_of_a_diagonal_tensor():
    marginal = LabeledTensor([0.2, 0.5, 0.3], "B").diagonal({"B": 2})
    inverse, rank = marginal.inverse("B")
    assert rank == 3
    np.testing.assert_allclose(inverse.array, np.diag([5, 2, 1 / 0.3]))
    assert marginal.multiply(inverse, "B").equivalent(LabeledTensor.identity("B", [3]))


def test_inverse_of_duplicated_modes_that_are_not_symmetric():
    tensor = LabeledTensor([[1, 2], [0, 1]], ["B", "B"])
    inverse, _ = tensor.inverse("B")
    assert tensor.multiply(inverse, "B").equivalent(LabeledTensor.identity("B", [2]))


def test_tolerance_is_relative_to_the_largest_singular_value():
    for scale in (1e-30, 1.0, 1e30):
        tensor = LabeledTensor(scale * np.diag([1.0, 1e-3]), ["A", "B"])
        assert tensor.inverse("A")[1] == 2
        inverse, rank = tensor.inverse("A", tolerance=1e-2)
        assert rank == 1
        np.testing.assert_allclose(inverse.array * scale, np.diag([1.0, 0.0]), atol=1e-12)


@pytest.mark.parametrize("factor", [0.5, 0.99, 1.01, 2.0])
def test_the_default_tolerance_is_that_of_numpy(factor):
    flat = np.zeros((5, 2))
    flat[0, 0], flat[1, 1] = 1.0, factor * 5 * np.finfo(float).eps
    _, rank = LabeledTensor(flat, ["A", "B"]).inverse("A")
    assert rank == np.linalg.matrix_rank(flat) == (2 if factor > 1 else 1)


# --- ⊘_d, Eq. 9 and 10


@modest
@given(tensors(unique=True), st.lists(st.integers(0, 3), min_size=4, max_size=4))
def test_diagonal_embeds_every_entry(tensor, counts):
    repeats = dict(zip(tensor.labels, counts, strict=False))
    embedded = tensor.diagonal(repeats)
    assert embedded.labels == tuple(label for label in tensor.labels for _ in range(repeats[label]))
    expected = np.zeros(embedded.shape)
    for place in np.ndindex(*tensor.shape):
        at = dict(zip(tensor.labels, place, strict=True))
        expected[tuple(at[label] for label in embedded.labels)] += tensor.array[place]
    np.testing.assert_allclose(embedded.array, expected, atol=1e-12)


@modest
@given(tensors(min_order=1, unique=True), st.data())
def test_which_duplicated_mode_is_consumed_does_not_matter_in_embeddings(tensor, data):
    label = data.draw(st.sampled_from(tensor.labels))
    embedded = tensor.diagonal({label: 3})
    message = randomly([label], {label: tensor.size_of(label)}, data.draw(seeds))
    first = tensor.labels.index(label)
    for order in ([1, 0, 2], [2, 1, 0], [0, 2, 1]):
        axes = list(range(embedded.order))
        axes[first : first + 3] = [first + mode for mode in order]
        swapped = LabeledTensor(embedded.array.transpose(axes), embedded.labels)
        np.testing.assert_array_equal(swapped.array, embedded.array)
        assert swapped.multiply(message, label).equivalent(embedded.multiply(message, label), atol=0)


def test_labels_that_are_not_mentioned_stay():
    tensor = randomly(["B", "D"], {"B": 2, "D": 3}, seed=0)
    np.testing.assert_array_equal(tensor.diagonal({}).array, tensor.array)
    assert tensor.diagonal({"D": np.int64(2)}).labels == ("B", "D", "D")
    assert tensor.diagonal({"B": 2}).diagonal({"D": 2}).labels == ("B", "B", "D", "D")


def test_a_conditional_times_a_diagonal_is_the_joint():
    a_given_b = LabeledTensor(conditional((3, 2), given_modes=1, seed=0), ["A", "B"])
    b = LabeledTensor([0.3, 0.7], "B")
    assert a_given_b.multiply(b, over="B").equivalent(LabeledTensor(a_given_b.array @ b.array, "A"))
    joint = a_given_b.multiply(b.diagonal({"B": 2}), over="B")
    assert joint.labels == ("A", "B")
    for i, j in np.ndindex(3, 2):
        assert joint.array[i, j] == pytest.approx(a_given_b.array[i, j] * b.array[j])


# --- Eq. 12, and sums


@modest
@given(tensors(unique=True), st.data())
def test_select_is_the_sum_against_an_indicator(tensor, data):
    chosen = data.draw(st.lists(st.sampled_from(tensor.labels), unique=True)) if tensor.order else []
    assignments = {label: data.draw(st.integers(0, tensor.size_of(label) - 1)) for label in chosen}
    expected = tensor
    for label, value in assignments.items():
        indicator = LabeledTensor(np.eye(tensor.size_of(label))[value], label)
        expected = expected.multiply(indicator, over=label)
    selected = tensor.select(assignments)
    assert selected.labels == expected.labels
    np.testing.assert_array_equal(selected.array, expected.array)


def test_select_leaves_duplicated_modes_of_other_labels():
    tensor = LabeledTensor(np.arange(12.0).reshape(2, 3, 2), ["B", "C", "B"])
    selected = tensor.select({"C": np.int64(2)})
    assert selected.labels == ("B", "B")
    np.testing.assert_array_equal(selected.array, tensor.array[:, 2])


@modest
@given(tensors(min_order=1), st.data())
def test_sum_is_the_product_with_ones(tensor, data):
    label = data.draw(st.sampled_from(tensor.labels))
    ones = LabeledTensor(np.ones(tensor.size_of(label)), label)
    summed = tensor.sum(label)
    assert Counter(summed.labels) == Counter(tensor.labels) - Counter([label])
    expected = tensor.multiply(ones, over=label)
    assert summed.labels == expected.labels
    np.testing.assert_allclose(summed.array, expected.array, atol=1e-12)


def test_the_sum_over_one_mode_of_a_diagonal_is_the_marginal():
    marginal = LabeledTensor([0.25, 0.75], "B")
    np.testing.assert_array_equal(marginal.diagonal({"B": 2}).sum("B").array, marginal.array)


# --- Messages: the example of sections 3 and 4.2, and its transformed form (Eq. 14-19)


SIZES = {"B": 2, "C": 3, "D": 4, "E": 2}


@pytest.fixture
def clique():
    """P(B, D | C, E), M(B, C) = P(f | B, C), M(B, D) = P(g | B, D), and M(C, E) summed by hand."""
    cpt = LabeledTensor(conditional((2, 4, 3, 2), given_modes=2, seed=1), ["B", "D", "C", "E"])
    leaf_f = LabeledTensor(conditional((5, 2, 3), given_modes=2, seed=2), ["F", "B", "C"])
    leaf_g = LabeledTensor(conditional((5, 2, 4), given_modes=2, seed=3), ["G", "B", "D"])
    message_f, message_g = leaf_f.select({"F": 4}), leaf_g.select({"G": 2})
    expected = np.zeros((3, 2))
    for b, d, c, e in np.ndindex(*cpt.shape):
        expected[c, e] += cpt.array[b, d, c, e] * leaf_f.array[4, b, c] * leaf_g.array[2, b, d]
    return cpt, message_f, message_g, LabeledTensor(expected, ["C", "E"])


def test_messages_pass_by_multiplication(clique):
    cpt, message_f, message_g, expected = clique
    embedded = cpt.diagonal({"B": 2, "D": 1, "C": 2, "E": 1})
    assert embedded.labels == ("B", "B", "D", "C", "C", "E")
    message = embedded.multiply(message_f, over=["B", "C"]).multiply(message_g, over=["B", "D"])
    assert message.labels == ("C", "E")
    np.testing.assert_allclose(message.array, expected.array, rtol=1e-13)
    swapped = embedded.multiply(message_g, over=["B", "D"]).multiply(message_f, over=["B", "C"])
    assert swapped.equivalent(message)


def test_a_variable_in_no_separator_is_marginalised_out(clique):
    cpt, message_f, _, _ = clique
    message = cpt.diagonal({"B": 1, "D": 0, "C": 2, "E": 1}).multiply(message_f, over=["B", "C"])
    assert message.labels == ("C", "E")
    expected = np.einsum("bdce,bc->ce", cpt.array, message_f.array)
    np.testing.assert_allclose(message.array, expected, rtol=1e-13)


@pytest.mark.parametrize("shared", [("f", "g", "o"), ("f", "g", "f"), ("f", "g", "g")])
def test_transformed_messages(clique, shared):
    """The gauges cancel, also where the view of the node is the view of one of its children."""
    cpt, message_f, message_g, expected = clique
    separators = (["B", "C"], ["B", "D"], ["C", "E"])
    gauges = [
        LabeledTensor(
            with_rank(8, prod(SIZES[x] for x in separator), prod(SIZES[x] for x in separator), seed).reshape(
                [8, *(SIZES[x] for x in separator)]
            ),
            [view, *separator],
        )
        for seed, (view, separator) in enumerate(zip(shared, separators, strict=True))
    ]
    inverses = [gauge.inverse(view)[0] for gauge, view in zip(gauges, shared, strict=True)]
    transformed = cpt.diagonal({"B": 2, "C": 2})
    for factor, separator in zip([*gauges[:2], inverses[2]], separators, strict=True):
        transformed = transformed.multiply(factor, over=separator)
    assert transformed.labels == shared
    below_f = inverses[0].multiply(message_f, over=["B", "C"])
    below_g = inverses[1].multiply(message_g, over=["B", "D"])
    above = transformed.multiply(below_f, over="f").multiply(below_g, over="g")
    assert above.equivalent(inverses[2].multiply(expected, over=["C", "E"]), atol=1e-12)
    assert gauges[2].multiply(above, over=shared[2]).equivalent(expected, atol=1e-12)


# --- Mistakes


def tensor_bdc():
    return LabeledTensor(np.ones((2, 4, 3)), ["B", "D", "C"])


def tensor_bbd():
    return tensor_bdc().sum("C").diagonal({"B": 2})


ERRORS = {
    "too few labels": (
        lambda: LabeledTensor(np.ones((2, 3)), ["B"]),
        "an array of shape (2, 3) needs 2 labels, one per mode, not 1: ('B',)",
    ),
    "too many labels": (
        lambda: LabeledTensor(1.0, ["B"]),
        "an array of shape () needs 0 labels, one per mode, not 1: ('B',)",
    ),
    "unequal duplicates": (
        lambda: LabeledTensor(np.ones((2, 3)), ["B", "B"]),
        "label 'B' has modes of sizes 2 and 3; modes of one variable have equal sizes, so rename",
    ),
    "no value": (lambda: LabeledTensor(np.ones((2, 0)), ["A", "B"]), "label 'B' has size 0"),
    "label not a string": (lambda: LabeledTensor([1], [0]), "labels are non-empty strings, not 0"),
    "empty label": (lambda: LabeledTensor([1], [""]), "labels are non-empty strings, not ''"),
    "complex": (
        lambda: LabeledTensor(np.ones(2) * 1j, "B"),
        "the array for labels ('B',) must hold real numbers",
    ),
    "text": (lambda: LabeledTensor(["0.5"], "B"), "the array for labels ('B',) must hold real numbers"),
    "ragged": (lambda: LabeledTensor([[1], [1, 2]], ["A", "B"]), "labels ('A', 'B') is not an array of numbers"),
    "unknown size": (lambda: tensor_bdc().size_of("A"), "<LabeledTensor: B 2, D 4, C 3> has no mode 'A'"),
    "misspelt": (
        lambda: LabeledTensor([1], "weather").size_of("wether"),
        "has no mode 'wether'; did you mean 'weather'?",
    ),
    "left lacks it": (
        lambda: LabeledTensor([1], "A").multiply(tensor_bdc(), "B"),
        "<LabeledTensor: A 1> has no mode 'B'",
    ),
    "right lacks it": (
        lambda: tensor_bdc().multiply(LabeledTensor([1], "A"), ["B"]),
        "<LabeledTensor: A 1> has no mode 'B'",
    ),
    "over too often": (
        lambda: tensor_bbd().multiply(tensor_bdc(), ["B", "B"]),
        "('B', 'B') names 'B' more often than <LabeledTensor: B 2, D 4, C 3> has modes for it",
    ),
    "sizes differ": (
        lambda: tensor_bdc().multiply(LabeledTensor(np.ones((4, 3)), ["D", "B"]), ["D", "B"]),
        "cannot multiply over 'B': its size is 2 in <LabeledTensor: B 2, D 4, C 3> and 3 in "
        "<LabeledTensor: D 4, B 3>; both need the same",
    ),
    "sizes differ elsewhere": (
        lambda: tensor_bdc().multiply(LabeledTensor(np.ones((4, 3)), ["D", "B"]), "D"),
        "label 'B' has modes of sizes 2 and 3",
    ),
    "plain array": (
        lambda: tensor_bdc().multiply(np.ones(2), "B"),
        "a ndarray has no labels; write LabeledTensor",
    ),
    "compared with an array": (lambda: tensor_bdc().equivalent(np.ones(2)), "a ndarray has no labels"),
    "incomplete order": (
        lambda: tensor_bbd().transpose(["D", "B"]),
        "the order ('D', 'B') leaves out ('B',); name every mode",
    ),
    "unknown in order": (lambda: tensor_bdc().transpose(["B", "D", "E"]), "has no mode 'E'"),
    "unknown row": (lambda: tensor_bdc().matrix(["E"]), "<LabeledTensor: B 2, D 4, C 3> has no mode 'E'"),
    "row twice": (lambda: tensor_bdc().matrix(["B", "B"]), "('B', 'B') names 'B' more often than"),
    "identity sizes": (
        lambda: LabeledTensor.identity(["A", "B"], [2]),
        "2 labels ('A', 'B') need as many sizes, not 1",
    ),
    "identity size 0": (
        lambda: LabeledTensor.identity(["A", "B"], [2, 0]),
        "the size of 'B' is a whole number of at least 1, not 0",
    ),
    "identity size 1.5": (
        lambda: LabeledTensor.identity("A", [1.5]),
        "the size of 'A' is a whole number",
    ),
    "unknown inverse": (lambda: tensor_bdc().inverse("E"), "<LabeledTensor: B 2, D 4, C 3> has no mode 'E'"),
    "tolerance 1": (
        lambda: tensor_bdc().inverse("B", 1),
        "tolerance must be at least 0 and less than 1, not 1",
    ),
    "tolerance NaN": (
        lambda: tensor_bdc().inverse("B", np.nan),
        "a finite number of at least 0, not nan",
    ),
    "inverse of NaN": (
        lambda: LabeledTensor([np.nan], "B").inverse("B"),
        "<LabeledTensor: B 1> has no inverse over ('B',): remove its NaN or infinite entries",
    ),
    "unknown repeat": (lambda: tensor_bdc().diagonal({"E": 2}), "has no mode 'E'"),
    "negative repeat": (
        lambda: tensor_bdc().diagonal({"D": -1}),
        "the number of repeats of 'D' is a whole number of at least 0, not -1",
    ),
    "repeat True": (
        lambda: tensor_bdc().diagonal({"D": True}),
        "the number of repeats of 'D' is a whole",
    ),
    "repeat of a duplicate": (
        lambda: tensor_bbd().diagonal({"B": 1}),
        "select or repeat 'B' while it has one mode only, not several as in <LabeledTensor: B 2, B 2, D 4>",
    ),
    "unknown selection": (lambda: tensor_bdc().select({"E": 0}), "has no mode 'E'"),
    "selection of a duplicate": (
        lambda: tensor_bbd().select({"B": 0}),
        "select or repeat 'B' while it has one",
    ),
    "value too large": (
        lambda: tensor_bdc().select({"C": 3}),
        "'C' has 3 values, counted from 0, but no 3",
    ),
    "value negative": (
        lambda: tensor_bdc().select({"C": -1}),
        "the value of 'C' is a whole number of at least 0, not -1",
    ),
    "value not whole": (lambda: tensor_bdc().select({"C": 1.0}), "the value of 'C' is a whole number"),
    "unknown sum": (lambda: tensor_bdc().sum("E"), "<LabeledTensor: B 2, D 4, C 3> has no mode 'E'"),
}


@pytest.mark.parametrize(("wrong", "message"), ERRORS.values(), ids=ERRORS.keys())
def test_errors_are_explained(wrong, message):
    with pytest.raises(TensorError, match=re.escape(message)):
        wrong()
