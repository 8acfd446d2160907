"""Tables as users bring them and get them back: cells, labels, columns, rows."""
