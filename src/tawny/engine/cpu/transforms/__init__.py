"""Fourier transforms in compiled code: butterflies, passes over blocks, plans of any length."""
