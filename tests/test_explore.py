"""`tw.explore`: controls, pictures, who is answered, and the page in a browser."""

from __future__ import annotations

import base64
import http.client
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from browser import find_browser, open_browser
from tawny.graph.explore.controls import as_controls
from tawny.graph.explore.explorer import Explorer
from tawny.graph.explore.pictures import kind_of, picture, suits


def waves(engine: str = "cpu") -> tw.Program:
    angle, gain, on = tw.var("angle"), tw.var("gain", (2,)), tw.var("on", dtype="bool")
    count = tw.var("count", dtype="int32")
    wave = tnp.cumsum(tnp.sin(np.linspace(0, 6, 50) + angle))
    outputs = {
        "wave": tnp.where(on, wave * gain[0], 0.0),
        "plane": tnp.exp(wave[:, None] * wave) * gain[1],
        "top": tnp.max(wave) * count,
        "rows": {"small": tnp.reshape(wave[:6], (2, 3))},
    }
    return tw.Graph([angle, gain, on, count], outputs, name="waves").compile(engine=engine)


SLIDERS: dict[str, Any] = {"angle": (0, 6), "gain": (0.5, 2), "on": (0, 1), "count": [1, 2, 5]}


@pytest.fixture
def page() -> Iterator[Explorer]:
    with tw.explore(waves(), SLIDERS, browser=False) as opened:
        yield opened


def ask(
    page: Explorer, body: Any = None, *, path: str | None = None, **headers: str
) -> tuple[int, Any, http.client.HTTPMessage]:
    """Status, body and headers of an answer; a body is sent as JSON."""
    where = urlsplit(page.address)
    connection = http.client.HTTPConnection("127.0.0.1", where.port, timeout=20)
    try:
        address = path or where.path + ("" if body is None else "run")
        method, data = ("GET", None) if body is None else ("POST", json.dumps(body))
        kind = {} if body is None else {"Content-Type": "application/json"}
        connection.request(method, address, data, kind | headers)
        answer = connection.getresponse()
        read = answer.read()
        is_json = answer.headers["Content-Type"] == "application/json"
        return answer.status, json.loads(read) if is_json else read.decode(), answer.headers
    finally:
        connection.close()


# ------------------------------------------------------------------------ runs


def test_a_slider_runs_what_it_changes(engine: str) -> None:
    program = waves(engine)
    with tw.explore(program, SLIDERS, browser=False) as page:
        status, first, _ = ask(page, {})
        assert status == 200
        assert first["count"] == len(program.plan.steps)
        _, late, _ = ask(page, {"gain": [1.5, 1.0]})
        assert 0 < late["count"] < first["count"]
        assert late["ran"] == program.last_run.steps
        twin = waves(engine)
        twin.set(angle=3.0, gain=[1.5, 1.0], on=False, count=1)
        assert [p["kind"] for p in late["pictures"]] == ["line", "heat map", "number", "table"]
        expected = twin.run()
        assert float(late["pictures"][2]["text"]) == pytest.approx(float(expected["top"]), rel=1e-5)
        _, on, _ = ask(page, {"on": 1, "count": 5})
        wave = [y for _, y in on["pictures"][0]["points"]]
        expected = twin(on=True, count=5)
        np.testing.assert_allclose(wave, expected["wave"])
        assert float(on["pictures"][2]["text"]) == pytest.approx(float(expected["top"]), rel=1e-5)
    assert program.state["count"] == 5


def test_values_that_were_set_are_where_sliders_begin() -> None:
    program = waves()
    program.set(angle=1.25, gain=[1.0, 2.0], on=True, count=2)
    with tw.explore(program, SLIDERS, browser=False) as page:
        _, text, _ = ask(page)
        data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    assert [one["values"] for one in data["controls"]] == [[1.25], [1.0, 2.0], [1.0], [2.0]]
    assert [one["look"] for one in data["controls"]] == ["slider", "slider", "switch", "choice"]


@pytest.mark.parametrize(
    "body",
    [
        {"angle": 7},
        {"angle": float("nan")},
        {"angle": "1"},
        {"angle": True},
        {"angle": [1, 2]},
        {"gain": [1.0]},
        {"count": 3},
        {"unknown": 1},
        {"angle": None},
        [1],
        "angle",
    ],
)
def test_wrong_values_are_refused_and_change_nothing(page: Explorer, body: Any) -> None:
    before = page._program.state
    status, found, _ = ask(page, body)
    assert status == 400
    assert found["error"]
    assert all((page._program.state[n] == v).all() for n, v in before.items())
    assert ask(page, {})[0] == 200


