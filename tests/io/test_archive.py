"""Files are written whole or not at all, and read with suspicion."""

from __future__ import annotations

import json
import os
import pickle
import stat
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from corruptions import drawn, header_of, outcome, resealed, saved_files, with_header

import eigentree as et
from eigentree.data.tables.columns import Columns, columns_content
from eigentree.io import byte_files as whole_files
from eigentree.io.documents import plain, unplain

NETWORK = et.LatentNetwork.random(et.zoo.hmm(4, 1, 2, 3), seed=0)
OTHER = et.LatentNetwork.random(et.zoo.hmm(4, 1, 2, 3), seed=1)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    NETWORK.save(tmp_path / "network.eigentree")
    return tmp_path / "network.eigentree"


def refusal(path: Any) -> str:
    with pytest.raises(et.FileError) as caught:
        et.load(path)
    return str(caught.value)


class Halt(BaseException):
    """What no code expects."""


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), KeyboardInterrupt(), Halt(), MemoryError()]
)
@pytest.mark.parametrize("step", ["fsync", "replace", "write", "chmod"])
def test_a_failure_at_any_step_changes_nothing(
    step: str, error: BaseException, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = saved.read_bytes()

    def fail(*arguments: Any) -> None:
        raise error

    if step == "write":
        write = whole_files.write_whole

        class Failing:
            def __init__(self, file: Any) -> None:
                self.file = file

            def write(self, data: Any) -> None:
                self.file.write(bytes(data)[:10])
                raise error

        monkeypatch.setattr(
            "eigentree.io.stores.write_whole", lambda path, inner: write(path, lambda file: inner(Failing(file)))
        )
    else:
        monkeypatch.setattr(os, step, fail)
    with pytest.raises(et.FileError if isinstance(error, OSError) else type(error)) as caught:
        OTHER.save(saved)
    monkeypatch.undo()
    if isinstance(error, OSError):
        assert "cannot be written: No space left on device; nothing was changed" in str(caught.value)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_an_old_file_is_replaced_whole(saved: Path) -> None:
    os.chmod(saved, 0o640)
    OTHER.save(saved)
    assert (et.load(saved).tables["x0"] == OTHER.tables["x0"]).all()
    assert stat.S_IMODE(saved.stat().st_mode) == 0o640
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_a_link_stays_a_link(saved: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(saved)
    OTHER.save(link)
    assert link.is_symlink()
    assert (et.load(saved).tables["x0"] == OTHER.tables["x0"]).all()


def test_a_new_file_has_the_usual_permissions(saved: Path, tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    assert saved.stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (None, "a path is a string or a pathlib.Path, not a NoneType"),
        (3, "not an int"),
        (b"model", "not a bytes"),
        ("", "a path is a name without zero bytes, not ''"),
        ("a\0b", "without zero bytes"),
        (".", "is a folder; give the name of a file in it"),
        ("nowhere/model", "there is no folder '.*nowhere'; make it first|there is no file"),
        (os.devnull, "is no plain file"),
        ("x" * 5000, "too long"),
        ("\ud800", "cannot be|there is no file"),
    ],
)
def test_paths_that_are_none(path: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(et.FileError, match=message):
        NETWORK.save(path)
    with pytest.raises(et.FileError, match=message):
        et.load(path)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is forbidden to root")
def test_what_is_forbidden_is_said(saved: Path) -> None:
    os.chmod(saved, 0o400)
    with pytest.raises(et.FileError, match="may not be written to"):
        OTHER.save(saved)
    os.chmod(saved, 0)
    assert "Permission denied" in refusal(saved)
    os.chmod(saved.parent, 0o500)
    with pytest.raises(et.FileError, match="Permission denied"):
        NETWORK.save(saved.parent / "new")
    os.chmod(saved.parent, 0o700)


@pytest.mark.parametrize("answer", [3, b"model", TypeError("no"), ValueError("no")])
def test_paths_of_other_classes(answer: Any) -> None:
    class Own(os.PathLike[str]):
        def __fspath__(self) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

    with pytest.raises(et.FileError, match="path"):
        et.load(Own())


class Bomb:
    def __reduce__(self) -> Any:
        return os.mkdir, ("executed",)


def test_files_of_others_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "file"
    path.write_bytes(b"")
    assert refusal(path) == f"{str(path)!r} cannot be loaded: it is empty"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model", "content")
    assert "it is no file of eigentree's: it looks like a zip archive" in refusal(path)
    path.write_bytes(pickle.dumps(Bomb()))
    assert "a pickle, which would execute what it holds and is never loaded" in refusal(path)
    assert not (tmp_path / "executed").exists()
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    assert "an array of numpy's" in refusal(path)
    path.write_text("name,value\na,1\n")
    assert "it looks like a text" in refusal(path)
    path.write_text("x")
    assert "it looks like a text" in refusal(path)
    safetensors.numpy.save_file({"a": np.zeros(3)}, path)
    assert "it is a safetensors file, but not one of eigentree's" in refusal(path)
    path.write_bytes(np.random.default_rng(0).bytes(1000))
    assert "something else, or damaged" in refusal(path)


def test_every_truncation_is_refused(saved: Path) -> None:
    whole = saved.read_bytes()
    for length in [*range(64), *range(64, len(whole), 37), len(whole) - 1]:
        saved.write_bytes(whole[:length])
        refusal(saved)
    saved.write_bytes(whole + b"\0")
    assert "there is something after its end" in refusal(saved)


def test_every_changed_byte_is_noticed(saved: Path) -> None:
    whole = saved.read_bytes()
    for place in range(0, len(whole), 23):
        saved.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert "cannot be loaded" in refusal(saved)


def test_arrays_that_overlap_or_leave_room_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "statistics"
    et.Statistics.of(NETWORK.sample(50, seed=0), NETWORK.graph).save(path)
    whole = path.read_bytes()
    for which, shift in ((-1, -8), (1, -8), (1, 8)):
        header, data = header_of(whole)
        names = sorted(set(header) - {"__metadata__"}, key=lambda name: header[name]["data_offsets"])
        header[names[which]]["data_offsets"] = [place + shift for place in header[names[which]]["data_offsets"]]
        path.write_bytes(resealed(header, data))
        assert "does not begin where the one before it ends" in refusal(path)


def edited(raw: bytes, **entries: Any) -> bytes:
    header, data = header_of(raw)
    document = json.loads(header["__metadata__"]["eigentree"]) | entries
    header["__metadata__"]["eigentree"] = json.dumps(document, separators=(",", ":"))
    return resealed(header, data)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"format": [2, 0], "eigentree": "9.1"}, r"it was written by a newer eigentree \(9\.1, this is .*update"),
        ({"format": [1, 7], "eigentree": "0.9", "more": 1}, r"newer eigentree \(0\.9.*an entry 'more'"),
        ({"format": [1, 7], "kind": "Oracle"}, "newer eigentree.*it holds a 'Oracle', which is not known"),
        ({"kind": "Oracle"}, "cannot be loaded: it holds a 'Oracle', which is not known"),
        ({"more": 1}, "it is damaged: the document has an entry 'more'"),
        ({"format": "1"}, "it is damaged: the version of its format is missing"),
        ({"format": [0, 1]}, "there is no such version"),
        ({"content": None}, "it is damaged: a network is a JSON object, not None"),
        ({"graphs": []}, "it is damaged: a number among graphs"),
    ],
)
def test_newer_and_odd_documents(entries: dict[str, Any], message: str, saved: Path) -> None:
    saved.write_bytes(edited(saved.read_bytes(), **entries))
    with pytest.raises(et.FileError, match=message):
        et.load(saved)


