"""The figures of a report's headline: like is compared with like, and calibration is that of the probabilities."""

from __future__ import annotations

import eigentree as et
from eigentree.markup.html import with_error
from eigentree.viz.reports.evaluation import masked_accuracy
from eigentree.viz.reports.evaluation_data import adapter_of, evaluation_data
from eigentree.viz.reports.report import findings


def test_each_sentence_has_the_baselines_of_its_footing() -> None:
    rows = et.LatentNetwork.random(et.zoo.mixture(6, 3, 4), 0.3, seed=0).sample(80, seed=1)
    model = et.EMJunctionTree(et.zoo.Mixture(3), random_state=0, pseudo_counts=0.1).fit(rows)
    facts = et.report(model, rows).facts
    found = facts.likelihoods
    assert found is not None
    fitted, held_out = findings(facts).split("If they are held out, ")
    for sentence, own, others in (
        (fitted, found.in_sample, found.baselines),
        (held_out, found.baselines, found.in_sample),
    ):
        shown = [with_error(abs(one.ahead), one.error) for one in own if abs(one.ahead) > 2 * one.error]
        assert shown
        assert all(figure in sentence for figure in shown)
        assert not any(with_error(abs(one.ahead), one.error) in sentence for one in others)


def test_the_calibration_error_of_the_true_model_is_small() -> None:
    truth = et.LatentNetwork.random(et.zoo.mixture(6, 2, 3), seed=0)
    found = masked_accuracy(evaluation_data(adapter_of(truth), truth.sample(4_000, seed=1)))
    assert found is not None
    assert found.calibration_error < 0.02
    wrong = et.LatentNetwork.random(truth.graph, 0.1, seed=5)
    worse = masked_accuracy(evaluation_data(adapter_of(wrong), truth.sample(4_000, seed=1)))
    assert worse is not None
    assert worse.calibration_error > 0.2
