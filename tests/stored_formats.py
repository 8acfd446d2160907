"""Small files of every released format, which later versions must load, and what they answered when written.

``python tests/stored_formats.py`` writes those of the present format. A folder whose version has been released is
never written again.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import eigentree as et
from eigentree.io.stores import FORMAT

STORED = Path(__file__).parent / "stored"
LABELS = ("no", "perhaps", "yes")


def labelled_rows() -> np.ndarray:
    rows = et.LatentNetwork.random(et.zoo.mixture(4, 2, 3), seed=0).sample(60, seed=1)
    return np.array([LABELS[cell] for cell in rows.ravel()], object).reshape(rows.shape)


def things() -> dict[str, Any]:
    """One of each type, over three or four columns."""
    rows = labelled_rows()
    loop = et.LatentGraph(
        {"h": 2, "x": 3, "y": 3, "z": 3}, [("h", "x"), ("h", "y"), ("x", "z"), ("y", "z")], ["h"], directed=False
    )
    start = et.LatentNetwork.random(et.zoo.Mixture().build([3] * 4), seed=0)
    return {
        "spectral": et.SpectralJunctionTree(et.zoo.HMM(order=1)).fit(rows, sample_weight=np.linspace(0.5, 2.0, 60)),
        "hub": et.SpectralJunctionTree(et.zoo.Mixture(), shrinkage=0.4).fit(rows),
        "em": et.EMJunctionTree(et.zoo.Mixture(), random_state=0, max_iter=20).fit(rows),
        "online": et.OnlineEMJunctionTree(start.graph, init=start, passes=2, random_state=3).fit(rows),
        "classifier": et.JunctionTreeClassifier(et.SpectralJunctionTree(et.zoo.HMM())).fit(
            rows, np.repeat(["a", "b"], 30)
        ),
        "class_column": et.JunctionTreeClassifier(
            et.EMJunctionTree(et.zoo.Mixture(), random_state=0, max_iter=20), class_as="column"
        ).fit(rows[:, :3], [None, *rows[1:, 3]]),
        "imputer": et.JunctionTreeImputer(et.SpectralJunctionTree(et.zoo.HMM()))
        .set_output(transform="pandas")
        .fit(rows),
        "network": et.LatentNetwork.random(loop, seed=0),
        "statistics": et.Statistics.of(rows, et.zoo.HMM()),
    }


def answers(thing: Any) -> list[float]:
    """Numbers that must not change from version to version, but for rounding."""
    rows = labelled_rows()[:12]
    rows[::3, 1] = None
    if isinstance(thing, et.Statistics):
        thing = et.SpectralJunctionTree(et.zoo.HMM(), shrinkage=0.4, when_short="warn").fit_statistics(thing)
    if isinstance(thing, et.JunctionTreeClassifier):
        return np.ravel(thing.predict_proba(rows[:, : thing.n_features_in_])).tolist()
    if isinstance(thing, et.JunctionTreeImputer):
        return [float(LABELS.index(cell)) for cell in thing.transform(rows).to_numpy().ravel()]
    if isinstance(thing, et.LatentNetwork):
        return thing.log_prob(thing.sample(4, seed=0) * 0 + np.arange(4)[:, None] % 3).tolist()
    return thing.score_samples(rows).tolist()


def main() -> None:
    folder = STORED / "format-{}.{}".format(*FORMAT)
    folder.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = things()
        for name, thing in made.items():
            thing.save(folder / f"{name}.eigentree")
        expected = {name: answers(thing) for name, thing in made.items()}
    (folder / "answers.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
