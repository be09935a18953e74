"""PyTorch's programs run by Tawny beside PyTorch itself; skipped where it is not installed."""

from __future__ import annotations

import copy
import gc
import logging
import re
import threading
import weakref
from pathlib import Path

import numpy
import pytest

import tawny as tw
from tawny.pytorch import backend, splitting
from tawny.pytorch.runtime import layout_of

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

from tawny.pytorch.backend import compile_graph  # noqa: E402
from torch_modules import MODELS  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

RANDOM = ("vae",)
"""Modules that draw random numbers also when they are not trained."""


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    splitting._NAMED.clear()


def tawny(module, **options):
    return torch.compile(module, backend=compile_graph, **options)


def tensors(x):
    return [leaf for leaf in pytree.tree_leaves(x) if isinstance(leaf, torch.Tensor)]


def assert_close(got, want, tolerance):
    """Equal within rounding, relative to the largest element; sums that are 0 but for rounding to 0.01."""
    assert len(got) == len(want)
    for one, other in zip(got, want, strict=True):
        assert (one is None) == (other is None)
        if one is None:
            continue
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        if other.numel():
            scale = float(other.detach().abs().max()) + 1e-2
            assert float((one - other).abs().max()) <= tolerance * scale


def step(module, function, inputs):
    """Outputs of a training step, then gradients and buffers."""
    torch.manual_seed(7)
    module.train()
    module.zero_grad()
    given = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
    out = tensors(function(*given))
    weighted = [(y * torch.arange(y.numel()).view(y.shape).cos()).sum() for y in out]
    sum(weighted).backward()
    gradients = [p.grad for p in module.parameters()] + [x.grad for x in given]
    return [y.detach() for y in out], gradients, list(module.buffers())


@pytest.mark.parametrize("name", MODELS)
def test_modules_and_their_gradients_equal_eager(name):
    make, data = MODELS[name]
    ours = make()
    eager, inputs = copy.deepcopy(ours), data()
    compiled = tawny(ours)
    with torch.no_grad():
        torch.manual_seed(3)
        got = tensors(compiled.eval()(*inputs))
        torch.manual_seed(3)
        assert_close(got, tensors(eager.eval()(*inputs)), 2e-5)
    for _ in range(2):
        for got, want in zip(step(ours, compiled, inputs), step(eager, eager, inputs), strict=True):
            assert_close(got, want, 2e-4)


@pytest.mark.parametrize("name", ["resnet", "gpt", "unet"])
def test_float64_is_equal_to_the_last_digits(name):
    make, data = MODELS[name]
    ours = make().double()
    eager = copy.deepcopy(ours)
    inputs = [x.double() if x.is_floating_point() else x for x in data()]
    for got, want in zip(step(ours, tawny(ours), inputs), step(eager, eager, inputs), strict=True):
        assert_close(got, want, 1e-12)


@pytest.mark.parametrize("name", [name for name in MODELS if name not in RANDOM])
def test_graphs_of_modules(name):
    make, data = MODELS[name]
    module, inputs = make().eval(), data()
    graph = tw.from_torch(module, *inputs)
    results = graph.compile(threads=1)(*[x.numpy() for x in inputs])
    got = [torch.from_numpy(x) for x in pytree.tree_leaves(results)]
    with torch.no_grad():
        assert_close(got, tensors(module(*inputs)), 2e-5)


def test_the_backend_is_found_by_its_name():
    compiled = torch.compile(nn.Linear(3, 2), backend="tawny")
    assert compiled(torch.ones(4, 3)).shape == (4, 2)


@pytest.mark.parametrize("optimiser", [torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop])
def test_steps_of_an_optimiser_are_seen(optimiser):
    ours = MODELS["mlp"][0]()
    eager = copy.deepcopy(ours)
    compiled, x = tawny(ours), torch.randn(8, 20)
    first, second = optimiser(ours.parameters(), lr=0.01), optimiser(eager.parameters(), lr=0.01)
    for i in range(4):
        losses = []
        for function, steps in ((compiled, first), (eager, second)):
            torch.manual_seed(i)
            steps.zero_grad()
            loss = function(x).square().mean()
            loss.backward()
            steps.step()
            losses.append(float(loss))
        assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_a_change_of_data_behind_autograd_is_seen():
    module = nn.Linear(3, 2)
    compiled, x = tawny(module), torch.randn(4, 3)
    with torch.no_grad():
        compiled(x)
        module.weight.data.mul_(2)
        module.bias.detach().numpy()[:] = 1
        assert_close([compiled(x)], [module(x)], 1e-6)


