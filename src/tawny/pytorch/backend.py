"""The backend of `torch.compile`: forward and backward graphs of PyTorch's core ops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from tawny.errors import type_error
from tawny.pytorch.library import backends, decomp, partitioners, torch
from tawny.pytorch.runtime import CompiledGraph, Options
from tawny.pytorch.splitting import draw_apart, find_missing, note_missing, split

OPTIONS: Final = (
    "assume_finite",
    "disable",
    "enable",
    "memory",
    "optimise",
    "plan",
    "precision",
    "threads",
)
"""The options of `Graph.compile` that a user may give."""

KEPT: Final = (
    "_scaled_dot_product_flash_attention_for_cpu.default",
    "bernoulli.default",
    "native_dropout.default",
)
"""Ops that are not decomposed though PyTorch's table for core ops does."""

MORE: Final = (
    "_adaptive_avg_pool2d.default",
    "_batch_norm_with_update_functional.default",
    "adaptive_max_pool2d.default",
    "as_strided_copy.default",
    "dist.default",
    "elu.default",
    "gelu.default",
    "grid_sampler_2d.default",
    "hardtanh.default",
    "ldexp.Tensor",
    "leaky_relu.default",
    "linalg_vector_norm.default",
    "narrow_copy.default",
    "upsample_bilinear2d.default",
    "upsample_bilinear2d.vec",
)
"""Ops that are decomposed though PyTorch's table for core ops does not."""


def compile_graph(
    module: Any,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """What `torch.compile(..., backend="tawny")` calls for each graph it finds.

    - `module`: the graph.
    - `example_inputs`: stand-ins for its arguments.
    - `mode`: accepted, since every backend is given it; it changes nothing.
    - `options`: those of `Graph.compile`: `{"threads": 2, "memory": "50MB"}`.
    """
    given = _check_options(options or {})
    partition = partitioners.min_cut_rematerialization_partition

    def build(graph: Any, _: Sequence[Any]) -> Any:
        return build_graph(graph, given)

    compiler = backends.aot_autograd(
        fw_compiler=build,
        bw_compiler=build,
        inference_compiler=build,
        decompositions=decompositions(),
        partition_fn=partition,
    )
    compiled: Callable[..., Any] = compiler(module, example_inputs)
    return compiled


def _check_options(options: Mapping[str, Any]) -> Options:
    for name in options:
        if name not in OPTIONS:
            raise type_error(
                "torch.compile", f"option {name!r} is not known; accepted: {', '.join(OPTIONS)}"
            )
    return dict(options)


def build_graph(graph: Any, options: Options) -> Callable[[list[Any]], Any]:
    """A graph of PyTorch's as something to call with a list of arguments."""
    draw_apart(graph)
    missing = find_missing(graph)
    if not missing:
        return _mark_boxed(CompiledGraph(graph, options))
    note_missing(missing)

    def part(child: Any) -> Callable[..., Any]:
        compiled = CompiledGraph(child, options)

        def run(*args: Any) -> Any:
            return compiled(list(args))

        return run

    whole = split(graph, missing, part)
    return _mark_boxed(lambda args: whole.forward(*args))


def _mark_boxed(run: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """A function of a list of arguments, marked as PyTorch marks such functions."""

    def call(args: list[Any]) -> Any:
        return run(args)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


@cache
def decompositions() -> Mapping[Any, Any]:
    """PyTorch's own ways to say ops by core ops, but for those that are computed whole."""
    table: dict[Any, Any] = dict(decomp.core_aten_decompositions())
    for name in KEPT:
        table.pop(_overload(name), None)
    for name in MORE:
        found = decomp.decomposition_table.get(_overload(name))
        if found is not None:
            table[_overload(name)] = found
    return table


def _overload(name: str) -> Any:
    """PyTorch's op called `name`, with its overload."""
    packet, overload = name.split(".")
    return getattr(getattr(torch.ops.aten, packet), overload)
