"""Pages that show graphs, plans and programs: their data, their text, and what a browser makes of them."""

from __future__ import annotations

import html
import json
import pickle
import re
import sys
import webbrowser
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import tawny as tw
import tawny.numpy as tnp
from tawny import cli
from tawny.graph.report import page as pages
from tawny.graph.report import rewrite_data
from tawny.graph.report.drawn_graph import node_title
from tawny.graph.report.scope_layout import MAX_ITEMS, ScopeLayout

HOSTILE = '</script><img src=x onerror="window.hit=1">&amp;\'`${1}-->\u2028\u2029<!--'


def network(blocks: int = 6, name: str | None = "network") -> tw.Graph:
    x = tw.var("x", (8, 16))
    y = x
    for block in range(blocks):
        with tw.scope(f"block{block}"):
            y = tnp.cumsum(tnp.exp(y * 1), axis=1) + y
    return tw.Graph([x], {"total": tnp.sum(y)}, name=name)


def loops() -> tw.Graph:
    """A loop with a loop in it, a loop of unknown length, and a branch."""
    x, w = tw.var("x", (5, 3)), tw.var("w", (3, 3))

    def step(h: tw.Array, row: tw.Array) -> tuple[tw.Array, tw.Array]:
        inner = tw.fori_loop(0, 4, lambda _, v: tnp.sin(v) + row, h)
        return inner @ w, tnp.sum(inner)

    with tw.scope("outer"):
        last, rows = tw.scan(step, tnp.zeros(3), x)
    grown = tw.while_loop(lambda v: tnp.sum(v) < 9, lambda v: v * 2 + 1, tnp.exp(last))
    chosen = tw.cond(tnp.sum(rows) > 0, tnp.cos, lambda v: v @ w, grown)
    return tw.Graph([x, w], chosen)


