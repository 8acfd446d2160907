"""The exact model: a latent graph whose probabilities are known (section 4.1)."""
