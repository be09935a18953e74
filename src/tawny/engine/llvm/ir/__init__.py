"""IR being written: types, values, functions, and the loops inside them."""
