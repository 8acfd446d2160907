"""Hidden semi-Markov chains: the families of their durations, their objective and their fit."""
