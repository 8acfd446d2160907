"""Numbers as levels of their distribution function: hat functions, their counts, and what a model needs again."""
