"""What estimators share, in scikit-learn's manners."""
