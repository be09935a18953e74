"""Products: matrices and convolutions, from register tiles up."""
