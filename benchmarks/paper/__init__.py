"""The paper's experiments (section 9): ``python -m benchmarks.paper fig3`` and ``fig4``."""
