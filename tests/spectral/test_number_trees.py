"""Tables with numbers by hat functions: exact on exact moments, densities on any, counts alike for any split."""

from __future__ import annotations

import pickle
from functools import reduce
from itertools import pairwise, product
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from counted_arrays import arrays_of, of_arrays
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm, poisson

import eigentree as et
from eigentree.counting.levels.hat_plan import hat_plan
from eigentree.counting.levels.hats import (
    HATS,
    LEVELS,
    MOST_HATS,
    PARTS,
    HatScale,
    hat_values,
    level_distribution,
    level_tables,
)
from eigentree.counting.levels.number_scales import MOST_VALUES, NumberSample
from eigentree.emissions.marginal import Marginal
from eigentree.spectral.learn.moments import ExactTables
from eigentree.spectral.learn.number_model import SpectralNumberModel
from eigentree.spectral.learn.operator_learning import learn
from eigentree.viz.reports.evaluation_data import adapter_of, evaluation_data
from eigentree.viz.reports.masked_numbers import number_accuracies

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MEANS, WIDTHS = np.array([-1.0, 1.2]), np.array([1.1, 0.8])


def gaussian_scale(share: float = 0.5) -> HatScale:
    """Return the levels of a mixture of the two Gaussians."""
    points = np.linspace(-9.0, 9.0, 8193)
    density = norm.pdf(points[:, None], MEANS, WIDTHS) @ [share, 1 - share]
    density /= np.trapezoid(density, points)
    return HatScale(Marginal(1.0, 1.0, -9.0, 9.0, density, 0.0, 1.0, 1e-12))


def in_the_span(hats: int, seed: int) -> np.ndarray:
    """Return P(level | state), shape (2, levels), of mixtures of hats."""
    values = hat_values(hats)
    weights = np.random.default_rng(seed).dirichlet(np.ones(hats), 2)
    return np.asarray(weights @ (values / values.sum(axis=0)).T)


class Truth:
    """A tree of hidden variables of two states, whose columns are numbers, given P(level | state), or binary."""

    def __init__(self, graph: et.LatentGraph, tables: dict[str, np.ndarray]) -> None:
        self.graph, self.tables = graph, tables
        self.network = et.LatentNetwork.random(graph.with_states(dict.fromkeys(graph.observed, 2)), seed=3)
        self.numbers = [name for name in graph.observed if name in tables]
        self.scales = tuple(gaussian_scale() if name in tables else None for name in graph.observed)

    def joint(self, names: Sequence[str], tables: dict[str, np.ndarray]) -> np.ndarray:
        """Return a joint table of some columns, of numbers with what is given in each state of their parent."""
        hidden = self.network.graph.hidden
        found: np.ndarray = np.zeros(())
        for states in product(range(2), repeat=len(hidden)):
            here = dict(zip(hidden, states, strict=True))
            weight, parts = 1.0, []
            for name in hidden:
                parents = self.graph.parents(name)
                table = np.asarray(self.network.labeled_tables[name])
                weight *= float(table[(*(here[p] for p in parents), here[name])])
            for name in names:
                (parent,) = self.graph.parents(name)
                own = tables.get(name, np.asarray(self.network.labeled_tables[name]))
                parts.append(own[here[parent]])
            found = found + weight * reduce(np.multiply.outer, parts, np.ones(()))
        return found

    def model(self, hats: int) -> SpectralNumberModel:
        """Return the model that is learned from exact moments of hats."""
        plan = hat_plan(self.graph, self.numbers)
        counted = max(plan.graph.states[name] for name in self.numbers)
        moments = {name: table @ hat_values(counted, counted) for name, table in self.tables.items()}

        class Source:
            def joint(self, names: Sequence[str]) -> np.ndarray:
                return truth.joint(names, moments)

        truth = self
        own = tuple(hats if scale else 0 for scale in self.scales)
        (fit,) = learn(plan, [ExactTables(Source(), plan.graph)], "variance", hats=own)
        columns = et.Statistics.of(self.rows(60, 0), self.graph).columns
        marginals = tuple(np.full(count, 1 / count) for count in fit.states)
        return SpectralNumberModel.of_numbers(fit, 0.0, 0.0, marginals, columns, self.scales)

    def rows(self, count: int, seed: int, missing: float = 0.0) -> np.ndarray:
        random = np.random.default_rng(seed)
        made = np.stack(
            [random.normal(size=count) if scale else random.integers(2, size=count) for scale in self.scales],
            axis=1,
        ).astype(float)
        made[random.random(made.shape) < missing] = np.nan
        return made

    def log_density(self, row: np.ndarray, tables: dict[str, np.ndarray] | None = None) -> float:
        """Return the log density of a row, missing cells left out, by enumeration."""
        chosen, log = {}, 0.0
        for name, value, scale in zip(self.graph.observed, row, self.scales, strict=True):
            if np.isnan(value):
                continue
            level = int(scale.levels(np.array([value]))[0]) if scale else int(value)
            own = (tables or self.tables).get(name, np.asarray(self.network.labeled_tables[name]))
            chosen[name] = own[:, level : level + 1]
            log += float(scale.log_density(np.array([value]))[0]) if scale else 0.0
        return log + float(np.log(self.joint(list(chosen), chosen).item()))


