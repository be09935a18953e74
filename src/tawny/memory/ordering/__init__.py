"""Orders of the steps: in which one the fewest bytes are live at once.

`model` is the problem as orders see it, and `contract` a smaller one with the same best orders.
`portfolio` tries several quick heuristics, `exact_order` searches for the best order, and
`lower_bound` tells when one is found: bytes that every order needs.
"""