def test_a_newer_file_with_nothing_new_is_loaded(saved: Path) -> None:
    saved.write_bytes(edited(saved.read_bytes(), format=[1, 7]))
    assert et.load(saved).graph == NETWORK.graph


def test_a_parameter_that_the_file_does_not_know_has_its_default(tmp_path: Path) -> None:
    path = tmp_path / "model"
    et.SpectralJunctionTree(NETWORK.graph, views=3).save(path)
    content = json.loads(header_of(path.read_bytes())[0]["__metadata__"]["eigentree"])["content"]
    del content["parameters"]["views"]
    path.write_bytes(edited(path.read_bytes(), content=content))
    assert et.load(path).views == 6
    et.OnlineEMJunctionTree(NETWORK.graph).save(path)
    content = json.loads(header_of(path.read_bytes())[0]["__metadata__"]["eigentree"])["content"]
    del content["parameters"]["structure"]
    path.write_bytes(edited(path.read_bytes(), content=content))
    assert et.load(path).structure is None


HUGE = 2**60


def plain_columns(states: int) -> dict[str, Any]:
    return columns_content(Columns(("x",), (states,)))


def hostile_files(raw: bytes) -> dict[str, bytes]:
    """Small files that claim to be large."""
    header, data = header_of(raw)

    def placed(shape: list[int], offsets: list[int]) -> bytes:
        changed = header | {"tables": {"dtype": "F64", "shape": shape, "data_offsets": offsets}}
        return resealed(json.loads(json.dumps(changed)), data)

    graph = {"states": [["h", HUGE], ["x", HUGE]], "edges": [["h", "x"]], "hidden": ["h"], "directed": True}
    wide = {"states": [["h", 2**12], ["x", 2**12]], "edges": [["h", "x"]], "hidden": ["h"], "directed": True}
    columns = plain_columns(HUGE)
    return {
        "a header of 2**60 bytes": HUGE.to_bytes(8, "little") + raw[8:],
        "a header of 2**26 bytes": (2**26).to_bytes(8, "little") + raw[8:],
        "an array of 2**60 bytes": placed([HUGE // 8], [0, HUGE]),
        "an array of many axes": placed([2] * 60, [0, 2**63]),
        "an array of 2**60 nothings": placed([HUGE, 0], [0, 0]),
        "a graph of 2**60 states": edited(
            raw, graphs=[graph], content={"graph": 0, "columns": columns, "tree": None}
        ),
        "a table of 2**24 numbers": edited(
            raw, graphs=[wide], content={"graph": 0, "columns": plain_columns(2**12), "tree": None}
        ),
        "deep lists": with_header({"__metadata__": {"eigentree": "[" * 10**6, "sha256": ""}}, b""),
        "long numbers": with_header({"__metadata__": {"eigentree": "1" * 10**5, "sha256": ""}}, b""),
        "repeated entries": b"\x0f\0\0\0\0\0\0\0" + b'{"a":{},"a":{}}',
    }


def test_what_claims_to_be_large_takes_no_memory(saved: Path) -> None:
    for name, raw in hostile_files(saved.read_bytes()).items():
        saved.write_bytes(raw)
        tracemalloc.start()
        refusal(saved)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 5 * len(raw) + 2**22, name


def test_a_large_sparse_file_is_not_read_into_memory(saved: Path) -> None:
    """A file that is as long as it says, of zeros that take no room on the disk."""
    header, _ = header_of(saved.read_bytes())
    size = 2**26
    header["tables"] |= {"shape": [size // 8], "data_offsets": [0, size]}
    saved.write_bytes(with_header(header, b""))
    with saved.open("r+b") as file:
        file.truncate(saved.stat().st_size + size)
    tracemalloc.start()
    assert "it is damaged" in refusal(saved)
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()


def test_corrupted_files(tmp_path: Path) -> None:
    """`python tests/corruptions.py 5000` tries more of them."""
    files, rows = saved_files(tmp_path)
    path = tmp_path / "corrupted"
    found = set()
    for number in range(300):
        file, kind = drawn(files, path, 20, number)
        found.add((kind, outcome(path, rows[file])))
    assert {("flip", "refused"), ("document", "refused"), ("numbers", "loaded")} <= found


@pytest.mark.parametrize(
    "value",
    [None, True, -3, 10**30, 0.1, -0.0, 5e-324, np.inf, "é\ud800", [1, [2.5]], (1, (2, "a")), {1: [None], "a": ()}],
)
def test_plain_values_come_back(value: Any) -> None:
    text = json.dumps(plain(value, "it"), allow_nan=False)
    again = unplain(json.loads(text), "it")
    assert repr(again) == repr(value)


@pytest.mark.parametrize("value", [{1}, b"x", 1j, np.zeros((2, 2)), object(), [np.datetime64("2020"), {1}]])
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(et.FileError, match=r"it is a .*, which a file cannot hold"):
        plain(value, "it")


def test_values_beyond_reason_are_refused() -> None:
    with pytest.raises(et.FileError, match="it is a whole number of thousands of digits"):
        plain([10**5000], "it")
    for content in ({"dict": [[[1], 2]]}, {"dict": [[{"tuple": [[1]]}, 2]]}, {"dict": [1]}, {"set": []}, {}):
        with pytest.raises(et.FileError, match=r"it (has a key that can be none|is of a kind that is not known)"):
            unplain(content, "it")
