"""Raw dumps for published figures whose raw data is not public, made with the engine model.

Everything made here is labelled "reconstructed" wherever it shows, and nothing is validated on it.
"""
