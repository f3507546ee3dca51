"""Servebook: raw benchmark and counter dumps in, one honest offline HTML page out.

The folders tell the story of the data: ``read`` dumps into canonical tables, ``measure``
them with one definition per metric, ``explain`` them with models, ``publish`` the page.
Imports point one way only: read <- measure <- explain <- publish.
"""

__version__ = "0.1.0"
