"""Hidden Markov chains with one set of tables for all steps."""
