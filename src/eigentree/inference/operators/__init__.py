"""Trees of operators, laid out for the compiled passes (sections 4.2 and 5)."""
