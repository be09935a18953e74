"""Modules: layers and models.  Declare parameters in `__init__`, compute in `forward`.

    class Scaled(nn.Module):
        def __init__(self, size):
            self.weight = nn.Parameter((size,), nn.init.ones())

        def forward(self, x):
            return x * self.weight

A call never changes the model: what is trained or counted is passed in and out by `apply` and
`advance`, so that it can be differentiated, compiled and updated as one graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from tawny.array import Array, lift, wrap
from tawny.errors import type_error, value_error
from tawny.nn.checks import InputChecks
from tawny.nn.foreign_names import METHODS
from tawny.nn.members import (
    assign_paths,
    holds_members,
    may_hold_members,
    members_in,
    values_in,
    walk_members,
)
from tawny.nn.parameters import BINDING, Binding, Declaration, Key, Path, owner_of, path_text
from tawny.nn.values import match_arrays, nest
from tawny.shape import as_int
from tawny.source import SCOPE
from tawny.tree import map_leaves

if TYPE_CHECKING:
    from os import PathLike

    from tawny.nn.summary import Summary


def _no_forward(self: Module, *inputs: Any) -> Any:
    """What the layer computes from its `inputs`; every module says its own."""
    raise NotImplementedError(f"{type(self).__name__} has no forward; define what it computes")


class Module(InputChecks):
    """A layer or a model: parameters are declared in `__init__`, `forward` says what is computed.

    Attributes that are parameters (`nn.Parameter`), states (`nn.State`), modules, or lists, tuples
    and dicts of them are found by themselves.  A call never changes the model: what is trained or
    counted is passed in and out by `apply` and `advance`, so that it can be differentiated,
    compiled and updated as one graph.

        class Scaled(nn.Module):
            def __init__(self, size):
                self.weight = nn.Parameter((size,), nn.init.ones())

            def forward(self, x):
                return x * self.weight

        Scaled(2)(numpy.array([1.0, 2.0], "float32")).numpy().tolist()  # -> [1.0, 2.0]
    """

    forward: Callable[..., Any] = _no_forward
    _infers: bool = False

    def __init__(self) -> None:
        """A module that takes no arguments, unless its class says otherwise."""

    # ------------------------------------------------------------- attributes

    def __setattr__(self, name: str, value: Any) -> None:
        member, full = self._members.get(name), holds_members(value)
        if isinstance(member, Declaration) and value is not None and not full:
            self._change(name, member, value)
        elif (full and self._is_free(name)) or (
            not hasattr(type(self), name) and may_hold_members(value)
        ):
            self.__dict__.pop(name, None)
            self.adopt(name, value)
        else:
            self._members.pop(name, None)
            super().__setattr__(name, value)  # properties, as `parameters`, set themselves

    def _is_free(self, name: str) -> bool:
        """Whether a member can be filed under a name; one that would be hidden is refused."""
        if hasattr(Module, name):
            whose = "a name of every module"
        elif hasattr(type(self), name):
            if hasattr(getattr(type(self), name), "__set__"):
                return False
            whose = "an attribute of the class, which would hide it"
        else:
            return True
        raise value_error(type(self).__name__, f"{name!r} is {whose}; take another one")

    def __getattr__(self, name: str) -> Any:
        members = self.__dict__.get("_members", {})
        if name not in members:
            said = f"; write {METHODS[name]}" if name in METHODS else ""
            message = f"{type(self).__name__} has no attribute {name!r}{said}"
            raise AttributeError(message, name=name, obj=self)
        member = members[name]
        if isinstance(member, Module):
            return member
        if any(isinstance(x, Declaration) for _, x in members_in(member, ())):
            return values_in(member)
        return member

    def __delattr__(self, name: str) -> None:
        if self._members.pop(name, None) is None:
            super().__delattr__(name)

    def adopt(self, key: Key, member: Any) -> None:
        """File a member under a name or index, as assigning it to an attribute does.

        - `key`: the name or index.
        - `member`: a declaration, a module, or a list, tuple or dict of them.
        """
        self._members[key] = member
        assign_paths(self)

    def __copy__(self) -> Self:
        """Another module of the same layers and declarations; each may be given others alone."""
        other = type(self).__new__(type(self))
        mark = other._mark
        other.__dict__.update(self.__dict__)
        other.__dict__.update(_members=dict(self._members), _mark=mark)
        return other

    def declaration(self, name: str) -> Any:
        """The declaration of a parameter or state, to give another layer the same one.

        - `name`: the attribute's name.  Raises ValueError if it is neither.

        Layers that are given one declaration have one weight.

            first, second = nn.Linear(3, 3), nn.Linear(3, 3)
            second.weight = first.declaration("weight")
        """
        member = self._members.get(name)
        if not isinstance(member, Declaration):
            raise value_error(self.label, f"{name!r} is neither a parameter nor a state of it")
        return member

    def _change(self, name: str, member: Declaration, value: Any) -> None:
        """Assign to a name that was declared: in a call a new state, outside of it a value."""
        binding = BINDING.get()
        label = f"{self.label}, {name}"
        if binding is None or self not in binding.paths:
            _check_not_shared(value, member, label)
            array = match_arrays({name: value}, [((name,), member)], self.label, "value")[member]
            member.check_fits(array.numpy(), self.label, name)
            member.assign(array)
        elif member.parameter:
            raise value_error(label, "a parameter cannot change in a call; declare it nn.State")
        elif not binding.training:
            raise value_error(label, "a state changes in training only; ask self.training first")
        else:
            binding.change(member, value, label)

    # ---------------------------------------------------------------- calling

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """What `forward` gives; by itself, in inference mode with the current values.

        - `inputs`: arrays of any sort, or structures of them.
        - `options`: keyword arguments of `forward`, passed on as they are.

        Gives lazy arrays; `nn.predict` gives NumPy's, and computes many rows in batches.

            nn.Linear(3, 2)(numpy.ones((4, 3), "float32")).shape   # -> (4, 2)
        """
        binding = BINDING.get()
        if binding is None:
            return self._run(Binding({}, self._paths()), inputs, options)
        if self not in binding.paths:
            self._check_foreign(binding)
        arrays = tuple(_as_array(x) for x in inputs)
        token = SCOPE.set(binding.scope_of(self))
        caller, binding.running = binding.running, self
        try:
            outputs = self.forward(*arrays, **options)
        except Exception as error:
            _say_where(error, self)
            raise
        finally:
            binding.running = caller
            SCOPE.reset(token)
        if outputs is None:
            raise type_error(self.label, "forward gives None; it returns what the layer computes")
        if binding.observe is not None:
            binding.observe(self, arrays, outputs)
        return outputs

    def _check_foreign(self, binding: Binding) -> None:
        """Refuse to train a model through a layer that is no part of it, and would not learn."""
        if binding.training and any(isinstance(m, Declaration) for _, m in self.walk()):
            raise type_error(
                type(self).__name__,
                "the layer is no part of the model being trained; assign it to an attribute, or "
                "take it as it is: layer.apply(layer.parameters, x)",
            )

    def apply(
        self,
        parameters: Any,
        *inputs: Any,
        state: Any = None,
        training: bool = False,
        **options: Any,
    ) -> Any:
        """What the model gives with parameters that are passed in, as to differentiate in them.

        - `parameters`: nested dicts as `model.parameters`, of arrays of any sort.
        - `inputs`: the arguments of `forward`.
        - `state`: nested dicts as `model.state`; the current one when None.
        - `training`: compute as in training: dropout drops, batch normalisation takes the batch's
          statistics.
        - `options`: keyword arguments of `forward`.

        Raises ValueError for parameters that do not fit the model.

            model = nn.Linear(3, 1)
            x = numpy.ones((4, 3), "float32")
            slopes = tw.grad(lambda p: np.sum(model.apply(p, x)))(model.parameters)
            sorted(slopes)                                # -> ['bias', 'weight']
        """
        binding = self._bind("apply", parameters, state, training=training)
        return self._run(binding, inputs, options)

    def advance(
        self, parameters: Any, state: Any, *inputs: Any, **options: Any
    ) -> tuple[Any, dict[Any, Any]]:
        """What the model gives in training mode, and the state after it.

        - `parameters`, `state`: nested dicts as `model.parameters` and `model.state`.
        - `inputs`: the arguments of `forward`.
        - `options`: keyword arguments of `forward`.

        Gives a pair; the model itself stays as it is.

            model = nn.BatchNorm(3)
            x = numpy.ones((4, 3), "float32")
            outputs, state = model.advance(model.parameters, model.state, x)
            outputs.shape                                 # -> (4, 3)
        """
        binding = self._bind("advance", parameters, state, training=True)
        outputs = self._run(binding, inputs, options)
        return outputs, nest(self._declarations(trained=False), binding.read)

    def _bind(self, method: str, parameters: Any, state: Any, *, training: bool) -> Binding:
        op = f"{type(self).__name__}.{method}"
        if not isinstance(training, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise type_error(
                op,
                f"training is {training!r}; accepted: True and False (under tw.jit, name it: "
                'static=["training"])',
            )
        values = match_arrays(parameters, self._declarations(trained=True), op, "parameters")
        if state is not None:
            values |= match_arrays(state, self._declarations(trained=False), op, "state")
        return Binding(values, self._paths(), training)

    def _run(self, binding: Binding, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        token = BINDING.set(binding)
        try:
            return self(*inputs, **options)
        finally:
            BINDING.reset(token)

    @property
    def training(self) -> bool:
        """Whether the call under way is one of training, and the layer takes part in it."""
        binding = BINDING.get()
        return binding is not None and binding.training and not self._infers

    # ------------------------------------------------------------------ value

    @property
    def parameters(self) -> dict[Any, Any]:
        """The current values of what is trained, as nested dicts by attribute name or index.

        They can be set: all at once, from arrays of the same shapes.

            model = nn.Linear(3, 2)
            model.parameters = {"weight": numpy.ones((3, 2)), "bias": numpy.zeros(2)}
            model.parameters["weight"].shape              # -> (3, 2)
        """
        return nest(self._declarations(trained=True), lambda d: d.value)

    @parameters.setter
    def parameters(self, values: Any) -> None:
        self._assign("parameters", values, trained=True)

    @property
    def state(self) -> dict[Any, Any]:
        """The current values of what is kept but not trained, as `parameters`.

        Running statistics of batch normalisation are such, and parameters that are frozen.

            sorted(nn.BatchNorm(3).state)                 # -> ['mean', 'variance']
        """
        return nest(self._declarations(trained=False), lambda d: d.value)

    @state.setter
    def state(self, values: Any) -> None:
        self._assign("state", values, trained=False)

    def _assign(self, what: str, values: Any, *, trained: bool) -> None:
        op = f"{type(self).__name__}.{what}"
        fitting = match_arrays(values, self._declarations(trained=trained), op, what)
        for declaration, array in fitting.items():  # refused before anything is changed
            declaration.check_fits(array.numpy(), op, "a value")
        for declaration, array in fitting.items():
            declaration.assign(array)

    def initialise(self, seed: int = 0) -> Self:
        """Let every value be drawn anew when it is needed; gives the model itself.

        - `seed`: what the draws start from: one seed gives one model.

        Values that were trained or loaded are lost.

            model = nn.Linear(3, 2).initialise(seed=7)
        """
        number = as_seed(seed, "initialise")
        for _, member in self.walk():
            if isinstance(member, Declaration):
                member.restart(number)
        return self

    def freeze(self) -> Self:
        """Let every parameter stay as it is; gives the module itself.

        Until `unfreeze` they are among `state` instead of `parameters`: no slopes are computed for
        them, and no optimiser sees them.

            model = nn.Sequential(nn.Linear(3, 2).freeze(), nn.Linear(2, 1))
            model.parameter_count                         # -> 3
        """
        return self._set_frozen(frozen=True)

    def unfreeze(self) -> Self:
        """Let every parameter be trained again; gives the module itself.

        It undoes `freeze`, of this module and of all in it.

            nn.Linear(3, 2).freeze().unfreeze().parameter_count   # -> 8
        """
        return self._set_frozen(frozen=False)

    def _set_frozen(self, *, frozen: bool) -> Self:
        for _, member in self.walk():
            if isinstance(member, Declaration):
                member.frozen = frozen
        return self

    def use_inference(self, on: bool = True) -> Self:
        """Let the module compute as in inference while a model it is in trains; gives itself.

        - `on`: False takes it back.

        Its dropout does nothing, its batch normalisation takes the running statistics and leaves
        them as they are.  What is trained stays so: `freeze` says that.

            model = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5).use_inference())
        """
        if not isinstance(on, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise type_error(self.label, f"on is {on!r}; accepted: True and False")
        for _, member in self.walk():
            if isinstance(member, Module):
                member.__dict__["_infers"] = on
        return self

    @property
    def parameter_count(self) -> int:
        """How many numbers are trained; nothing is drawn.

        Frozen parameters are not among them.

            nn.Linear(3, 2).parameter_count               # -> 8
        """
        return sum(d.size for _, d in self._declarations(trained=True))

    # -------------------------------------------------------------- structure

    def walk(self) -> Iterator[tuple[Path, Module | Declaration]]:
        """The module, its modules and declarations: each once, with the path of its first place."""
        assign_paths(self)
        yield from cast("Iterator[tuple[Path, Module | Declaration]]", walk_members(self))

    def modules(self) -> dict[str, Module]:
        """The module, under the empty path, and all modules in it by their paths.

        Each is there once, under the path of its first place.

            list(nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1)).modules())   # -> ['', '0', '1']
        """
        return {path_text(path): m for path, m in self.walk() if isinstance(m, Module)}

    def _declarations(self, *, trained: bool) -> list[tuple[Path, Declaration]]:
        return [
            (path, member)
            for path, member in self.walk()
            if isinstance(member, Declaration) and member.is_trained == trained
        ]

    def _paths(self) -> dict[Module, Path]:
        return {member: path for path, member in self.walk() if isinstance(member, Module)}

    def extra(self) -> str:
        """What `repr` says of a layer beside its class."""
        return ""

    def __repr__(self) -> str:
        inner = [
            (k, m)
            for k, m in self._members.items()
            if not isinstance(m, Declaration) and holds_members(m)
        ]
        if not inner:
            return f"{type(self).__name__}({self.extra()})"
        lines = [f"({key}): {member!r}".replace("\n", "\n  ") for key, member in inner]
        return f"{type(self).__name__}(\n  " + "\n  ".join(lines) + "\n)"

    # ------------------------------------------------------------ conveniences

    def summary(self, *inputs: Any) -> Summary:
        """A table of the layers: output shapes, parameters, multiply-adds.  Nothing is computed.

        - `inputs`: shapes with the batch, or arrays; see `nn.summary`.

            print(nn.Linear(3, 2).summary((1, 3)))
        """
        from tawny.nn.summary import summary  # noqa: PLC0415  (it stands above modules)

        return summary(self, *inputs)

    def save(self, path: str | PathLike[str]) -> None:
        """Write parameters and state to a safetensors file.

        - `path`: the file, which is replaced.

            nn.Linear(3, 2).save("model.safetensors")
        """
        from tawny.nn import weights  # noqa: PLC0415  (it stands above modules)

        weights.save(self, path)

    def load(self, path: str | PathLike[str]) -> Self:
        """Take parameters and state from a safetensors file; gives the model itself.

        - `path`: a file that `save` wrote, or a checkpoint of `nn.train`.

        Raises ValueError for names or shapes that do not fit, and then changes nothing.

            nn.Linear(3, 2).save("weights.safetensors")
            model = nn.Linear(3, 2).load("weights.safetensors")
        """
        from tawny.nn import weights  # noqa: PLC0415  (it stands above modules)

        weights.load(self, path)
        return self


# --------------------------------------------------------------------- helpers


def _check_not_shared(value: Any, member: Declaration, label: str) -> None:
    """Refuse another layer's parameter, which may be meant to be shared or to be copied."""
    owner = owner_of(value.node) if isinstance(value, Array) else None
    if owner is not None and owner is not member:
        raise value_error(
            label,
            "this is the value of another layer's parameter; to share it, assign "
            'layer.declaration("name"), to copy it, assign layer.name.numpy()',
        )


def _as_array(x: Any) -> Any:
    """NumPy's arrays as lazy ones, in structures too; anything else as it is."""
    if isinstance(x, Array):
        return x
    if isinstance(x, np.ndarray):
        return wrap(lift(x, "call"))
    if isinstance(x, (tuple, list, dict)):
        return map_leaves(_as_array, cast("Any", x))
    return x


def _say_where(error: Exception, module: Module) -> None:
    """Note the innermost layer an error came from."""
    if not getattr(error, "__notes__", None):
        error.add_note(f"in layer {module.label}")


def as_seed(value: Any, op: str) -> int:
    """A number that random draws start from."""
    number = as_int(value, op, "seed")
    if number < 0:
        raise value_error(op, f"seed is {number}; it must be at least 0")
    return number


def check_module(value: Any, op: str) -> Module:
    """Refuse what is no module."""
    if not isinstance(value, Module):
        raise type_error(
            op, f"{type(value).__name__} is no module; accepted: instances of nn.Module"
        )
    return value
