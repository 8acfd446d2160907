"""The hot loops, compiled by numba; one module per phase."""
