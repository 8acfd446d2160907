"""Exact inference: labelled tensors, trees of operators, networks, sequences (sections 2, 4 and 5)."""
