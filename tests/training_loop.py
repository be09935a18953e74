"""Training as a plain loop: slopes from the reference engine, rules in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

import tawny as tw
import tawny.numpy as tnp
from optimiser_oracle import Oracle
from tawny.tree import leaf_paths, leaves, map_leaves, unflatten


def flat(structure: Any) -> np.ndarray:
    arrays = [np.asarray(x).ravel() for x in leaves(structure)]
    return np.concatenate(arrays) if arrays else np.zeros(0)


def unflat(vector: np.ndarray, structure: Any) -> Any:
    out, start = [], 0
    for x in leaves(structure):
        out.append(vector[start : start + x.size].reshape(x.shape))
        start += x.size
    return unflatten(structure, out)


class Slopes:
    """Loss, slopes, new state and Hessian of a model on a batch, one op at a time in NumPy."""

    def __init__(self, model: Any, loss: Any, seed: int) -> None:
        self.model, self.loss, self.seed = model, loss, seed
        self._programs: dict[Any, Any] = {}

    def _variables(self, structure: Any, prefix: str) -> Any:
        return unflatten(
            structure,
            [tw.var(n, shape=a.shape, dtype=a.dtype) for n, a in leaf_paths(structure, prefix)],
        )

    def _program(self, x: Any, y: Any, curved: bool) -> Any:
        key = (x.shape, y.shape, curved)
        if key not in self._programs:
            parameters = self._variables(self.model.parameters, "p")
            state = self._variables(self.model.state, "s")
            vx, vy = self._variables(x, "x"), self._variables(y, "y")

            def objective(p: Any) -> Any:
                with tw.random.local_seed(self.seed):
                    out, new = self.model.advance(p, state, vx)
                return self.loss(out, vy), new

            outputs: Any
            if curved:
                sizes = [a.size for a in leaves(self.model.parameters)]
                vector = tnp.concatenate([tnp.reshape(v, (-1,)) for v in leaves(parameters)])

                def of_vector(v: Any) -> Any:
                    parts, start = [], 0
                    for n, a in zip(sizes, leaves(self.model.parameters), strict=True):
                        parts.append(tnp.reshape(v[start : start + n], a.shape))
                        start += n
                    return objective(unflatten(parameters, parts))[0]

                outputs = tw.hessian(of_vector)(vector)
            else:
                (value, new), slopes = tw.value_and_grad(objective, has_aux=True)(parameters)
                outputs = {"value": value, "state": new, "slopes": slopes}
            inputs = [*leaves(parameters), *leaves(state), vx, vy]
            graph = tw.Graph(inputs, outputs, unused="ignore")
            self._programs[key] = graph.compile("reference", optimise=False), graph.inputs
        return self._programs[key]

    def at(
        self, parameters: Any, state: Any, x: Any, y: Any, step: int, curved: bool = False
    ) -> Any:
        program, _ = self._program(x, y, curved)
        program.draw = step
        return program(*leaves(parameters), *leaves(state), x, y)


def loop(
    slopes: Slopes, rule: Any, batches: list[tuple[Any, Any]]
) -> list[tuple[float, np.ndarray, Any]]:
    """Loss, parameters as one vector, and state after each step."""
    structure, state = slopes.model.parameters, slopes.model.state
    splits = tuple(np.cumsum([x.size for x in leaves(structure)])[:-1].tolist())
    oracle, w = Oracle(rule, splits), flat(structure)
    out = []
    for step, (x, y) in enumerate(batches):
        parameters = unflat(w, structure)
        found = slopes.at(parameters, state, x, y, step)

        def curvature(parameters=parameters, state=state, x=x, y=y, step=step) -> np.ndarray:
            return slopes.at(parameters, state, x, y, step, curved=True)

        loss = float(found["value"]) + oracle.penalty(w)[0]
        w = oracle.step(w, flat(found["slopes"]), curvature)
        state = map_leaves(np.array, found["state"])
        out.append((loss, w, state))
    return out
