"""Scopes and names: on every node, through rewriting, into plans, errors, pictures and ledgers."""

import threading

import numpy as np
import pytest

import tawny as tw
import tawny.eager as eager
import tawny.numpy as tnp
from tawny import nn, optim
from tawny.node import Node, toposort
from tawny.source import describe


def scopes(node: Node) -> set[str]:
    return {s.scope for s in node.sources}


def paths(node: Node) -> set[str]:
    return {s.path for s in node.sources}


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        self.conv = nn.Conv2d(channels, 4, 3)
        self.norm = nn.BatchNorm(4)

    def forward(self, x: tw.Array) -> tw.Array:
        inner = self.norm(self.conv(x))
        with tw.scope("rectify"):
            return tnp.relu(inner)


class Net(nn.Module):
    def __init__(self) -> None:
        self.blocks = [Block(3), Block(4)]
        self.head = nn.Linear(4, 2)

    def forward(self, x: tw.Array) -> tw.Array:
        for block in self.blocks:
            x = block(x)
        return self.head(tnp.mean(x, axis=(1, 2)))


IMAGE = tw.var("image", shape=(2, 10, 10, 3), dtype="float32")


def test_scopes_nest_and_close() -> None:
    x = tw.var("x", shape=(3,))
    with tw.scope("outer"):
        first = tnp.sin(x)
        with tw.scope("inner"):
            second = tnp.cos(x)
        third = tnp.tan(x)
    assert [scopes(a.node) for a in (first, second, third)] == [
        {"outer"},
        {"outer.inner"},
        {"outer"},
    ]
    assert scopes(tnp.exp(x).node) == {""}


def test_a_scope_closes_after_an_error_and_can_be_opened_again() -> None:
    x = tw.var("x", shape=(3,))
    scope = tw.scope("again")
    for f in (tnp.sin, tnp.cos):
        with pytest.raises(KeyError), scope:
            with scope:
                assert scopes(f(x).node) == {"again.again"}
            raise KeyError
        assert scopes(tnp.negative(f(x) + 1).node) == {""}


def test_a_scope_decorates_functions_that_threads_call() -> None:
    x = tw.var("x", shape=(3,))
    found: dict[int, set[str]] = {}

    @tw.scope("worker")
    def work(number: int) -> None:
        for _ in range(50):
            found.setdefault(number, set()).update(
                scopes((tnp.sin(x) * (number + 0.5 + len(found))).node)
            )

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(s == {"worker"} for s in found.values())
    assert len(found) == 4


@pytest.mark.parametrize("name", ["", "two\nlines", 3, None])
def test_bad_names_are_refused(name: object) -> None:
    with pytest.raises((TypeError, ValueError), match=r"scope: the name is .*test_scopes"):
        tw.scope(name)  # type: ignore[arg-type]
    with pytest.raises((TypeError, ValueError), match=r"name: the name is .*test_scopes"):
        tnp.name(tw.var("x") + 1, name)  # type: ignore[arg-type]


def test_layers_are_scopes_of_their_path() -> None:
    net = Net()
    with tw.scope("model"):
        y = net(IMAGE)
    found = set().union(*(scopes(n) for n in toposort([y.node]) if n.inputs))
    assert found == {
        "model",
        *(f"model.blocks.{b}.{part}" for b in (0, 1) for part in ("conv", "norm", "rectify")),
        "model.head",
    }


def test_a_layer_of_another_branch_has_its_own_path() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            self.a, self.b = nn.Linear(2, 2), Uses()
            self.b.other = self.a

        def forward(self, x: tw.Array) -> tw.Array:
            return self.b(x)

    class Uses(nn.Module):
        def __init__(self) -> None:
            self.other = None

        def forward(self, x: tw.Array) -> tw.Array:
            return self.other(x) + 1

    y = Tied()(tw.var("x", shape=(3, 2), dtype="float32"))
    assert [scopes(n) for n in toposort([y.node]) if n.name == "matmul"] == [{"a"}]


