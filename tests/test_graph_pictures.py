"""Pictures and traces: well-formed, complete, without overlaps, and safe from odd names."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import xml.etree.ElementTree as ET
from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest

import random_graphs
import tawny as tw
import tawny.numpy as tnp
from tawny.array import Array, array_for
from tawny.graph.graph import Graph
from tawny.graph.report.dot import block_colour, to_dot
from tawny.graph.report.graphviz import visualize
from tawny.graph.report.picture import MAX_DRAWN, Picture
from tawny.graph.report.placement import GAP, Rect, place_all, relax_rows
from tawny.graph.report.routes import Obstacles, enter, leave, route, way_between
from tawny.graph.report.rows import cycles, run_order
from tawny.graph.report.scope_layout import ScopeLayout
from tawny.graph.report.svg import html, svg
from tawny.graph.report.trace import listing, read_counts, scope_of, trace
from tawny.node import Constant, Node, Variable, toposort

SVG = "{http://www.w3.org/2000/svg}"
needs_graphviz = pytest.mark.skipif(
    shutil.which("neato") is None, reason="Graphviz is not installed"
)


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


def test_large_graphs_are_named_and_not_drawn(tmp_path: Path) -> None:
    x = tw.var("x", shape=(2,))
    y = x
    for _ in range(MAX_DRAWN):
        y = tnp.sin(y)
    graph = Graph([x], y)
    assert "too many nodes" in "".join(ET.fromstring(svg(graph)).itertext())
    with pytest.raises(ValueError, match=r"at most 5000 are drawn; look at it with graph.show\(\)"):
        visualize(graph, tmp_path / "g.svg")


def test_drawing_is_quick() -> None:
    """Long edges beside a long chain, around everything in it."""
    x = tw.var("x", shape=(2,))
    chain: list[Array] = [x]
    for i in range(100):
        chain.append(tnp.sin(chain[-1]) + chain[i // 2])
    start = time.perf_counter()
    svg(Graph([x], chain[-1]))
    assert time.perf_counter() - start < 5


def random_layout(random: Random) -> tuple[ScopeLayout, list[tuple[float, float]], list[list[int]]]:
    """A graph of up to 25 nodes, in up to three scopes that may read each other."""
    count = random.randint(2, 25)
    inputs = [
        [random.randrange(i) for _ in range(random.randint(0, 2))] if i else []
        for i in range(count)
    ]
    sizes = [(random.uniform(20, 120), random.uniform(10, 40)) for _ in range(count)]
    paths = [random.choice([(), ("a",), ("b",), ("b", "c")]) for _ in range(count)]
    return ScopeLayout(paths, ["op"] * count, inputs, fold=False), sizes, inputs


def overlap(a: Rect, b: Rect) -> bool:
    return a.x < b.x + b.wide and b.x < a.x + a.wide and a.y < b.y + b.tall and b.y < a.y + a.tall


def test_boxes_stand_beside_each_other_and_in_their_scopes() -> None:
    random = Random(1)
    for _ in range(100):
        layout, sizes, inputs = random_layout(random)
        at = place_all(layout, sizes, inputs)
        for k, one in enumerate(at.nodes):
            assert not any(overlap(one, other) for other in at.nodes[:k])
        for number, box in enumerate(layout.boxes):
            around = at.boxes[number]
            for item in box.items:
                inner = at.nodes[item] if item >= 0 else at.boxes[~item]
                assert around.x <= inner.x + 1e-9
                assert around.y <= inner.y + 1e-9
                assert inner.x + inner.wide <= around.x + around.wide + 1e-9
                assert inner.y + inner.tall <= around.y + around.tall + 1e-9


def test_edges_go_around_boxes() -> None:
    """Of the straight pieces of edges nearly none is near to a box: it is the curves that turn."""
    random, pieces, near = Random(1), 0, 0
    for _ in range(100):
        layout, sizes, inputs = random_layout(random)
        at = place_all(layout, sizes, inputs)
        obstacles = Obstacles(at.nodes)
        for reader, sources in enumerate(inputs):
            for position, source in enumerate(sources):
                a, b = at.nodes[source], at.nodes[reader]
                way = way_between(a, b)
                start, end = leave(a, way), enter(b, way, position, len(sources))
                points = route(obstacles, way, start, end)
                assert (points[0], points[-1]) == (start, end)
                for (x, y), _, (to_x, to_y) in ((p, None, q) for p, q in pairwise(points)):
                    if abs(x - to_x) < 1 or abs(y - to_y) < 1:
                        line = Rect(min(x, to_x), min(y, to_y), abs(x - to_x), abs(y - to_y))
                        rest = [r for k, r in enumerate(at.nodes) if k not in (source, reader)]
                        pieces += 1
                        near += any(overlap(line, r) for r in rest)
    assert pieces > 1000
    assert near < pieces / 200


def test_what_is_read_stands_above_its_readers() -> None:
    for make in GRAPHS:
        picture = Picture(make())
        if picture.frames:
            continue
        for edge in picture.edges():
            if not edge.is_update:
                assert picture.at[edge.source].y < picture.at[edge.reader].y


def test_a_chain_runs_straight() -> None:
    rows = [[0, 1], [2], [3, 4], [5]]
    near = {0: [2], 1: [2], 2: [0, 1, 3], 3: [2, 5], 4: [5], 5: [3, 4]}
    width = {0: 40.0, 1: 90.0, 2: 30.0, 3: 100.0, 4: 20.0, 5: 60.0}
    x = relax_rows(rows, width.__getitem__, near.__getitem__)
    for row in rows:
        for a, b in pairwise(row):
            assert x[b] - x[a] >= (width[a] + width[b]) / 2 + GAP - 1e-9
    assert x[2] == pytest.approx((x[0] + x[1]) / 2, abs=12)


def test_items_come_behind_what_they_read_whatever_the_cycles() -> None:
    random = Random(2)
    for _ in range(200):
        count = random.randint(1, 12)
        after = [
            random.sample(range(count), random.randint(0, min(2, count))) for _ in range(count)
        ]
        reach = np.eye(count, dtype=bool)
        for k, others in enumerate(after):
            reach[k, others] = True
        for k in range(count):
            reach |= reach[:, k : k + 1] & reach[k]
        together = reach & reach.T
        assert cycles(after) == [int(row.argmax()) for row in together]
        order = run_order(range(count), [(a, b) for a in range(count) for b in after[a]])
        place = {k: n for n, k in enumerate(order)}
        assert sorted(order) == list(range(count))
        for a, others in enumerate(after):
            assert all(place[a] < place[b] or together[a, b] for b in others)


def test_gradients_stand_beside_their_layers() -> None:
    x = tw.var("x", (4, 3))
    y, weights = x, [tw.var(f"w{k}", (3, 3)) for k in range(3)]
    for k, weight in enumerate(weights):
        with tw.scope(f"layer{k}"):
            y = tnp.tanh(y @ weight)
    with tw.scope("loss"):
        loss = tnp.sum(y * y)
    graph = Graph([x, *weights], tw.gradients(loss, weights))
    nodes = listing(graph)
    number = {node: k for k, node in enumerate(nodes)}
    inputs = [[number[i] for i in node.inputs] for node in nodes]
    layout = ScopeLayout([scope_of(n) for n in nodes], [n.name for n in nodes], inputs)
    at = place_all(layout, [(60.0, 20.0)] * len(nodes), inputs)
    named = {box.label: k for k, box in enumerate(layout.boxes)}
    places = [at.boxes[named[name]] for name in ("layer0", "layer1", "layer2", "loss")]
    assert [p.y for p in places] == sorted(p.y for p in places)
    for k in range(3):
        box = layout.boxes[named[f"layer{k}"]]
        onward = [i for part in box.parts for row in part for i in row]
        back = [i for part in box.back for row in part for i in row]
        names = [nodes[i].name for i in onward]
        assert names[:2] == ["matmul", "tanh"]
        assert "matmul" in [nodes[i].name for i in back]
        assert max(at.nodes[i].x for i in onward) < min(at.nodes[i].x for i in back)
        for reader in back:
            for source in inputs[reader]:
                if source in back:
                    assert at.nodes[source].y > at.nodes[reader].y


# -------------------------------------------------------------------------- files


def test_dot_files_need_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    graph = softmax_step()
    visualize(graph, tmp_path / "g.dot")
    assert (tmp_path / "g.dot").read_text() == to_dot(graph)
    visualize(graph, str(tmp_path / "g.svg"), Plan(graph))
    assert (tmp_path / "g.svg").read_text() == svg(graph, Plan(graph))
    with pytest.raises(ValueError, match=r"needs Graphviz.*`neato` was not found; install"):
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
    fake = tmp_path / "neato"
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
