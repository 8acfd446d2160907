"""Latent-variable grammars: bits per node of Python's syntax trees, speed, 100,000 trees."""

from __future__ import annotations

import ast
import subprocess
import sys
import sysconfig
import time
import warnings
from collections import Counter, defaultdict
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from benchmarks.measure import best_seconds, show_note, show_table
from eigentree import LatentGrammar, SpectralLatentGrammar, Tree
from eigentree.core.trees.inside_outside import expected_rules
from eigentree.data.treebanks.tree_encoder import encoded_blocks
from eigentree.inference.grammars.tree_passes import grammar_arrays, tree_arrays

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from eigentree.data.treebanks.tree_rows import TreeRows
    from eigentree.inference.grammars.grammar import Grammar

TRAINED = 200_000
"""Nodes of training trees, in normal form."""

TEST = ("email", "http", "json", "logging", "unittest", "xml")
"""Packages whose trees are scored; all others but tests are learned from. Fixed before anything was looked at."""

MOST_NODES = 400
"""Larger trees are left out."""

STATES = (1, 2, 4, 8, 16, 32)
SEED = 0
NGRAM = 5


def identifier(name: str) -> str:
    """Return the class of an identifier."""
    if name.startswith("__") and name.endswith("__"):
        return "dunder"
    private, bare = name.startswith("_"), name.strip("_")
    style = "constant" if bare.isupper() else "class" if bare[:1].isupper() else "name"
    return f"private-{style}" if private else style


def syntax_tree(node: ast.AST) -> Tree:
    """Return a syntax tree: labels are types of nodes, words are identifiers by class and constants by type.

    A node of one child has an end beside it, so that no labels are joined and few are rare.
    """
    children: list[Tree] = []
    for field, value in ast.iter_fields(node):
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.expr_context | ast.TypeIgnore):
                continue
            if isinstance(each, ast.AST):
                children.append(syntax_tree(each))
            elif isinstance(node, ast.Constant) and field == "value":
                children.append(Tree("value", (type(each).__name__,)))
            elif isinstance(each, str) and field not in ("kind", "type_comment"):
                children.append(Tree(field, (identifier(each),)))
    label = type(node).__name__
    if not children:
        return Tree(label, (label.lower(),))
    return Tree(label, (*children, Tree("End", ("end",))) if len(children) == 1 else tuple(children))


def library_trees(packages: Callable[[str], bool]) -> Iterator[Tree]:
    """Yield the syntax trees of statements of the standard library, those of classes one by one."""
    root = Path(sysconfig.get_path("stdlib"))
    for path in sorted(root.rglob("*.py")):
        package = path.relative_to(root).parts[0].removesuffix(".py")
        if package in ("site-packages", "test", "idlelib", "lib2to3", "turtledemo") or "test" in path.stem:
            continue
        if not packages(package):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                module = ast.parse(path.read_bytes())
            except (SyntaxError, ValueError):
                continue
        for statement in module.body:
            for each in statement.body if isinstance(statement, ast.ClassDef) else [statement]:
                tree = syntax_tree(each)
                if sum(1 for _ in tree.nodes()) <= MOST_NODES:
                    yield tree


class Treebank(NamedTuple):
    """Training and test trees, these without those that have labels of their own."""

    training: list[Tree]
    test: list[Tree]
    left_out: int

    @classmethod
    def of_library(cls) -> Treebank:
        """Return the treebank of the standard library, split by package."""
        normal = LatentGrammar()
        pool = list(library_trees(lambda package: package not in TEST))
        order = np.random.default_rng(SEED).permutation(len(pool))
        training, nodes = [], 0
        for place in order.tolist():
            nodes += sum(1 for _ in pool[place].nodes())
            if nodes > TRAINED:
                break
            training.append(pool[place])
        known = {node.label for tree in normal.normal_form(training) for node in tree.nodes()}
        test = list(library_trees(lambda package: package in TEST))
        kept = [tree for tree in test if all(each.label in known for each in normal.normal_form([tree])[0].nodes())]
        return cls(training, kept[::4], len(test) - len(kept))


