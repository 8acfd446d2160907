"""What users bring: columns, and rows checked and encoded."""
