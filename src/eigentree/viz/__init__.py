"""Pictures for people: matplotlib's axes in and out."""