@pytest.mark.parametrize("memory", [None, 0.8])
def test_every_step_of_a_program_has_the_scope_it_was_written_in(
    engine: str, memory: float | None
) -> None:
    graph = tw.Graph([IMAGE], Net()(IMAGE))
    budget = None
    if memory is not None:
        budget = int(graph.compile(engine).plan.peak_bytes * 2)
    program = graph.compile(engine, memory=budget)
    texts = [str(step.array.node) for step in program.plan.steps]
    for number in (0, 1):
        assert any(f"blocks.{number}.conv" in text for text in texts), texts
    assert any("in head" in text for text in texts)
    for step in program.plan.steps:
        assert all(
            " in " in str(s) or scopes(step.array.node) == {""} for s in step.array.node.sources
        )
    assert "blocks.0.conv" in str(program.plan)
    assert "blocks.0.norm" in str(program.rewrites)


def test_training_steps_belong_to_layers_loss_or_optimiser(engine: str) -> None:
    data = (np.zeros((4, 10, 10, 3), "float32"), np.zeros(4, int))
    history = nn.train(Net(), nn.cross_entropy, data, optim.Adam(0.1), epochs=1, engine=engine)
    known = ("blocks.", "head", "loss", "optimiser")
    of_net = {"mean", "broadcast_to", "multiply", "divide", "group"}  # the net's own mean
    for step in history.program.plan.steps:
        node = step.array.node
        assert any(s.startswith(known) for s in scopes(node)) or node.name in of_net, node


def test_fused_steps_name_every_scope() -> None:
    x = tw.var("x", shape=(100_000,))
    with tw.scope("first"):
        y = tnp.sin(x) * 2
    with tw.scope("second"):
        y = tnp.exp(y) + 1
    program = tw.Graph([x], [y]).compile()
    assert {"first", "second"} in [scopes(step.array.node) for step in program.plan.steps]
    assert "in first" in str(program.rewrites)
    assert "in second" in str(program.rewrites)


def test_equal_expressions_of_two_scopes_are_one_node_of_both_in_the_ledger() -> None:
    x = tw.var("x", shape=(5,))
    with tw.scope("a"):
        first = tnp.sum(x) + tnp.sum(tnp.negative(tnp.negative(x)))
    program = tw.Graph([x], [first]).compile()
    assert "in a" in str(program.rewrites)


def test_derivatives_carry_the_scope_of_what_they_derive() -> None:
    x = tw.var("x", shape=(5,))
    with tw.scope("model"):
        y = tnp.sum(tnp.sin(x))
    (slope,) = tw.gradients(y, [x])
    assert all("model" in scopes(n) for n in toposort([slope.node]) if n.inputs)


def test_errors_say_the_scope() -> None:
    with tw.scope("encoder"), pytest.raises(ValueError, match=r"test_scopes.py:\d+ in encoder\]"):
        tnp.ones((2, 3)) @ tnp.ones((2, 3))
    with pytest.raises(ValueError, match=r"in blocks\.0\.conv\]"):
        Net()(tw.var("z", shape=(2, 9, 9, 5), dtype="float32"))


def test_errors_of_a_run_say_the_scope(engine: str) -> None:
    x = tw.var("x", shape=(2, 2))
    with tw.scope("solver"):
        y = tnp.linalg.inv(x)
    program = tw.Graph([x], [y]).compile(engine)
    with pytest.raises(np.linalg.LinAlgError, match=r"in solver"):
        program(np.zeros((2, 2)))


# ----------------------------------------------------------------------- names


def test_a_name_is_told_by_everything_that_shows_the_array() -> None:
    x = tw.var("x", shape=(5,))
    with tw.scope("model"):
        cost = tnp.name(tnp.sum(x * x), "cost")
    assert cost.name == "cost"
    assert paths(cost.node) == {"model.cost"}
    graph = tw.Graph([x], [cost * 2])
    assert "model.cost" in graph.trace()
    assert "model.cost" in graph.to_dot()
    program = graph.compile()
    assert "model.cost" in str(program.plan)
    assert "model.cost" in repr(cost)


