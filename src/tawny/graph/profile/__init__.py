"""How long programs take: predicted before a run, and measured step by step."""
