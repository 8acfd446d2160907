"""The classifier, and the class as one more column."""
