"""EM of latent-variable grammars: the objective of trees, split-merge training."""
