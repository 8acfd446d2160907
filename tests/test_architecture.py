"""The rule of imports, and what `import eigentree` may load."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import eigentree

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "eigentree"


def listed_order() -> list[str]:
    """The modules and packages in the order of the table in ARCHITECTURE.md."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    return re.findall(r"^\| `(\w+)(?:\.py|/)` \|", text, flags=re.MULTILINE)


def imported_modules(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "eigentree":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("eigentree."):
            found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("eigentree.")}
    return found


def files_of(module: str) -> list[Path]:
    """The file of a module, or all those of a package."""
    return sorted((PACKAGE / module).rglob("*.py")) or [PACKAGE / f"{module}.py"]


def modules() -> list[str]:
    files = [path.stem for path in PACKAGE.glob("*.py") if path.stem not in ("__init__", "__main__")]
    return sorted([*files, *(path.parent.name for path in PACKAGE.glob("*/__init__.py"))])


def test_every_module_is_listed() -> None:
    assert sorted(listed_order()) == modules()


@pytest.mark.parametrize("module", modules())
def test_imports_only_name_modules_listed_earlier(module: str) -> None:
    order = listed_order()
    allowed = set(order[: order.index(module)])
    for file in files_of(module):
        used = imported_modules(file) & set(order)
        if file.parent != PACKAGE:
            used -= {module}
        assert used <= allowed, (
            f"{file.relative_to(PACKAGE)} imports {sorted(used - allowed)}, which stand below it"
        )


def test_importing_eigentree_loads_nothing_heavy() -> None:
    script = "import eigentree, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    heavy = {"numpy", "numba", "scipy", "sklearn", "matplotlib", "networkx", "narwhals", "pandas", "rich"}
    assert not heavy & set(loaded)


@pytest.mark.parametrize("name", eigentree.__all__)
def test_every_public_name_loads(name: str) -> None:
    assert getattr(eigentree, name) is not None
    assert name in dir(eigentree)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'LatentGrap'"):
        eigentree.LatentGrap  # noqa: B018
