"""Variables without a name are numbered within their graph, whatever was made before them."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tawny as tw
import tawny.numpy as tnp
from tawny.errors import ValuesNeededError

SOURCE = Path(tw.__file__).parents[1]


def numbered() -> tw.Graph:
    """A graph with inputs and state without names, one of which is called as a number would be."""
    a, b = tw.var(shape=(3, 4)), tw.var(shape=(4,))
    named, state = tw.var("v2", (3, 4)), tw.var(shape=(3, 4))
    total = tnp.sum(tnp.exp(a - 0) * b + named, 1)
    return tw.Graph([a, b, named], [total, tnp.cumsum(total)], {state: state * 0.5 + a})


def texts(engine: str) -> dict[str, str]:
    """All that a user can read of the graph, and the bytes of its file."""
    graph = numbered()
    program = graph.compile(engine)
    program.set(v1=np.ones((3, 4)), v3=np.ones(4), v2=np.zeros((3, 4)), v4=np.zeros((3, 4)))
    program.run()
    return {
        "graph": repr(graph),
        "trace": graph.trace(),
        "dot": graph.to_dot(graph.plan(engine=engine)),
        "svg": graph._repr_svg_(),
        "file": pickle.dumps(graph).hex(),
        "plan": str(graph.plan(engine=engine)),
        "why": "\n".join(map(graph.plan(engine=engine).why, graph.inputs)),
        "updates": "\n".join(map(program.plan.why, graph.updates.values())),
        "rewrites": "\n".join(map(str, program.rewrites)),
        "explain": "\n".join(f"{s.name} {s.nodes} {s.bytes}" for s in program.explain()),
        "state": " ".join(program.state),
        "program": repr(program),
    }


def test_texts_do_not_depend_on_the_variables_made_before(engine: str) -> None:
    first = texts(engine)
    for count in (1, 1000):
        kept = [tw.var() for _ in range(count)]
        assert texts(engine) == first
        del kept


@pytest.mark.parametrize("salt", ["0", "7"])
def test_texts_do_not_depend_on_the_process(salt: str) -> None:
    code = "import test_unnamed_variables as t; print(repr(t.texts('cpu')))"
    path = os.pathsep.join([str(SOURCE), str(Path(__file__).parent)])
    environment = {**os.environ, "PYTHONHASHSEED": salt, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == repr(texts("cpu"))


def test_numbers_are_places_among_the_unnamed_and_pass_over_names() -> None:
    graph = numbered()
    assert list(graph.names.values()) == ["v1", "v3", "v2", "v4"]
    assert [x.name for x in graph.inputs] == [None, None, "v2"]
    x = tw.var()
    assert [
        tw.Graph(given, x + 1, unused="ignore").names[x.node] for given in ([x], [tw.var(), x])
    ] == ["v1", "v2"]


def test_errors_name_the_line_of_a_variable_or_its_number_in_the_graph() -> None:
    x = tw.var(shape=(3,))
    with pytest.raises(ValuesNeededError, match=r"'unnamed at test_unnamed_variables.py:\d+'"):
        bool(tnp.all(x > 0))
    with pytest.raises(ValueError, match=r"not inputs: unnamed at test_unnamed_variables.py:\d+"):
        tw.Graph([], x + 1)
    program = tw.Graph([tw.var(), x], x + 1, unused="ignore").compile("reference")
    with pytest.raises(ValueError, match="'v2' was given shape"):
        program(0.0, np.ones(4))
    assert repr(x).startswith("Array(variable: float64[3], test_unnamed_variables.py:")


def test_a_file_keeps_variables_unnamed_and_reads_those_that_were_numbered(tmp_path: Path) -> None:
    numbered().save(tmp_path / "g")
    assert list(tw.load(tmp_path / "g").names.values()) == ["v1", "v3", "v2", "v4"]
    assert [x.name for x in tw.load(tmp_path / "g").inputs] == [None, None, "v2"]