def nodes_of(trees: Sequence[Tree]) -> int:
    """Return how many nodes trees have, as they are."""
    return sum(1 for tree in trees for _ in tree.nodes())


class Parents:
    """Labels with those of their parents beside them; a rare pair is the most frequent one of its label."""

    def __init__(self, trees: Sequence[Tree], least: int = 10) -> None:
        counts = Counter((tree.label, above) for whole in trees for tree, above in self._nodes(whole))
        self.known = {pair for pair, count in counts.items() if count >= least}
        self.usual = {label: pair for pair in sorted(counts, key=counts.__getitem__) for label in [pair[0]]}

    def annotated(self, tree: Tree, above: str | None = None) -> Tree:
        """Return a tree with other labels."""
        pair = (tree.label, above) if (tree.label, above) in self.known else self.usual[tree.label]
        children = [self.annotated(each, tree.label) if isinstance(each, Tree) else each for each in tree.children]
        return Tree(f"{pair[0]}^{pair[1]}", tuple(children))

    def _nodes(self, tree: Tree, above: str | None = None) -> Iterator[tuple[Tree, str | None]]:
        yield tree, above
        for child in tree.children:
            if isinstance(child, Tree):
                yield from self._nodes(child, tree.label)


class TokenModel:
    """An n-gram over brackets, labels and words in their order, smoothed by Witten and Bell (1991)."""

    def __init__(self, trees: Sequence[Tree], size: int) -> None:
        self.size = size
        self.counts: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
        self.tokens = {token for tree in trees for token in self._tokens(tree)}
        for tree in trees:
            for before, token in self._steps(tree):
                for length in range(size):
                    self.counts[before[len(before) - length :]][token] += 1

    def bits(self, tree: Tree) -> float:
        """Return the bits of a tree."""
        return -sum(np.log2(self._probability(before, token)) for before, token in self._steps(tree))

    def _probability(self, before: tuple[str, ...], token: str) -> float:
        probability = 1.0 / (len(self.tokens) + 1)
        for length in range(self.size):
            known = self.counts.get(before[len(before) - length :])
            if known:
                total, kinds = known.total(), len(known)
                probability = (known[token] + kinds * probability) / (total + kinds)
        return probability

    def _steps(self, tree: Tree) -> Iterator[tuple[tuple[str, ...], str]]:
        tokens = ["start"] * (self.size - 1) + self._tokens(tree)
        for place in range(self.size - 1, len(tokens)):
            yield tuple(tokens[place - self.size + 1 : place]), tokens[place]

    @staticmethod
    def _tokens(tree: Tree) -> list[str]:
        return str(tree).replace("(", " (").replace(")", " ) ").split()


def fitted(states: int, training: Sequence[Tree], init: str = "split_merge") -> tuple[LatentGrammar, float]:
    """Return a grammar and how long its fit took."""
    # The plain grammar has nothing to decide on held-out trees.
    held = 0.1 if states > 1 else 0.0
    model = LatentGrammar(
        states, init=init, min_word_count=1, random_state=SEED, n_jobs=2, validation_fraction=held
    )
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(training)
    return model, time.perf_counter() - start


def show_bits() -> None:
    """Print bits per node of held-out packages."""
    bank = Treebank.of_library()
    count = nodes_of(bank.test)

    def bits(model: LatentGrammar, test: Sequence[Tree]) -> float:
        return float(-model.score_samples(test).sum() / np.log(2.0) / count)

    rows: list[tuple[str, float, int, float]] = []
    tokens = TokenModel(bank.training, NGRAM)
    rows.append((f"{NGRAM}-gram of tokens", sum(map(tokens.bits, bank.test)) / count, len(tokens.counts), 0.0))
    parents = Parents(bank.training)
    model, spent = fitted(1, [parents.annotated(tree) for tree in bank.training])
    # A handful of labels of nodes that binarisation adds are unknown.
    model.set_params(handle_unknown="missing")
    annotated = [parents.annotated(tree) for tree in bank.test]
    rows.append(("PCFG, parents annotated", bits(model, annotated), model.n_parameters_, spent))
    for init in ("split_merge", "random"):
        # Without merging, 32 states are 30 million parameters.
        for states in STATES if init == "split_merge" else STATES[1:-1]:
            model, spent = fitted(states, bank.training, init)
            name = "PCFG" if states == 1 else f"latent grammar, {states} states, {init}"
            rows.append((name, bits(model, bank.test), model.n_parameters_, spent))
            print(rows[-1], file=sys.stderr, flush=True)
    show_table(
        f"grammars: bits per node of syntax trees of {', '.join(TEST)}",
        ("model", "bits/node", "parameters", "s to fit"),
        [(name, f"{each:.4f}", f"{parameters:,}", f"{spent:.1f}") for name, each, parameters, spent in rows],
    )
    show_note(
        f"{len(bank.training):,} training trees, {nodes_of(bank.training):,} nodes; {len(bank.test):,} test trees, "
        f"{count:,} nodes; {bank.left_out} test trees with labels of their own are left out"
    )


