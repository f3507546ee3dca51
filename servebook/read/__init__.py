"""Identify each file, parse it, refuse it, or set records aside with a reason."""
