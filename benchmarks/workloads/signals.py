"""Signals, sound and images."""

from __future__ import annotations

from typing import Any

from workloads.family import Arrays, Chapter, Draw

SIGNALS = Chapter("signal and image")

spectrum = SIGNALS.family("power spectra of rows", "medium f64 64, large f32 1024")


@spectrum.data
def _(draw: Draw, n: int) -> Arrays:
    return {"x": draw.normal(n, 1024)}


@spectrum.numpy
def _(np: Any, x: Any) -> Any:
    return np.abs(np.fft.rfft(x)) ** 2


@spectrum.torch
def _(torch: Any, x: Any) -> Any:
    return torch.fft.rfft(x).abs() ** 2


low_pass = SIGNALS.family("low-pass filter, complex 2-D FFT", "small c128 32, large c64 512")


@low_pass.data
def _(draw: Draw, n: int) -> Arrays:
    real = draw.rng.standard_normal((2, n, n))
    return {"image": (real[0] + 1j * real[1]).astype(draw.dtype)}


@low_pass.weights
def _(draw: Draw, n: int) -> Arrays:
    import numpy

    k = numpy.fft.fftfreq(n)
    kind = "float32" if draw.dtype == "complex64" else "float64"
    return {"pass_": (k[:, None] ** 2 + k[None, :] ** 2 < 0.01).astype(kind)}


@low_pass.numpy
def _(np: Any, image: Any, pass_: Any) -> Any:
    return np.fft.ifft2(np.fft.fft2(image) * pass_)


@low_pass.torch
def _(torch: Any, image: Any, pass_: Any) -> Any:
    return torch.fft.ifft2(torch.fft.fft2(image) * pass_)


mel = SIGNALS.family("log-mel spectrogram", "medium f32 16000, large f32 160000")


@mel.data
def _(draw: Draw, n: int) -> Arrays:
    return {"sound": draw.normal(n)}


@mel.weights
def _(draw: Draw, n: int) -> Arrays:
    import numpy

    return {"window": numpy.hanning(400).astype(draw.dtype), "bank": draw.uniform(201, 80)}


