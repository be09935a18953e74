"""Engines: what runs a graph.  `reference` judges all others."""
