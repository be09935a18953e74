"""Pictures and traces: well-formed, complete, without overlaps, and safe from odd names."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pytest

import random_graphs
import tawny as tw
import tawny.numpy as tnp
from tawny.array import Array, array_for
from tawny.graph.graph import Graph
from tawny.graph.report.box_layout import LANE, place_boxes
from tawny.graph.report.dot import block_colour, to_dot
from tawny.graph.report.svg import MAX_DRAWN, html, svg, visualize
from tawny.graph.report.trace import listing, read_counts, trace
from tawny.node import Constant, Node, Variable, toposort

SVG = "{http://www.w3.org/2000/svg}"
needs_graphviz = pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")


class Plan:
    """Blocks in turn, as a memory plan would give them; variables have none."""

    def __init__(self, graph: Graph) -> None:
        steps = [n for n in graph.order if n.inputs]
        self.blocks = {n: i % 3 for i, n in enumerate(steps)}

    def block_of(self, node: Node) -> int | None:
        return self.blocks.get(node)


def softmax_step() -> Graph:
    """About twenty nodes: a loss, its gradient's first part, a counter."""
    x, y, w, step = (
        tw.var("x", shape=(8, 5)),
        tw.var("y", shape=(8, 3)),
        tw.var("w", shape=(5, 3)),
        tw.var("step", dtype="int64"),
    )
    z = x @ w
    e = tnp.exp(z - tnp.max(z, axis=1, keepdims=True))
    p = e / tnp.sum(e, axis=1, keepdims=True)
    loss = -tnp.mean(tnp.sum(y * tnp.log(p), axis=1))
    return Graph(
        [x, y, w],
        {"loss": loss, "p": p},
        {w: w - 0.1 * (x.T @ (p - y)), step: step + 1},
        name="softmax",
    )


def swap() -> Graph:
    a, b, c = tw.var("a", shape=(2,)), tw.var("b", shape=(2,)), tw.var("c", shape=(2,))
    return Graph([a, b, c], a * a + b, {a: b, b: a, c: c})


def odd_names() -> Graph:
    x = tw.var('a"b\\n<&>\n\x00\u2028{|}é漢', shape=(2,))
    return Graph([x], tw.lazy_print(x, header='<b>"\\'), name='"}\\')


def several() -> Graph:
    x = tw.var("x", shape=(3, 3))
    u, s, _ = tnp.linalg.svd(x)
    return Graph([x], [u, s, u, tw.random.normal(shape=(3,)) + s])


def alone() -> Graph:
    x = tw.var("x")
    return Graph([x], x)


def random_one(seed: int) -> Graph:
    drawn = random_graphs.graph_of(seed, 25)
    found = [n for n in toposort(drawn.outputs) if isinstance(n.op, Variable)]
    return Graph([array_for(n) for n in found], [array_for(n) for n in drawn.outputs])


GRAPHS = [
    softmax_step,
    swap,
    odd_names,
    several,
    alone,
    *(lambda s=s: random_one(s) for s in range(12)),
]
IDS = ["softmax", "swap", "odd_names", "several", "alone", *(f"random{s}" for s in range(12))]
every_graph = pytest.mark.parametrize("make", GRAPHS, ids=IDS)


# ----------------------------------------------------------------------- Graphviz


def drawn_by_graphviz(text: str) -> dict:
    done = subprocess.run(["dot", "-Tjson"], input=text.encode(), capture_output=True, check=True)
    assert not done.stderr, done.stderr.decode()
    return json.loads(done.stdout)


@needs_graphviz
@every_graph
@pytest.mark.parametrize("planned", [False, True])
def test_graphviz_reads_every_node_and_edge(make, planned: bool) -> None:
    graph = make()
    result = drawn_by_graphviz(to_dot(graph, Plan(graph) if planned else None))
    nodes = listing(graph)
    number = {n: i for i, n in enumerate(nodes)}
    assert [o["name"] for o in result["objects"]] == [f"n{i}" for i in range(len(nodes))]
    edges = Counter(
        (e["tail"], e["head"], e.get("style") == "dashed") for e in result.get("edges", [])
    )
    expected = Counter((number[i], number[n], False) for n in nodes for i in n.inputs)
    expected.update((number[s], number[t], True) for t, s in graph.update_nodes)
    assert edges == expected


