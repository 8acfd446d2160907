"""Trees: brackets, nested values and files; binarisation and encoding that can be undone."""

from __future__ import annotations

import gzip
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentree.data.treebanks.binarisation import Binarisation
from eigentree.data.treebanks.tree import Tree
from eigentree.data.treebanks.tree_encoder import TreeEncoder, encoded_blocks
from eigentree.data.treebanks.tree_rows import TreeRows
from eigentree.data.treebanks.tree_sources import read_trees, trees_of
from eigentree.data.treebanks.tree_store import TreeStore
from eigentree.data.treebanks.word_classes import WordClasses
from eigentree.errors import DataError, FileError

texts = st.text(st.sampled_from("ab()\\ \n/é"), min_size=1, max_size=4)
missing = st.none()


def trees(labels: st.SearchStrategy[str | None], words: st.SearchStrategy[str | None]) -> st.SearchStrategy[Tree]:
    above = st.builds(Tree, labels, st.lists(words, min_size=1, max_size=3))
    return st.recursive(
        above, lambda below: st.builds(Tree, labels, st.lists(below | words, min_size=1, max_size=4)), max_leaves=12
    )


any_trees = trees(missing | texts, missing | texts)
plain_trees = trees(st.sampled_from("ABCD"), st.sampled_from("xyz"))


@settings(max_examples=40, deadline=None)
@given(any_trees)
def test_what_is_written_is_read(tree: Tree) -> None:
    assert Tree.parse(str(tree)) == tree
    assert hash(Tree.parse(str(tree))) == hash(tree)
    assert Tree.of(tree.nested()) == tree
    assert Tree.of(json.loads(json.dumps(tree.nested()))) == tree
    assert pickle.loads(pickle.dumps(tree)) == tree
    assert [*trees_of(f"{tree}\n{tree}")] == [tree, tree]


@settings(max_examples=40, deadline=None)
@given(plain_trees, st.sampled_from(["left", "right"]))
def test_binarisation_is_undone(tree: Tree, factoring: str) -> None:
    how = Binarisation(factoring)  # type: ignore[arg-type]
    normal = how.binarised(tree)
    for node in normal.nodes():
        assert len(node.children) == 2 or not isinstance(node.children[0], Tree)
        assert len(node.children) == 1 or all(isinstance(child, Tree) for child in node.children)
    assert how.restored(normal) == tree
    assert normal.words == tree.words


@settings(max_examples=40, deadline=None)
@given(st.lists(plain_trees, min_size=1, max_size=6), st.randoms())
def test_codes_are_undone_and_do_not_depend_on_order(given_trees: list[Tree], random: object) -> None:
    normal = [Binarisation().binarised(tree) for tree in given_trees]
    encoder = TreeEncoder()
    for tree in normal:
        encoder.add(tree)
    symbols, (rows,) = encoder.learned(1, "signature")
    assert [rows.tree(number, symbols) for number in range(rows.count)] == normal
    parts = [rows.part(number, number + 1) for number in range(rows.count)]
    (again,) = encoded_blocks(normal, symbols)
    arrays = (vars(each).values() for each in (TreeRows.joined(parts), rows, again))
    for part, whole, direct in zip(*arrays, strict=True):
        assert part.dtype == whole.dtype == direct.dtype
        assert np.array_equal(part, whole)
        assert np.array_equal(direct, whole)
    backward = TreeEncoder()
    for tree in reversed(normal):
        backward.add(tree)
    other, _ = backward.learned(1, "signature")
    assert (other.labels, other.words.names) == (symbols.labels, symbols.words.names)
    assert np.array_equal(other.rules, symbols.rules)
    assert np.array_equal(other.lexicon_counts, symbols.lexicon_counts)
    assert (rows.rule >= 0).all()
    assert symbols.rule_counts.sum() + symbols.lexicon_counts.sum() == len(rows.labels)


def test_blocks_on_disk_are_those_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eigentree.data.treebanks.tree_encoder.BLOCK_NODES", 8)
    normal = [Tree.parse(f"(S (A a{k % 3}) (B (A a) (B b)))") for k in range(20)]
    stores = []
    for memory in (0, 30, 1_000):
        encoder = TreeEncoder(store=TreeStore(memory))
        for tree in normal:
            encoder.add(tree)
        symbols, store = encoder.learned(1, "single")
        assert (len(store), store.trees, store.nodes) == (10, 20, 100)
        whole = TreeRows.joined([*store])
        assert [whole.tree(number, symbols) for number in range(20)] == normal
        stores.append(whole)
    for other in stores[1:]:
        assert all(map(np.array_equal, vars(stores[0]).values(), vars(other).values()))


def test_trees_may_be_deeper_than_the_stack() -> None:
    deep = Tree.parse("(A x " * 30_000 + "y" + ")" * 30_000)
    normal = Binarisation().binarised(deep)
    assert Binarisation().restored(normal) == deep
    encoder = TreeEncoder()
    encoder.add(normal)
    assert encoder.learned(1, "single")[1].trees == 1


def test_files_of_brackets_and_of_json(tmp_path: Path) -> None:
    expected = [Tree.parse("(S (NP a) (VP b))"), Tree.parse("(NP c)")]
    (tmp_path / "a.mrg").write_text("( (S (NP a)\n     (VP b)))\n\n(NP c)\n")
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(tree.nested()) + "\n" for tree in expected))
    with gzip.open(tmp_path / "a.gz", "wt") as file:
        file.write("(S (NP a) (VP b)) (NP c)")
    for name in ("a.mrg", "a.jsonl", "a.gz"):
        assert [*read_trees(tmp_path / name)] == expected
        assert [*trees_of(str(tmp_path / name))] == expected


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("(S a)\n(S (NP b)\n", "line 2: 1 brackets of the tree of line 2 are not closed"),
        ("(S a)\nx", "line 2: 'x' stands outside"),
        ("(S a))", "outside the brackets"),
        ("(S a)\n(S (NP))", "line 2: a node has children, and that of label 'NP' has none"),
        ("()", "has nothing in it"),
        ('["S", "a"]\n["S", 3]', "line 2: a tree is a Tree"),
        ('["S", "a"]\n["S",', "line 2: Expecting value"),
    ],
)
def test_errors_name_the_line(tmp_path: Path, text: str, error: str) -> None:
    (tmp_path / "a").write_text(text)
    with pytest.raises(FileError, match=error):
        [*read_trees(tmp_path / "a")]


def test_errors_name_the_tree() -> None:
    with pytest.raises(DataError, match="tree 1: a label is a string"):
        [*trees_of([("S", "a"), (3, "a")])]
    with pytest.raises(DataError, match="X is a list of trees, not 3"):
        [*trees_of(3)]
    with pytest.raises(DataError, match="'@NP' begins with '@'"):
        Binarisation().binarised(Tree("@NP", ("a",)))
    encoder = TreeEncoder()
    with pytest.raises(DataError, match="tree 0: the node 'S' has 3 children"):
        encoder.add(Tree.parse("(S (A a) (A b) (A c))"))


def test_rare_words_are_classed_by_their_looks() -> None:
    counts = {"the": 5, "walking": 1, "talking": 1, "Rome": 1, "of": 1}
    words = WordClasses.of(counts, 2)
    assert words.names == ("the", "<unknown>", "<unknown ng>")
    assert words.codes(["the", "singing", "Paris"]).tolist() == [0, 2, 1]
    assert WordClasses.of(counts, 2, "single").names == ("the", "<unknown>")
    assert WordClasses.of(counts, 1).vocabulary == tuple(sorted(counts))
