"""Sorting, and what is looked up among sorted elements."""