def test_parameters_given_new_memory_are_seen():
    module = nn.Linear(3, 2)
    compiled, x = tawny(module), torch.randn(4, 3)
    compiled(x)
    module.load_state_dict({"weight": torch.ones(2, 3), "bias": torch.zeros(2)}, assign=True)
    assert_close([compiled(x)], [x.sum(1, keepdim=True).expand(4, 2)], 1e-6)


def test_results_are_not_overwritten_by_the_next_call():
    compiled = tawny(lambda x: torch.exp(x) + 1)
    first = compiled(torch.zeros(5))
    second = compiled(torch.ones(5))
    assert first.tolist() == [2.0] * 5
    assert second[0] > 3


def test_every_shape_has_a_program():
    compiled = tawny(lambda x: torch.softmax(x @ x.T, -1).sum(0))
    for n in (2, 3, 4, 5, 3, 7):
        x = torch.randn(n, 6)
        assert_close([compiled(x)], [torch.softmax(x @ x.T, -1).sum(0)], 1e-5)


def test_gradients_for_shapes_that_change():
    module = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 1))
    compiled = tawny(module, dynamic=True)
    for n in (2, 5, 3):
        x = torch.randn(n, 4)
        module.zero_grad()
        compiled(x).sum().backward()
        got = [p.grad.clone() for p in module.parameters()]
        module.zero_grad()
        module(x).sum().backward()
        assert_close(got, [p.grad for p in module.parameters()], 1e-5)


def lies(x):
    """The same elements in memory of other kinds."""
    wide = torch.empty(*x.shape[:-1], 2 * x.shape[-1], dtype=x.dtype)
    wide[..., ::2] = x
    yield wide[..., ::2]
    yield x.transpose(0, 1).contiguous().transpose(0, 1)
    yield x.contiguous(memory_format=torch.channels_last)
    buffer = torch.empty(x.numel() + 3, dtype=x.dtype)
    buffer[3:] = x.flatten()
    yield buffer[3:].view(x.shape)


def test_tensors_may_lie_in_any_way():
    module = MODELS["densenet"][0]().eval()
    x = torch.randn(2, 3, 16, 16)
    with torch.no_grad():
        want = module(x)
        for other in lies(x):
            torch._dynamo.reset()
            assert_close([tawny(module)(other)], [want], 1e-5)


def test_channels_last_modules_keep_their_layout():
    module = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 1)).eval()
    module = module.to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        got, want = tawny(module)(x), module(x)
    assert got.stride() == want.stride()
    assert_close([got], [want], 1e-5)


@pytest.mark.parametrize(
    ("shape", "strides", "order", "dense"),
    [
        ((2, 3), (3, 1), None, True),
        ((2, 3), (1, 2), (1, 0), True),
        ((2, 3, 4, 5), (60, 1, 15, 3), (0, 2, 3, 1), True),
        ((2, 3), (6, 1), None, False),
        ((2, 3), (0, 1), None, False),
        ((1, 3), (7, 1), None, True),
        ((), (), None, True),
        ((0, 3), (3, 1), None, True),
    ],
)
def test_layouts(shape, strides, order, dense):
    found = layout_of(shape, strides)
    assert (found.order, found.dense) == (order, dense)


def test_numbers_without_axes_and_empty_tensors():
    compiled = tawny(lambda x, y: (x * 2 + y.sum(), y.exp(), torch.cat([y, y])))
    x, y = torch.tensor(3.0), torch.empty(0, 4)
    got = compiled(x, y)
    assert float(got[0]) == 6.0
    assert got[1].shape == (0, 4)


