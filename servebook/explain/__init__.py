"""Models: they explain or predict, and are never mixed up with measurements."""
