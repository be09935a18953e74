"""Random arrays: the generator's published answers, distributions, streams, and mistakes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

import tawny.numpy as tnp
from tawny import random
from tawny.engine.reference import run
from tawny.engine.reference.random import _high_product, philox, stream_key
from tawny.ops.creation import var

N = 40_000


@pytest.fixture(autouse=True)
def _seeded():
    random.seed(1234)
    yield
    random.seed(0)


def drawn(array, draw: int) -> np.ndarray:
    return run([array.node], draw=draw)[0]


def chance(statistic) -> float:
    return float(statistic.pvalue)


# ------------------------------------------------------------------- generator


@pytest.mark.parametrize(
    ("counter", "key", "answer"),
    [
        (
            "00000000 00000000 00000000 00000000",
            "00000000 00000000",
            "6627e8d5 e169c58d bc57ac4c 9b00dbd8",
        ),
        (
            "ffffffff ffffffff ffffffff ffffffff",
            "ffffffff ffffffff",
            "408f276d 41c83b0e a20bc7c6 6d5451fd",
        ),
        (
            "243f6a88 85a308d3 13198a2e 03707344",
            "a4093822 299f31d0",
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_philox_gives_the_published_answers(counter: str, key: str, answer: str) -> None:
    words = tuple(np.array([int(w, 16)], np.uint64) for w in counter.split())
    first, second = (int(k, 16) for k in key.split())
    assert [f"{int(w[0]):08x}" for w in philox(words, (first, second))] == answer.split()


def test_keys_of_streams_and_seeds_differ() -> None:
    keys = {stream_key(seed, stream) for seed in (0, 1, 2**40) for stream in (*range(50), 2**40)}
    assert len(keys) == 3 * 51


def test_high_product_is_exact() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 2**64, (2, 500), dtype=np.uint64)
    a[:2], b[:2] = 2**64 - 1, (2**64 - 1, 0)
    expected = [int(x) * int(y) >> 64 for x, y in zip(a, b, strict=True)]
    assert _high_product(a, b).tolist() == expected


def test_an_element_depends_on_its_place_alone() -> None:
    random.seed(5)
    small = random.uniform(shape=(10,)).numpy()
    random.seed(5)
    large = random.uniform(shape=(300, 100)).numpy().ravel()
    np.testing.assert_array_equal(small, large[:10])


def plain_philox(counter: list[int], key: list[int]) -> list[int]:
    """The generator in plain integers."""
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [p1 >> 32 ^ c[1] ^ k[0], p1 % 2**32, p0 >> 32 ^ c[3] ^ k[1], p0 % 2**32]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return c


def plain_words(seed: int, stream: int, draw: int, count: int) -> list[list[int]]:
    """The words of each element, as the documentation says."""
    tag = [0x7461776E, 0x79]
    key = plain_philox([stream % 2**32, stream >> 32, *tag], [seed % 2**32, seed >> 32])[:2]
    return [plain_philox([i, 0, draw % 2**32, draw >> 32], key) for i in range(count)]


def fraction(high: int, low: int) -> float:
    return ((high >> 5) * 2**26 + (low >> 6)) / 2**53


@pytest.mark.parametrize("seed", [42, 2**63 + 5])
@pytest.mark.parametrize("draw", [0, 3, 2**32 + 1])
def test_bits_are_those_of_the_written_scheme(seed: int, draw: int) -> None:
    random.seed(seed)
    arrays = [
        random.uniform(shape=(3, 2)),
        random.uniform(shape=6, dtype="float32"),
        random.uniform(shape=6, dtype="float16"),
        random.normal(shape=6),
        random.integers(-10, 990, shape=6),
        random.permutation(6),
    ]
    words = [plain_words(seed, stream, draw, 6) for stream in range(6)]
    double, single, half, normal, whole, order = (drawn(a, draw).ravel().tolist() for a in arrays)
    assert double == [fraction(w[0], w[1]) for w in words[0]]
    assert single == [(w[0] >> 8) / 2**24 for w in words[1]]
    assert half == [(w[0] >> 21) / 2**11 for w in words[2]]
    assert normal == pytest.approx(
        [
            math.sqrt(-2 * math.log1p(-fraction(a, b))) * math.cos(2 * math.pi * fraction(c, d))
            for a, b, c, d in words[3]
        ],
        rel=1e-13,
    )
    assert whole == [((w[1] << 32 | w[0]) * 1000 >> 64) - 10 for w in words[4]]
    assert order == sorted(range(6), key=lambda i: words[5][i][1] << 32 | words[5][i][0])


# --------------------------------------------------------------- distributions


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_uniform(dtype: str) -> None:
    r = random.uniform(shape=(200, 200), dtype=dtype)
    assert (r.shape, r.dtype) == ((200, 200), np.dtype(dtype))
    value = r.numpy().astype(float).ravel()
    assert 0 <= value.min() < value.max() < 1
    if dtype != "float16":
        assert chance(scipy.stats.kstest(value, "uniform")) > 0.01
    r = random.uniform(-3, 5, shape=N, dtype=dtype).numpy().astype(float)
    assert -3 <= r.min() < -2.9
    assert 4.9 < r.max() < 5
    assert abs(r.mean() - 1) < 0.05


def test_uniform_never_reaches_a_high_that_is_a_number() -> None:
    value = random.uniform(1.0, 2.0, shape=1_000_000, dtype="float16").numpy()
    assert value.max() < 2
    assert value.min() == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normal(dtype: str) -> None:
    r = random.normal(shape=N, dtype=dtype).numpy()
    assert r.dtype == dtype
    assert chance(scipy.stats.kstest(r, "norm")) > 0.01
    assert abs(scipy.stats.kurtosis(r)) < 0.1
    assert abs(np.corrcoef(r[:-1], r[1:])[0, 1]) < 0.02
    r = random.gaussian(10.0, 3.0, shape=N, dtype=dtype).numpy()
    assert abs(r.mean() - 10) < 0.06
    assert abs(r.std() - 3) < 0.05
    assert random.normal(1.0, 0.0, shape=4, dtype="float16").numpy().tolist() == [1, 1, 1, 1]


def test_exponential() -> None:
    value = random.exponential(2.0, shape=N).numpy()
    assert value.min() >= 0
    assert chance(scipy.stats.kstest(value, "expon", args=(0, 2.0))) > 0.01


def test_bernoulli() -> None:
    r = random.bernoulli(0.3, shape=N)
    assert r.dtype == np.bool_
    assert abs(r.numpy().mean() - 0.3) < 0.01
    assert random.bernoulli(1, shape=100).numpy().all()
    assert not random.bernoulli(0, shape=100).numpy().any()
    assert random.bernoulli(0.5, shape=3, dtype="float32").dtype == np.float32


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint64"])
def test_integers(dtype: str) -> None:
    info = np.iinfo(dtype)
    r = random.integers(3, 10, shape=N, dtype=dtype)
    assert r.dtype == dtype
    counts = np.bincount(r.numpy().astype(int), minlength=10)
    assert not counts[:3].any()
    assert chance(scipy.stats.chisquare(counts[3:])) > 0.01
    whole = random.integers(int(info.min), int(info.max) + 1, shape=N, dtype=dtype).numpy()
    half = (whole.astype(float) - info.min) / (float(info.max) - info.min)
    assert abs(half.mean() - 0.5) < 0.01
    assert random.integers(7, 8, shape=3).numpy().tolist() == [7, 7, 7]


def test_negative_integers() -> None:
    value = random.integers(-5, -2, shape=N).numpy()
    assert sorted(set(value.tolist())) == [-5, -4, -3]


def test_permutation() -> None:
    p = random.permutation(1000).numpy()
    assert sorted(p.tolist()) == list(range(1000))
    assert abs(np.corrcoef(p, np.arange(1000))[0, 1]) < 0.1
    x = np.arange(12).reshape(4, 3)
    rows = random.permutation(x).numpy()
    assert sorted(map(tuple, rows.tolist())) == sorted(map(tuple, x.tolist()))
    columns = random.permutation(x, axis=1).numpy()
    assert sorted(map(tuple, columns.T.tolist())) == sorted(map(tuple, x.T.tolist()))
    assert random.permutation(0).numpy().shape == (0,)


def test_every_permutation_is_as_likely() -> None:
    counts: dict[tuple[int, ...], int] = {}
    array = random.permutation(4)
    for i in range(4800):
        order = tuple(drawn(array, i).tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == math.factorial(4)
    assert chance(scipy.stats.chisquare(list(counts.values()))) > 0.01


def test_choice_and_draw_rows() -> None:
    x = np.arange(20.0).reshape(5, 4)
    rows, indices = random.draw_rows(x, 5)
    np.testing.assert_array_equal(rows.numpy(), x[indices.numpy()])
    assert sorted(indices.numpy().tolist()) == [0, 1, 2, 3, 4]
    many = random.choice(x, 50, axis=1)
    assert many.shape == (5, 50)
    assert set(many.numpy()[0].tolist()) == {0.0, 1.0, 2.0, 3.0}
    few = random.choice(10, 4, replace=False).numpy()
    assert len(set(few.tolist())) == 4
    assert random.choice(x, 0).shape == (0, 4)
    assert random.choice(np.zeros((0, 2)), 0).numpy().shape == (0, 2)
    assert random.choice(var(shape=(5, 4)), 3).shape == (3, 4)


# ------------------------------------------------------------------ parameters


def test_parameters_broadcast_to_the_shape() -> None:
    low = np.array([[0.0], [10.0]])
    value = random.uniform(low, low + 1, shape=(3, 2, 4)).numpy()
    assert value[:, 0].max() < 1
    assert value[:, 1].min() >= 10
    assert random.normal(np.zeros(3), 1.0).shape == (3,)
    assert random.bernoulli(np.array([0.0, 1.0])).numpy().tolist() == [False, True]
    bounds = random.integers(np.array([0, 100]), np.array([1, 101]), shape=(2, 2)).numpy()
    assert bounds.tolist() == [[0, 100], [0, 100]]


def test_parameters_may_be_variables() -> None:
    mean = var("mean", dtype="float32")
    r = random.normal(mean, 0.0, shape=3, dtype="float32")
    assert r.dtype == np.float32
    (value,) = run([r.node], {mean.node: np.float32(4)})
    assert value.tolist() == [4, 4, 4]
    high = var("high", dtype="int64")
    r = random.integers(0, high, shape=5)
    (value,) = run([r.node], {high.node: np.array(1)})
    assert value.tolist() == [0] * 5
    with pytest.raises(ValueError, match=r"low must be less than high .*test_random.py"):
        run([r.node], {high.node: np.array(0)})


# --------------------------------------------------------------------- streams


MAKERS = [
    lambda: random.uniform(shape=50),
    lambda: random.normal(shape=50),
    lambda: random.bernoulli(shape=50),
    lambda: random.integers(1000, shape=50),
    lambda: random.permutation(50),
    lambda: random.exponential(shape=50),
    lambda: random.choice(1000, 50),
]


@pytest.mark.parametrize("make", MAKERS)
def test_seed_stream_and_run_decide_everything(make) -> None:
    random.seed(7)
    a, b = make(), make()
    assert a is not b
    assert (a.numpy() != b.numpy()).any(), "each array has its own stream"
    random.seed(7)
    again = make()
    assert again is not a
    np.testing.assert_array_equal(again.numpy(), a.numpy())
    random.seed(8)
    assert (make().numpy() != a.numpy()).any()
    random.seed(7)
    fresh = make()
    np.testing.assert_array_equal(drawn(fresh, 0), a.numpy())
    assert (drawn(fresh, 1) != drawn(fresh, 0)).any()
    assert (drawn(fresh, 2**33) != drawn(fresh, 0)).any()
    np.testing.assert_array_equal(drawn(fresh, 1), drawn(fresh, 1))


def test_streams_follow_the_order_of_making_not_of_evaluation() -> None:
    random.seed(3)
    a, b = random.normal(shape=5), random.uniform(shape=5)
    forwards = a.numpy().tolist(), b.numpy().tolist()
    random.seed(3)
    a, b = random.normal(shape=5), random.uniform(shape=5)
    tnp.asarray(np.ones(5)) + 1
    b.numpy()
    assert (a.numpy().tolist(), b.numpy().tolist()) == forwards


def test_uses_of_one_array_agree() -> None:
    r = random.normal(shape=5)
    y = r + 1
    np.testing.assert_array_equal(y.numpy(), r.numpy() + 1)
    r = random.normal(shape=5)
    difference = r - r
    assert not difference.numpy().any()


def test_nothing_is_drawn_when_an_array_is_made() -> None:
    assert random.normal(shape=(10**6, 10**6)).shape == (10**6, 10**6)


# -------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: random.bernoulli(1.5), ValueError, "bernoulli: p is 1.5; .* 0 to 1"),
        (lambda: random.bernoulli(np.array([0.5, -0.1])), ValueError, "bernoulli: p"),
        (lambda: random.bernoulli(float("nan")), ValueError, "bernoulli: p"),
        (lambda: random.uniform(1.0, 1.0), ValueError, "uniform: low is 1.0 and high is 1.0"),
        (lambda: random.uniform(0.0, float("inf")), ValueError, "finite"),
        (lambda: random.uniform(np.ones(3), np.zeros(3)), ValueError, "high must be greater"),
        (lambda: random.uniform(dtype="int32"), TypeError, "uniform: dtype is int32"),
        (lambda: random.uniform(1j), TypeError, "uniform"),
        (lambda: random.uniform("a"), TypeError, "uniform: operand 0"),
        (lambda: random.uniform(shape=(2, -1)), ValueError, "uniform: shape"),
        (lambda: random.uniform(np.zeros(3), shape=(2,)), ValueError, "broadcast"),
        (lambda: random.uniform(np.zeros((2, 3)), shape=(3,)), ValueError, "broadcast to shape"),
        (lambda: random.normal(0.0, -1.0), ValueError, "normal: std is -1.0"),
        (lambda: random.exponential(-1.0), ValueError, "exponential: scale"),
        (lambda: random.integers(5, 5), ValueError, "integers: low is 5 and high is 5"),
        (lambda: random.integers(0), ValueError, "high must be greater"),
        (lambda: random.integers(0, 257, dtype="uint8"), ValueError, "from 0 to 256 for uint8"),
        (lambda: random.integers(-1, 5, dtype="uint8"), ValueError, "from 0 to 256 for uint8"),
        (lambda: random.integers(0.5, 3), TypeError, "integers: operand 0 has dtype float64"),
        (lambda: random.integers(3, dtype="float32"), TypeError, "integers: dtype is float32"),
        (lambda: random.permutation(-1), ValueError, "permutation"),
        (lambda: random.permutation(np.array(3)), ValueError, "no axes"),
        (lambda: random.choice(3, 4, replace=False), ValueError, "n is 4, of only 3"),
        (lambda: random.choice(0, 1), ValueError, "no element to choose"),
        (lambda: random.choice(np.zeros((2, 2)), 1, axis=2), ValueError, "axis 2 is out of bounds"),
        (lambda: random.seed(-1), ValueError, "seed: n is -1"),
        (lambda: random.seed(1.5), TypeError, "seed: n must be an integer"),
    ],
)
def test_mistakes_are_refused_when_built(call, kind, message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        call()
    assert "[test_random.py:" in str(caught.value)


def test_a_value_kept_from_run_0_does_not_hide_later_draws() -> None:
    r = random.uniform(shape=(4,))
    y = r + 1
    kept = y.numpy()
    np.testing.assert_array_equal(run([y.node])[0], kept)
    assert not np.array_equal(run([y.node], draw=1)[0], kept)
    assert y.node.volatile
    assert not (tnp.ones(3) + 1).node.volatile
