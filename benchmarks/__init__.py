"""Benchmarks of eigentree, run by ``python -m benchmarks`` from the root of the checkout."""
