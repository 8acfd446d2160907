"""Latent-variable grammars: a hidden state at every node of a labelled tree."""