def test_a_box_says_what_the_node_is() -> None:
    graph = softmax_step()
    text = to_dot(graph)
    count = read_counts(graph)
    lines = {int(m[1]): line for line in text.splitlines() if (m := re.match(r"  n(\d+) \[", line))}
    for number, node in enumerate(listing(graph)):
        line = lines[number]
        assert f"#{number} " in line
        assert node.name in line
        assert f"r:{count[node]}" in line
        assert all(str(source) in line for source in node.sources)
        assert bool(node.sources) == (not isinstance(node.op, Constant))
        assert str(node.dtype) in line
        assert f"s:{node.dtype}{list(node.shape)}" in line or "v:" in line
    assert "v:0.1 float64" in text
    assert text.count("peripheries=2") == 2
    assert text.count("style=dashed") == 2
    assert "b:" not in text


def test_blocks_of_a_plan_have_colours() -> None:
    graph = softmax_step()
    plan = Plan(graph)
    text = to_dot(graph, plan)
    for number, node in enumerate(listing(graph)):
        (line,) = (x for x in text.splitlines() if x.startswith(f"  n{number} ["))
        block = plan.block_of(node)
        assert (
            (f"b:{block}" in line and block_colour(block) in line)
            if block is not None
            else "b:" not in line
        )
    assert len({block_colour(b) for b in range(40)}) == 40


def test_dot_is_linear_in_the_graph() -> None:
    x = tw.var("x", shape=(2,))
    y = x
    for i in range(5000):
        y = tnp.sin(y) + i
    start = time.perf_counter()
    text = to_dot(Graph([x], y))
    assert time.perf_counter() - start < 10
    assert text.count("->") == 15_000


# ---------------------------------------------------------------------------- SVG


@every_graph
@pytest.mark.parametrize("planned", [False, True])
def test_svg_shows_every_node_and_edge(make, planned: bool) -> None:
    graph = make()
    root = ET.fromstring(svg(graph, Plan(graph) if planned else None))
    boxes = [g for g in root.iter(f"{SVG}g") if g.find(f"{SVG}title") is not None]
    assert len(boxes) == len(listing(graph))
    edges = Counter(p.get("marker-end") for p in root.iter(f"{SVG}path"))
    assert edges["url(#arrow)"] == sum(len(n.inputs) for n in graph.order)
    assert edges["url(#update)"] == len(graph.update_nodes)
    width, height = float(root.get("width")), float(root.get("height"))
    for rect in [g.find(f"{SVG}rect") for g in boxes]:
        left, top = float(rect.get("x")), float(rect.get("y"))
        assert -16 <= left <= left + float(rect.get("width")) <= width
        assert -16 <= top <= top + float(rect.get("height")) <= height


@every_graph
def test_boxes_do_not_overlap(make) -> None:
    root = ET.fromstring(svg(make()))
    rects = [
        g.find(f"{SVG}rect") for g in root.iter(f"{SVG}g") if g.find(f"{SVG}title") is not None
    ]
    spans = [tuple(float(r.get(k)) for k in ("x", "y", "width", "height")) for r in rects]
    for i, (x, y, w, h) in enumerate(spans):
        for x2, y2, w2, h2 in spans[:i]:
            assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y


def test_html_holds_the_picture() -> None:
    graph = softmax_step()
    assert svg(graph) in html(graph)


def test_large_graphs_are_named_and_not_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = tw.var("x", shape=(2,))
    y = x
    for _ in range(MAX_DRAWN):
        y = tnp.sin(y)
    graph = Graph([x], y)
    assert "too many nodes" in "".join(ET.fromstring(svg(graph)).itertext())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="at most 1000 are drawn without Graphviz"):
        visualize(graph, tmp_path / "g.svg")


