"""A small file that claims to be large is refused before memory is asked for."""

from __future__ import annotations

import json
import tracemalloc
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from corruptions import header_of, resealed

import eigentree as et

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROWS = et.LatentNetwork.random(et.zoo.hmm(3, 1, 2, 3), seed=0).sample(60, seed=1)


def classifier() -> Any:
    return et.JunctionTreeClassifier(et.SpectralJunctionTree(et.zoo.mixture(3, 2, 3))).fit(ROWS, np.arange(60) % 2)


def two_chains() -> Any:
    return et.EMHMM([2, 2], max_iter=2, n_init=1, init="random", random_state=0).fit(ROWS)


def with_wide_labels(fitted: Any) -> None:
    fitted["classes"] = {"type": "<U999999", "labels": [f"c{number:04}" for number in range(300)]}


def with_many_chains(fitted: Any) -> None:
    fitted["chain"].update(states=2**12, chains=[2] * 12)


def with_empty_lists(fitted: Any) -> None:
    fitted["start"]["heats"] = [[]] * 2**21


@pytest.mark.parametrize(
    ("fitted", "change", "message"),
    [
        (classifier, with_wide_labels, "300 labels of classes .* are 1,199,998,800 bytes"),
        (two_chains, with_many_chains, "several chains of so many states together"),
        (two_chains, with_empty_lists, "more than 1,048,576 lists and objects"),
    ],
)
def test_a_small_file_takes_little_memory_before_it_is_refused(
    fitted: Callable[[], Any], change: Callable[[Any], None], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "file.eigentree"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted().save(path)
    header, data = header_of(path.read_bytes())
    metadata = header.pop("__metadata__")
    document = json.loads(metadata["eigentree"])
    change(document["content"]["fitted"])
    header["__metadata__"] = metadata | {"eigentree": json.dumps(document, separators=(",", ":"))}
    path.write_bytes(resealed(header, data))
    tracemalloc.start()
    try:
        with pytest.raises(et.FileError, match=message):
            et.load(path)
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()


def test_more_symbols_than_their_pairs_have_memory_for_are_refused_with_what_they_would_take() -> None:
    with pytest.raises(
        et.ParameterError, match=r"20,000 symbols, whose pairs would take 23\.8 GiB .* join rare ones"
    ):
        et.SpectralHMM(2).fit([[f"w{k}" for k in range(20_000)] * 2])


def test_chains_whose_transitions_together_are_beyond_reason_are_refused() -> None:
    with pytest.raises(et.ParameterError, match=r"the transitions would be 1.68e\+07 numbers, 128 MiB"):
        et.EMHMM([2] * 12).fit(ROWS)
