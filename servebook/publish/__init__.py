"""Charts, notebook execution, the page and the checks on it."""
