"""Graphs: inputs, outputs and update edges; compiling them to programs; files and pictures."""