def mixture(columns: str) -> et.LatentGraph:
    """Return a graph of one hidden variable above columns, "n" for numbers and "c" for binary ones."""
    names = {f"x{k}": 1 if kind == "n" else 2 for k, kind in enumerate(columns)}
    return et.LatentGraph({"h": 2, **names}, [("h", name) for name in names], ["h"])


def chain(columns: str) -> et.LatentGraph:
    """Return a hidden Markov model with such columns."""
    states = {f"h{k}": 2 for k in range(len(columns))}
    names = {f"x{k}": 1 if kind == "n" else 2 for k, kind in enumerate(columns)}
    links = [(f"h{k}", f"h{k + 1}") for k in range(len(columns) - 1)]
    return et.LatentGraph(
        {**states, **names}, [*links, *((f"h{k}", f"x{k}") for k in range(len(columns)))], list(states)
    )


STRUCTURES = [mixture("nnn"), mixture("ncnc"), chain("nnn"), chain("ncnn")]


def of_numbers(graph: et.LatentGraph) -> list[str]:
    return [name for name in graph.observed if graph.states[name] == 1]


@pytest.mark.parametrize("graph", STRUCTURES, ids=["numbers", "mixed", "chain", "mixed chain"])
@pytest.mark.parametrize("hats", [5, 17])
def test_densities_in_the_span_of_hats_are_exact_on_exact_moments(graph, hats):
    truth = Truth(graph, {name: in_the_span(hats, k) for k, name in enumerate(of_numbers(graph))})
    model = truth.model(hats)
    for missing in (0.0, 0.4):
        rows = truth.rows(15, 1, missing)
        rows[:, 0] = np.where(np.isnan(rows).all(axis=1), 0.0, rows[:, 0])
        scores, lost = model.log_prob(rows)
        assert_allclose(scores, [truth.log_density(row) for row in rows], rtol=0, atol=1e-8)
        assert lost == 0


def gaussian_levels(scale: HatScale) -> np.ndarray:
    """Return P(level | state) of Gaussian states: the cdf between the ends of each level."""
    ends = scale.at(np.arange(1, LEVELS) / LEVELS)
    below = norm.cdf(ends[:, None], MEANS, WIDTHS)
    return np.asarray(np.diff(np.concatenate([np.zeros((1, 2)), below, np.ones((1, 2))]), axis=0).T)


