"""Physics and chemistry: stencils, particles, equations of motion."""

from __future__ import annotations

from typing import Any

from workloads.family import Arrays, Chapter, Draw

SCIENCE = Chapter("science")

heat = SCIENCE.family("heat equation, 10 steps", "small f32 64, large f64 1024")


@heat.data
def _(draw: Draw, n: int) -> Arrays:
    return {"u": draw.normal(n, n)}


@heat.numpy
def _(np: Any, u: Any) -> Any:
    for _ in range(10):
        around = np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1)
        u = u + 0.1 * (around - 4 * u)
    return u


@heat.torch
def _(torch: Any, u: Any) -> Any:
    for _ in range(10):
        around = u.roll(1, 0) + u.roll(-1, 0) + u.roll(1, 1) + u.roll(-1, 1)
        u = u + 0.1 * (around - 4 * u)
    return u


wave = SCIENCE.family("wave equation, inner points", "medium f64 256, large f32 2048")


@wave.data
def _(draw: Draw, n: int) -> Arrays:
    return {"now": draw.normal(n, n), "before": draw.normal(n, n)}


@wave.numpy
def _(np: Any, now: Any, before: Any) -> Any:
    inner = now[1:-1, 1:-1]
    around = now[2:, 1:-1] + now[:-2, 1:-1] + now[1:-1, 2:] + now[1:-1, :-2]
    return np.pad(2 * inner - before[1:-1, 1:-1] + 0.25 * (around - 4 * inner), 1)


@wave.torch
def _(torch: Any, now: Any, before: Any) -> Any:
    inner = now[1:-1, 1:-1]
    around = now[2:, 1:-1] + now[:-2, 1:-1] + now[1:-1, 2:] + now[1:-1, :-2]
    new = 2 * inner - before[1:-1, 1:-1] + 0.25 * (around - 4 * inner)
    return torch.nn.functional.pad(new, (1, 1, 1, 1))


bodies = SCIENCE.family("n-body forces", "small f64 64, medium f64 1024, large f32 2048")


@bodies.data
def _(draw: Draw, n: int) -> Arrays:
    return {"place": draw.normal(n, 3), "mass": draw.uniform(n)}


@bodies.numpy
def _(np: Any, place: Any, mass: Any) -> Any:
    apart = place[None, :, :] - place[:, None, :]
    squares = np.sum(apart * apart, axis=2) + 0.01
    pull = mass[None, :] / (squares * np.sqrt(squares))
    return np.sum(apart * pull[:, :, None], axis=1)


@bodies.torch
def _(torch: Any, place: Any, mass: Any) -> Any:
    apart = place[None, :, :] - place[:, None, :]
    squares = (apart * apart).sum(2) + 0.01
    pull = mass[None, :] / (squares * squares.sqrt())
    return (apart * pull[:, :, None]).sum(1)


molecules = SCIENCE.family(
    "Lennard-Jones energy and forces", "small f64 64, medium f64 512, large f32 1500",
    slopes=("place",), tolerance=1e-3,
)  # fmt: skip


@molecules.data
def _(draw: Draw, n: int) -> Arrays:
    side = round(n ** (1 / 3) + 0.5)
    grid = draw.rng.permutation(side**3)[:n]
    place = draw.normal(n, 3, scale=0.05)
    place += 1.2 * (grid[:, None] // [[side * side, side, 1]] % side).astype(draw.dtype)
    return {"place": place}


@molecules.numpy
def _(np: Any, place: Any) -> Any:
    apart = place[:, None, :] - place[None, :, :]
    n = place.shape[0]
    squares = np.sum(apart * apart, axis=-1) + np.eye(n, dtype=place.dtype)
    sixth = (1 - np.eye(n, dtype=place.dtype)) / (squares * squares * squares)
    return 2.0 * np.sum(sixth * sixth - sixth)


@molecules.torch
def _(torch: Any, place: Any) -> Any:
    apart = place[:, None, :] - place[None, :, :]
    own = torch.eye(len(place), dtype=place.dtype)
    squares = (apart * apart).sum(-1) + own
    sixth = (1 - own) / (squares * squares * squares)
    return 2.0 * (sixth * sixth - sixth).sum()


lorenz = SCIENCE.family("Lorenz, RK4, 20 steps", "small f64 16, large f64 20000")


@lorenz.data
def _(draw: Draw, n: int) -> Arrays:
    return {"x": draw.normal(n), "y": draw.normal(n), "z": draw.normal(n)}


def _lorenz(x: Any, y: Any, z: Any) -> Any:
    def slope(x: Any, y: Any, z: Any) -> Any:
        return 10.0 * (y - x), x * (28.0 - z) - y, x * y - (8.0 / 3.0) * z

    def ahead(s: Any, k: Any, h: float) -> Any:
        return tuple(a + h * b for a, b in zip(s, k, strict=True))

    s, h = (x, y, z), 0.005
    for _ in range(20):
        k1 = slope(*s)
        k2 = slope(*ahead(s, k1, h / 2))
        k3 = slope(*ahead(s, k2, h / 2))
        k4 = slope(*ahead(s, k3, h))
        mean = [a + 2 * b + 2 * c + d for a, b, c, d in zip(k1, k2, k3, k4, strict=True)]
        s = ahead(s, mean, h / 6)
    return s


@lorenz.numpy
def _(np: Any, x: Any, y: Any, z: Any) -> Any:
    return _lorenz(x, y, z)


@lorenz.torch
def _(torch: Any, x: Any, y: Any, z: Any) -> Any:
    return _lorenz(x, y, z)


boltzmann = SCIENCE.family("lattice Boltzmann step", "medium f64 128, large f32 512")
WAYS = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1))
SHARES = (4 / 9, *(1 / 9,) * 4, *(1 / 36,) * 4)


