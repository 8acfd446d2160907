"""Trees with labels and words: Penn brackets, nested tuples and JSON, binarised and encoded."""