NUMBERS = {
    "int": torch.tensor([-7, -2, 3, 8]),
    "short": torch.tensor([-7, -2, 3, 8], dtype=torch.int16),
    "byte": torch.tensor([1, 2, 200, 255], dtype=torch.uint8),
    "bool": torch.tensor([True, False, True, True]),
    "float": torch.tensor([-1.5, 0.5, 2.5, float("nan")]),
    "double": torch.tensor([-1.5, 0.5, float("inf"), 1.0], dtype=torch.float64),
    "half": torch.tensor([-1.5, 0.5, 2.5, 1.0], dtype=torch.float16),
}

PROMOTING = {
    "add number": lambda x, y: x + 2.5,
    "add": lambda x, y: x + y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / 3,
    "floor": lambda x, y: torch.div(x, 3, rounding_mode="floor"),
    "truncate": lambda x, y: torch.div(x, -3, rounding_mode="trunc"),
    "remainder": lambda x, y: x % 3,
    "fmod": lambda x, y: torch.fmod(x, 3),
    "compare": lambda x, y: (x < y, x >= 2.5, x == y, x != 2),
    "choose": lambda x, y: torch.where(x > 0, x, y),
    "mean": lambda x, y: x.sum(),
    "sine": lambda x, y: torch.sin(x),
    "maximum": lambda x, y: (torch.maximum(x, y), torch.minimum(x, y)),
    "bounds": lambda x, y: x.clamp(-1, 2),
    "sign": lambda x, y: (x.sign(), x.abs()),
    "scalar tensor": lambda x, y: x * torch.tensor(2.5, dtype=torch.float64),
}


@pytest.mark.parametrize("name", PROMOTING)
def test_dtypes_are_those_of_eager(name):
    function = PROMOTING[name]
    for x in NUMBERS.values():
        for y in NUMBERS.values():
            try:
                want = tensors(function(x, y))
            except RuntimeError:
                continue
            torch._dynamo.reset()
            got = tensors(tawny(function, dynamic=False)(x, y))
            torch.testing.assert_close(got, want, equal_nan=True)


def test_special_values_are_those_of_eager():
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0])

    def function(x):
        return (
            functional.relu(x), x.sign(), x.clamp(-1, 1), torch.round(x), x.amax(), x.argmax(),
            torch.softmax(x[3:], 0), x.isnan(), torch.maximum(x, x.flip(0)), x.sort(), x // 0,
            torch.fmin(x, x.flip(0)), torch.exp(x), 1 / x,
        )  # fmt: skip

    got, want = tensors(tawny(function)(x)), tensors(function(x))
    torch.testing.assert_close(got, want, equal_nan=True)


def test_changes_in_place():
    def function(x, y):
        x += 1
        y[1:].mul_(2)
        z = x.clone()
        z[:, 0] = 5
        return z.relu_(), x.t()

    ours, eager = torch.randn(3, 4), torch.randn(4)
    mine, theirs = ours.clone(), eager.clone()
    got, want = tawny(function)(ours, eager), function(mine, theirs)
    assert_close([*got, ours, eager], [*want, mine, theirs], 1e-6)


def test_views_of_arguments_share_their_memory():
    compiled = tawny(lambda x: (x.t(), x + 1))
    x = torch.randn(3, 4)
    view, _ = compiled(x)
    x.zero_()
    assert view.abs().sum() == 0


def test_what_is_not_known_stays_in_pytorch_and_is_named_once(caplog):
    def function(x):
        return torch.exp(torch.linalg.svd(torch.sin(x))[1]) + 1

    x = torch.randn(4, 4)
    with caplog.at_level(logging.WARNING, "tawny"):
        for _ in range(2):
            torch._dynamo.reset()
            assert_close([tawny(function)(x)], [function(x)], 1e-4)
    said = [r.getMessage() for r in caplog.records if "svd" in r.getMessage()]
    assert len(said) == 1
    assert "stays in PyTorch" in said[0]


def test_a_dtype_that_is_not_known_stays_in_pytorch():
    def function(x):
        return x.to(torch.float8_e5m2).float() + torch.sin(x)

    x = torch.randn(4)
    assert_close([tawny(function)(x)], [function(x)], 1e-6)


