"""Estimators of data whose items are trees."""
