"""Distributions of columns given states: against the whole joint table, in mixtures (of trees too), in chains."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from estimators.test_dependencies import MIXTURE, TREE, information, pair_table
from hypothesis import given, settings
from hypothesis import strategies as st
from random_graphs import latent_graphs
from sklearn.exceptions import NotFittedError

import eigentree as et
from eigentree.estimators.profiles import Profile
from eigentree.graphs.structure_learning import mixed_tree, mixture_of_trees

WORDS = ["AABBBA", "ABBB", "BBBAAAA", "AAAABB", "ABBA"]


def check_order(profile: Profile) -> None:
    assert list(profile.nats) == sorted(profile.nats, reverse=True)
    assert len(profile.nats) == len(profile.columns) == len(set(profile.columns))
    assert all(nats >= 0 for nats in profile.nats)
    assert float(profile.shares.sum()) == pytest.approx(1)
    assert profile.shares.states == (profile.states,)


@settings(max_examples=60, deadline=None)
@given(latent_graphs(most_variables=6, most_states=4, most_cells=2_000), st.integers(0, 99))
def test_profiles_are_those_of_the_whole_table(graph: et.LatentGraph, seed: int) -> None:
    if mixed_tree(graph)[1] is not None:
        return
    network = et.LatentNetwork.random(graph, concentration=0.4, seed=seed)
    found = et.profiles(network)
    assert tuple(found) == graph.hidden
    for name, profile in found.items():
        check_order(profile)
        assert set(profile.columns) == set(graph.observed)
        assert profile.name == name
        assert profile.states == tuple(range(graph.states[name]))
        for column, nats in zip(profile.columns, profile.nats, strict=True):
            joint = pair_table(network, name, column)
            np.testing.assert_allclose(profile.shares, joint.sum(axis=1), atol=1e-12)
            table = profile.table(column)
            assert table.names == (name, column)
            there = joint.sum(axis=1) > 1e-100
            np.testing.assert_allclose(table[there].sum(axis=1), 1, atol=1e-14)
            np.testing.assert_allclose(table[there], (joint.T / joint.sum(axis=1)).T[there], atol=1e-9)
            assert nats == pytest.approx(information(joint), abs=1e-9)


def test_mixtures_say_what_their_tables_say() -> None:
    votes, party = et.datasets.load_votes(return_X_y=True, as_frame=True)
    table = votes.assign(party=party)
    model = et.EMJunctionTree(et.zoo.Mixture(3), init="random", n_init=1, max_iter=20, random_state=0).fit(table)
    (profile,) = et.profiles(model).values()
    np.testing.assert_allclose(profile.shares, model.tables_["h"], atol=1e-12)
    for column in table.columns:
        told = profile.table(column)
        assert (told.names, told.states) == (model.tables_[column].names, model.tables_[column].states)
        np.testing.assert_allclose(told, model.tables_[column], atol=1e-12)
    assert profile.table("party").at({"h": 0, "party": "democrat"}) == pytest.approx(
        model.tables_["party"].at({"h": 0, "party": "democrat"})
    )
    links = et.dependencies(model).about("h")
    assert {link.other: link.nats for link in links} == dict(zip(profile.columns, profile.nats, strict=True))
    shown = repr(profile)
    assert f"0 ({profile.shares[0]:.1%}): {profile.columns[0]}=" in shown
    assert shown.count("\n") == 3


def test_in_mixtures_of_trees_states_belong_to_their_tree() -> None:
    found = et.profiles(MIXTURE)
    assert tuple(found) == ("tree", *TREE.hidden)
    shares = MIXTURE.tables["tree"]
    np.testing.assert_allclose(found["tree"].shares, shares)
    apart = [
        et.profiles(et.LatentNetwork(TREE, {name: MIXTURE.tables[name][which] for name in TREE.names}))
        for which in range(3)
    ]
    nats = {(link.one, link.other): link.nats for link in et.dependencies(MIXTURE).hidden}
    for name in TREE.hidden:
        profile = found[name]
        check_order(profile)
        assert profile.states == tuple((which, state) for which in range(3) for state in range(TREE.states[name]))
        own = np.concatenate([share * each[name].shares for share, each in zip(shares, apart, strict=True)])
        np.testing.assert_allclose(profile.shares, own)
        for column, told in zip(profile.columns, profile.nats, strict=True):
            both = np.concatenate([each[name].table(column) for each in apart])
            np.testing.assert_allclose(profile.table(column), both, atol=1e-12)
            assert told == pytest.approx(nats[name, column])
    for column, told in zip(found["tree"].columns, found["tree"].nats, strict=True):
        joint = pair_table(MIXTURE, "tree", column)
        np.testing.assert_allclose(found["tree"].table(column), (joint.T / joint.sum(axis=1)).T)
        assert told == pytest.approx(information(joint))
    assert "1 of tree 2 (" in repr(found)


def test_numbers_of_hidden_states_play_no_part_in_order() -> None:
    network = et.LatentNetwork.random(TREE, concentration=0.4, seed=2)
    turned = network.ordered()
    for name in TREE.hidden:
        one, other = et.profiles(network)[name], et.profiles(turned)[name]
        assert one.columns == other.columns
        np.testing.assert_allclose(one.nats, other.nats, atol=1e-12)
        np.testing.assert_allclose(np.sort(one.shares), np.sort(other.shares), atol=1e-12)


@pytest.mark.parametrize(("sizes", "order"), [(2, 1), (3, 2), ((2, 3), 1), ((2, 2), 2)])
def test_sequences_are_profiled_over_their_steps(sizes: int | tuple[int, int], order: int) -> None:
    """As the network of as many steps has it, step by step."""
    model = et.EMHMM(sizes, order, init="random", n_init=1, max_iter=4, random_state=0).fit(WORDS)
    network = model.to_network(5)
    found = et.profiles(model, length=5)
    several = isinstance(sizes, tuple)
    assert tuple(found) == (("chain 0", "chain 1") if several else ("state",))
    for place, profile in enumerate(found.values()):
        check_order(profile)
        hidden = [f"h{place}_{step}" if several else f"h{step}" for step in range(5)]
        joint = np.mean([pair_table(network, name, f"x{step}") for step, name in enumerate(hidden)], axis=0)
        np.testing.assert_allclose(profile.shares, joint.sum(axis=1), atol=1e-12)
        np.testing.assert_allclose(profile.table("x0"), joint / joint.sum(axis=1, keepdims=True), atol=1e-12)
        assert profile.table("x0").states == (profile.states, ("A", "B"))
        assert profile.nats[0] == pytest.approx(information(joint))
        for what in ("start", "transitions"):
            table = model.tables_[what][profile.name] if several else model.tables_[what]
            np.testing.assert_array_equal(getattr(profile, what), table)
        if not several:
            np.testing.assert_allclose(profile.table("x0"), model.tables_["emissions"], atol=1e-12)


def test_some_hidden_variables_are_profiled_alone() -> None:
    network = et.LatentNetwork.random(TREE, concentration=0.4, seed=2)
    every = et.profiles(network)
    name = TREE.hidden[-1]
    (alone,) = et.profiles(network, hidden=[name]).values()
    assert alone.columns == every[name].columns
    for column in TREE.observed:
        np.testing.assert_array_equal(alone.table(column), every[name].table(column))
    assert tuple(et.profiles(MIXTURE, hidden=["tree"])) == ("tree",)
    assert len(et.profiles(network, hidden=[])) == 0


def test_work_is_linear_in_the_columns_of_one_hidden_variable() -> None:
    """A class of 1,500 columns: tables of all pairs would be gigabytes."""
    graph = et.zoo.mixture(1_500, 4)
    network = et.LatentNetwork.random(graph, seed=0)
    (profile,) = et.profiles(network).values()
    for column in ("x0", "x1499"):
        np.testing.assert_allclose(profile.table(column), network.tables[column], atol=1e-12)


def test_a_state_without_share_says_nothing() -> None:
    graph = et.LatentGraph({"h": 2, "x": 2}, [("h", "x")], ["h"])
    network = et.LatentNetwork(graph, {"h": [1.0, 0.0], "x": [[0.3, 0.7], [0.5, 0.5]]})
    (profile,) = et.profiles(network).values()
    np.testing.assert_allclose(profile.table("x")[0], [0.3, 0.7])
    assert np.isnan(profile.table("x")[1]).all()
    assert profile.nats == (0.0,)
    assert "0 (100.0%): x=1 0.70" in repr(profile)


def test_profiles_never_change_and_are_copied_whole() -> None:
    found = et.profiles(MIXTURE)
    with pytest.raises(AttributeError):
        found["tree"].name = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        found["tree"] = found["tree"]  # type: ignore[index]
    for table in (found["tree"].shares, found["tree"].table("x0")):
        with pytest.raises(ValueError, match="read-only"):
            table[...] = 0
    for again in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert repr(again) == repr(found)
        np.testing.assert_array_equal(again["tree"].table("x0"), found["tree"].table("x0"))


def test_what_has_no_profile_is_an_error() -> None:
    rows = MIXTURE.sample(200, seed=0)
    unfitted = et.EMJunctionTree(TREE)
    for model in (unfitted, et.EMHMM()):
        with pytest.raises(NotFittedError):
            et.profiles(model)
    with pytest.raises(et.ParameterError, match="a spectral model are in to_network"):
        et.profiles(et.SpectralJunctionTree(TREE).fit(rows))  # type: ignore[arg-type]
    with pytest.raises(et.ParameterError, match="a spectral model has no tables of them; EMHMM has"):
        et.profiles(et.SpectralHMM(2).fit(WORDS * 3))  # type: ignore[arg-type]
    with pytest.raises(et.ParameterError, match="this model is not of sequences"):
        et.profiles(MIXTURE, length=3)
    with pytest.raises(et.GraphError, match="there is no hidden variable 'Tree'; did you mean 'tree'"):
        et.profiles(MIXTURE, hidden=["Tree"])
    found = et.profiles(MIXTURE)
    with pytest.raises(et.GraphError, match="there is no profile of 'tre'; did you mean 'tree'"):
        found["tre"]
    with pytest.raises(et.GraphError, match="there is no column 'X1'; did you mean 'x1'"):
        found["tree"].table("X1")
    assert "h" not in found
    nothing_hidden = et.LatentNetwork.random(et.LatentGraph({"a": 2, "b": 2}, [("a", "b")]), seed=0)
    assert repr(et.profiles(nothing_hidden)) == "no hidden variables"


def test_mixtures_of_trees_without_hidden_variables_have_that_of_the_tree() -> None:
    chain = et.LatentGraph({"a": 2, "b": 3, "c": 2}, [("a", "b"), ("b", "c")])
    network = et.LatentNetwork.random(mixture_of_trees(chain, 2), seed=0)
    (profile,) = et.profiles(network).values()
    assert profile.name == "tree"
    joint = pair_table(network, "tree", "c")
    np.testing.assert_allclose(profile.table("c"), (joint.T / joint.sum(axis=1)).T)
