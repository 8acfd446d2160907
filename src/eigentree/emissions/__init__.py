"""What a column of numbers shows, given the state of its parent."""