def test_a_gaussian_tree_is_learned_up_to_what_hats_cannot_represent():
    graph = mixture("nnn")
    levels = gaussian_levels(gaussian_scale())
    truth = Truth(graph, dict.fromkeys(graph.observed, levels))
    rows = truth.rows(150, 2)
    shares = np.asarray(truth.network.labeled_tables["h"])
    density = norm.pdf(rows[:, :, None], MEANS, WIDTHS).prod(axis=1) @ shares
    errors = []
    for hats in HATS:
        model = truth.model(hats)
        codes = np.asfortranarray(np.stack([truth.scales[0].levels(column) for column in rows.T], axis=1))
        scored = model.scored(codes)
        scores, _ = model.log_prob(rows)
        errors.append(float(np.mean(np.abs(np.exp(scores) / density - 1))))
        # It is the mixture of the projections of the Gaussians, wherever those are densities.
        projected = dict.fromkeys(graph.observed, levels @ hat_values(hats) @ level_tables(hats).T)
        kept = scored.clipped == 0
        assert kept.sum() >= 30
        wanted = [truth.log_density(row, projected) for row in rows[kept]]
        assert_allclose(scores[kept], wanted, rtol=0, atol=1e-7)
    assert all(finer < coarser for coarser, finer in pairwise(errors))
    assert errors[-1] < 0.02


def test_means_and_quantiles_of_exact_models_are_those_of_their_densities():
    graph = mixture("ncn")
    truth = Truth(graph, {name: in_the_span(9, 4 + k) for k, name in enumerate(of_numbers(graph))})
    model = truth.model(9)
    points = np.linspace(-9.0, 9.0, 18_001)
    for row in truth.rows(3, 5):
        every = np.repeat(row[None], len(points), axis=0)
        every[:, 0] = points
        density = np.exp(model.log_prob(every)[0])
        density /= np.trapezoid(density, points)
        row[0] = np.nan
        mean = np.trapezoid(points * density, points)
        assert model.predict_number(row[None], "x0")[0] == pytest.approx(mean, abs=2e-3)
        for method in ("mode", "sample"):
            assert_array_equal(model.impute(row[None], method, seed=0)[0][0, 1:], row[1:])
        assert model.impute(row[None])[0][0, 0] == pytest.approx(mean, abs=2e-3)
        found = model.predict_number(row[None], "x0", [0.1, 0.5, 0.9])[0]
        assert model.impute(row[None], "median")[0][0, 0] == found[1]
        shown = model.density("x0", {"x1": row[1], "x2": row[2]})
        assert_allclose(shown.pdf(points[::500]), density[::500], rtol=2e-3, atol=1e-9)
        assert_allclose(shown.cdf(found), [0.1, 0.5, 0.9], atol=1e-6)
        assert_allclose(shown.quantile([0.1, 0.5, 0.9]), found, atol=1e-9)
        below = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2) * (points[1] - points[0])])
        assert_allclose(np.interp(found, points, below), [0.1, 0.5, 0.9], atol=2e-3)
        assert shown.std == pytest.approx(np.sqrt(np.trapezoid((points - mean) ** 2 * density, points)), abs=5e-3)
        sampled = shown.sample(20_000, random_state=0)
        assert np.mean(sampled) == pytest.approx(mean, abs=5 * shown.std / np.sqrt(20_000))


def table(count: int, seed: int = 0, missing: float = 0.0) -> pd.DataFrame:
    """Return rows of numbers, counts, dates and labels that show one hidden variable of two states."""
    random = np.random.default_rng(seed)
    h = random.integers(0, 2, count)
    days = pd.to_timedelta(random.integers(0, 300, count) + 100 * h, unit="D")
    frame = pd.DataFrame(
        {
            "age": random.normal(30 + 20 * h, 6.0),
            "visits": random.poisson(1 + 5 * h).astype(float),
            "sex": np.where(random.random(count) < 0.2 + 0.6 * h, "m", "f"),
            "income": random.lognormal(10 + h / 2, 0.4),
            "since": pd.Timestamp("2020-01-01") + days,
        }
    )
    return frame.mask(random.random(frame.shape) < missing)


SETTINGS = {"emissions": dict.fromkeys(("age", "visits", "income"), "semiparametric")}


def fitted(rows: pd.DataFrame, **settings) -> et.SpectralJunctionTree:
    return et.SpectralJunctionTree(et.zoo.Mixture(2), **SETTINGS | settings).fit(rows)


