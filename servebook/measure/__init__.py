"""One definition per metric: pure functions from canonical tables to small tables."""
