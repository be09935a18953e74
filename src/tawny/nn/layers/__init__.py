"""Layers: modules with `forward`, a file for each family."""