def test_drawing_is_quick() -> None:
    """Long edges beside a long chain: the most lanes that so many boxes can need."""
    x = tw.var("x", shape=(2,))
    chain: list[Array] = [x]
    for i in range(100):
        chain.append(tnp.sin(chain[-1]) + chain[i // 2])
    start = time.perf_counter()
    svg(Graph([x], chain[-1]))
    assert time.perf_counter() - start < 5


def test_lanes_keep_clear_of_boxes() -> None:
    random = Random(1)
    for _ in range(30):
        count = random.randint(2, 25)
        inputs = [
            [random.randrange(i) for _ in range(random.randint(0, 2))] if i else []
            for i in range(count)
        ]
        sizes = [(random.uniform(20, 120), random.uniform(10, 40)) for _ in range(count)]
        at = place_boxes(sizes, inputs, [])
        for (_, level), lane in at.lanes.items():
            for box in range(count):
                inside = at.layer[box] == level and lane.top <= at.y[box] <= lane.bottom
                assert not inside or abs(at.x[box] - lane.x) >= (sizes[box][0] + LANE) / 2
        assert all(at.y[s] < at.y[b] for b, sources in enumerate(inputs) for s in sources)


# -------------------------------------------------------------------------- files


def test_dot_files_need_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    graph = softmax_step()
    visualize(graph, tmp_path / "g.dot")
    assert (tmp_path / "g.dot").read_text() == to_dot(graph)
    visualize(graph, str(tmp_path / "g.svg"), Plan(graph))
    assert (tmp_path / "g.svg").read_text() == svg(graph, Plan(graph))
    with pytest.raises(ValueError, match=r"needs Graphviz.*install"):
        visualize(graph, tmp_path / "g.png")
    with pytest.raises(ValueError, match=r"ends in '.jpg'; accepted: .svg, .png, .dot"):
        visualize(graph, tmp_path / "g.jpg")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["g.dot", "g.svg"]


@needs_graphviz
@pytest.mark.parametrize("make", [softmax_step, odd_names], ids=["softmax", "odd_names"])
def test_graphviz_draws_files(tmp_path: Path, make) -> None:
    graph = make()
    visualize(graph, tmp_path / "g.svg")
    assert ET.fromstring((tmp_path / "g.svg").read_bytes()).tag == f"{SVG}svg"
    visualize(graph, tmp_path / "g.PNG")
    assert (tmp_path / "g.PNG").read_bytes().startswith(b"\x89PNG")


def test_a_failing_graphviz_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "dot"
    fake.write_text("#!/bin/sh\necho broken >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(ValueError, match="Graphviz failed: broken"):
        visualize(alone(), tmp_path / "g.png")


# -------------------------------------------------------------------------- trace


def test_a_trace_lists_the_nodes_in_order() -> None:
    x = tw.var("x", shape=(2, 3))
    n = tw.var("n", dtype="int64")
    graph = Graph([x], [tnp.sum(x * 2.5, axis=1), x], {n: n + 1})
    place = r"test_graph_pictures.py:\d+"
    patterns = [
        "name +op +inputs +type +line +attributes",
        rf"#0 +x, output 1 +variable +float64\[2, 3\] +{place}",
        rf"#1 +n +variable +int64\[\] +{place}",
        r"#2 +constant +float64\[\] +value=2.5",
        rf"#3 +multiply +#0 #2 +float64\[2, 3\] +{place}",
        rf"#4 +output 0 +sum +#3 +float64\[2\] +{place} +axes=\(1,\), keepdims=False",
        r"#5 +constant +int64\[\] +value=1",
        rf"#6 +next n +add +#1 #5 +int64\[\] +{place}",
    ]
    lines = trace(graph).splitlines()
    assert len(lines) == len(patterns)
    for line, pattern in zip(lines, patterns, strict=True):
        assert re.fullmatch(pattern, line.strip()), line
    for node, line in zip(listing(graph), lines[1:], strict=True):
        assert line[lines[0].index("line") :].startswith(tuple(map(str, node.sources)) or " ")


@every_graph
def test_traces_have_a_line_for_each_node(make) -> None:
    graph = make()
    assert len(trace(graph).split("\n")) == len(listing(graph)) + 1


def test_constants_of_one_element_show_their_value() -> None:
    values = [True, 3, -0.0, 1e300, 1 + 2j, np.float16(0.1), np.pi]
    graph = Graph([], [tnp.asarray(np.array([v])) for v in values])
    for text in ("True", "3", "-0.0", "1e+300", "(1+2j)", "0.1", "3.14159"):
        assert f"value={text}\n" in trace(graph) + "\n"