class _Scripts(HTMLParser):
    """The elements of a page by tag, and the text of its data."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.data = ""
        self._is_data = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._is_data = dict(attrs).get("id") == "data"

    def handle_data(self, data: str) -> None:
        if self._is_data:
            self.data += data

    def handle_endtag(self, tag: str) -> None:
        self._is_data = False


def data_of(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_Scripts(text).data)
    return found


def test_show_writes_a_page_and_opens_it_only_without_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    graph = network()
    program = graph.compile(engine="reference")
    for number, shown in enumerate((graph, program, program.plan)):
        assert shown.show(tmp_path / f"{number}.html") == tmp_path / f"{number}.html"
    assert not opened
    target = program.show()
    assert opened == [target.as_uri()]
    assert target.read_text("utf-8") == (tmp_path / "1.html").read_text("utf-8")
    target.unlink()
    keys = [set(data_of((tmp_path / f"{n}.html").read_text("utf-8"))) for n in range(3)]
    assert "memories" not in keys[0]
    assert {"memories", "rewrites", "twins"} <= keys[1]
    assert "memories" in keys[2]
    assert "rewrites" not in keys[2]


def test_the_page_is_small_and_reaches_nothing_outside() -> None:
    folder = Path(pages.__file__).parent / "web"
    sources = {path.name: path.read_text("utf-8") for path in folder.iterdir()}
    assert set(sources) == {"page.html", "page.css", *pages.SCRIPTS}
    assert sum(len(s.encode()) for s in sources.values()) < 200_000
    for text in sources.values():
        assert not re.search(r"https?:|//cdn|@import|fetch\(|XMLHttpRequest|innerHTML|eval\(", text)
    page = pages.page(network())
    assert "default-src 'none'" in page
    assert "unsafe" not in page
    assert "{{" not in page


def test_names_lines_and_constants_are_never_markup(tmp_path: Path) -> None:
    x = tw.var("<script>window.hit=1</script>", (3,))
    with tw.scope("<b>&amp;</b>"):
        y = tnp.name(tnp.exp(x) + 1.5, "</script><script>window.hit=1</script>")
    graph = tw.Graph([x], y, name=HOSTILE)
    program = graph.compile(engine="reference")
    page = program.show(tmp_path / "hostile.html").read_text("utf-8")
    plain = _Scripts(pages.page(network(1), network(1).plan(engine="reference")))
    assert _Scripts(page).tags == plain.tags
    found = data_of(page)
    assert found["title"] == HOSTILE
    assert x.name in found["texts"]
    for character in "<>&\u2028\u2029":
        assert character not in pages.escape_json(json.dumps([character], ensure_ascii=False))


def test_notebooks_show_the_page_in_a_frame_of_its_own() -> None:
    program = network().compile(engine="reference")
    for shown in (program, program.graph, program.plan):
        text = shown._repr_html_()
        assert text.startswith('<iframe sandbox="allow-scripts" ')
        inner = re.search(r'srcdoc="([^"]*)"', text)
        assert inner is not None
        assert "graphs" in data_of(html.unescape(inner[1]))


def test_large_graphs_are_not_shown_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MAX_FRAME_NODES", 2)
    program = network().compile(engine="reference")
    for shown in (program, program.graph, program.plan):
        assert "<iframe" not in shown._repr_html_()


def test_the_data_say_what_the_plan_says() -> None:
    graph = network()
    budget = graph.plan(engine="reference").peak_bytes * 2
    plan = graph.plan(engine="reference", memory=budget)
    data = pages.page_data(graph, plan)
    memory, run = data["memories"][0], data["graphs"][1]
    assert (memory["peak"], memory["bound"]) == (plan.peak_bytes, plan.lower_bound_bytes)
    assert (memory["unshared"], memory["budget"]) == (plan.unshared_bytes, budget)
    assert memory["live"] == [point.live_bytes for point in plan.timeline()]
    assert len(memory["blocks"]) == len(plan.blocks)
    for shown, block in zip(memory["blocks"], plan.blocks, strict=True):
        assert tuple(shown[:5]) == block[:5]
        names = [data["texts"][run["name"][k]] for k, _ in shown[5]]
        assert names == [node_title(a.node) for a in block.arrays]
        assert all(block.first <= made <= block.last for _, made in shown[5])
    for step, k in zip(plan.steps, memory["steps"], strict=True):
        assert data["texts"][run["name"][k]] == node_title(step.array.node)
    said = {data["texts"][t] for t in memory["why"].values()}
    assert said == {plan.why(a) for b in plan.blocks for a in b.arrays}


def test_two_plans_are_shown_beside_each_other(tmp_path: Path) -> None:
    graph = network()
    plan, other = graph.plan(engine="reference"), graph.plan(engine="reference", incremental=False)
    found = data_of(plan.show(tmp_path / "page.html", other=other).read_text("utf-8"))
    assert [memory["peak"] for memory in found["memories"]] == [plan.peak_bytes, other.peak_bytes]
    assert found["diff"] == plan.diff(other).splitlines()
    here, there = found["graphs"][1:]
    for k, run in enumerate(found["others"]):
        if run >= 0:
            assert here["name"][run] == there["name"][k]
    assert any(run >= 0 for run in found["others"])
    with pytest.raises(TypeError, match="other is str"):
        plan.show(tmp_path / "page.html", other="plan")  # type: ignore[arg-type]


def test_the_page_knows_what_the_last_run_computed() -> None:
    x, y = tw.var("x", (3,)), tw.var("y", (3,))
    program = tw.Graph([x, y], [tnp.cumsum(x), tnp.cumsum(y)]).compile(engine="reference")
    assert "last" not in data_of(program._page())
    program([1.0, 2.0, 3.0], [0.0, 0.0, 0.0])
    assert len(data_of(program._page())["last"]["executed"]) == 2
    program(y=[1.0, 1.0, 1.0])
    last = data_of(program._page())["last"]
    assert len(last["executed"]) == 1
    assert last["text"] == "1 of 2 steps were computed, the others reused"


def test_a_budget_stays_with_its_plan() -> None:
    plan = network().plan(engine="reference", memory=1_000_000)
    assert plan.budget == 1_000_000
    assert pickle.loads(pickle.dumps(plan)).budget == 1_000_000
    assert network().plan(engine="reference").budget is None


def test_every_node_as_written_knows_what_runs_it() -> None:
    graph = network()
    plan = graph.plan(engine="cpu")
    data = pages.page_data(graph, plan)
    run = data["graphs"][1]
    assert len(data["twins"]) == len(graph.order)
    for node, twin in zip(graph.order, data["twins"], strict=True):
        found = plan.program_nodes.find(node)
        if found is None:
            assert twin == pages.NO_TWIN
        elif twin != pages.NO_TWIN:
            own = twin if twin >= 0 else ~twin
            assert (twin < 0) == found[1]
            assert data["texts"][run["name"][own]] == node_title(found[0])


def test_rewrites_are_those_of_the_ledger() -> None:
    program = network().compile()
    found = pages.page_data(program.graph, program.plan, program._compiled)
    shown, texts = found["rewrites"], found["texts"]
    assert shown["count"] == len(program.rewrites) > 0
    for entry, record in zip(shown["records"], program.rewrites, strict=True):
        assert texts[shown["rules"][entry[0]][0]] == record.rule.name
        assert [texts[t] for t in entry[1]] == list(map(str, record.before))
        assert entry[5:7] == [record.operations, record.bytes]
    assert [r[3] for r in shown["rules"]] == [
        program.rewrites.counts()[texts[r[0]]] for r in shown["rules"]
    ]


def softmax() -> tw.Graph:
    x, w = tw.var("x", (8, 16)), tw.var("w", (16, 4))
    with tw.scope("layer"):
        y = tnp.tanh(x @ w + 1 * 2) * 1 + 0 * tnp.exp(x @ w)
    return tw.Graph([x, w], tnp.log(tnp.exp(y) / tnp.sum(tnp.exp(y), axis=1, keepdims=True)))


@pytest.mark.parametrize("make", [network, softmax, loops])
@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_passes_have_their_rewrites_and_the_graphs_between_them(make: Any, engine: str) -> None:
    program = make().compile(engine=engine)
    found = pages.page_data(program.graph, program.plan, program._compiled)
    shown, graphs, texts = found["rewrites"], found["graphs"], found["texts"]
    assert shown["passes"]
    ends = [(first, end) for _, _, _, first, end, *_ in shown["passes"]]
    assert [0, *(end for _, end in ends)] == [*(first for first, _ in ends), shown["count"]]
    assert shown["passes"][0][1] == 0
    assert shown["passes"][-1][2] == 1
    for (_, _, after, *_), (_, before, *_) in pairwise(shown["passes"]):
        assert graphs[after]["label"] == graphs[before]["label"] or after == before
    for _, before, after, first, end, *counts in shown["passes"]:
        for side, graph in enumerate((graphs[before], graphs[after])):
            assert len(graph["name"]) - len(graph["owner"]) == counts[side]
            for record in shown["records"][first:end]:
                names = {text.split()[0] for text in (texts[t] for t in record[1 + side])}
                assert {texts[graph["name"][k]] for k in record[7][side]} <= names
    assert any(any(record[7][0]) or any(record[7][1]) for record in shown["records"])
    for link, graph in zip(found["links"], graphs[2:], strict=True):
        for side, whole in zip(link, graphs, strict=False):
            for k, other in enumerate(side):
                assert other < 0 or graph["type"][k] == whole["type"][other]


def test_graphs_between_passes_are_not_drawn_if_they_are_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rewrite_data, "MAX_PASS_NODES", 3)
    program = network().compile()
    found = pages.page_data(program.graph, program.plan, program._compiled)
    assert len(found["graphs"]) == 2
    assert all(one[1:3] == [-1, -1] for one in found["rewrites"]["passes"])


def test_every_node_has_its_line() -> None:
    data = pages.page_data(network())
    graph, texts = data["graphs"][0], data["texts"]
    place = graph["places"][[texts[n] for n in graph["name"]].index("exp")][0]
    assert re.fullmatch(r"test_show\.py:\d+ in block0", texts[place])
    assert texts[data["lines"][place]] == "y = tnp.cumsum(tnp.exp(y * 1), axis=1) + y"


# ---------------------------------------------------------------------- layout


def drawn(layout: ScopeLayout) -> list[int]:
    """Every node that stands in some row."""
    return sorted(
        i
        for box in layout.boxes
        for part in (*box.parts, *box.back)
        for row in part
        for i in row
        if i >= 0
    )


def test_repeated_scopes_are_folded() -> None:
    texts = pages.page_data(network(12))["texts"]
    assert "12 × block" in texts


def test_loops_without_scopes_are_folded() -> None:
    inputs = [[k - 1] if k else [] for k in range(301)]
    layout = ScopeLayout([()] * 301, ["x", *(["sin", "cos", "exp"] * 100)], inputs)
    assert "100 × sin, cos, exp" in [box.label for box in layout.boxes]
    assert drawn(layout) == list(range(301))


@pytest.mark.parametrize("shape", ["chain", "star", "scopes", "back"])
def test_rows_hold_everything_once_and_inputs_above(shape: str) -> None:
    count = 2000
    inputs: list[list[int]] = [[]]
    paths: list[tuple[str, ...]] = [()]
    for k in range(1, count):
        inputs.append({"star": [0]}.get(shape, [k - 1]))
        deep = {"scopes": (f"a{k // 100}", f"b{k // 10}"), "back": (f"a{min(k, count - k) // 50}",)}
        paths.append(deep.get(shape, ()))
    kinds = [str(k * k % 97) for k in range(count)]
    layout = ScopeLayout(paths, kinds, inputs)
    assert drawn(layout) == list(range(count))
    assert all(len(box.items) <= MAX_ITEMS for box in layout.boxes)
    for box in layout.boxes:
        for parts, sign in ((box.parts, 1), (box.back, -1)):
            level = {i: sign * k for part in parts for k, row in enumerate(part) for i in row}
            for k in (i for i in level if i >= 0):
                assert all(level[s] < level[k] for s in inputs[k] if s in level)
    assert sorted(layout.boxes_downward()) == list(range(len(layout.boxes)))


def test_the_layout_takes_linear_time() -> None:
    """Counted in calls of Python's functions, which do not depend on the machine's load."""

    def calls(count: int) -> int:
        inputs = [[k - 1, k // 2] if k else [] for k in range(count)]
        seen = 0

        def note(*_: object) -> None:
            nonlocal seen
            seen += 1

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            ScopeLayout([()] * count, [str(k % 7 * k % 5) for k in range(count)], inputs)
        finally:
            sys.setprofile(before)
        return seen

    small, large = calls(2_000), calls(16_000)
    assert large < 12 * small


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_loops_and_branches_are_scopes(engine: str) -> None:
    graph = loops()
    data = pages.page_data(graph, graph.plan(engine=engine))
    texts, drawn = data["texts"], data["graphs"][0]
    named = {texts[box[0]]: k for k, box in enumerate(drawn["boxes"])}
    kinds = {name: drawn["boxes"][k][1] for name, k in named.items()}
    for name in ("loop, 5 steps", "loop, 4 steps", "while_loop", "switch", "branch 0", "branch 1"):
        assert kinds[name] == "loop"
    assert drawn["boxes"][named["loop, 4 steps"]][2] == named["loop, 5 steps"]
    assert drawn["boxes"][named["loop, 5 steps"]][2] == named["outer"]
    names = [texts[name] for name in drawn["name"]]
    inside = {k for k, home in enumerate(drawn["home"]) if home == named["loop, 4 steps"]}
    assert {"carry", "sin", "add", "loop", "shared"} <= {names[k] for k in inside}
    loop = next(k for k in inside if names[k] == "loop")
    assert all(drawn["owner"][k] == loop for k in inside - {loop})
    assert any(names[k] == "row: x" for k in range(len(names)))
    for k, sources in enumerate(drawn["inputs"]):
        assert all(source < k for source in sources)
    for k, twin in enumerate(data["twins"]):
        assert (k not in drawn["owner"]) or twin < 0 or twin == pages.NO_TWIN
    for k, owner in drawn["owner"].items():
        outermost = owner
        while outermost in drawn["owner"]:
            outermost = drawn["owner"][outermost]
        assert data["twins"][outermost] in (pages.NO_TWIN, ~data["twins"][k], data["twins"][k])


def test_functions_are_scopes_where_there_are_several() -> None:
    def encode(x: tw.Array) -> tw.Array:
        return tnp.exp(x) + 1

    def decode(x: tw.Array) -> tw.Array:
        return tnp.log(x) * 2

    x = tw.var("x", (3,))
    for graph, expected in (
        (tw.Graph([x], decode(encode(x))), {"encode", "decode"}),
        (tw.Graph([x], encode(x)), set()),
    ):
        data = pages.page_data(graph)
        found = {data["texts"][box[0]] for box in data["graphs"][0]["boxes"][1:]}
        assert found == expected


# ---------------------------------------------------------------- command line


def test_view_writes_the_page_of_a_graph_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network().save(tmp_path / "network.tawny")
    out = tmp_path / "page.html"
    assert cli.main(["view", str(tmp_path / "network.tawny"), "--output", str(out)]) == 0
    assert capsys.readouterr().out.strip() == str(out)
    assert {"memories", "rewrites"} <= set(data_of(out.read_text("utf-8")))
    assert cli.main(["view", str(tmp_path / "network.tawny"), "--graph", "--output", str(out)]) == 0
    assert "memories" not in data_of(out.read_text("utf-8"))
    assert cli.main(["view", str(tmp_path / "missing.tawny"), "--output", str(out)]) == 1
    assert "tawny view: " in capsys.readouterr().err
