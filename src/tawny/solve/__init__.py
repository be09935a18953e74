"""Equations solved by loops: initial values, roots, fixed points, linear systems.

    root = tw.solve.root(lambda x: x * x - 2.0, 1.0)
    float(root.x), bool(root.converged)           # (1.4142135623730951, True)

Each is part of a graph like any other function: compiled, mapped over batches, and differentiated
to any order in both modes, not through its steps but by what a solution satisfies.
"""

from tawny.public_names import export_imports as _export_imports
from tawny.solve.linear import cg as cg
from tawny.solve.linear import gmres as gmres
from tawny.solve.ode import Trajectory as Trajectory
from tawny.solve.ode import ode as ode
from tawny.solve.roots import Solution as Solution
from tawny.solve.roots import fixed_point as fixed_point
from tawny.solve.roots import root as root

_export_imports(__name__)
