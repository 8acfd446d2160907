"""Our networks as pyagrum's, for comparison with an independent package."""

from __future__ import annotations

import warnings

import numpy as np

import eigentree as et

with warnings.catch_warnings():
    # SWIG's builtin types warn while pyagrum loads; as an error that would crash the interpreter.
    warnings.simplefilter("ignore")
    import pyagrum


def as_pyagrum(network: et.LatentNetwork) -> pyagrum.BayesNet:
    graph = network.graph
    net = pyagrum.BayesNet()
    for name, states in graph.states.items():
        net.add(pyagrum.LabelizedVariable(name, name, states))
    for name in graph.names:
        for parent in graph.parents(name):
            net.addArc(parent, name)
    for name, table in network.tables.items():
        axes = [*graph.parents(name), name]
        wanted = list(net.cpt(name).names)[::-1]
        net.cpt(name).fillWith(np.transpose(table, [axes.index(n) for n in wanted]).ravel().tolist())
    return net
