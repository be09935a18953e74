"""Graphs cut into segments for several machines."""
