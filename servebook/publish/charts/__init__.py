"""Charts: one module per kind of picture; tidy table in, Altair chart out, nothing measured."""