def test_a_name_changes_no_value_and_costs_no_step(engine: str) -> None:
    x = tw.var("x", shape=(5,))
    plain = tw.Graph([x], [tnp.sum(tnp.sin(x)) + tnp.sum(tnp.cos(x))]).compile(engine)
    total = tnp.name(tnp.sum(tnp.sin(x)), "sines") + tnp.name(tnp.sum(tnp.cos(x)), "cosines")
    named = tw.Graph([x], [total]).compile(engine)
    assert len(named.plan.steps) == len(plain.plan.steps)
    value = np.linspace(0, 1, 5)
    assert named(value)[0] == plain(value)[0]


def test_an_array_may_have_two_names_and_the_first_is_its_own() -> None:
    y = tw.var("x", shape=(5,)) * 3
    assert tnp.name(tnp.name(y, "one"), "two") is y
    assert y.name == "one"
    assert paths(y.node) == {"one", "two"}


def test_constants_of_equal_value_keep_apart() -> None:
    other = tnp.asarray([1.5, 2.5])
    table = tnp.name([1.5, 2.5], "table")
    assert table.name == "table"
    assert other.name is None
    assert tnp.asarray([1.5, 2.5]).name is None
    np.testing.assert_array_equal(table.numpy(), [1.5, 2.5])


def test_variables_have_their_own_names() -> None:
    with pytest.raises(ValueError, match=r"name: the array is variable 'x'; .*tw\.var"):
        tnp.name(tw.var("x"), "y")


def test_random_draws_can_be_named_and_stay_one_draw() -> None:
    draw = tnp.name(tw.random.normal((4,)), "noise")
    first, second = tw.Graph([], [draw, draw + 0.0]).compile()()
    np.testing.assert_array_equal(first, second)


def test_eager_arrays_are_left_as_they_are() -> None:
    value = np.arange(3.0)
    np.testing.assert_array_equal(eager.name(value, "values"), value)


# ------------------------------------------------------------- files, pictures


def test_scopes_and_names_are_saved(tmp_path) -> None:
    x = tw.var("x", shape=(3,))
    with tw.scope("a"):
        y = tnp.name(tnp.sin(x), "wave") + 1
    graph = tw.Graph([x], [y])
    graph.save(tmp_path / "g.tawny")
    loaded = tw.load(tmp_path / "g.tawny")
    assert loaded.trace() == graph.trace()
    assert {s.name for n in loaded.order for s in n.sources} == {"", "wave"}


def test_dot_frames_scopes(tmp_path) -> None:
    x = tw.var("x", shape=(3,))
    with tw.scope('quo"te'):
        y = tnp.sin(x)
        with tw.scope("inner"):
            y = tnp.cos(y)
        with tw.scope("last"):
            y = tnp.tan(y)
    text = tw.Graph([x], [tnp.exp(y)]).to_dot()
    assert text.count("{") == text.count("}")
    assert text.count("subgraph cluster_") == 3
    assert 'label="quo\\"te"' in text
    frame = text[text.index('label="inner"') : text.index('label="last"')]
    assert "cos" in frame
    assert "<B>sin</B>" not in frame


def test_pictures_show_scopes(tmp_path) -> None:
    x = tw.var("x", shape=(3,))
    with tw.scope("encoder"):
        y = tnp.sin(x)
    tw.Graph([x], [y]).visualize(tmp_path / "g.svg")
    assert "encoder" in (tmp_path / "g.svg").read_text()


def test_descriptions_say_each_line_once() -> None:
    x = tw.var("x", shape=(3,))
    made = []
    for name in ("one", "two", "one"):
        with tw.scope(name):
            made.append(tnp.sin(x * len(made)))
    text = describe([s for a in made for s in a.node.sources])
    assert text.count("test_scopes.py") == 1
    assert text.endswith("in one + two")
