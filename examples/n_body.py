"""Planets by a symplectic integrator: `tw.fori_loop` in `tw.scan`, thousands of native steps.

python examples/n_body.py [--short]

Velocity Verlet keeps the energy for ever, up to a small wave; Euler's method, with the same forces,
does not.
"""

from __future__ import annotations

import argparse

import numpy

import tawny as tw
import tawny.numpy as np

State = tuple[tw.Array, tw.Array]


def solar_system(planets: int) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
    """Masses, places and velocities of a star and planets on circles, as a whole at rest."""
    rng = numpy.random.default_rng(1)
    radii = 1.0 + 0.7 * numpy.arange(planets)
    angles = rng.uniform(0, 2 * numpy.pi, planets)
    around = numpy.stack([numpy.cos(angles), numpy.sin(angles), 0 * angles], axis=1)
    along = numpy.stack([-numpy.sin(angles), numpy.cos(angles), 0 * angles], axis=1)
    masses = numpy.r_[1.0, rng.uniform(1e-5, 1e-4, planets)]
    places = numpy.r_[numpy.zeros((1, 3)), radii[:, None] * around]
    speeds = numpy.r_[numpy.zeros((1, 3)), along / numpy.sqrt(radii)[:, None]]
    speeds -= masses @ speeds / masses.sum()
    return masses, places, speeds


def accelerations(masses: tw.Array, places: tw.Array) -> tw.Array:
    """Gravity."""
    apart = places[None, :, :] - places[:, None, :]
    squares = np.sum(apart**2, axis=-1) + np.eye(len(masses))
    return np.sum(apart * (masses * squares**-1.5)[:, :, None], axis=1)


def energy(masses: tw.Array, places: tw.Array, speeds: tw.Array) -> tw.Array:
    """Of motion and of gravity."""
    apart = places[None, :, :] - places[:, None, :]
    eye = np.eye(len(masses))
    pairs = np.outer(masses, masses) * (1 - eye) / np.sqrt(np.sum(apart**2, axis=-1) + eye)
    return np.sum(masses[:, None] * speeds**2) / 2 - np.sum(pairs) / 2


def simulate(masses: tw.Array, start: State, seconds: float, steps: int, method: str) -> tw.Array:
    """The energy after every 100 steps."""

    def verlet(_: tw.Array, state: State) -> State:
        places, speeds = state
        speeds = speeds + seconds / 2 * accelerations(masses, places)
        places = places + seconds * speeds
        return places, speeds + seconds / 2 * accelerations(masses, places)

    def euler(_: tw.Array, state: State) -> State:
        places, speeds = state
        return places + seconds * speeds, speeds + seconds * accelerations(masses, places)

    step = {"verlet": verlet, "euler": euler}[method]

    def report(state: State, _: None) -> tuple[State, tw.Array]:
        state = tw.fori_loop(0, 100, step, state)
        return state, energy(masses, *state)

    energies: tw.Array = tw.scan(report, start, length=steps // 100)[1]
    return energies


def main() -> None:
    """Both methods beside each other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="fewer years")
    steps = 5_000 if parser.parse_args().short else 100_000
    values = solar_system(8)
    m, x, v = (tw.var(n, a.shape) for n, a in zip("mxv", values, strict=True))
    results = {k: simulate(m, (x, v), 0.02, steps, k) for k in ("verlet", "euler")}
    program = tw.Graph([m, x, v], [energy(m, x, v), results]).compile()
    first, found = program(*values)
    print(f"{steps:,} steps of 9 bodies, {program.plan.peak_bytes:,} bytes.")
    drifts = {k: float(numpy.max(numpy.abs(e / first - 1))) for k, e in found.items()}
    for name, drift in drifts.items():
        print(f"{name:7} the energy is off by {drift:.1e} of itself at most")
    assert drifts["verlet"] < 1e-3
    assert drifts["euler"] > 0.05


if __name__ == "__main__":
    main()
