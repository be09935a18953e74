"""Modules: declarations, structures of parameters, binding, modes, and what is refused."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tawny as tw
from tawny import nn
from tawny.tree import leaf_paths, leaves, map_leaves

RNG = np.random.default_rng(0)


class Block(nn.Module):
    """A layer with every kind of member."""

    def __init__(self, size: int) -> None:
        self.scale = nn.Parameter((size,), nn.init.gaussian())
        self.count = nn.State((), nn.init.zeros())
        self.layers = [nn.Linear(size, size), nn.relu, nn.Linear(size, size)]
        self.named = {"a": nn.Linear(size, size), "b": (nn.Linear(size, size), None)}
        self.pair = [nn.Parameter((size,), 2.0), nn.Parameter((size,), 3.0)]
        self.note = "no member"

    def forward(self, x):
        if self.training:
            self.count = self.count + 1
        for layer in self.layers:
            x = layer(x)
        x = self.named["a"](x) + self.named["b"][0](x)
        return x * self.scale + self.pair[0] - self.pair[1]


PATHS = [
    "scale", "layers.0.weight", "layers.0.bias", "layers.2.weight", "layers.2.bias",
    "named.a.weight", "named.a.bias", "named.b.0.weight", "named.b.0.bias", "pair.0", "pair.1",
]  # fmt: skip


def no_draw(model: nn.Module) -> bool:
    return not any(d.is_drawn for _, d in model.walk() if not isinstance(d, nn.Module))


# ------------------------------------------------------------------ structure


def test_parameters_and_state_are_nested_by_name_and_index() -> None:
    model = Block(3)
    assert [p for p, _ in leaf_paths(model.parameters)] == PATHS
    assert [p for p, _ in leaf_paths(model.state)] == ["count"]
    assert model.parameters["named"]["b"][0]["weight"].shape == (3, 3)
    assert all(
        isinstance(x, np.ndarray) and x.dtype == np.float32 for x in leaves(model.parameters)
    )
    assert model.note == "no member"
    assert nn.Flatten().parameters == {}


def test_sequential_numbers_its_layers() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.relu, nn.Sequential(nn.Linear(3, 2), nn.BatchNorm(2)))
    assert [p for p, _ in leaf_paths(model.parameters)] == [
        "0.weight", "0.bias", "2.0.weight", "2.0.bias", "2.1.scale", "2.1.shift",
    ]  # fmt: skip
    assert [p for p, _ in leaf_paths(model.state)] == ["2.1.mean", "2.1.variance"]
    assert len(model) == 3
    assert [type(layer).__name__ for layer in model] == ["Linear", "Lambda", "Sequential"]
    x = RNG.standard_normal((4, 2)).astype("float32")
    np.testing.assert_array_equal(model[2](model[:2](x)).numpy(), model(x).numpy())
    assert nn.Sequential()(x) is not None


def test_counting_and_shapes_draw_nothing() -> None:
    model = Block(3)
    assert model.parameter_count == 4 * 12 + 9
    model.summary((2, 3))
    repr(model)
    model.modules()
    model.initialise(4)
    assert no_draw(model)
    model.parameters  # noqa: B018
    assert not no_draw(model)


def test_layers_appended_later_are_found() -> None:
    model = Block(3)
    model.layers.append(nn.Linear(3, 3))
    assert "layers.3.weight" in dict(leaf_paths(model.parameters))
    model.extra_layer = nn.Linear(3, 3)
    assert "extra_layer.bias" in dict(leaf_paths(model.parameters))
    del model.extra_layer
    assert not hasattr(model, "extra_layer")
    model.named = None
    assert model.named is None
    assert "named.a.weight" not in dict(leaf_paths(model.parameters))


def test_lists_and_dicts_filled_after_they_were_assigned_are_looked_through() -> None:
    class Filled(nn.Module):
        def __init__(self):
            self.layers = []
            self.named = {}
            self.grid = [[], ()]
            for _ in range(2):
                self.layers.append(nn.Linear(3, 3))
            self.named["a"] = nn.Linear(3, 3, bias=False)
            self.grid[0].append(nn.BatchNorm(3))
            self.sizes = []
            self.sizes.append(7)

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return self.grid[0][0](self.named["a"](x))

    model = Filled()
    assert [p for p, _ in leaf_paths(model.parameters)] == [
        "layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias", "named.a.weight",
        "grid.0.0.scale", "grid.0.0.shift",
    ]  # fmt: skip
    assert model.sizes == [7]
    assert "sizes" not in repr(model)
    x = RNG.standard_normal((4, 3)).astype("float32")
    assert model.apply(model.parameters, x, training=True).shape == (4, 3)
    other = copy.deepcopy(model)
    other.sizes.append(8)
    other.layers.append(nn.Linear(3, 3))
    assert (model.sizes, len(model.layers), len(other.layers)) == ([7], 2, 3)


def test_values_read_from_a_list_or_dict_cannot_be_mistaken_for_it() -> None:
    """What is appended to them would be lost, so they take nothing."""

    class Listed(nn.Module):
        def __init__(self):
            self.scales = []
            self.scales.append(nn.Parameter((2,), 2.0))
            self.shifts = {"a": [nn.Parameter((2,), 3.0)]}

        def forward(self, x):
            return x * self.scales[0] + self.shifts["a"][0]

    model = Listed()
    np.testing.assert_array_equal(model(np.ones((1, 2))).numpy(), [[5, 5]])
    assert [p for p, _ in leaf_paths(model.parameters)] == ["scales.0", "shifts.a.0"]
    for change in (
        lambda: model.scales.append(nn.Parameter((2,))),
        lambda: model.shifts["a"].append(nn.Parameter((2,))),
        lambda: model.shifts.update(b=nn.Parameter((2,))),
    ):
        with pytest.raises((AttributeError, TypeError)):
            change()


def test_a_name_the_class_has_is_not_hidden_in_silence() -> None:
    class Preset(nn.Module):
        head = None

        def __init__(self, **members):
            for name, member in members.items():
                setattr(self, name, member)

    for member in (nn.Linear(2, 2), nn.Parameter((2,)), [nn.Linear(2, 2)]):
        with pytest.raises(ValueError, match=r"Preset: 'head' is an attribute of the class"):
            Preset(head=member)
    assert Preset(head=[]).head == []

    class Guarded(nn.Module):
        @property
        def inner(self):
            return self.kept

        @inner.setter
        def inner(self, value):
            self.kept = value

    model = Guarded()
    model.inner = nn.Linear(2, 2)
    assert model.inner is model.kept
    assert [p for p, _ in leaf_paths(model.parameters)] == ["kept.weight", "kept.bias"]


def test_what_else_a_sequence_of_layers_has_is_no_layer() -> None:
    class Headed(nn.Sequential):
        def __init__(self):
            super().__init__(nn.Linear(2, 3))
            self.head = nn.Linear(3, 1)
            self.notes = []

        def forward(self, x):
            return self.head(super().forward(x))

    model = Headed()
    assert len(model) == 1
    assert model(np.ones((1, 2), "float32")).shape == (1, 1)
    assert "head.weight" in dict(leaf_paths(model.parameters))


def test_two_parameters_of_one_path_are_refused() -> None:
    class Twice(nn.Module):
        def __init__(self):
            self.parts = {"a.b": nn.Parameter((2,)), "a": {"b": nn.Parameter((2,))}}

        def forward(self, x):
            return x * self.parts["a.b"] * self.parts["a"]["b"]

    model = Twice()
    for attempt in (
        lambda: model.apply(model.parameters, np.ones(2)),
        lambda: model.save("never"),
        lambda: nn.load_torch(model, {}),
    ):
        with pytest.raises(ValueError, match=r"Twice.*: two .* are called parts\.a\.b"):
            attempt()


def test_setting_parameters_round_trips() -> None:
    model = Block(3)
    wanted = map_leaves(lambda x: RNG.standard_normal(x.shape).astype("float32"), model.parameters)
    model.parameters = wanted
    for (path, given_), (_, want) in zip(
        leaf_paths(model.parameters), leaf_paths(wanted), strict=True
    ):
        np.testing.assert_array_equal(given_, want, err_msg=path)
    model.state = {"count": 7}
    assert model.state["count"] == 7
    wanted["scale"][:] = 0  # values were copied
    assert np.all(model.parameters["scale"] != 0)
    with pytest.raises(ValueError, match="read-only"):
        model.parameters["scale"][:] = 0


def test_structures_may_come_as_lists_or_with_text_for_indices() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    x = np.ones((1, 2), "float32")
    expected = model(x).numpy()
    listed = list(model.parameters.values())
    text = {str(k): v for k, v in model.parameters.items()}
    for structure in (listed, tuple(listed), text):
        np.testing.assert_array_equal(model.apply(structure, x).numpy(), expected)


def test_whatever_does_not_fit_is_named_at_once() -> None:
    model = Block(3)
    wrong = model.parameters
    del wrong["layers"][2]
    wrong["scale"] = np.zeros(4)
    wrong["surplus"] = np.zeros(2)
    wrong["pair"][0] = np.zeros(3, complex)
    before = model.parameters
    for attempt in (
        lambda: model.apply(wrong, np.zeros((1, 3))),
        lambda: setattr(model, "parameters", wrong),
    ):
        with pytest.raises(ValueError, match=r"Block\.\w+: the parameters do not fit") as error:
            attempt()
        message = str(error.value)
        for part in (
            "layers.2.weight is missing",
            "layers.2.bias is missing",
            "surplus is not expected",
            "scale has shape (4,); it must be (3,)",
            "pair.0 has dtype complex128; it must be like float32",
            "test_nn_module.py:",
        ):
            assert part in message
    np.testing.assert_equal(model.parameters, before)
    with pytest.raises(TypeError, match=r"the parameters came as ndarray; accepted: a nested dict"):
        model.apply(np.zeros(3), np.zeros((1, 3)))
    with pytest.raises(
        ValueError, match=r"Block\.advance: the state does not fit: count is missing"
    ):
        model.advance(model.parameters, {}, np.zeros((1, 3)))


def test_a_value_that_depends_on_a_variable_cannot_be_kept() -> None:
    model = nn.Sequential(nn.Linear(2, 1), nn.Linear(1, 1))
    before = model.parameters
    values = map_leaves(lambda x: x + 1, model.parameters)
    values[1]["bias"] = tw.var("v", shape=(1,), dtype="float32")
    with pytest.raises(TypeError, match="'v'"):
        model.parameters = values
    np.testing.assert_equal(model.parameters, before)


# ---------------------------------------------------------------------- seeds


def test_the_same_seed_gives_the_same_bits_whatever_else_the_model_has() -> None:
    class Small(nn.Module):
        def __init__(self):
            self.b = nn.Linear(4, 5)

    class Large(nn.Module):
        def __init__(self):
            self.a = nn.Linear(7, 7)
            self.b = nn.Linear(4, 5)

    for seed in (0, 1, 2**70):
        small, large = Small().initialise(seed), Large().initialise(seed)
        large.a.weight  # noqa: B018  (draws first)
        np.testing.assert_array_equal(
            small.parameters["b"]["weight"], large.parameters["b"]["weight"]
        )


def test_seeds_and_paths_make_different_draws() -> None:
    model = nn.Sequential(nn.Linear(50, 50), nn.Linear(50, 50))
    first = model.parameters
    assert not np.array_equal(first[0]["weight"], first[1]["weight"])
    again = model.initialise(1).parameters
    assert not np.array_equal(first[0]["weight"], again[0]["weight"])
    np.testing.assert_equal(model.initialise(0).parameters, first)
    np.testing.assert_equal(nn.Sequential(nn.Linear(50, 50), nn.Linear(50, 50)).parameters, first)


def test_a_part_draws_the_same_whether_it_or_the_model_is_asked_first() -> None:
    whole, part_first = Block(3), Block(3)
    part_first.layers[0](np.zeros((1, 3), "float32"))
    np.testing.assert_equal(part_first.parameters, whole.parameters)
    inner = nn.Sequential(nn.Linear(3, 3))
    outer = nn.Sequential(nn.relu, inner)
    other = nn.Sequential(nn.relu, nn.Sequential(nn.Linear(3, 3)))
    np.testing.assert_equal(inner.parameters[0], other.parameters[1][0])
    assert [p for p, _ in leaf_paths(outer.parameters)] == ["1.0.weight", "1.0.bias"]


def test_drawing_in_threads_gives_the_same() -> None:
    model = nn.Sequential(*(nn.Linear(20, 20) for _ in range(5)))
    found = []
    threads = [threading.Thread(target=lambda: found.append(model.parameters)) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for other in found:
        np.testing.assert_equal(other, model.parameters)


@pytest.mark.parametrize(("seed", "error"), [(-1, ValueError), ("a", TypeError), (1.5, TypeError)])
def test_seeds_that_are_refused(seed, error) -> None:
    with pytest.raises(error, match="seed"):
        nn.Linear(2, 2).initialise(seed)


# --------------------------------------------------------------------- binding


def test_apply_takes_arrays_of_every_sort_and_is_pure() -> None:
    model = Block(3)
    x = RNG.standard_normal((2, 3)).astype("float32")
    expected = model(x).numpy()
    values = model.parameters
    model.initialise(9)
    np.testing.assert_array_equal(model.apply(values, x).numpy(), expected)
    variables = map_leaves(lambda v: tw.var(shape=v.shape, dtype=v.dtype), values)
    program = tw.Graph(leaves(variables), [model.apply(variables, x)]).compile()
    np.testing.assert_allclose(program(*leaves(values))[0], expected, rtol=1e-5, atol=1e-6)
    slopes = tw.grad(lambda p: (model.apply(p, x) ** 2).sum())(values)
    assert [p for p, _ in leaf_paths(slopes)] == PATHS
    assert all(s.shape == v.shape for s, v in zip(leaves(slopes), leaves(values), strict=True))
    assert no_draw(model)  # nothing of the model itself was needed


def test_apply_under_jit() -> None:
    model = Block(3)
    x = RNG.standard_normal((2, 3)).astype("float32")
    jitted = tw.jit(lambda p, x: model.apply(p, x))
    np.testing.assert_allclose(jitted(model.parameters, x), model(x).numpy(), rtol=1e-5, atol=1e-6)
    for jitted in (tw.jit(model.apply, static=["training"]), tw.jit(model.apply)):
        for chosen in ({}, {"training": False}):
            made = jitted(model.parameters, x, **chosen)
            np.testing.assert_allclose(made, model(x).numpy(), rtol=1e-5, atol=1e-6)
    with pytest.raises(TypeError, match=r"Block\.apply: training is Array.*static"):
        tw.jit(model.apply)(model.parameters, x, training=np.bool_(True))
    np.testing.assert_allclose(tw.jit(model)(x), model(x).numpy(), rtol=1e-5, atol=1e-6)


def test_state_passes_in_and_out_in_training_only() -> None:
    model = Block(3)
    x = np.ones((1, 3), "float32")
    _, state = model.advance(model.parameters, {"count": 4.0}, x)
    assert state["count"].numpy() == 5
    assert state["count"].dtype == np.float64  # of what was given
    assert model.state["count"] == 0
    model.apply(model.parameters, x, training=True)
    assert model.state["count"] == 0
    _, state = model.advance(model.parameters, model.state, x)
    assert state["count"].dtype == np.float32


def test_a_shared_layer_sees_the_state_of_its_first_use() -> None:
    norm = nn.BatchNorm(2, decay=0.5, dtype="float64")
    model = nn.Sequential(norm, lambda x: x + 3, norm)
    assert [p for p, _ in leaf_paths(model.parameters)] == ["0.scale", "0.shift"]
    x = RNG.standard_normal((6, 2))
    _, state = model.advance(model.parameters, model.state, x)
    first = 0.5 * x.mean(0)
    np.testing.assert_allclose(state[0]["mean"].numpy(), 0.5 * first + 0.5 * 3, rtol=1e-6)


def test_modes() -> None:
    seen = []

    class Asks(nn.Module):
        def forward(self, x):
            seen.append(self.training)
            return x

    model = nn.Sequential(Asks())
    model(1.0)
    model.apply({}, 1.0)
    model.apply({}, 1.0, training=True)
    model.advance({}, {}, 1.0)
    assert seen == [False, False, True, True]
    assert model.training is False


def test_the_binding_ends_with_the_call_that_fails() -> None:
    class Fails(nn.Module):
        def forward(self, x):
            raise RuntimeError("no")

    model = nn.Sequential(Fails())
    with pytest.raises(RuntimeError, match="no"):
        model.apply({}, 1.0, training=True)
    assert model.training is False


def test_assigning_to_declared_names() -> None:
    layer = nn.Linear(2, 3)
    layer.bias = np.array([1, 2, 3])
    np.testing.assert_array_equal(layer.parameters["bias"], [1, 2, 3])
    with pytest.raises(ValueError, match=r"bias has shape \(2,\); it must be \(3,\)"):
        layer.bias = np.zeros(2)
    layer.bias = None
    assert list(layer.parameters) == ["weight"]
    np.testing.assert_allclose(layer(np.eye(2)).numpy(), layer.parameters["weight"])

    class Writes(nn.Module):
        def __init__(self, name):
            self.weight = nn.Parameter((2,))
            self.seen = nn.State((2,))
            self.name = name

        def forward(self, x):
            setattr(self, self.name, x)
            return x

    x = np.ones(2, "float32")
    with pytest.raises(ValueError, match="a parameter cannot change in a call"):
        Writes("weight")(x)
    with pytest.raises(ValueError, match=r"Writes, seen: a state changes in training only"):
        Writes("seen")(x)
    model = Writes("seen")
    _, state = model.advance(model.parameters, model.state, x)
    np.testing.assert_array_equal(state["seen"].numpy(), x)
    with pytest.raises(ValueError, match=r"the new value has shape \(3,\); it must be \(2,\)"):
        model.advance(model.parameters, model.state, np.ones(3))


def test_a_layer_outside_the_model_is_not_trained_in_silence() -> None:
    outside = nn.Linear(2, 2)
    model = nn.Sequential(nn.Linear(2, 2), lambda x: outside(x))
    x = np.ones((1, 2), "float32")
    model(x)
    with pytest.raises(TypeError, match=r"Linear: the layer is no part of the model being trained"):
        model.apply(model.parameters, x, training=True)
    frozen = nn.Sequential(nn.Linear(2, 2), lambda x: outside.apply(outside.parameters, x))
    frozen.apply(frozen.parameters, x, training=True)
    noisy = nn.Sequential(lambda x: nn.Dropout(0.5)(x))
    assert np.any(noisy.apply({}, np.ones(99, "float32"), training=True).numpy() == 0)


# --------------------------------------------------------------- tied and copied


def test_a_tied_parameter_is_one() -> None:
    class Tied(nn.Module):
        def __init__(self):
            self.first = nn.Linear(3, 3)
            self.second = nn.Linear(3, 3, bias=False)
            self.second.weight = self.first.declaration("weight")

        def forward(self, x):
            return self.second(self.first(x))

    model = Tied()
    assert [p for p, _ in leaf_paths(model.parameters)] == ["first.weight", "first.bias"]
    assert model.parameter_count == 12
    x = RNG.standard_normal((2, 3)).astype("float32")
    w, b = (model.parameters["first"][k] for k in ("weight", "bias"))
    np.testing.assert_allclose(model(x).numpy(), (x @ w + b) @ w, rtol=1e-5)
    slopes = tw.grad(lambda p: model.apply(p, x).sum())(model.parameters)
    ones = np.ones((2, 3), "float32")
    np.testing.assert_allclose(
        slopes["first"]["weight"].numpy(),
        x.T @ (ones @ w.T) + (x @ w + b).T @ ones,
        rtol=1e-4,
        atol=1e-5,
    )
    other = nn.Linear(3, 3)
    with pytest.raises(ValueError, match=r"to share it, assign"):
        model.second.weight = other.weight
    model.second.weight = other.weight.numpy()
    np.testing.assert_array_equal(model.parameters["first"]["weight"], other.parameters["weight"])
    with pytest.raises(ValueError, match="'depth' is neither a parameter nor a state"):
        model.first.declaration("depth")


def test_a_copy_has_the_same_values_and_a_life_of_its_own() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm(3))
    model.initialise(3)
    model[0].bias = np.ones(3)
    other = copy.deepcopy(model)
    np.testing.assert_equal(other.parameters, model.parameters)
    np.testing.assert_equal(other.state, model.state)
    other[0].bias = np.zeros(3)
    assert np.all(model.parameters[0]["bias"] == 1)
    fresh = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm(3)).initialise(5)
    np.testing.assert_equal(other.initialise(5).parameters, fresh.parameters)
    part_first = copy.deepcopy(copy.deepcopy(model).initialise(5))
    part_first[0].parameters  # noqa: B018  (draws by its path in the whole)
    np.testing.assert_equal(part_first.parameters, fresh.parameters)
    larger = nn.Sequential(nn.relu, copy.deepcopy(model))
    expected = nn.Sequential(nn.relu, nn.Sequential(nn.Linear(3, 3), nn.BatchNorm(3)))
    np.testing.assert_equal(larger.initialise(2).parameters, expected.initialise(2).parameters)


def test_a_copy_keeps_ties() -> None:
    first = nn.Linear(3, 3)
    second = nn.Linear(3, 3, bias=False)
    second.weight = first.declaration("weight")
    other = copy.deepcopy(nn.Sequential(first, second))
    assert [p for p, _ in leaf_paths(other.parameters)] == ["0.weight", "0.bias"]


# ---------------------------------------------------------------------- errors


def test_errors_name_the_layer_by_its_path_and_the_users_line() -> None:
    model = nn.Sequential(nn.Sequential(nn.Conv2d(3, 4, 3)), nn.Flatten())
    with pytest.raises(ValueError) as error:
        model(np.zeros((1, 8, 8, 5)))
    message = str(error.value)
    assert message.startswith(
        "Conv2d 0.0: the input has shape (1, 8, 8, 5), so 5 channels; accepted: 3 channels"
    )
    assert "[test_nn_module.py:" in message


def test_errors_of_ops_note_the_innermost_layer() -> None:
    model = nn.Sequential(nn.Sequential(nn.Conv2d(3, 4, 9)))
    with pytest.raises(ValueError, match="the window reaches over 9") as error:
        model(np.zeros((1, 8, 8, 3)))
    assert error.value.__notes__ == ["in layer Conv2d 0.0"]


X = np.zeros
REFUSED = [
    (lambda: nn.Linear(3, 2)(X((1, 4))), ValueError, r"Linear: the input has shape \(1, 4\); its last axis must be 3"),
    (lambda: nn.Linear(3, 2)(X(())), ValueError, r"Linear: the input has shape \(\)"),
    (lambda: nn.FullyConnected(3, 2)(X((1, 4))), ValueError, r"FullyConnected: .*so 4 numbers a sample"),
    (lambda: nn.Conv2d(3, 2, 3)(X((8, 8, 3))), ValueError, r"Conv2d: the input has shape \(8, 8, 3\), of 3 axes; accepted: 4 axes, \(batch, rows, columns, 3 channels\)"),
    (lambda: nn.Conv1d(3, 2, 3)(X((8, 8, 3, 1))), ValueError, r"Conv1d: .*accepted: 3 axes"),
    (lambda: nn.ConvTranspose2d(3, 2, 3)(X((1, 8, 8, 2))), ValueError, r"ConvTranspose2d: .*so 2 channels"),
    (lambda: nn.MaxPool2d(2)(X((8, 8, 3))), ValueError, r"MaxPool2d: .*accepted: 4 axes"),
    (lambda: nn.GlobalAvgPool1d()(X((8, 8, 3, 3))), ValueError, r"GlobalAvgPool1d: .*accepted: 3 axes"),
    (lambda: nn.BatchNorm(3)(X((2, 4))), ValueError, r"BatchNorm: .*last axis must be 3 and at least 2 axes"),
    (lambda: nn.LayerNorm((2, 3))(X((3,))), ValueError, r"LayerNorm: .*last axes must be \(2, 3\)"),
    (lambda: nn.GroupNorm(2, 3), ValueError, r"features is 3; it must be a multiple of groups = 2"),
    (lambda: nn.LSTM(3, 2)(X((2, 4))), ValueError, r"LSTM: .*accepted: \(batch, time, 3\)"),
    (lambda: nn.LSTM(3, 2)(X((2, 0, 3))), ValueError, r"at least one step"),
    (lambda: nn.GRU(3, 2)(X((2, 4, 3)), start=X((2, 3))), ValueError, r"start has shapes"),
    (lambda: nn.Add()(X((2, 4)), X((4, 2))), ValueError, r"Add: input 1 has shape \(4, 2\); it must be \(2, 4\)"),
    (lambda: nn.Add()(), ValueError, r"Add: no input came"),
    (lambda: nn.Dot()(X((2, 4)), X((2, 4))), ValueError, r"Dot: the inputs have shapes"),
    (lambda: nn.Dot()(X((2, 4))), ValueError, r"Dot: 1 inputs came; accepted: two"),
    (lambda: nn.Concatenate()(X((2, 4)), X((3, 4))), ValueError, r"Concatenate: input 1 has shape \(3, 4\)"),
    (lambda: nn.Concatenate(3)(X((2, 4))), ValueError, r"it has no axis 3"),
    (lambda: nn.Slice(0, 0)(X((2, 4))), ValueError, r"Slice: .*at least 3 axes"),
    (lambda: nn.Slice("a"), TypeError, r"Slice: a part is 'a'"),
    (lambda: nn.Input(3, None)(X((2, 4, 1))), ValueError, r"Input: the input has shape \(2, 4, 1\); accepted: \(batch, 3, any\)"),
    (lambda: nn.MultiHeadAttention(5, 2), ValueError, r"features is 5; it must be a multiple of heads = 2"),
    (lambda: nn.MultiHeadAttention(4, 2)(X((2, 4))), ValueError, r"q has shape \(2, 4\)"),
    (lambda: nn.MultiHeadAttention(4, 2)(X((2, 3, 4)), mask=X((3, 3))), ValueError, r"mask has dtype float64"),
    (lambda: nn.MultiHeadAttention(4, 2)(X((2, 3, 4)), mask=X((2, 3), bool)), ValueError, r"mask has shape \(2, 3\)"),
    (lambda: nn.Linear(3, 2, activation="rectify"), ValueError, r"Linear: activation 'rectify' is not known; accepted: elu, gelu"),
    (lambda: nn.Conv2d(3, 2, 3, activation=3), TypeError, r"Conv2d: activation is 3"),
    (lambda: nn.Linear(0, 2), ValueError, r"Linear: inputs is 0; it must be at least 1"),
    (lambda: nn.Linear(1.5, 2), TypeError, r"Linear: inputs"),
    (lambda: nn.Conv2d(3, 2, (3, 3, 3)), ValueError, r"Conv2d: window \(3, 3, 3\) has 3 numbers"),
    (lambda: nn.Conv2d(3, 2, 3, padding="full"), ValueError, r"Conv2d: padding is 'full'"),
    (lambda: nn.Conv2d(3, 2, 3, padding=-1), ValueError, r"Conv2d: padding is -1"),
    (lambda: nn.Conv2d(3, 2, 3, padding=(1, 2, 3)), ValueError, r"Conv2d: padding is \(1, 2, 3\)"),
    (lambda: nn.Conv2d(3, 2, 3, padding=1.5), TypeError, r"Conv2d: padding is 1.5"),
    (lambda: nn.Conv2d(3, 4, 3, groups=2), ValueError, r"inputs is 3; it must be a multiple of groups = 2"),
    (lambda: nn.Padding2d("same"), TypeError, r"Padding2d: padding is 'same'"),
    (lambda: nn.Dropout(1.0), ValueError, r"Dropout: rate is 1.0; it must be from 0 up to but not including 1"),
    (lambda: nn.Dropout("a"), TypeError, r"Dropout: rate is 'a'"),
    (lambda: nn.GaussianNoise(-1), ValueError, r"GaussianNoise: std is -1"),
    (lambda: nn.Sequential(3), TypeError, r"Sequential: layer 0 is int"),
    (lambda: nn.Lambda(3), TypeError, r"Lambda: the function is int; accepted: modules and functions"),
    (lambda: nn.Parameter((2,), "he"), TypeError, r"Parameter: the initialiser is 'he'"),
    (lambda: nn.Module()(1.0), NotImplementedError, r"Module has no forward"),
    (lambda: setattr(nn.Module(), "state", nn.State((2,))), ValueError, r"Module: 'state' is a name of every module"),
    (lambda: setattr(nn.Module(), "modules", [nn.Flatten()]), ValueError, r"Module: 'modules' is a name of every module"),
    (lambda: nn.Linear(2, 2).depth, AttributeError, r"Linear has no attribute 'depth'"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("attempt", "kind", "message"), REFUSED, ids=lambda v: v if isinstance(v, str) else ""
)
def test_refused(attempt, kind, message) -> None:
    with pytest.raises(kind, match=message):
        attempt()


def test_repr_says_what_a_model_is() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, stride=2, padding="same", dilation=1, groups=1),
        nn.Sequential(nn.BatchNorm(4)),
    )
    assert repr(model) == (
        "Sequential(\n  (0): Conv2d(3, 4, (3, 3), stride=(2, 2), padding='SAME')\n"
        "  (1): Sequential(\n    (0): BatchNorm(4)\n  )\n)"
    )


def test_repr_of_a_convolution_says_what_is_not_the_default() -> None:
    assert repr(nn.Conv2d(3, 6, 3)) == "Conv2d(3, 6, (3, 3))"
    swept = nn.Conv2d(3, 6, 3, stride=2, padding=1, dilation=2, groups=3)
    assert repr(swept) == (
        "Conv2d(3, 6, (3, 3), stride=(2, 2), padding=((1, 1), (1, 1)), dilation=(2, 2), groups=3)"
    )
    assert repr(nn.ConvTranspose1d(3, 6, 2, stride=2, padding="same")) == (
        "ConvTranspose1d(3, 6, (2,), stride=(2,), padding='SAME')"
    )


# --------------------------------------------------------------- random models

layers = st.deferred(
    lambda: (
        st.builds(lambda b: nn.Linear(3, 3, bias=b), st.booleans())
        | st.builds(lambda: nn.BatchNorm(3))
        | st.builds(lambda: nn.LayerNorm(3))
        | st.builds(lambda: nn.Activation("tanh"))
        | st.lists(layers, max_size=3).map(lambda ls: nn.Sequential(*ls))
    )
)


@settings(max_examples=40, deadline=None)
@given(st.lists(layers, min_size=1, max_size=4), st.integers(0, 5))
def test_any_model_is_its_layers_one_after_the_other(parts, seed) -> None:
    model = nn.Sequential(*parts).initialise(seed)
    x = np.random.default_rng(seed).standard_normal((4, 3)).astype("float32")
    expected = tw.numpy.asarray(x)
    for part in parts:
        expected = part(expected)
    np.testing.assert_array_equal(model(x).numpy(), expected.numpy())
    np.testing.assert_array_equal(
        model.apply(model.parameters, x, state=model.state).numpy(), expected.numpy()
    )
    assert model.parameter_count == sum(v.size for v in leaves(model.parameters))
    assert model.summary((4, 3)).parameters == model.parameter_count
    values = model.parameters
    model.parameters = values
    np.testing.assert_equal(model.parameters, values)


def test_models_are_copied_and_pickled() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.LSTM(3, 2))
    other = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(other.parameters[0]["weight"], model.parameters[0]["weight"])
    again = copy.deepcopy(model)
    np.testing.assert_array_equal(again.parameters[0]["weight"], model.parameters[0]["weight"])
