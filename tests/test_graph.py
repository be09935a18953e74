"""The static graph: what it checks, and that it never changes."""

from __future__ import annotations

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp


@pytest.fixture
def figure_1():
    x1, x3 = tw.var("x1", shape=(2,)), tw.var("x3", shape=(2,))
    x2 = 2 - x1
    x4 = x2 * x3
    x5 = tnp.sin(x4)
    return x1, x2, x3, x4, x5


def test_inputs_must_be_variables(figure_1) -> None:
    x1, x2, x3, _, x5 = figure_1
    with pytest.raises(ValueError, match=r"Graph: input 1 is subtract .*not a variable"):
        tw.Graph([x1, x2, x3], [x5])
    with pytest.raises(TypeError, match="Graph: input 0 is ndarray"):
        tw.Graph([np.ones(2)], [x5])
    with pytest.raises(TypeError, match="list of variables"):
        tw.Graph(x1, [x5])


def test_names_are_unique(figure_1) -> None:
    x1, *_ = figure_1
    twin = tw.var("x1", shape=(2,))
    with pytest.raises(ValueError, match="two variables are called 'x1'"):
        tw.Graph([x1, twin], [x1 + twin])
    with pytest.raises(ValueError, match="input 1 is 'x1', as is input 0"):
        tw.Graph([x1, x1], [x1 * 2])


def test_missing_inputs_are_named_and_unused_ones_reported(figure_1) -> None:
    x1, _, x3, _, x5 = figure_1
    with pytest.raises(ValueError, match=r"not inputs: 'x3' \(test_graph.py:\d+\)"):
        tw.Graph([x1], [x5])
    with pytest.warns(UserWarning, match="input 'idle' is used by no output"):
        tw.Graph([x1, x3, tw.var("idle")], [x5])


def test_outputs_come_back_in_their_structure(figure_1) -> None:
    x1, x2, x3, x4, x5 = figure_1
    values = {"a": (1, [2]), "b": 3}
    graph = tw.Graph([x1, x3], {"a": (x2, [x4]), "b": x5})
    assert graph.unflatten([1, 2, 3]) == values
    assert graph.outputs == {"a": (x2, [x4]), "b": x5}
    assert tw.Graph([x1, x3], [x5]).unflatten([1]) == (1,)
    assert tw.Graph([x1, x3], x5).unflatten([1]) == 1
    with pytest.raises(TypeError, match="output 1 is int"):
        tw.Graph([x1, x3], (x5, 3))
    with pytest.raises(ValueError, match="there is no output"):
        tw.Graph([x1, x3], [])


def test_updates_are_checked() -> None:
    n, m = tw.var("n", dtype="int64"), tw.var("m", shape=(2,))
    graph = tw.Graph([], [n], updates={n: n + 1})
    assert [v.name for v in graph.variables] == ["n"]
    with pytest.raises(
        ValueError, match=r"the update of 'm' is float64\[3\]; it must be float64\[2\]"
    ):
        tw.Graph([], [m], updates={m: tnp.ones((3,))})
    with pytest.raises(ValueError, match=r"the update of 'n' is float64\[\]; it must be int64\[\]"):
        tw.Graph([], [n], updates={n: n * 1.5})
    with pytest.raises(ValueError, match="the target of an update is add"):
        tw.Graph([], [n], updates={n + 1: n})


def test_a_graph_does_not_follow_later_changes_of_names(figure_1) -> None:
    x1, _, x3, x4, _ = figure_1
    graph = tw.Graph([x1, x3], [x4])
    node = x4.node
    y = x4 + 0
    y[0] = 3.0
    assert graph.output_nodes == (node,)


def test_files_and_pictures_through_the_graph(figure_1, tmp_path) -> None:
    x1, _, x3, _, x5 = figure_1
    graph = tw.Graph([x1, x3], {"y": x5}, name="figure")
    graph.save(tmp_path / "figure.tawny")
    again = tw.load(tmp_path / "figure.tawny")
    a, b = np.arange(2.0), np.ones(2)
    np.testing.assert_array_equal(again.compile()(a, b)["y"], graph.compile()(a, b)["y"])
    assert "sin" in graph.trace()
    assert graph.to_dot(graph.plan()).startswith("digraph")
    graph.visualize(tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").read_text().lstrip().startswith(("<svg", "<?xml"))
    assert graph._repr_svg_().startswith("<svg")
    assert "<iframe" in graph._repr_html_()
    p = graph.compile()
    p(a, b)
    tw.save_arrays(tmp_path / "state", p.state)
    q = graph.compile()
    q.set(**tw.load_arrays(tmp_path / "state"))
    np.testing.assert_array_equal(q()["y"], p()["y"])


def test_a_graph_cannot_be_changed(figure_1) -> None:
    x1, _, x3, _, x5 = figure_1
    graph = tw.Graph([x1, x3], x5, name="figure")
    with pytest.raises(AttributeError, match="a Graph is immutable: name"):
        graph.name = "other"
    assert graph.order[-1] is x5.node
