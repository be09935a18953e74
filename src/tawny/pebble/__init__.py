"""The pebble game: what computing a graph costs in space and time, played, checked and solved.

A pebble on a vertex is memory that holds its value; sliding a pebble is computing in place.
"""

from tawny.pebble.families import (
    backprop_chain,
    binary_tree,
    chain,
    fft,
    figure_2,
    figure_3,
    grid,
    pyramid,
)
from tawny.pebble.game import (
    Game,
    GoalNotReached,
    IllegalMove,
    Move,
    Place,
    Remove,
    Slide,
    StrategyCost,
    play,
)
from tawny.pebble.orders import in_order, postorder
from tawny.pebble.plan import Pebbling, from_problem, from_schedule
from tawny.pebble.solver import Strategy, frontier, least_space, solve
from tawny.public_names import export

__all__ = [
    "Game",
    "GoalNotReached",
    "IllegalMove",
    "Move",
    "Pebbling",
    "Place",
    "Remove",
    "StrategyCost",
    "Slide",
    "Strategy",
    "backprop_chain",
    "binary_tree",
    "chain",
    "fft",
    "figure_2",
    "figure_3",
    "frontier",
    "from_problem",
    "from_schedule",
    "grid",
    "in_order",
    "least_space",
    "play",
    "postorder",
    "pyramid",
    "solve",
]
export(__name__, __all__)