def show_spectra() -> None:
    """Print bits per node and processor time of spectral learning beside EM."""
    bank = Treebank.of_library()
    count = nodes_of(bank.test)
    rows = []
    for states in STATES[1:]:
        models = (
            SpectralLatentGrammar(states, min_word_count=1),
            LatentGrammar(states, min_word_count=1, random_state=SEED),
        )
        cells = [f"{states}"]
        for model in models:
            start = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(bank.training)
            spent = time.process_time() - start
            cells += [f"{-model.score_samples(bank.test).sum() / np.log(2.0) / count:.4f}", f"{spent:.1f}"]
        rows.append(tuple(cells))
        print(rows[-1], file=sys.stderr, flush=True)
    header = ("states", "spectral bits/node", "processor s", "split-merge EM bits/node", "processor s")
    show_table("grammars: spectral learning beside EM, the treebank of the table above", header, rows)


def show_convergence(sizes: Sequence[int]) -> None:
    """Print how far learned grammars are from the one that trees are sampled from."""
    how = {"init": "random", "unseen": "impossible", "max_iter": 20, "min_word_count": 1, "random_state": SEED}
    how |= {"validation_fraction": 0.0}
    few = list(islice(library_trees(lambda package: package in TEST), 300))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        truth = LatentGrammar(2, **how).fit(few)
    sampled = truth.sample(sizes[-1], random_state=2)
    known = set(SpectralLatentGrammar(1).fit(sampled[: sizes[0]]).labels_)
    each_test = zip(test := truth.sample(500, random_state=1), truth.normal_form(test), strict=True)
    test = [tree for tree, normal in each_test if all(node.label in known for node in normal.nodes())]
    best, count = truth.score_samples(test).sum(), nodes_of(truth.normal_form(test))
    rows = []
    for size in sizes:
        models = [SpectralLatentGrammar(states, min_word_count=1).fit(sampled[:size]) for states in (2, 1)]
        excess = [(best - each.score_samples(test).sum()) / np.log(2.0) / count for each in models]
        rows.append((f"{size:,}", *(f"{each:.4f}" for each in excess)))
    header = ("trees", "spectral, 2 states", "plain grammar")
    show_table("grammars: excess bits per node over the grammar that trees are sampled from", header, rows)


def plain_counts(grammar: Grammar, rows: TreeRows) -> float:
    """Return the log-likelihood of trees by a plain numpy E-step, one einsum a rule and pass, without scales."""
    counts = np.zeros(len(grammar.values))
    total = 0.0
    layout = grammar.layout
    pairs = {
        tuple(pair): place for pair, place in zip(grammar.symbols.lexicon.tolist(), layout.word_at, strict=True)
    }
    for tree in range(rows.count):
        begin, end = rows.offsets[tree : tree + 2].tolist()
        inside: dict[int, np.ndarray] = {}
        for n in range(begin, end):
            label, left = int(rows.labels[n]), int(rows.left[n])
            if left < 0:
                at = pairs[label, int(rows.words[n])]
                inside[n] = grammar.values[at + layout.widths[label] * np.arange(layout.states[label])]
            else:
                inside[n] = (grammar.binary(rows.rule[n]) @ inside[n - 1]) @ inside[left]
            inside[n] = inside[n] / inside[n].max()
        root = grammar.root(int(rows.labels[end - 1]))
        total += float(np.log(root @ inside[end - 1]))
        outside = {end - 1: root}
        for n in range(end - 1, begin - 1, -1):
            left = int(rows.left[n])
            if left < 0:
                continue
            joint = grammar.binary(rows.rule[n]) * outside[n][:, None, None]
            used = joint * inside[left][:, None] * inside[n - 1]
            place = int(layout.rule_at[rows.rule[n]])
            counts[place : place + used[0].size] += used.sum(axis=0).ravel() / used.sum()
            outside[left] = joint.sum(axis=0) @ inside[n - 1]
            outside[n - 1] = inside[left] @ joint.sum(axis=0)
            for child in (left, n - 1):
                outside[child] = outside[child] / outside[child].max()
    return total


