"""Chapters: what a notebook cell calls; a campaign in, a figure, a statement or prose out."""