@pytest.mark.parametrize("count", [20, 400])
def test_densities_are_normalised(count):
    rows = table(count, missing=0.1)[["age", "sex", "income"]]
    model = et.SpectralJunctionTree(et.zoo.Mixture(2)).fit(rows)
    assert count < 100 or model.report_.clipping.share > 0
    points = np.linspace(-300.0, 400.0, 70_001)
    alone = pd.DataFrame({"age": points, "sex": None, "income": np.nan})
    assert np.trapezoid(np.exp(model.score_samples(alone)), points) == pytest.approx(1, abs=1e-3)
    # At the middles of all levels, each of which has 1 / LEVELS of the marginal density.
    scales = [scale for scale in model.model_.scales if scale is not None]
    middles = [scale.at((np.arange(LEVELS) + 0.5) / LEVELS) for scale in scales]
    for sex in ("f", "m", None):
        first, second = (each.ravel() for each in np.meshgrid(middles[0], middles[1][::7], indexing="ij"))
        pairs = pd.DataFrame({"age": first, "sex": sex, "income": second})
        marginal = scales[0].log_density(first)
        summed = np.exp(model.score_samples(pairs) - marginal).reshape(LEVELS, -1).sum(axis=0)
        rest = pd.DataFrame({"age": np.nan, "sex": sex, "income": middles[1][::7]})
        # The chain rule is renormalised where something was clipped, so that missing cells differ a little there.
        assert_allclose(summed, np.exp(model.score_samples(rest)), rtol=0.25)
    whole = model.model_.score(model.model_.columns.missing(1))[0]
    assert_allclose(whole, 0.0, atol=1e-12)


def test_what_is_clipped_of_a_number_goes_to_its_marginal_distribution():
    rows = table(600, 3)[["age", "sex", "income"]]
    model = et.SpectralJunctionTree(et.zoo.Mixture(2), shrinkage=0.1, floor=0, hats=33).fit(rows)
    codes = model.statistics_.sample.codes
    (raw,) = model.operators_.tables(codes, [0])
    ((made, lost),) = model.model_.distributions(codes, [0])
    assert_allclose(made.sum(axis=1), 1.0)
    assert (made >= 0).all()
    for row in np.flatnonzero((raw < 0).any(axis=1) & ~lost)[:5]:
        share = -np.minimum(raw[row], 0.0).sum()
        wanted = np.maximum(raw[row], 0.0) + share * model.model_.marginals[0]
        assert_allclose(made[row], wanted / wanted.sum())
    assert (raw < 0).any()


def test_a_missing_number_is_integrated_out():
    graph = mixture("nnc")
    truth = Truth(graph, {name: in_the_span(9, 6 + k) for k, name in enumerate(of_numbers(graph))})
    model, scale = truth.model(9), truth.scales[0]
    assert scale is not None
    row = truth.rows(1, 7)
    middles = scale.at((np.arange(LEVELS) + 0.5) / LEVELS)
    every = np.repeat(row, LEVELS, axis=0)
    every[:, 0] = middles
    scores = model.log_prob(every)[0] - scale.log_density(middles)
    row[0, 0] = np.nan
    assert_allclose(model.log_prob(row)[0], np.logaddexp.reduce(scores), atol=1e-9)


def same(one: et.Statistics, other: et.Statistics) -> None:
    for here, there in zip(one.counts.arrays(), other.counts.arrays(), strict=True):
        assert_array_equal(here, there)
    assert_array_equal(one.sample.codes, other.sample.codes)
    assert_array_equal(one.sample.weights, other.sample.weights)


