"""The E-step on trees: cliques, layouts, expected counts."""
