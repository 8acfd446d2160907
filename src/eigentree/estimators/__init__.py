"""The estimators that users meet."""