def test_bfloat16_is_computed_here():
    """With float32 in between and in products; tensors of it go in and come out where they lie."""

    def function(x, w):
        hidden = torch.nn.functional.gelu(x @ w) * 2
        return hidden, hidden.float().sum(), (x.float() + 1).to(torch.bfloat16)

    x, w = torch.randn(4, 8).to(torch.bfloat16), torch.randn(8, 6).to(torch.bfloat16)
    found, wanted = tawny(function)(x, w), function(x, w)
    assert [t.dtype for t in found] == [t.dtype for t in wanted]
    assert_close([t.float() for t in found], [t.float() for t in wanted], 2e-2)


def test_constants_of_bfloat16_are_recorded():
    layer, x = nn.Linear(3, 2).to(torch.bfloat16), torch.ones(4, 3, dtype=torch.bfloat16)
    graph = tw.from_torch(layer.eval(), x)
    found = graph.compile()(numpy.ones((4, 3), graph.inputs[0].dtype))
    wanted = layer(x).detach().float().numpy()
    numpy.testing.assert_allclose(found.astype("f4"), wanted, atol=2e-2)


def test_models_of_bfloat16_are_trained_here():
    x = torch.randn(8, 6).to(torch.bfloat16)
    slopes = []
    for run in (tawny, lambda f: f):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(6, 5), nn.LayerNorm(5), nn.ReLU(), nn.Linear(5, 2))
        model = model.to(torch.bfloat16)
        run(model)(x).square().mean().backward()
        slopes.append([p.grad.float() for p in model.parameters()])
    assert_close(*slopes, 5e-2)


def test_random_numbers_are_pytorchs():
    def function(x):
        return functional.dropout(x, 0.4), torch.rand_like(x) + x, torch.randn(3) * 2

    x = torch.randn(50)
    compiled = tawny(function)
    compiled(x)
    torch.manual_seed(5)
    got = compiled(x)
    torch.manual_seed(5)
    assert_close(got, function(x), 1e-6)


def test_random_numbers_are_drawn_in_order():
    def function(x):
        y = functional.dropout(torch.sin(x), 0.5)
        z = torch.rand_like(y.exp()) + functional.dropout(x, 0.2)
        return functional.dropout(z @ y, 0.3) + torch.randn(6, 6), torch.bernoulli(z.sigmoid())

    x = torch.randn(6, 6)
    compiled = tawny(function)
    for seed in range(3):
        torch.manual_seed(seed)
        got = compiled(x)
        torch.manual_seed(seed)
        assert_close(got, function(x), 1e-5)


def test_dropout_draws_in_the_order_of_memory():
    compiled = tawny(lambda x: functional.dropout(x.transpose(0, 1) * 2, 0.5))
    x = torch.randn(4, 5)
    torch.manual_seed(5)
    got = compiled(x)
    torch.manual_seed(5)
    assert_close([got], [functional.dropout(x.transpose(0, 1) * 2, 0.5)], 1e-6)


def test_dropout_cuts_no_graph(monkeypatch):
    built = []
    real = backend.CompiledGraph
    monkeypatch.setattr(backend, "CompiledGraph", lambda *a: built.append(a) or real(*a))
    module = nn.Sequential(nn.Linear(4, 8), nn.Dropout(), nn.ReLU(), nn.Linear(8, 1), nn.Dropout())
    tawny(module)(torch.randn(2, 4)).sum().backward()
    assert len(built) == 2


def test_memory_is_free_when_nobody_holds_a_result():
    compiled = tawny(lambda x: torch.exp(x) * 2)
    x = torch.zeros(1000)
    result = compiled(x)
    gone = [weakref.ref(x), weakref.ref(result)]
    del x, result
    gc.collect()
    assert [one() for one in gone] == [None, None]


def test_indices_outside_are_refused():
    compiled = tawny(lambda w, i: functional.embedding(i, w) * 2)
    w = torch.randn(4, 3)
    compiled(w, torch.tensor([0, 3]))
    for wrong in (4, -1):
        with pytest.raises(IndexError):
            compiled(w, torch.tensor([0, wrong]))
    assert compiled(w, torch.tensor([1])).shape == (1, 3)


