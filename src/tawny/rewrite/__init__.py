"""The optimiser: rule tables, their driver, and one visible pipeline of passes."""
