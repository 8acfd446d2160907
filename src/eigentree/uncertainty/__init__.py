"""How sure: standard errors, intervals, bootstrap, tests and pooled estimates."""