def show_speed() -> None:
    """Print nanoseconds of an E-step for each node with two children and each triple of states."""
    trees = list(islice(library_trees(lambda package: package in TEST), 1_000))
    table = []
    for states in (2, 4, 8, 16, 32):
        how = {"max_iter": 1, "validation_fraction": 0.0, "min_word_count": 1, "random_state": SEED}
        model = LatentGrammar(states, init="random", **how)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            grammar = model.fit(trees).grammar_
        (rows,) = encoded_blocks(model.normal_form(trees), grammar.symbols)
        arrays, coded = grammar_arrays(grammar.layout, grammar.values, grammar.backoff), tree_arrays(rows)
        inner = np.flatnonzero(rows.left >= 0)
        a, b, c = (grammar.states[rows.labels[each]] for each in (inner, rows.left[inner], inner - 1))
        triples = float((a * b * c).sum())
        runs = {
            "core": partial(expected_rules, arrays, coded, np.ones(rows.count)),
            "numpy": partial(plain_counts, grammar, rows),
        }
        times = best_seconds(runs, 3, time.process_time)
        core, plain = (1e9 * times[name] for name in runs)
        cells = (f"{core / len(rows.labels):,.0f}", f"{core / triples:.3f}", f"{plain / triples:.2f}")
        table.append((f"{states}", f"{len(rows.labels):,}", *cells, f"{plain / core:.0f}"))
    header = ("states", "nodes", "ns/node", "ns/triple", "numpy ns/triple", "times as fast")
    show_table("grammars: processor time of an E-step, 1 thread", header, table)


MANY = """
import resource, sys, time
from itertools import chain, islice, repeat
from benchmarks.grammars import TEST, library_trees
from eigentree import LatentGrammar
few = list(islice(library_trees(lambda package: package in TEST), 500))
def trees():
    return islice(chain.from_iterable(repeat(few)), int(sys.argv[1]))
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
LatentGrammar(2, max_iter=2).fit(few).score_samples(few)
before, start = peak(), time.perf_counter()
model = LatentGrammar(2, max_iter=2, random_state=0, n_jobs=2).fit(trees())
fitted, middle = peak(), time.perf_counter()
scores = model.score_samples(trees())
print(len(scores), before, fitted, peak(), middle - start, time.perf_counter() - middle)
"""


def show_many(counts: Sequence[int]) -> None:
    """Print time and memory of a fit to an iterator of many trees, which are kept as codes, partly on disk."""
    table = []
    for count in counts:
        command = [sys.executable, "-W", "ignore", "-c", MANY, str(count)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        table.append(tuple(f"{float(each):,.0f}" for each in printed))
    header = ("trees", "MiB before", "after fit", "after score", "s to fit", "s to score")
    show_table("grammars: peak memory of a fit to an iterator of trees, 2 states", header, table)


def run(quick: bool = False) -> None:
    """Print all tables; `quick` leaves out the treebank, and takes fewer trees."""
    # First, since a process begins with the peak memory of the one that starts it.
    show_many([1_000] if quick else [10_000, 100_000])
    show_speed()
    if not quick:
        show_bits()
        show_spectra()
    show_convergence([250, 1_000] if quick else [250, 1_000, 4_000, 16_000])
