"""The estimators, which share one face."""
