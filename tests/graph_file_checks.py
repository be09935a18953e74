"""What tests of files share: graphs that go through files, and files put together by hand."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tawny as tw
import tawny.numpy as tnp
from cases import parts
from random_graphs import evaluated
from tawny.array import Array, array_for
from tawny.files.safetensors import _without_digest
from tawny.graph.files import load, save
from tawny.graph.graph import Graph
from tawny.graph.report.trace import listing
from tawny.node import Variable, toposort
from tawny.ops.differentiation import DerivativeMarker


def graph_over(outputs: Any, updates: dict[Array, Array] | None = None) -> Graph:
    """The graph of `outputs`, whose inputs are whatever variables they depend on."""
    nodes = (
        [a.node for a in parts(outputs)]
        if not isinstance(outputs, dict)
        else [a.node for a in outputs.values()]
    )
    found = [n for n in toposort(nodes) if isinstance(n.op, Variable)]
    return Graph([array_for(n) for n in found], outputs, updates)


def values_of(graph: Graph, feeds: dict[str, np.ndarray], draw: int = 0) -> list[np.ndarray]:
    return evaluated(graph.results, {n: feeds[name] for n, name in graph.names.items()}, draw)


def round_trip(graph: Graph, path: Path) -> Graph:
    """The graph loaded from a file, which saved again is the same file."""
    save(graph, path)
    again = load(path)
    if not any(
        isinstance(n.op, DerivativeMarker) for n in listing(graph)
    ):  # a file leaves those out
        kinds = [[(type(n.op), n.shape, n.dtype) for n in listing(g)] for g in (again, graph)]
        assert kinds[0] == kinds[1]
    second = path.with_suffix(".again")
    save(again, second)
    assert second.read_bytes() == path.read_bytes()
    return again


def sample_graph() -> Graph:
    x, k, n = (
        tw.var("x", shape=(1, 6, 6, 2)),
        tw.var("k", shape=(3, 3, 2, 4)),
        tw.var("n", dtype="int64"),
    )
    h = tnp.conv2d(x, k, padding="SAME")
    u, s, _ = tnp.linalg.svd(h[0, :, :, 0])
    part = s.at[1].add(2.0)[tnp.asarray([0, 2])]
    noise = tw.random.normal(shape=(6,))
    total = tnp.sum(u * noise, axis=1) + tnp.asarray(np.arange(6.0))
    picked = tnp.where(total > 0, total, tnp.einsum("ab,b->a", u, noise))
    return Graph(
        [x, k],
        {"p": part, "t": [picked, tnp.transpose(h, (0, 3, 1, 2))]},
        {n: n + 1},
        name="sample",
    )


def path_of(graph: Graph, tmp_path: Path) -> Path:
    path = tmp_path / "g.tawny"
    save(graph, path)
    return path


def with_digest(raw: bytes) -> bytes:
    """The file with the checksum that its bytes have: what somebody who means harm would write."""
    length = int.from_bytes(raw[:8], "little")
    header = raw[8 : 8 + length]
    try:
        text = json.loads(header)["__metadata__"]
        old = text["sha256"]
        digest = hashlib.sha256(_without_digest(header, text) + raw[8 + length :]).hexdigest()
        return raw[:8] + header.replace(old.encode(), digest.encode(), 1) + raw[8 + length :]
    except (ValueError, KeyError, TypeError, AttributeError):
        return raw


def rebuilt(
    path: Path, change: Callable[[dict[str, Any]], object], data: bytes | None = None
) -> None:
    """The file at `path` with its graph changed, and its checksum made right."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    graph = json.loads(header["__metadata__"]["graph"])
    change(graph)
    header["__metadata__"]["graph"] = json.dumps(graph)
    text = json.dumps(header).encode()
    path.write_bytes(with_digest(len(text).to_bytes(8, "little") + text + raw[8 + length :]))


def raw_file(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(dtype: str, shape: Any, begin: Any, end: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