@boltzmann.data
def _(draw: Draw, n: int) -> Arrays:
    return {"f": draw.uniform(9, n, n, low=0.9, high=1.1)}


def _boltzmann(roll: Any, stack: Any, f: Any) -> Any:
    f = [roll(f[i], way) for i, way in enumerate(WAYS)]
    mass = sum(f[1:], f[0])
    u = (f[1] - f[3] + f[5] - f[6] - f[7] + f[8]) / mass
    v = (f[2] - f[4] + f[5] + f[6] - f[7] - f[8]) / mass
    speed = 1.5 * (u * u + v * v)
    new = []
    for i, (x, y) in enumerate(WAYS):
        along = 3.0 * (x * u + y * v)
        level = SHARES[i] * mass * (1.0 + along + 0.5 * along * along - speed)
        new.append(f[i] + 0.6 * (level - f[i]))
    return stack(new)


@boltzmann.numpy
def _(np: Any, f: Any) -> Any:
    return _boltzmann(lambda x, way: np.roll(x, way, (0, 1)), np.stack, f)


@boltzmann.torch
def _(torch: Any, f: Any) -> Any:
    return _boltzmann(lambda x, way: x.roll(way, (0, 1)), torch.stack, f)


mandelbrot = SCIENCE.family(
    "Mandelbrot, 30 iterations",
    "medium f64 128, large f32 512",
    tolerance=1.0,  # a point may escape a step sooner, by rounding
    without={"torch.compile": "compiled in minutes"},
)


@mandelbrot.data
def _(draw: Draw, n: int) -> Arrays:
    return {"a": draw.uniform(n, n, low=-2, high=0.6), "b": draw.uniform(n, n, low=-1.2, high=1.2)}


def _mandelbrot(where: Any, a: Any, b: Any) -> Any:
    x, y, steps = a, b, 0 * a
    for _ in range(30):
        inside = x * x + y * y < 4.0
        steps = steps + where(inside, 1.0, 0.0)
        x, y = where(inside, x * x - y * y + a, x), where(inside, 2 * x * y + b, y)
    return steps


@mandelbrot.numpy
def _(np: Any, a: Any, b: Any) -> Any:
    def where(test: Any, yes: Any, no: Any) -> Any:
        return np.where(test, yes, no).astype(a.dtype)

    return _mandelbrot(where, a, b)


@mandelbrot.torch
def _(torch: Any, a: Any, b: Any) -> Any:
    return _mandelbrot(torch.where, a, b)


haversine = SCIENCE.family("distances on the globe", "small f64 50, large f64 1000")


@haversine.data
def _(draw: Draw, n: int) -> Arrays:
    return {"latitude": draw.uniform(n, low=-1.5, high=1.5), "longitude": draw.uniform(n, high=6.2)}


@haversine.numpy
def _(np: Any, latitude: Any, longitude: Any) -> Any:
    up = np.sin((latitude[:, None] - latitude[None, :]) / 2)
    along = np.sin((longitude[:, None] - longitude[None, :]) / 2)
    share = up * up + np.cos(latitude)[:, None] * np.cos(latitude)[None, :] * along * along
    return 12742.0 * np.arcsin(np.sqrt(np.minimum(share, 1.0)))


@haversine.torch
def _(torch: Any, latitude: Any, longitude: Any) -> Any:
    up = torch.sin((latitude[:, None] - latitude[None, :]) / 2)
    along = torch.sin((longitude[:, None] - longitude[None, :]) / 2)
    share = up * up + torch.cos(latitude)[:, None] * torch.cos(latitude)[None, :] * along * along
    return 12742.0 * torch.asin(torch.sqrt(share.clamp(max=1.0)))


jacobi = SCIENCE.family(
    "Jacobi iterations in a loop, 100", "small f32 32, medium f64 256",
    without={"torch.compile": "unrolls the loop"},
)  # fmt: skip


@jacobi.data
def _(draw: Draw, n: int) -> Arrays:
    return {"right": draw.normal(n, n)}


@jacobi.numpy
def _(np: Any, right: Any) -> Any:
    def step(_: Any, u: Any) -> Any:
        wide = np.pad(u, 1)
        return 0.25 * (wide[2:, 1:-1] + wide[:-2, 1:-1] + wide[1:-1, 2:] + wide[1:-1, :-2] + right)

    return np.fori_loop(0, 100, step, 0 * right)


@jacobi.torch
def _(torch: Any, right: Any) -> Any:
    u = torch.zeros_like(right)
    for _ in range(100):
        wide = torch.nn.functional.pad(u, (1, 1, 1, 1))
        u = 0.25 * (wide[2:, 1:-1] + wide[:-2, 1:-1] + wide[1:-1, 2:] + wide[1:-1, :-2] + right)
    return u


poisson = SCIENCE.family("Poisson's equation by FFT", "medium f64 128, large f64 512")


@poisson.data
def _(draw: Draw, n: int) -> Arrays:
    return {"density": draw.normal(n, n)}


@poisson.weights
def _(draw: Draw, n: int) -> Arrays:
    import numpy

    k = numpy.fft.fftfreq(n)[:, None] ** 2 + numpy.fft.rfftfreq(n)[None, :] ** 2
    k[0, 0] = 1.0
    return {"scale": (-1 / (39.478 * k)).astype(draw.dtype)}


@poisson.numpy
def _(np: Any, density: Any, scale: Any) -> Any:
    return np.fft.irfft2(np.fft.rfft2(density) * scale, s=density.shape)


@poisson.torch
def _(torch: Any, density: Any, scale: Any) -> Any:
    return torch.fft.irfft2(torch.fft.rfft2(density) * scale, s=density.shape)
