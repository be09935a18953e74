"""Formats of files: arrays and ops as plain data, checked when they are read."""
