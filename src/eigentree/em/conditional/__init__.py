"""Training for the class: the conditional likelihood of classes given rows."""
