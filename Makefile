# Two commands do all set-up: `make demo` and `make test`. Each stamp below is a virtual environment that
# holds what its name says, and is made again only when pyproject.toml or the C++ of the core changes.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin

# What the compiled core is made of: an installation is made again when it changes.
CORE := $(wildcard native/*.cpp native/*.hpp native/CMakeLists.txt)
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --config-settings cmake.define.EIGENTREE_STRICT=ON --editable

.PHONY: demo test test-oldest test-newest sanitize wheel wheel-test recipes lint format bench docs clean

demo: $(VENV)/.run
	$(BIN)/python tools/demo.py

test: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 --dist worksteal

# The tests with the lowest versions that pyproject.toml allows, and with the newest that there are, each in an
# environment of its own that is made anew; uv is told of other indexes by UV_INDEX and UV_FIND_LINKS.
test-oldest: RESOLUTION := lowest-direct
# What old versions of others warn of beside newer ones is theirs.
test-oldest: OTHERS_WARNINGS := -W ignore::DeprecationWarning -W ignore::FutureWarning -W ignore::SyntaxWarning
test-newest: RESOLUTION := highest
test-oldest test-newest: $(VENV)/.created
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv venv --quiet --clear --seed --python $(BIN)/python build/$@
	$(BIN)/uv pip install --quiet --upgrade --python build/$@/bin/python --resolution $(RESOLUTION) --editable '.[test]'
	build/$@/bin/python -m pytest -n 2 --dist worksteal -p no:cacheprovider $(OTHERS_WARNINGS)

# The tests of the core with addresses and undefined behaviour checked, on a build of its own.
sanitize: $(VENV)/.core
	$(BIN)/python tools/sanitize.py

wheel: $(VENV)/.created
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	ls -l dist

wheel-test: $(VENV)/.created
	$(BIN)/python tools/wheel_test.py

recipes: $(VENV)/.recipes
	$(BIN)/python -m pytest tests/test_recipes.py

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror native/*.cpp native/*.hpp
	$(BIN)/mypy

format: $(VENV)/.lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i native/*.cpp native/*.hpp

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -n -q docs docs/_build/html
	$(BIN)/python tools/check_pages.py docs/_build/html

$(VENV)/.created:
	$(PYTHON) -m venv $(VENV) || python3 -m venv $(VENV)
	touch $@

$(VENV)/.run: pyproject.toml $(CORE) | $(VENV)/.created
	$(INSTALL) .
	touch $@

$(VENV)/.test: pyproject.toml $(CORE) | $(VENV)/.created
	$(INSTALL) '.[test]'
	touch $(VENV)/.run $@

$(VENV)/.core: pyproject.toml $(CORE) | $(VENV)/.created
	$(INSTALL) '.[core,test]'
	touch $(VENV)/.run $(VENV)/.test $@

$(VENV)/.lint: pyproject.toml $(CORE) | $(VENV)/.created
	$(INSTALL) '.[lint,test]'
	touch $(VENV)/.run $(VENV)/.test $@

$(VENV)/.docs: pyproject.toml $(CORE) | $(VENV)/.created
	$(INSTALL) '.[docs]'
	touch $(VENV)/.run $@

$(VENV)/.bench: pyproject.toml $(CORE) | $(VENV)/.created
	$(INSTALL) '.[bench,test]'
	touch $(VENV)/.run $(VENV)/.test $@

$(VENV)/.recipes: pyproject.toml $(CORE) | $(VENV)/.created
	$(INSTALL) '.[recipes,test]'
	touch $(VENV)/.run $(VENV)/.test $@

clean:
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis docs/_build docs/reference/api
