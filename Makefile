# Two commands do all set-up: `make demo` and `make test`. Each stamp below is a virtual environment that
# holds what its name says, and is made again only when pyproject.toml changes.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test wheel-test recipes lint format bench docs clean

demo: $(VENV)/.run
	$(BIN)/python tools/demo.py

test: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 --dist worksteal
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -q -n 2 tests/core/test_counting_loops.py tests/core/test_message_passing.py \
	  tests/core/test_estep.py tests/core/test_chain_rule.py tests/core/test_forward_backward.py tests/core/test_vectors.py \
	  tests/counting/test_counts_in_parts.py \
	  --cov=eigentree.core --cov-branch --cov-fail-under=95

wheel-test: $(VENV)/.created
	$(BIN)/python tools/wheel_test.py

recipes: $(VENV)/.recipes
	$(BIN)/python -m pytest tests/test_recipes.py

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -n -q docs docs/_build/html
	$(BIN)/python tools/check_pages.py docs/_build/html

$(VENV)/.created:
	$(PYTHON) -m venv $(VENV) || python3 -m venv $(VENV)
	touch $@

$(VENV)/.run: pyproject.toml | $(VENV)/.created
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.test: pyproject.toml | $(VENV)/.created
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $(VENV)/.run $@

$(VENV)/.lint: pyproject.toml | $(VENV)/.created
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[lint,test]'
	touch $(VENV)/.run $(VENV)/.test $@

$(VENV)/.docs: pyproject.toml | $(VENV)/.created
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	touch $(VENV)/.run $@

$(VENV)/.bench: pyproject.toml | $(VENV)/.created
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench,test]'
	touch $(VENV)/.run $(VENV)/.test $@

$(VENV)/.recipes: pyproject.toml | $(VENV)/.created
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[recipes,test]'
	touch $(VENV)/.run $(VENV)/.test $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis docs/_build docs/reference/api
