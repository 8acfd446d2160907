"""`SpectralHMM` as users meet it: any form of sequences, the same model from any batches, files, refusals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from known_chains import Chain
from shared_files import shared_file

import eigentree as et

WORDS = ["ABABABAB", "BABABA", "ABABABABAB", "BA", "A"] * 12


def drawn(hidden=3, states=(4,), seed=0, count=200, length=25, **more):
    chain = Chain.random(hidden, 1, states, seed, concentration=0.4, **more)
    return chain, chain.sample(count, length, seed)


def test_words_lists_lengths_and_frames_are_the_same_sequences():
    _, parts = drawn(count=60, length=11)
    codes = parts[:, :, 0]
    wide = pd.DataFrame(codes)
    long = pd.DataFrame(
        {"id": np.repeat(np.arange(60), 11), "t": np.tile(np.arange(11), 60), "x0": codes.ravel()}
    ).sample(frac=1, random_state=0)
    lengths = np.full(60, 11)
    scores = []
    for model, X, extra in [
        (et.SpectralHMM(3), list(codes), {}),
        (et.SpectralHMM(3), codes.ravel(), {"lengths": lengths}),
        (et.SpectralHMM(3), wide, {}),
        (et.SpectralHMM(3, sequence="id", time="t"), long, {}),
    ]:
        scores.append(model.fit(X, **extra).score_samples(X, **extra))
    for other in scores[1:3]:
        np.testing.assert_array_equal(scores[0], other)
    # Sequences of a long frame stand in the order in which they begin there.
    np.testing.assert_array_equal(np.sort(scores[0]), np.sort(scores[3]))
    letters = ["".join("abcd"[code] for code in row) for row in codes]
    assert np.array_equal(et.SpectralHMM(3).fit(letters).score_samples(letters), scores[0])


def test_batches_and_sums_of_statistics_are_one_fit():
    whole = et.SpectralHMM(2).fit(WORDS)
    parts = et.SpectralHMM(2)
    for start in range(0, len(WORDS), 7):
        parts.partial_fit(WORDS[start : start + 7])
    pieces = [et.SpectralHMM(2).fit(WORDS[start::3]).statistics_ for start in range(3)]
    summed = et.SpectralHMM(2).fit_statistics(pieces[2] + pieces[0] + pieces[1])
    for other in (parts, summed, et.SpectralHMM(2).fit(WORDS[::-1])):
        np.testing.assert_array_equal(other.score_samples(WORDS), whole.score_samples(WORDS))
        assert other.report_.tried == whole.report_.tried
        assert str(other.report_) == str(whole.report_)


def test_weights_repeat_sequences():
    weights = np.arange(len(WORDS)) % 3
    repeated = [word for word, weight in zip(WORDS, weights, strict=True) for _ in range(weight)]
    one, other = et.SpectralHMM(2).fit(WORDS, sample_weight=weights), et.SpectralHMM(2).fit(repeated)
    np.testing.assert_array_equal(one.score_samples(WORDS), other.score_samples(WORDS))


def test_scores_per_symbol_and_threads():
    model = et.SpectralHMM(2).fit(WORDS)
    scores = model.score_samples(WORDS)
    lengths = np.array([len(word) for word in WORDS])
    np.testing.assert_allclose(model.score_samples(WORDS, per_symbol=True), scores / lengths)
    np.testing.assert_array_equal(model.set_params(n_jobs=3).score_samples(WORDS), scores)


def test_predictions_are_ratios_of_scores():
    # One step ahead nothing lies between, so it holds whatever was clipped.
    _, parts = drawn(count=40, length=9)
    with pytest.warns(RuntimeWarning, match="cannot support the rank"):
        model = et.SpectralHMM(3, shrinkage=0, floor=1e-4).fit(list(parts))
    prefixes = [part[:5] for part in parts]
    table = model.predict_next_proba(prefixes)
    base = model.score_samples(prefixes)
    for state in range(4):
        longer = [np.concatenate([prefix, [[state]]]) for prefix in prefixes]
        np.testing.assert_allclose(np.log(table[:, state]), model.score_samples(longer) - base, atol=1e-9)
    np.testing.assert_allclose(table.sum(axis=1), 1, atol=1e-12)
    filtered = model.filter(prefixes)
    shorter = model.predict_next_proba([prefix[:4] for prefix in prefixes])
    np.testing.assert_allclose([each[4] for each in filtered], shorter, atol=1e-12)


def test_channels_are_asked_for_by_name():
    _, parts = drawn(states=(2, 3), count=80, length=12)
    frames = {"left": pd.DataFrame(parts[:, :, 0]), "right": pd.DataFrame(parts[:, :, 1])}
    model = et.SpectralHMM(3).fit(frames)
    assert model.columns_.names == ("left", "right")
    assert model.predict_next_proba(frames, target="right").shape == (80, 3)
    assert model.filter(frames, target="left").shape == (80, 12, 2)
    with pytest.raises(et.DataError, match="give one of left, right as target="):
        model.filter(frames)
    with pytest.raises(et.DataError, match="give one of left, right as target="):
        model.predict_next_proba(frames)
    with pytest.raises(et.DataError, match="no column 'rigth'; did you mean 'right'"):
        model.filter(frames, target="rigth")
    holes = {name: frame.astype(float) for name, frame in frames.items()}
    holes["left"].iloc[:, 4:7] = np.nan
    holes["right"].iloc[:, 6] = np.nan
    filled = model.impute(holes)
    assert not any(frame.isna().any().any() for frame in filled.values())
    np.testing.assert_array_equal(filled["left"].iloc[:, :4], frames["left"].iloc[:, :4])
    again = model.impute(holes, method="sample", seed=3)
    np.testing.assert_array_equal(again["left"], model.impute(holes, method="sample", seed=3)["left"])
    assert set(model.sample(4, length=5, seed=0)) == {"left", "right"}


def test_files_give_the_same_answers(tmp_path):
    chain, parts = drawn(states=(2, 3), count=50, length=140)
    model = et.SpectralHMM(3, order=1).fit(list(parts))
    path = tmp_path / "model.eigentree"
    model.save(path)
    loaded = et.load(path)
    assert repr(loaded) == repr(model)
    np.testing.assert_array_equal(loaded.score_samples(list(parts)), model.score_samples(list(parts)))
    assert str(loaded.report_) == str(model.report_)
    more = chain.sample(9, 150, 5)
    np.testing.assert_array_equal(
        loaded.partial_fit(list(more)).score_samples(list(more)),
        model.partial_fit(list(more)).score_samples(list(more)),
    )
    et.SpectralHMM(5).save(path)
    assert et.load(path).hidden_states == 5


def test_hidden_states_stay_hidden():
    model = et.SpectralHMM(2).fit(WORDS)
    for ask in (
        lambda: model.predict_proba(WORDS),
        lambda: model.decode(WORDS),
        lambda: model.to_network(5),
        lambda: model.filter(WORDS, target="state"),
    ):
        with pytest.raises(et.GraphError, match=r"EMHMM\(hidden_states=2, order=1, init='moments'\)"):
            ask()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden_states": 0}, "hidden_states is a whole number"),
        ({"order": 1.5}, "order is a whole number"),
        ({"channels": "both"}, "channels is 'independent' or 'dependent'"),
        ({"shrinkage": -1}, "shrinkage is 'auto' or a number"),
        ({"floor": 2}, "floor is 'auto' or a number from 0 to 1"),
        ({"scaling": "both"}, "scaling is 'auto', 'variance' or None"),
        ({"max_rank": 0}, "max_rank is a whole number"),
        ({"hidden_states": 100, "order": 5}, "lower hidden_states or order"),
    ],
)
def test_parameters_out_of_range_are_named(settings, message):
    with pytest.raises(et.ParameterError, match=message):
        et.SpectralHMM(**settings).fit(WORDS)


def test_what_cannot_be_learned_from_says_why():
    with pytest.raises(et.DataError, match="weight of all sequences is zero"):
        et.SpectralHMM(2).fit(WORDS, sample_weight=np.zeros(len(WORDS)))
    with pytest.raises(et.DataError, match="too much to count by ones"):
        # Sequences could be counted so often, but not their steps.
        et.SpectralHMM(2).fit(WORDS, sample_weight=np.full(len(WORDS), 2**52 // len(WORDS)))
    with pytest.raises(et.DataError, match="fit_statistics takes the statistics_"):
        et.SpectralHMM(2).fit_statistics(WORDS)
    counted = et.SpectralHMM(2).fit(WORDS).statistics_
    with pytest.raises(et.DataError, match="other windows"):
        et.SpectralHMM(3, order=2).fit_statistics(counted)
    with pytest.warns(RuntimeWarning, match="no sequence has the 3 steps that one window takes"):
        et.SpectralHMM(2).fit(["AB", "B", "BA"])
    model = et.SpectralHMM(2).fit(WORDS)
    before = model.score_samples(WORDS)
    with pytest.raises(et.DataError, match="'C'"):
        model.partial_fit(["ABC"])
    np.testing.assert_array_equal(model.score_samples(WORDS), before)


def test_unknown_letters_can_be_missing_cells():
    model = et.SpectralHMM(2, handle_unknown="missing").fit(WORDS)
    assert np.isfinite(model.score_samples(["ABZAB", "ZZZ"])).all()
    assert model.score_samples(["ZZZ"])[0] == pytest.approx(0, abs=1e-12)


def test_an_order_2_chain_wants_order_2():
    chain = Chain.random(2, 2, (4,), 5, concentration=0.4)
    parts, test = list(chain.sample(1_500, 30, 0)), list(chain.sample(200, 30, 1))
    truth = np.mean([chain.log_prob(part) for part in test])
    one, two = (et.SpectralHMM(2, order).fit(parts).score(test) for order in (1, 2))
    assert one < two
    assert truth - two < (truth - one) / 3


def test_scaling_is_chosen_by_held_out_pieces():
    # Six sticky symbols and two hidden states: which of them to keep apart is a matter of taste.
    random = np.random.default_rng(0)
    frequent = np.array([0.3, 0.3, 0.2, 0.13, 0.06, 0.01])
    parts = []
    for _ in range(100):
        part = [random.choice(6, p=frequent)]
        for _ in range(30):
            part.append(part[-1] if random.random() < 0.9 else random.choice(6, p=frequent))
        parts.append(part)
    held = {}
    for scaling in ("variance", None, "auto"):
        model = et.SpectralHMM(2, scaling=scaling).fit(parts)
        held[scaling] = model.report_.tried[model.shrinkage_, model.floor_]
    assert held["auto"] == max(held["variance"], held[None])
    assert held["variance"] != held[None]


@pytest.mark.shared_data
@pytest.mark.parametrize("name", ["mvad", "biofam"])
def test_careers_and_families_are_no_independent_steps(name):
    if name == "mvad":
        X = pd.read_csv(shared_file("mvad.csv")).iloc[:, 2:]
        train, test = X[::2], X[1::2]
        symbols = [X]
    else:
        channels = {each: pd.read_csv(shared_file(f"biofam-{each}.csv")).iloc[:, 1:] for each in ("child", "left")}
        train = {each: frame[::2] for each, frame in channels.items()}
        test = {each: frame[1::2] for each, frame in channels.items()}
        symbols = list(channels.values())
    model = et.SpectralHMM(hidden_states=6).fit(train)
    independent = 0.0
    for frame in symbols:
        shares = frame[::2].stack().value_counts(normalize=True)
        independent += float(np.log(frame[1::2].stack().map(shares)).sum()) / (len(frame) // 2)
    # Far more than half of what independent steps find surprising is known beforehand.
    assert model.score(test) > independent / 2
