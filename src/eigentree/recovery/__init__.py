"""From a spectral fit to tables: which hidden states there are, and what each says about the columns."""