def test_counts_are_the_same_whatever_the_split_the_order_and_the_form(tmp_path: Path):
    dask = pytest.importorskip("dask.dataframe")
    rows = table(200, missing=0.15)
    structure = et.zoo.Mixture(2)
    settings = {"numeric": "emissions"}
    whole = et.Statistics.of(rows, structure, **settings)
    shuffled = rows.sample(frac=1, random_state=0)
    same(whole, et.Statistics.of(shuffled, structure, **settings))
    rows.to_csv(tmp_path / "rows.csv", index=False)
    for stream in (iter([rows[:70], rows[70:]]), dask.from_pandas(rows, npartitions=3)):
        same(whole, et.Statistics.of(stream, structure, **settings))
    read = et.Statistics.of(tmp_path / "rows.csv", structure, **settings)
    for here, there in zip(whole.counts.arrays(), read.counts.arrays(), strict=True):
        assert_array_equal(here, there)
    empty = whole - whole
    first, second = empty.update(shuffled[:63]), empty.update(shuffled[63:])
    same(first + second, whole)
    same((whole + first) - first, whole)
    with pytest.raises(et.DataError, match="cut into the same levels"):
        _ = whole + et.Statistics.of(rows[:100], structure, **settings)


def test_tables_are_sums_of_products_of_hats():
    rows = table(80, missing=0.2).drop(columns="visits")
    statistics = et.Statistics.of(rows, et.zoo.Mixture(2))
    hats: list[np.ndarray] = []
    read = pd.factorize(rows["sex"], sort=True)[0]
    days = (rows["since"] - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
    columns = {**{name: rows[name].to_numpy(float) for name in ("age", "income")}, "since": days}
    for name, scale, counted in zip(rows, statistics.scales, statistics.hats, strict=True):
        if scale is None:
            hats.append(np.where(read[:, None] < 0, np.nan, np.eye(2)[read]))
            continue
        values = np.vstack([scale.hats(counted), np.full(counted, np.nan)])
        hats.append(values[scale.levels(np.asarray(columns[name], float))])
    for group in statistics.counts.groups:
        known = ~np.isnan(np.concatenate([hats[column] for column in group], axis=1)).any(axis=1)
        letters = "abc"[: len(group)]
        wanted = np.einsum(
            ",".join(f"n{letter}" for letter in letters) + "->" + letters,
            *(hats[column][known] for column in group),
        )
        assert_array_equal(statistics.counts.find(group).array(), wanted)


def test_weights_count_as_copies_do():
    rows = table(60, 1)[["age", "sex", "since"]]
    often = np.arange(60) % 3
    structure = et.zoo.Mixture(2)
    weighted = et.Statistics.of(rows, structure, sample_weight=often)
    same(weighted, et.Statistics.of(rows.loc[rows.index.repeat(often)], structure))


def test_neither_the_order_of_rows_and_columns_nor_names_matter():
    rows = table(300, 2)
    models = [fitted(rows), fitted(rows.sample(frac=1, random_state=1))]
    for hidden, step in (("h", 1), ("cause", -1)):
        graph = et.LatentGraph(
            {hidden: 2, **{name: 2 if name == "sex" else 1 for name in rows}},
            [(hidden, name) for name in rows][::step],
            [hidden],
        )
        models.append(et.SpectralJunctionTree(graph, **SETTINGS).fit(rows))
    for model in models[1:]:
        assert_array_equal(model.score_samples(rows), models[0].score_samples(rows))
    # Columns in another order have other views: the same model where there is no noise.
    truth = Truth(mixture("nnc"), {name: in_the_span(9, k) for k, name in enumerate(("x0", "x1"))})
    cells = truth.rows(20, 3)
    graph = et.LatentGraph(dict(reversed(truth.graph.states.items())), truth.graph.edges, truth.graph.hidden)
    other = Truth(graph, truth.tables)
    other.network = truth.network
    assert_allclose(other.model(9).log_prob(cells[:, ::-1])[0], truth.model(9).log_prob(cells)[0], atol=1e-9)


def test_rounded_numbers_have_no_density_on_their_lattice():
    random = np.random.default_rng(0)
    h = random.integers(0, 2, 4000)
    means = np.array([[0.4, 3.0], [1.0, 6.0], [20.0, 4.0]])
    rows = pd.DataFrame(random.poisson(means[:, h].T), columns=["a", "b", "c"])
    emissions = dict.fromkeys("abc", "semiparametric")
    truth = float(np.log(poisson.pmf(rows.to_numpy()[:, :, None], means).prod(axis=1).mean(axis=1)).mean())
    for hats in (17, 33):
        model = et.SpectralJunctionTree(et.zoo.Mixture(2), hats=hats, emissions=emissions).fit(rows)
        # A density times the step is about a probability, however fine the hats.
        assert model.score(rows) == pytest.approx(truth, abs=0.07)
        for name in rows:
            density = model.conditional([name], given={})
            assert density.pdf(np.arange(80)).sum() == pytest.approx(1, abs=0.06)
    scale = model.model_.scales[0]
    assert scale is not None
    assert scale.step == 1
    made = scale.hats(MOST_HATS)
    assert_array_equal(made.sum(axis=1), 1.0)
    assert_array_equal(made * PARTS, np.rint(made * PARTS))
    assert (made >= 0).all()
    # Zero is 40 % of the rows, and is counted as many hats; a number without a step as two.
    zero = made[scale.levels(np.zeros(1))[0]]
    assert (zero > 0).sum() > 6
    assert_array_equal(HatScale(scale.marginal).hats(MOST_HATS), hat_values(MOST_HATS))


def test_samples_are_from_the_density_of_the_scores():
    rows = table(300, 3)[["age", "sex", "income"]]
    model = fitted(rows, emissions="auto")
    made = model.sample(30_000, random_state=0)
    scale = model.model_.scales[0]
    assert scale is not None
    middles = scale.at((np.arange(LEVELS) + 0.5) / LEVELS)
    seen = scale.levels(made["age"].to_numpy()).astype(int) // (LEVELS // 16)
    for sex in ("f", "m"):
        cells = pd.DataFrame({"age": middles, "sex": sex, "income": np.nan})
        levels = np.exp(model.score_samples(cells) - scale.log_density(middles)).reshape(16, -1).sum(axis=1)
        shares = np.bincount(seen[(made["sex"] == sex).to_numpy()], minlength=16) / len(made)
        # Cells that were clipped make a little difference, since all cells are sampled and some are missing here.
        assert_allclose(shares, levels, atol=5 * np.sqrt(0.05 / len(made)) + 0.004)
    old = model.sample(500, random_state=0, given={"age": 55.0})
    assert (old["age"] == 55.0).all()
    assert (old["sex"] == "m").mean() > 0.6


def test_numbers_are_predicted_imputed_and_sampled_given_other_cells():
    rows, fresh = table(2000, 4), table(400, 5)
    model = fitted(rows)
    holed = fresh.copy()
    holed.loc[::2, "age"] = np.nan
    holed.loc[1::3, "sex"] = None
    holed.loc[::5, "since"] = pd.NaT
    known = holed.notna()
    for method in ("mode", "mean", "median", "sample"):
        filled = model.impute(holed, method, random_state=0)
        assert filled.notna().all().all()
        for name in fresh:
            assert (filled[name] == holed[name])[known[name]].all()
        assert filled["visits"].mod(1).eq(0).all()
        assert filled["since"].dt.hour.eq(0).all()
        error = np.mean((filled["age"] - fresh["age"])[::2] ** 2) / np.var(fresh["age"])
        assert error < (1.0 if method == "sample" else 0.6)
    assert_array_equal(model.impute(holed, "mean"), model.impute(holed))
    intervals = np.asarray(model.predict_quantiles(fresh, "age", [0.05, 0.95]))
    covered = (intervals[:, 0] < fresh["age"]) & (fresh["age"] < intervals[:, 1])
    assert 0.8 < covered.mean() < 0.98
    proba = np.asarray(model.predict_proba(fresh, "sex"))
    assert_allclose(proba.sum(axis=1), 1.0)
    assert np.mean((proba[:, 1] > 0.5) == (fresh["sex"] == "m")) > 0.75
    assert model.predict(fresh, "since").dtype.kind == "M"
    # What a report says of masked numbers is of these predictions.
    adapter = adapter_of(model)
    (age,) = (one for one in number_accuracies(evaluation_data(adapter, fresh)) if one.column == "age")
    assert age.rmse == pytest.approx(np.sqrt(np.mean((model.predict(fresh, "age") - fresh["age"]) ** 2)))
    assert age.covered == pytest.approx(covered.mean(), abs=0.01)
    # P(sex, age) / P(age), as scores have them.
    ages = np.array([25.0, 58.0])
    pairs = {sex: pd.DataFrame({**dict.fromkeys(rows), "age": ages, "sex": sex}) for sex in ("f", "m")}
    joint = np.exp(np.stack([model.score_samples(each) for each in pairs.values()], axis=1))
    for age, wanted in zip(ages, joint / joint.sum(axis=1, keepdims=True), strict=True):
        assert_allclose(np.asarray(model.conditional(["sex"], given={"age": age})), wanted)
    assert_allclose(np.asarray(model.joint(["sex"])).sum(), 1.0)


def test_files_pickles_and_parts_give_the_same_answers(tmp_path: Path):
    rows = table(200, 6, missing=0.1)
    model = fitted(rows[:120])
    model.save(tmp_path / "numbers.eigentree")
    model.statistics_.save(tmp_path / "counts.eigentree")
    again = et.load(tmp_path / "numbers.eigentree")
    counted = et.Statistics.load(tmp_path / "counts.eigentree")
    same(counted, model.statistics_)
    assert counted.hats == model.statistics_.hats
    assert again.hats_ == model.hats_
    learned = et.SpectralJunctionTree(et.zoo.Mixture(2), **SETTINGS).fit_statistics(counted)
    more = model.statistics_.update(rows[120:])
    wanted = model.score_samples(rows)
    later = et.load(tmp_path / "numbers.eigentree").partial_fit(rows[120:])
    same(later.statistics_, more)
    for copy in (again, learned, pickle.loads(pickle.dumps(model))):
        assert_array_equal(copy.score_samples(rows), wanted)
    assert_array_equal(model.partial_fit(rows[120:]).score_samples(rows), later.score_samples(rows))
    arrays = of_arrays(et.Statistics, arrays_of(more))
    same(arrays, more)


def test_errors_shrink_with_more_rows():
    means, widths = np.array([[-1.0, 1.2]] * 4), np.array([[1.1, 0.8]] * 4)

    def drawn(count: int, seed: int) -> np.ndarray:
        random = np.random.default_rng(seed)
        h = random.integers(0, 2, count)
        return np.asarray(random.normal(means[:, h].T, widths[:, h].T))

    fresh = drawn(1500, 0)
    truth = np.log(norm.pdf(fresh[:, :, None], means, widths).prod(axis=1).mean(axis=1))
    behind = []
    for count in (300, 3000, 30_000):
        model = et.SpectralJunctionTree(et.zoo.Mixture(2)).fit(drawn(count, 1))
        behind.append(float(np.mean(truth - model.score_samples(fresh))))
    assert behind[0] > 1.5 * behind[1] > 3 * behind[2] > 0
    assert behind[2] < 0.03


def test_classifier_imputer_and_learned_structure():
    rows, fresh = table(400, 7, missing=0.1), table(300, 8)
    y, wanted = (np.where(each["income"].fillna(2e4) > 2.7e4, "rich", "poor") for each in (rows, fresh))
    for estimator in (et.SpectralJunctionTree(et.zoo.Mixture(2)), et.SpectralJunctionTree()):
        classifier = et.JunctionTreeClassifier(estimator).fit(rows.drop(columns="income"), y)
        score = classifier.score(fresh.drop(columns="income"), wanted)
        assert score > max(np.mean(wanted == "rich"), np.mean(wanted == "poor")) + 0.02
    # Classes whose numbers do not overlap: no row is impossible in both.
    known = rows[["age", "sex"]].dropna(subset="age")
    old = np.where(known["age"] > 40, "old", "young")
    apart = et.JunctionTreeClassifier(et.SpectralJunctionTree(et.zoo.Mixture(2), floor=0)).fit(known, old)
    assert apart.score(known, old) > 0.95
    imputer = et.JunctionTreeImputer(et.SpectralJunctionTree(et.zoo.Mixture(2)), method="mean").fit(rows)
    filled = imputer.transform(rows)
    assert filled.notna().all().all()
    learned = et.SpectralJunctionTree().fit(rows)
    assert learned.columns_.numbers == ("age", "visits", "income", "since")
    assert learned.score(fresh) > fitted(rows, shrinkage=np.inf).score(fresh)
    stream = et.SpectralJunctionTree().fit(iter([rows[:150], rows[150:]]))
    assert_array_equal(stream.score_samples(fresh), learned.score_samples(fresh))


def test_what_cannot_be_is_refused():
    rows = table(120, 9)
    model = fitted(rows)
    tree = et.SpectralJunctionTree
    with pytest.raises(et.ParameterError, match="EMJunctionTree has the other families"):
        tree(et.zoo.Mixture(2), emissions="gaussian").fit(rows)
    with pytest.raises(et.ParameterError, match="one of 5, 9, 17, 33"):
        tree(et.zoo.Mixture(2), hats=16).fit(rows)
    with pytest.raises(et.ParameterError, match="such as 'age', are learned with scaling='variance'"):
        tree(et.zoo.Mixture(2), scaling=None).fit(rows)
    with pytest.raises(et.DataError, match="'sex' is not continuous: it holds 'f'"):
        tree(et.zoo.Mixture(2), emissions={"sex": "semiparametric"}).fit(rows)
    with pytest.raises(et.DataError, match="'age' looks continuous"):
        tree(et.zoo.Mixture(2), numeric="error").fit(rows)
    for ask in (lambda: model.joint(["age"]), lambda: model.predict_proba(rows, "age")):
        with pytest.raises(et.DataError, match="'age' is a number and has a density"):
            ask()
    with pytest.raises(et.DataError, match="'age' stands on both sides of the bar"):
        model.conditional(["age"], given={"age": 30})
    for ask in (model.recover, lambda: model.to_network(rows)):
        with pytest.raises(et.DataError, match="columns 'age', 'visits', 'income', 'since' of numbers have none"):
            ask()
    with pytest.raises(et.DataError, match="holds inf"):
        model.score_samples(rows.assign(age=np.inf))
    with pytest.raises(et.DataError, match=r"columns 'age'.* are not the columns of the graph, columns 'x0'"):
        tree(et.zoo.mixture(2)).plan(et.zoo.mixture(2), model.columns_)
    with pytest.raises(et.DataError, match="scales are those of statistics"):
        et.Statistics.empty(model.plan_, model.columns_, [None])
    with pytest.raises(et.DataError, match="the columns of numbers, and they alone, have levels"):
        et.Statistics.empty(model.plan_, model.columns_, (None, *model.statistics_.scales[1:]))
    # Cells far from all rows have a density all the same, and so have rows of one number.
    assert np.isfinite(model.score_samples(rows.assign(age=1e9, income=-5.0))).all()
    assert np.isfinite(fitted(rows.assign(age=3.5), emissions={"age": "semiparametric"}).score(rows))


def test_no_level_is_impossible():
    moments = np.eye(MOST_HATS)[3]
    for hats in HATS:
        table = level_distribution(moments, hats, 0.1)
        assert table.sum() == pytest.approx(1)
        assert table.min() == pytest.approx(0.1 / LEVELS)


def test_of_very_many_numbers_those_of_smallest_hashes_are_kept_whatever_the_split():
    values = np.random.default_rng(0).permutation(2 * MOST_VALUES)[:, None] / 7
    whole = NumberSample.empty(1).update(values, None)
    parts = [NumberSample.empty(1).update(part, None) for part in (values[:300_000], values[300_000:])]
    assert len(whole.values[0]) == MOST_VALUES
    for joined in (parts[0] + parts[1], parts[1] + parts[0]):
        assert_array_equal(joined.values[0], whole.values[0])
        assert_array_equal(joined.weights[0], whole.weights[0])
    # The kept ones are spread as all are.
    assert np.quantile(whole.values[0], 0.25) == pytest.approx(np.quantile(values, 0.25), rel=0.01)
