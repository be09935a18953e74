"""Discrete Fourier transforms."""

from __future__ import annotations

import numpy as np

from cases import EVERYTHING, FLOATS, INEXACT, REAL, Case

NORMS = ("backward", "ortho", "forward")


def transform(name: str, dtypes, shape=(3, 4, 5), **options):
    return Case(
        f"fft.{name}",
        lambda xp, x: getattr(xp.fft, name)(x, **options),
        lambda x: getattr(np.fft, name)(x, **options),
        [shape],
        dtypes,
        exact=False,
        rtol=1e-11,
    )


def one_axis(name: str, dtypes):
    yield transform(name, dtypes)
    for norm in NORMS:
        yield transform(name, ("float32", "float64"), norm=norm)
        yield transform(name, ("float64",), axis=0, n=7, norm=norm)
    yield transform(name, FLOATS, axis=-2, n=3)
    yield transform(name, FLOATS, shape=(6,))
    yield transform(name, FLOATS, shape=(5,), n=1)
    yield transform(name, FLOATS, shape=(0, 4))


def several(name: str, dtypes):
    yield transform(name, dtypes)
    for norm in NORMS:
        yield transform(name, ("float32", "float64"), norm=norm)
        yield transform(name, ("float64",), axes=(0, 2), s=(5, 4), norm=norm)
    yield transform(name, FLOATS, axes=(2, 0))
    yield transform(name, FLOATS, axes=(1, -1), s=(2, 8))
    yield transform(name, FLOATS, axes=(0, 1), s=(-1, 3))


CASES = [
    *one_axis("fft", EVERYTHING),
    *one_axis("ifft", EVERYTHING),
    *one_axis("rfft", REAL),
    *one_axis("irfft", EVERYTHING),
    *one_axis("hfft", EVERYTHING),
    *one_axis("ihfft", REAL),
    *several("fftn", EVERYTHING),
    *several("ifftn", EVERYTHING),
    *several("rfftn", REAL),
    *several("irfftn", EVERYTHING),
    transform("fftn", FLOATS, axes=(1, 1)),
    transform("fftn", FLOATS, axes=(1, 0, 1), s=(3, 2, 6)),
    transform("fftn", FLOATS, axes=()),
    *several("fft2", INEXACT),
    *several("ifft2", INEXACT),
    *several("rfft2", FLOATS),
    *several("irfft2", INEXACT),
    *(transform(name, EVERYTHING) for name in ("fftshift", "ifftshift")),
    *(
        transform(name, FLOATS, axes=a)
        for name in ("fftshift", "ifftshift")
        for a in (0, -1, (0, 2), ())
    ),
    *(transform(name, FLOATS, shape=(0,)) for name in ("fftshift", "ifftshift")),
    *(
        Case(
            f"fft.{name}",
            lambda xp, f=name, n=n, d=d: getattr(xp.fft, f)(n, d=d),
            lambda f=name, n=n, d=d: getattr(np.fft, f)(n, d=d),
            [],
        )
        for name in ("fftfreq", "rfftfreq")
        for n in (1, 2, 7, 8)
        for d in (1.0, 0.3, 2)
    ),
    *(
        Case(
            f"fft.{name}",
            lambda xp, f=name: getattr(xp.fft, f)(5, dtype=np.float32, device="cpu"),
            lambda f=name: getattr(np.fft, f)(5).astype(np.float32),
            [],
        )
        for name in ("fftfreq", "rfftfreq")
    ),
]
