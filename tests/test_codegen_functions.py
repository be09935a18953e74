"""The functions that products are made of: each compiled once, whatever products call it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from product_harness import computed, layouts
from tawny.engine.cpu.kernels.element import element_of
from tawny.engine.cpu.kernels.kernel import Names
from tawny.engine.cpu.products import loops, product
from tawny.engine.cpu.products.convolution import convolution_kernel
from tawny.engine.cpu.products.matmul import matmul_kernel
from tawny.engine.cpu.products.tile import widest
from tawny.engine.llvm.runtime import library
from tawny.engine.llvm.targets import Target
from tawny.ops.convolution import Convolution
from tawny.ops.fused_products import PLAIN, Activation, Epilogue

FUNCTIONS = (
    product._tiles,
    product._gather,
    product._finish,
    product._packing,
    loops.products_library,
)


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that are compiled from here on, with nothing in memory or on disk."""
    texts: list[str] = []
    original = library.object_code

    def noted(text: str, target: Target) -> bytes:
        texts.append(text)
        return original(text, target)

    monkeypatch.setenv("TAWNY_CACHE", str(tmp_path))
    monkeypatch.setattr(library, "object_code", noted)
    library._recent.clear()
    library._living.clear()
    library._libraries.clear()
    for function in FUNCTIONS:
        function.cache_clear()  # type: ignore[attr-defined]
    return texts


def defined(texts: list[str]) -> list[str]:
    """The functions that can be found in texts."""
    return [name for text in texts for name in library._EXPORTED.findall(text)]


def matmul(rows: int, columns: int, epilogue: Epilogue = PLAIN) -> None:
    """Compute a product and compare."""
    rng = np.random.default_rng(rows)
    a, b = (rng.random(shape, np.float32) for shape in ((rows, 40), (40, columns)))
    result = np.zeros((rows, columns), np.float32)
    made = matmul_kernel(*layouts(a, b, result), epilogue=epilogue)
    assert made is not None
    found = computed(made.code, [a, b], result.shape, result.dtype)
    np.testing.assert_allclose(found, a @ b, rtol=1e-5)


def test_products_that_differ_in_their_last_columns_share_the_others(compiled):
    element = element_of(np.dtype(np.float32))
    assert element is not None
    block = widest() * element.lanes
    matmul(100, 3 * block)
    before = len(compiled)
    matmul(94, 5 * block)
    assert len(compiled) == before
    matmul(100, 2 * block + element.lanes)
    tiles = [name for name in defined(compiled[before:]) if name.startswith("tile")]
    assert len(compiled) == before + 1
    assert len(tiles) == len(set(tiles)) <= 2


def test_the_loops_are_compiled_once(compiled):
    for activation in (Activation.NONE, Activation.RELU):
        matmul(30, 64, Epilogue(activation=activation))
    assert sum("kernel3" in defined([text]) for text in compiled) == 1
    assert sum(name.startswith("tile") for name in defined(compiled)) == 4


def test_squares_are_multiplied_by_the_same_code_whatever_follows(compiled):
    rng = np.random.default_rng(0)
    x = rng.random((1, 16, 15, 64), np.float32)
    kernel = rng.random((3, 3, 64, 64), np.float32)
    op = Convolution((1, 1), ((1, 1), (1, 1)), (1, 1), 1)
    result = np.zeros((1, 16, 15, 64), np.float32)
    found: list[np.ndarray] = []
    for activation in (Activation.NONE, Activation.RELU):
        before = len(compiled)
        made = convolution_kernel(
            op, *layouts(x, kernel, result), epilogue=Epilogue(activation=activation)
        )
        assert made is not None
        found.append(computed(made.code, [x, kernel], result.shape, result.dtype))
    assert defined(compiled[before:]) == ["finish"]
    np.testing.assert_array_equal(found[1], np.maximum(found[0], 0))


def test_a_name_stands_for_one_cell():
    with pytest.raises(ValueError, match="two cells: rows, columns, rows"):
        Names(["rows", "columns", "rows"])
