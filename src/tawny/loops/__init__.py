"""Loops and branches: how functions become the bodies of ops, and derivatives of these."""