@mel.numpy
def _(np: Any, sound: Any, window: Any, bank: Any) -> Any:
    places = 160 * np.arange((sound.shape[0] - 400) // 160 + 1)[:, None] + np.arange(400)[None, :]
    power = np.abs(np.fft.rfft(sound[places] * window)) ** 2
    return np.log(power @ bank + 1e-6)


@mel.torch
def _(torch: Any, sound: Any, window: Any, bank: Any) -> Any:
    power = torch.fft.rfft(sound.unfold(0, 400, 160) * window).abs() ** 2
    return torch.log(power @ bank + 1e-6)


fir = SIGNALS.family("filter of 64 taps", "small f64 1000, large f64 200000")


@fir.data
def _(draw: Draw, n: int) -> Arrays:
    return {"x": draw.normal(n)}


@fir.weights
def _(draw: Draw, n: int) -> Arrays:
    return {"taps": draw.normal(64)}


@fir.numpy
def _(np: Any, x: Any, taps: Any) -> Any:
    return np.convolve(x, taps, mode="valid")


@fir.torch
def _(torch: Any, x: Any, taps: Any) -> Any:
    return torch.nn.functional.conv1d(x[None, None], taps.flip(0)[None, None])[0, 0]


sobel = SIGNALS.family("Gaussian blur and edges", "medium f64 256, large f32 1080")


@sobel.data
def _(draw: Draw, n: int) -> Arrays:
    return {"image": draw.uniform(n, n)}


def _blurred(image: Any) -> Any:
    taps = (0.0625, 0.25, 0.375, 0.25, 0.0625)
    rows, columns = image.shape
    image = sum(w * image[i : rows - 4 + i] for i, w in enumerate(taps))
    image = sum(w * image[:, i : columns - 4 + i] for i, w in enumerate(taps))
    across = image[:, 2:] - image[:, :-2]
    down = image[2:] - image[:-2]
    across = across[:-2] + 2 * across[1:-1] + across[2:]
    down = down[:, :-2] + 2 * down[:, 1:-1] + down[:, 2:]
    return across * across + down * down


@sobel.numpy
def _(np: Any, image: Any) -> Any:
    return np.sqrt(_blurred(image))


@sobel.torch
def _(torch: Any, image: Any) -> Any:
    return torch.sqrt(_blurred(image))


tones = SIGNALS.family("tone mapping", "small f32 32, large f32 1080")


@tones.data
def _(draw: Draw, n: int) -> Arrays:
    return {"image": draw.uniform(n, n, 3, high=4.0)}


@tones.numpy
def _(np: Any, image: Any) -> Any:
    red, green, blue = image[..., 0], image[..., 1], image[..., 2]
    light = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    scale = (1.0 + light / 9.0) / (1.0 + light)
    return np.clip(image * scale[..., None], 0.0, 1.0) ** 0.4545


@tones.torch
def _(torch: Any, image: Any) -> Any:
    red, green, blue = image.unbind(-1)
    light = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    scale = (1.0 + light / 9.0) / (1.0 + light)
    return (image * scale[..., None]).clamp(0.0, 1.0) ** 0.4545


bilateral = SIGNALS.family("bilateral filter, 5 x 5", "medium f32 256, large f64 512")


@bilateral.data
def _(draw: Draw, n: int) -> Arrays:
    return {"image": draw.uniform(n, n)}


def _bilateral(exp: Any, wide: Any, n: int) -> Any:
    centre = wide[2 : n + 2, 2 : n + 2]
    total, weights = 0 * centre, 0 * centre
    for i in range(5):
        for j in range(5):
            other = wide[i : n + i, j : n + j]
            apart = other - centre
            weight = exp(-0.125 * ((i - 2) ** 2 + (j - 2) ** 2) - 50.0 * apart * apart)
            total, weights = total + weight * other, weights + weight
    return total / weights


@bilateral.numpy
def _(np: Any, image: Any) -> Any:
    return _bilateral(np.exp, np.pad(image, 2), image.shape[0])


@bilateral.torch
def _(torch: Any, image: Any) -> Any:
    wide = torch.nn.functional.pad(image, (2, 2, 2, 2))
    return _bilateral(torch.exp, wide, image.shape[0])


median = SIGNALS.family("median of 3 x 3", "medium f32 128, large f32 512")


@median.data
def _(draw: Draw, n: int) -> Arrays:
    return {"image": draw.uniform(n, n)}


@median.numpy
def _(np: Any, image: Any) -> Any:
    n = image.shape[0] - 2
    near = np.stack([image[i : n + i, j : n + j] for i in range(3) for j in range(3)], axis=-1)
    return np.sort(near, axis=-1)[..., 4]


@median.torch
def _(torch: Any, image: Any) -> Any:
    return (
        image.unfold(0, 3, 1).unfold(1, 3, 1).reshape(-1, image.shape[1] - 2, 9).median(-1).values
    )


equalise = SIGNALS.family("histogram equalisation", "medium i32 128, large i32 1024")


@equalise.data
def _(draw: Draw, n: int) -> Arrays:
    return {"image": draw.integers(256, n, n)}


@equalise.numpy
def _(np: Any, image: Any) -> Any:
    counts = np.counted(image.reshape((-1,)), 256)
    levels = np.cumsum(counts) * (255.0 / image.size)
    return levels.astype("float32")[image]


@equalise.torch
def _(torch: Any, image: Any) -> Any:
    counts = torch.bincount(image.reshape(-1), minlength=256)
    return (counts.cumsum(0) * (255.0 / image.numel())).float()[image.long()]


equalise.without = {"torch.compile": "must know the length of a count"}

enlarge = SIGNALS.family("bilinear enlargement by 1.5", "medium f32 128, large f32 720")


@enlarge.data
def _(draw: Draw, n: int) -> Arrays:
    return {"image": draw.uniform(n, n, 3)}


@enlarge.numpy
def _(np: Any, image: Any) -> Any:
    n = image.shape[0]
    place = np.arange(n * 3 // 2) * ((n - 1) / (n * 3 // 2 - 1))
    low = np.minimum(np.floor(place), n - 2).astype("int32")
    share = (place - low).astype(image.dtype)
    rows = image[low] + share[:, None, None] * (image[low + 1] - image[low])
    return rows[:, low] + share[None, :, None] * (rows[:, low + 1] - rows[:, low])


@enlarge.torch
def _(torch: Any, image: Any) -> Any:
    size = (image.shape[0] * 3 // 2,) * 2
    batch = image.permute(2, 0, 1)[None]
    made = torch.nn.functional.interpolate(batch, size, mode="bilinear", align_corners=True)
    return made[0].permute(1, 2, 0)