def test_threads_share_a_compiled_function():
    compiled = tawny(lambda x: torch.tanh(x @ x) + x)
    inputs = [torch.randn(16, 16) for _ in range(8)]
    compiled(inputs[0])
    found = [None] * len(inputs)

    def work(i):
        for _ in range(20):
            found[i] = compiled(inputs[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_close(found, [torch.tanh(x @ x) + x for x in inputs], 1e-5)


def test_options_are_checked():
    compiled = torch.compile(lambda x: x + 1, backend=compile_graph, options={"thread": 2})
    with pytest.raises(Exception, match=r"option 'thread' is not known; accepted: .*threads"):
        compiled(torch.ones(2))
    compiled = torch.compile(
        lambda x: torch.exp(x) + 1, backend=compile_graph, options={"threads": 1, "memory": "1MB"}
    )
    assert compiled(torch.zeros(2)).tolist() == [2.0, 2.0]


def test_gradients_of_gradients_are_refused_by_pytorch():
    compiled = tawny(lambda x: (x**3).sum())
    x = torch.randn(3, requires_grad=True)
    (first,) = torch.autograd.grad(compiled(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        first.sum().backward()


# ------------------------------------------------------------------ from_torch


def test_buffers_that_change_are_updated():
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    x = torch.randn(8, 3)
    graph = tw.from_torch(module, x)
    program = graph.compile()
    program.set({name: value.numpy() for name, value in module.named_buffers()})
    got = program(x.numpy())
    assert_close([torch.from_numpy(got)], [module(x).detach()], 1e-5)
    state = {name: torch.from_numpy(program.state[name]) for name, _ in module.named_buffers()}
    assert_close(list(state.values()), list(module.buffers()), 1e-5)


def test_a_graph_is_a_snapshot_that_can_be_saved(tmp_path):
    module = nn.Linear(3, 2)
    x = torch.randn(4, 3)
    want = module(x).detach()
    graph = tw.from_torch(module, x)
    with torch.no_grad():
        module.weight.zero_()
    graph.save(tmp_path / "linear.tawny")
    got = tw.load(tmp_path / "linear.tawny").compile()(x.numpy())
    assert_close([torch.from_numpy(got)], [want], 1e-6)


def test_functions_and_structures():
    def function(x, pair):
        return {"sum": x + pair[0], "all": (pair[1] * 2, [x - 1])}

    x = torch.randn(3)
    graph = tw.from_torch(function, x, (x, x))
    found = graph.compile()(*[x.numpy()] * 3)
    assert numpy.allclose(found["sum"], 2 * x.numpy())
    assert numpy.allclose(found["all"][1][0], x.numpy() - 1)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: tw.from_torch(3, torch.ones(2)), TypeError, "the module is int"),
        (lambda: tw.from_torch(nn.Linear, torch.ones(2)), TypeError, "the module is Linear"),
        (lambda: tw.from_torch(nn.Linear(2, 2)), TypeError, "there is no example input"),
        (lambda: tw.from_torch(nn.Dropout(), torch.ones(2)), ValueError, "eval"),
        (
            lambda: tw.from_torch(torch.linalg.qr, torch.ones(2, 2)),
            ValueError,
            "aten.linalg_qr.default cannot be recorded: it is not known",
        ),
        (
            lambda: tw.from_torch(nn.ReLU(), torch.ones(2).to(torch.float8_e5m2)),
            ValueError,
            "dtype float8_e5m2",
        ),
    ],
)
def test_what_cannot_be_a_graph_is_refused(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_the_code_in_the_page_runs():
    """Blocks that need PyTorch are marked `py`; they share their names."""
    page = Path(__file__).parents[1] / "docs" / "from_pytorch.md"
    names = {}
    blocks = re.findall(r"^```py\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        exec(block, names)
        for line in block.splitlines():
            code, arrow, expected = line.partition("# ->")
            assert not arrow or repr(eval(code.strip(), names)) == expected.strip()