def test_errors_of_the_program_are_told() -> None:
    x = tw.var("x")

    def fail(value: Any) -> Any:
        if value > 0.9:
            raise ValueError("no such luck")
        return value

    program = tw.Graph([x], tw.delay(fail, x, shape=(), dtype="float64")).compile()
    with tw.explore(program, {"x": (0, 1)}, browser=False) as page:
        assert "error" not in ask(page, {"x": 0.1})[1]
        assert "no such luck" in ask(page, {"x": 1})[1]["error"]
        assert "error" not in ask(page, {"x": 0.2})[1]


def test_requests_at_the_same_time(page: Explorer) -> None:
    found: list[int] = []

    def move(k: int) -> None:
        found.extend(ask(page, {"angle": (k + j) % 6})[0] for j in range(5))

    threads = [threading.Thread(target=move, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [200] * 30


# ------------------------------------------------------------- who is answered


def test_only_the_page_itself_is_answered(page: Explorer) -> None:
    where = urlsplit(page.address)
    own = f"http://127.0.0.1:{where.port}"
    assert where.hostname == "127.0.0.1"
    assert ask(page)[0] == 200
    assert ask(page, {}, Origin=own)[0] == 200
    for path in ("/", "/run", "/wrong/", "/wrong/run", where.path[:-2] + "/", where.path + "x"):
        assert ask(page, path=path)[0] == 404
        assert ask(page, {}, path=path)[0] == 404
    for headers in (
        {"Host": f"evil.example:{where.port}"},
        {"Host": "127.0.0.1"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": f"https://127.0.0.1:{where.port}"},
    ):
        assert ask(page, **headers)[0] == 404
        assert ask(page, {}, **headers)[0] == 404
    assert ask(page, {"angle": 1}, **{"Content-Type": "text/plain"})[0] == 400
    _, _, headers = ask(page, {}, Origin=own)
    assert not any(name.lower().startswith("access-control") for name in headers)
    assert ask(page, {"angle": [0] * 40_000})[0] == 400


def test_the_server_hears_the_loopback_address_alone(page: Explorer) -> None:
    assert page._server._server.server_address[0] == "127.0.0.1"
    other = tw.explore(waves(), SLIDERS, browser=False)
    assert urlsplit(other.address).path != urlsplit(page.address).path
    other.close()
    with pytest.raises(OSError, match="refused"):
        ask(other)
    other.close()


def test_it_ends_with_the_process() -> None:
    code = (
        "import tawny as tw\n"
        "x = tw.var('x')\n"
        "print(tw.explore(tw.Graph([x], x * 2).compile(), {'x': (0, 1)}, browser=False).address)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    port = urlsplit(done.stdout.strip()).port
    with pytest.raises(OSError, match="refused"):
        http.client.HTTPConnection("127.0.0.1", port, timeout=5).connect()


def test_notebooks_show_the_page_in_a_frame(page: Explorer) -> None:
    assert f'src="{page.address}"' in page._repr_html_()


# -------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("sliders", "message"),
    [
        ([("angle", (0, 1))], "sliders is list"),
        ({"angel": (0, 1)}, "no input is called 'angel'"),
        ({"angle": 3}, r"a tuple \(lowest, highest\)"),
        ({"angle": (1, 0)}, r"accepted: \(lowest, highest\)"),
        ({"angle": (0, float("inf"))}, "must be finite"),
        ({"angle": (0, "x")}, "is no number"),
        ({"angle": []}, "a list of values"),
    ],
)
def test_sliders_that_cannot_be(sliders: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        tw.explore(waves(), sliders, browser=False)


@pytest.mark.parametrize(
    ("show", "message"),
    [
        ("wave", "give a list"),
        (["wav"], "no output is called 'wav'; accepted: wave, plane, top, rows.small"),
        ([("wave", "image of it")], "accepted: 'number', 'line'"),
        ([("plane", "line")], "which is no line"),
        ([("wave",)], r"accepted: \(output, picture\)"),
    ],
)
def test_outputs_that_cannot_be_shown(show: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        tw.explore(waves(), SLIDERS, show, browser=False)


def test_inputs_without_values_and_sliders_are_named() -> None:
    with pytest.raises(ValueError, match="no slider: gain, on, count"):
        tw.explore(waves(), {"angle": (0, 1)}, browser=False)
    big = tw.var("big", (17,))
    program = tw.Graph([big], big * 2).compile()
    with pytest.raises(ValueError, match="arrays of 1 to 16"):
        tw.explore(program, {"big": (0, 1)}, browser=False)
    with pytest.raises(TypeError, match="compile the graph"):
        tw.explore(program.graph, {"big": (0, 1)}, browser=False)  # type: ignore[arg-type]


def test_outputs_by_array_and_by_kind() -> None:
    x = tw.var("x")
    line = tnp.linspace(0, 1, 30) * x
    program = tw.Graph([x], [line, line + 1]).compile()
    with tw.explore(program, {"x": (0, 1)}, [(line, "table"), "1"], browser=False) as page:
        kinds = [p["kind"] for p in ask(page, {"x": 1})[1]["pictures"]]
    assert kinds == ["table", "line"]
    with pytest.raises(ValueError, match="is no output"):
        tw.explore(program, {"x": (0, 1)}, [x * 3], browser=False)


# -------------------------------------------------------------------- pictures


def test_the_kind_that_suits() -> None:
    kinds = {
        (): "number",
        (1, 1): "number",
        (5,): "line",
        (1, 50): "line",
        (3, 4): "table",
        (30, 40): "heat map",
        (30, 40, 3): "image",
        (30, 40, 7): "table",
        (2, 30, 40, 3): "table",
    }
    for shape, kind in kinds.items():
        assert kind_of(shape, np.dtype("float32")) == kind, shape
        assert suits(kind, shape)
    assert kind_of((30,), np.dtype("complex64")) == "table"


def test_long_lines_keep_their_peaks() -> None:
    values = np.zeros(100_003)
    values[777], values[99_999], values[5] = 5, -3, np.nan
    points = picture(values, "line")["points"]
    assert len(points) <= 2000
    assert [777, 5.0] in points
    assert [99_999, -3.0] in points
    assert [k for k, _ in points] == sorted(k for k, _ in points)


def test_pixels_are_bytes_between_the_least_and_the_greatest() -> None:
    values = np.array([[0.0, 1.0, np.nan], [2.0, 4.0, np.inf]])
    made = picture(values, "heat map")
    assert (made["low"], made["high"], made["wide"], made["tall"]) == (0.0, 4.0, 3, 2)
    assert list(base64.b64decode(made["bytes"])) == [0, 64, 0, 128, 255, 255]
    big = picture(np.zeros((1500, 30, 3), np.uint8), "image")
    assert (big["tall"], big["wide"], big["channels"]) == (500, 30, 3)
    colours = picture(np.array([[[0.0, 0.5, 2.0]] * 2] * 2), "image")
    assert list(base64.b64decode(colours["bytes"]))[:3] == [0, 128, 255]


@pytest.mark.parametrize("kind", ["number", "line", "heat map", "image", "table"])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float64", "complex128"])
def test_every_dtype_has_its_pictures(kind: Any, dtype: str) -> None:
    shapes = [(), (1,), (3,), (4, 5), (30, 40), (3, 4, 3), (0,), (2, 0)]
    for shape in (shape for shape in shapes if suits(kind, shape)):
        made = picture(np.ones(shape, dtype), kind)
        assert json.loads(json.dumps(made, allow_nan=False))["shape"] == list(shape)


def test_controls_know_whole_numbers_and_switches() -> None:
    nodes = {"n": tw.var("n", dtype="int64").node, "b": tw.var("b", (2,), "bool").node}
    n, b = as_controls({"n": (1, 9), "b": (0, 1)}, nodes)
    assert n.value(3).dtype == np.int64
    assert n.middle() == 5
    assert b.value([0, 1]).tolist() == [False, True]
    with pytest.raises(ValueError, match="2 numbers"):
        n.value([1, 2])


# --------------------------------------------------------------------- browser


@pytest.mark.skipif(find_browser() is None, reason="no browser is installed")
def test_the_page_in_a_browser(tmp_path: Any) -> None:
    hostile = "</script><script>window.hit=1</script><img src=x onerror=window.hit=1>"
    x = tw.var("x")
    program = tw.Graph([x], {hostile: tnp.sin(np.linspace(0, 6, 90) * x), "top": x * 2}).compile()
    with (
        open_browser(tmp_path) as browser,
        tw.explore(program, {"x": (0, 10)}, browser=False) as page,
    ):
        tab = browser.tab()
        tab.open(page.address, "document.documentElement?.dataset.runs")
        assert "steps ran in" in tab.text("#said")
        assert tab.text(".number") == "10"
        tab.run("document.querySelector('input').focus()")
        tab.press("Home")
        tab.wait("document.querySelector('.number').innerText === '0'")
        tab.press("End")
        tab.wait("document.querySelector('.number').innerText === '20'")
        assert float(program.state["x"]) == 10
        assert tab.run("window.hit === undefined")
        assert not tab.errors
        where = urlsplit(page.address)
        assert all(urlsplit(one).netloc in (where.netloc, "") for one in tab.requests)
        page.close()
        tab.press("Home")
        tab.wait("document.querySelector('#said').className === 'wrong'")
        assert "not there any more" in tab.text("#said")
