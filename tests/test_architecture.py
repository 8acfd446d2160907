"""The rules of the house: who may import what, what is private, how long things may be, what loads when."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import eigentree

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "eigentree"

MOST_MODULE_LINES = 525  # "about 500"
MOST_FUNCTION_LINES = 60


def listed_order() -> list[str]:
    """The rooms in the order of the table in ARCHITECTURE.md."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    cells = re.findall(r"^\| ((?:`\w+/?`(?:, )?)+) \|", text, flags=re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`(\w+)/?`", cell)]


def room_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else path.stem


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def files() -> list[Path]:
    return [
        path for path in sorted(PACKAGE.rglob("*.py")) if path.name != "__main__.py" and path.parent != PACKAGE
    ] + [path for path in sorted(PACKAGE.glob("*.py")) if path.stem not in ("__init__", "__main__")]


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imports_of(path: Path) -> list[tuple[str, str]]:
    """Modules of this package that a file imports, each with a name taken from it ("" for the module itself)."""
    found = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "eigentree":
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                is_module = (PACKAGE.parent / inner.replace(".", "/")).with_suffix(".py").exists()
                found.append((inner, "") if is_module else (node.module, alias.name))
        elif isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names if alias.name.startswith("eigentree.")]
    return found


every_file = pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(PACKAGE)))


def test_every_room_is_listed_once() -> None:
    assert sorted(listed_order()) == sorted({room_of(path) for path in files()})


@every_file
def test_imports_go_one_way(path: Path) -> None:
    order = listed_order()
    here = order.index(room_of(path))
    for module, _ in imports_of(path):
        parts = module.split(".")
        if len(parts) > 1:
            assert order.index(parts[1]) <= here, f"{path.stem} imports {module}, which stands below it"


@every_file
def test_only_public_names_are_imported(path: Path) -> None:
    for module, name in imports_of(path):
        assert not any(part.startswith("_") for part in module.split("."))
        if name and module != "eigentree":
            assert name in import_module(module).__all__, f"{path.stem} takes {name} from {module}"


@every_file
def test_nothing_private_of_others_is_touched(path: Path) -> None:
    """What begins with an underscore is used where it is defined, and through self in what inherits it."""
    tree = tree_of(path)
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    own |= {
        node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    own |= {
        node.target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    own |= {"_replace", "_asdict", "_fields"}  # of a NamedTuple
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and re.match(r"_[^_]", node.attr) and node.attr not in own:
            through = ast.unparse(node.value)
            assert through in ("self", "cls"), f"line {node.lineno} reaches for {through}.{node.attr}"


@every_file
def test_every_module_says_what_is_public(path: Path) -> None:
    if path.name == "__init__.py" and module_of(path) not in ("eigentree.core", "eigentree.datasets"):
        assert not [node for node in tree_of(path).body if not isinstance(node, ast.Expr)], (
            "a package holds modules"
        )
        return
    module = import_module(module_of(path))
    assert module.__doc__
    assert len(set(module.__all__)) == len(module.__all__) > 0
    assert all(hasattr(module, name) for name in module.__all__)


@every_file
def test_modules_and_functions_are_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MOST_MODULE_LINES
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef):
            first = node.body[1] if ast.get_docstring(node) and len(node.body) > 1 else node.body[0]
            lines = (node.end_lineno or 0) - first.lineno + 1
            assert lines <= MOST_FUNCTION_LINES, f"{node.name} has {lines} lines"


@every_file
def test_what_a_structure_gives_is_not_kept_in_modules(path: Path) -> None:
    """Caches hang on the objects that they belong to; only what belongs to the process may stay in a module."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef):
            decorators = {ast.unparse(each).split("(")[0].split(".")[-1] for each in node.decorator_list}
            assert "lru_cache" not in decorators
            assert "cache" not in decorators or not node.args.args


@every_file
def test_the_compiled_extension_is_imported_in_core_only(path: Path) -> None:
    if room_of(path) == "core":
        return
    for node in ast.walk(tree_of(path)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        assert not any("_native" in name for name in names)


def test_importing_eigentree_loads_nothing_heavy() -> None:
    script = "import eigentree, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    heavy = {"numpy", "scipy", "sklearn", "matplotlib", "networkx", "narwhals", "pandas", "rich"}
    assert not heavy & set(loaded)


@pytest.mark.parametrize("name", eigentree.__all__)
def test_every_public_name_loads(name: str) -> None:
    assert getattr(eigentree, name) is not None
    assert name in dir(eigentree)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'LatentGrap'"):
        eigentree.LatentGrap  # noqa: B018


MOST_MODULES_AT_ONE_LEVEL = 15


def test_packages_are_small_enough_to_look_through() -> None:
    for folder in {path.parent for path in files()} - {PACKAGE}:
        modules = [path.stem for path in folder.glob("*.py") if path.stem != "__init__"]
        assert len(modules) <= MOST_MODULES_AT_ONE_LEVEL, (
            f"{folder.relative_to(PACKAGE)} has {len(modules)} modules"
        )


def test_no_two_classes_share_a_name() -> None:
    places: dict[str, list[str]] = {}
    for path in files():
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(module_of(path))
    assert not {name: modules for name, modules in places.items() if len(modules) > 1}


def test_no_two_modules_share_a_name() -> None:
    """But in folders of their own for tables and sequences, where one is the counterpart of the other."""
    places: dict[str, list[Path]] = {}
    for path in files():
        if path.stem != "__init__":
            places.setdefault(path.stem, []).append(path.relative_to(PACKAGE))
    shared = {stem: paths for stem, paths in places.items() if len(paths) > 1}
    assert not {
        stem: paths for stem, paths in shared.items() if not any("sequences" in path.parts for path in paths)
    }
