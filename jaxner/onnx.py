"""Taggers as ONNX models, for Java, C++, browsers and other hosts without JAX.

`export_onnx` traces what a tagger computes of one sentence of any length, and writes
JAX's program as ONNX operators, one primitive at a time. So it knows no system by name,
and writes a model of your own, too, if it has a form for its primitives. Integers are
int64. An unsigned one, as random masks need, is an int64 below 2³², and a PRNG key is
one int64 made of both its words.

Shape letters: `T` tokens, `C` characters, `L` labels; `W` windows of `S` pieces, `Q`
pieces of a token.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxner import inference, models, outputs
from jaxner.data.vocabulary import CHAR_TYPES, MAX_CHARACTERS, Vocabulary
from jaxner.errors import InputError, optional
from jaxner.tagger import Tagger, check_sound
from jaxner.types import Pieces, Potentials, Sentence

OPSET = 18
"""Version of the operators: the first with bitwise ones."""
MOST_BYTES = 1 << 31
"""Weights of a file are smaller, by the limit of Protocol Buffers."""


def export_onnx(tagger: Tagger, path: str | os.PathLike[str]) -> None:
    """Writes a tagger as an ONNX model, and what its host needs as JSON beside it.

    The model maps one sentence to `emissions` [T, L], and for a CRF to `transitions`
    [L, L], `start` and `end` [L], in nats; for head 'seq2seq', to `labels` [T]. Inputs
    are `words` and `caps` [T] and `chars` [T, C], int64, as of `Sentence`; if the
    tagger reads them, `vectors` [T, layers, dim], and `windows`, `window_mask` [W, S]
    and `positions` [T, Q], as of `Pieces`. The JSON file, `grn.json` beside `grn.onnx`,
    has the vocabulary and its rules.

    Raises:
        ImportError: The package onnx is missing.
        InputError: The tagger cannot be expressed, its weights are infinite or NaN, or
            the file has another ending.

    Example:
        >>> import tempfile, pathlib, jaxner
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> export_onnx(jaxner.load("runs/grn"), folder / "grn.onnx")
        >>> sorted(file.name for file in folder.iterdir())
        ['grn.json', 'grn.onnx']
    """
    check_sound(tagger)
    target = outputs.expanded(path)
    if target.suffix != ".onnx":
        raise InputError(f"Expected a file whose name ends in .onnx, got {target}")
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(tagger.weights))
    if size >= MOST_BYTES:
        raise InputError(f"An ONNX file holds less than 2 GB, got {size:,} bytes.")
    outputs.check(target, target.with_suffix(".json"))
    outputs.check_side(target.with_suffix(".json"), target, {"max_characters"})
    model = model_of(functools.partial(_outputs, tagger), _inputs(tagger.vocabulary))
    content = model.SerializeToString()
    facts = json.loads(tagger.vocabulary.to_json())
    facts["max_characters"] = MAX_CHARACTERS
    facts["char_types"] = list(CHAR_TYPES.values())
    facts["temperature"] = float(tagger.temperature)
    text = json.dumps(facts, ensure_ascii=False)
    with outputs.writing(target) as file:  # first, since a full disk leaves neither
        file.write(content)
        outputs.write_text(target.with_suffix(".json"), text)


def _inputs(vocabulary: Vocabulary) -> dict[str, jax.ShapeDtypeStruct]:
    """Returns shapes and types of all inputs; the lengths are symbols."""
    tokens, chars, windows, pieces, longest = jax.export.symbolic_shape("T, C, W, S, Q")
    shapes: dict[str, tuple] = {"words": (tokens,), "caps": (tokens,)}
    shapes["chars"] = tokens, chars
    if vocabulary.vector_sizes is not None:
        shapes["vectors"] = tokens, *vocabulary.vector_sizes
    if vocabulary.pieces is not None:
        shapes["windows"] = shapes["window_mask"] = windows, pieces
        shapes["positions"] = tokens, longest
    types = {"vectors": jnp.float32, "window_mask": jnp.bool_}
    return {
        name: jax.ShapeDtypeStruct(shape, types.get(name, jnp.int32))
        for name, shape in shapes.items()
    }


def _outputs(tagger: Tagger, inputs: dict[str, Any]) -> dict[str, Any]:
    """Returns what the model gives for one sentence without padding."""
    pieces = ("windows", "window_mask", "positions")
    mask = jnp.ones(inputs["words"].shape[0], bool)
    sentence = Sentence(
        inputs["words"],
        inputs["chars"],
        jnp.arange(mask.shape[0], dtype=jnp.int32),  # equal words are read twice
        mask,
        inputs["caps"],
        inputs.get("vectors"),
        Pieces(*map(inputs.get, pieces)) if "windows" in inputs else None,
    )
    model = tagger.model.clone(dtype="float32")
    potentials = models.predict(model, tagger.weights, sentence)
    if not isinstance(potentials, Potentials):  # a label depends on all before
        return {"labels": inference.viterbi(potentials, mask)}
    return {name: x for name, x in potentials._asdict().items() if x is not None}


def model_of(function: Callable[..., Any], inputs: dict[str, Any]) -> Any:
    """Returns the ONNX model of a function from arrays by name to arrays by name.

    Lengths of the inputs may be symbols, of `jax.export.symbolic_shape`, for any length
    from 1. `InputError`: the function has a primitive that jaxner cannot write.
    """
    graph = _Graph()
    program, outputs = jax.make_jaxpr(function, return_shape=True)(inputs)
    values = {name: graph.read(name, spec) for name, spec in inputs.items()}
    # JAX sorts the entries of a dictionary.
    results = graph.call(program, [values[name] for name in sorted(inputs)])
    for name, value in zip(sorted(outputs), results, strict=True):
        graph.add("Identity", value, names=[name])
    return graph.model(inputs, outputs)


# --- The graph ------------------------------------------------------------------------


class _Value:
    """The output of a node, with Python's operators for integers."""

    def __init__(self, graph: _Graph, name: str):
        self.graph, self.name = graph, name

    def _with(self, kind: str, operand: object) -> _Value:
        return self.graph.add(kind, self, operand)

    __add__ = __radd__ = functools.partialmethod(_with, "Add")
    __sub__ = functools.partialmethod(_with, "Sub")
    __mul__ = __rmul__ = functools.partialmethod(_with, "Mul")
    __mod__ = functools.partialmethod(_with, "Mod")
    __pow__ = functools.partialmethod(_with, "Pow")
    __truediv__ = functools.partialmethod(_with, "Div")  # rounds to zero
    __and__ = functools.partialmethod(_with, "BitwiseAnd")
    __or__ = functools.partialmethod(_with, "BitwiseOr")
    __xor__ = functools.partialmethod(_with, "BitwiseXor")

    def __neg__(self) -> _Value:
        return self * -1

    def __rsub__(self, operand: object) -> _Value:
        return -self + operand

    def __floordiv__(self, operand: object) -> _Value:
        return (self - self % operand) / operand


class _Graph:
    """An ONNX graph while it is written.

    What nodes read is a `_Value` or a constant: a number, integers or an array.
    """

    def __init__(self):
        onnx = optional("onnx", "jaxner export-onnx")
        self.helper, self.to_tensor = onnx.helper, onnx.numpy_helper.from_array
        self.nodes: list[Any] = []
        self.lengths: list[Any] = []  # nodes of lengths, which stand before all others
        self.symbols: dict[str, _Value] = {}  # lengths [1] by their names
        self.shapes: dict[str, _Value] = {}
        self.constants: dict[Any, tuple[_Value, np.ndarray, Any]] = {}
        self.count = 0

    def new(self) -> _Value:
        self.count += 1
        return _Value(self, f"v{self.count}")

    def add(
        self, kind: str, *inputs: Any, count: int = 0, names: Any = (), **options
    ) -> Any:
        """Adds a node; returns its output, or a list of `count` outputs."""
        outputs = [self.new() for _ in range(count or 1)]
        values = [x if isinstance(x, _Value) else self.constant(x) for x in inputs]
        ends = [x.name for x in values], [*names] or [x.name for x in outputs]
        self.nodes.append(self.helper.make_node(kind, *ends, **options))
        return outputs if count else outputs[0]

    def along(self, kind: str, x: _Value, axes: Sequence[int]) -> _Value:
        """Adds a Squeeze or an Unsqueeze, if there are axes."""
        return self.add(kind, x, _ints(axes)) if len(axes) else x

    def row(self, x: Any, index: Any) -> Any:
        """Returns a row of an array; of a constant, a constant."""
        if isinstance(x, _Value) or isinstance(index, _Value):
            return self.add("Gather", x, index)
        return np.asarray(x)[index]

    def constant(self, value: object) -> _Value:
        """Returns a constant: one for small equal ones, or for an array."""
        array = np.asarray(value, np.float32 if isinstance(value, float) else None)
        if isinstance(value, list) or np.issubdtype(array.dtype, np.integer):
            array = array.astype(np.int64)
        is_small = array.size <= _SMALL_SIZE
        key = (array.dtype.str, array.shape, array.tobytes()) if is_small else id(value)
        # The entry holds the value, so that no other one gets its id.
        return self.constants.setdefault(key, (self.new(), array, value))[0]

    def kind(self, dtype: object) -> int:
        """Returns ONNX's number of the type that represents one of JAX's."""
        kind = np.dtype(dtype if dtype in (bool, np.float32) else np.int64)
        return self.helper.np_dtype_to_tensor_dtype(kind)

    def cast(self, x: object, dtype: object) -> _Value:
        return self.add("Cast", x, to=self.kind(dtype))

    def info(self, name: str, spec: Any) -> Any:
        dims = [size if isinstance(size, int) else str(size) for size in spec.shape]
        return self.helper.make_tensor_value_info(name, self.kind(spec.dtype), dims)

    @contextlib.contextmanager
    def into(self, nodes: list[Any]) -> Iterator[list[Any]]:
        outer_nodes, self.nodes = self.nodes, nodes
        yield nodes
        self.nodes = outer_nodes

    def read(self, name: str, spec: Any) -> _Value:
        """Returns the value of an input, whose lengths become known."""
        value = _Value(self, name)
        with self.into(self.lengths):
            shape = self.add("Shape", value)
            for axis, size in enumerate(map(str, spec.shape)):
                self.symbols.setdefault(size, self.add("Gather", shape, [axis]))
        return value

    def shape(self, dims: Sequence[Any]) -> Any:
        """Returns lengths as an array."""
        if all(isinstance(size, (int, np.integer)) for size in dims):
            return _ints(dims)
        # JAX's text of a length is a Python expression, but for powers.
        text = ", ".join(map(str, dims)).replace("^", "**")
        if text not in self.shapes:
            functions = {"floordiv": operator.floordiv, "mod": operator.mod}
            with self.into(self.lengths):
                sizes = eval(f"[{text}]", functions, dict(self.symbols))
                sizes = [[n] if isinstance(n, int) else n for n in sizes]
                self.shapes[text] = self.add("Concat", *sizes, axis=0)
        return self.shapes[text]

    def call(self, program: Any, inputs: Sequence[Any]) -> list[Any]:
        """Writes a program of JAX's; returns its outputs."""
        jaxpr = getattr(program, "jaxpr", program)
        values = dict(zip(jaxpr.constvars, getattr(program, "consts", ()), strict=True))
        values |= zip(jaxpr.invars, inputs, strict=True)

        def read(atom: Any) -> Any:
            is_number = hasattr(atom, "val")
            return np.asarray(atom.val, atom.aval.dtype) if is_number else values[atom]

        # Without what nothing reads, such as a key for a Flax cell's first state.
        equations, needed = [], _variables(jaxpr.outvars)
        for equation in reversed(jaxpr.eqns):
            if needed & {*equation.outvars}:
                equations.append(equation)
                needed |= _variables(equation.invars)
        for equation in reversed(equations):
            outputs = self.write(equation, [read(atom) for atom in equation.invars])
            values |= zip(equation.outvars, outputs, strict=True)
        return [read(atom) for atom in jaxpr.outvars]

    def write(self, equation: Any, inputs: list[Any]) -> Sequence[Any]:
        name, options = equation.primitive.name, equation.params
        if name not in _PRIMITIVES:
            programs = [options[call] for call in _CALLS if call in options]
            _expect(equation, programs)
            return self.call(programs[0], inputs)
        result = _PRIMITIVES[name](self, equation, *inputs)
        if equation.outvars[0].aval.dtype == jnp.uint32 and name in _WRAPAROUND:
            result = result & _WORD
        return result if isinstance(result, list) else [result]

    def model(self, inputs: dict[str, Any], outputs: dict[str, Any]) -> Any:
        ends = ([self.info(n, end[n]) for n in end] for end in (inputs, outputs))
        weights = [self.to_tensor(a, x.name) for x, a, _ in self.constants.values()]
        nodes = self.lengths + self.nodes
        graph = self.helper.make_graph(nodes, "tagger", *ends, weights)
        opset = self.helper.make_opsetid("", OPSET)
        options = {"ir_version": 8, "producer_name": "jaxner"}
        return self.helper.make_model(graph, opset_imports=[opset], **options)


def _variables(atoms: Sequence[Any]) -> set[Any]:
    return {atom for atom in atoms if not hasattr(atom, "val")}


# --- Primitives -----------------------------------------------------------------------

_CALLS = ("jaxpr", "call_jaxpr", "fun_jaxpr")  # options that are programs
_WRAPAROUND = ("add", "sub", "mul", "reduce_sum", "convert_element_type")
_WORD = (1 << 32) - 1
_SMALL_SIZE = 64  # elements of a small constant


def _expect(equation: Any, condition: object) -> None:
    if not condition:
        raise InputError(
            "ONNX cannot express this tagger: jaxner has no form for "
            f"{equation.primitive.name!r} with {equation.params}."
        )


def _ints(values: Iterable[Any]) -> list[int]:
    return [int(value) for value in values]


def _is_bool(equation: Any, index: int = 0) -> bool:
    return equation.invars[index].aval.dtype == bool


def _logic(graph, equation, *inputs):
    name = equation.primitive.name.title()
    return graph.add(name if _is_bool(equation) else f"Bitwise{name}", *inputs)


def _bitcast(graph, equation, word):
    """Writes the float of a word, positive and normal."""
    _expect(equation, equation.params["new_dtype"] == jnp.float32)
    exponent = graph.cast(word / (1 << 23), np.float32)
    fraction = graph.cast(word & ((1 << 23) - 1), np.float32)
    return graph.add("Pow", 2.0, exponent - 127.0) * (fraction / 2.0**23 + 1.0)


def _select(graph, equation, condition, no, yes):
    if not _is_bool(equation, 1):
        return graph.add("Where", condition, yes, no)
    no = graph.add("And", graph.add("Not", condition), no)
    return graph.add("Or", graph.add("And", condition, yes), no)


def _reduce(graph, equation, x):
    kinds = {"reduce_or": "Max", "reduce_and": "Min", "reduce_sum": "Sum"}
    name, is_bool = equation.primitive.name, _is_bool(equation)
    kind = f"Reduce{kinds.get(name, name[-3:].title())}"
    options = {"keepdims": 0, "noop_with_empty_axes": 1}
    x = graph.cast(x, int) if is_bool else x
    x = graph.add(kind, x, _ints(equation.params["axes"]), **options)
    return graph.cast(x, bool) if is_bool else x


def _iota(graph, equation):
    dims, axis = equation.params["shape"], equation.params["dimension"]
    row = graph.add("Range", 0, graph.add("Squeeze", graph.shape([dims[axis]])), 1)
    row = graph.cast(row, equation.params["dtype"])
    row = graph.along("Unsqueeze", row, [n for n in range(len(dims)) if n != axis])
    return graph.add("Expand", row, graph.shape(dims))


def _broadcast(graph, equation, x, *_):
    shape = equation.params["shape"]
    axes = _ints(equation.params["broadcast_dimensions"])
    if axes:  # a scalar expands without
        x = graph.along("Unsqueeze", x, [n for n in range(len(shape)) if n not in axes])
    return graph.add("Expand", x, graph.shape(shape))


def _stack(graph, equation, *parts):
    axis = int(equation.params["axis"])
    parts = [graph.add("Unsqueeze", part, [axis]) for part in parts]
    return graph.add("Concat", *parts, axis=axis)


def _split(graph, equation, x):
    sizes, axis = _ints(equation.params["sizes"]), int(equation.params["axis"])
    return graph.add("Split", x, sizes, count=len(sizes), axis=axis)


def _unstack(graph, equation, x):
    axis, places = int(equation.params["axis"]), range(len(equation.outvars))
    return [graph.add("Gather", x, index, axis=axis) for index in places]


def _pad(graph, equation, x, value):
    low, high, inner = zip(*equation.params["padding_config"], strict=True)
    _expect(equation, not any(inner))
    return graph.add("Pad", x, graph.shape([*low, *high]), value)


def _slice(graph, equation, x):
    starts, ends, steps = (
        equation.params[name] for name in ("start_indices", "limit_indices", "strides")
    )
    axes = [*range(len(starts))]
    steps = _ints(steps or [1] * len(axes))
    return graph.add("Slice", x, graph.shape(starts), graph.shape(ends), axes, steps)


def _flip(graph, x, axes):
    start, end = [-1] * len(axes), [np.iinfo(np.int64).min] * len(axes)
    return graph.add("Slice", x, start, end, axes, start)


def _window(graph, equation, x, starts, axes):
    """Writes a part of an array from starts [N], moved to lie inside of it."""
    sizes, dims = equation.params["slice_sizes"], equation.invars[0].aval.shape
    sizes, dims = (graph.shape([n[axis] for axis in axes]) for n in (sizes, dims))
    starts = graph.add("Min", starts, graph.add("Sub", dims, sizes))
    starts = graph.add("Max", starts, 0)
    return graph.add("Slice", x, starts, starts + sizes, _ints(axes))


def _dynamic_slice(graph, equation, x, *starts):
    starts = [graph.add("Unsqueeze", start, [0]) for start in starts]
    starts = graph.add("Concat", *starts, axis=0)
    return _window(graph, equation, x, starts, range(len(equation.invars) - 1))


def _gather(graph, equation, x, indices):
    """Writes rows by their indices; the host refuses one out of bounds."""
    numbers, sizes = (equation.params[n] for n in ("dimension_numbers", "slice_sizes"))
    shape, places = (atom.aval.shape for atom in equation.invars)
    picks, batch = _ints(numbers.start_index_map), _ints(numbers.operand_batching_dims)
    single = _ints(numbers.collapsed_slice_dims)
    if len(places) == 1:  # of one window
        x = _window(graph, equation, x, indices, picks)
        return graph.along("Squeeze", x, single)
    rest = [axis for axis in range(len(shape)) if axis not in picks + batch]
    row = [shape[axis] if axis in rest else 1 for axis in range(len(shape))]
    _expect(equation, [*map(str, row)] == [*map(str, sizes)])
    first = _ints(numbers.start_indices_batching_dims)
    outer = first + [n for n in range(len(places) - 1) if n not in first]
    x = graph.add("Transpose", x, perm=batch + picks + rest)
    indices = graph.add("Transpose", indices, perm=[*outer, len(places) - 1])
    values = graph.add("GatherND", x, indices, batch_dims=len(batch))
    # Its axes are those of the indices, then the rest of the array's: where to?
    offsets, rank = _ints(numbers.offset_dims), len(equation.outvars[0].aval.shape)
    free_axes = [axis for axis in range(rank) if axis not in offsets]
    axes = [axis for axis in range(len(shape)) if axis not in batch + single]
    axis_of = dict(zip(axes, offsets, strict=True))
    targets = [*(free_axes[axis] for axis in outer), *(axis_of[axis] for axis in rest)]
    values = graph.add("Transpose", values, perm=_ints(np.argsort(targets)))
    return graph.along("Unsqueeze", values, [axis_of[n] for n in picks if n in axis_of])


def _dot(graph, equation, x, y):
    (left, right), (left_batch, right_batch) = equation.params["dimension_numbers"]
    ranks = [len(atom.aval.shape) for atom in equation.invars]
    if (*left, *right, *left_batch, ranks[1]) == (ranks[0] - 1, 0, 2):
        return graph.add("MatMul", x, y)
    first = [chr(97 + axis) for axis in range(ranks[0])]
    second = [chr(65 + axis) for axis in range(ranks[1])]
    for i, j in zip([*left, *left_batch], [*right, *right_batch], strict=True):
        second[j] = first[i]
    axes = [first[i] for i in left_batch] + [c for c in first if c not in second]
    axes += [c for c in second if c not in first]
    sides = f"{''.join(first)},{''.join(second)}->{''.join(axes)}"
    return graph.add("Einsum", x, y, equation=sides)


def _platform_index(graph, equation):
    platforms = [platform or "cpu" for platform in equation.params["platforms"]]
    return next(i for i, names in enumerate(platforms) if "cpu" in names)


def _cond(graph, equation, index, *inputs):
    _expect(equation, isinstance(index, int))
    return graph.call(equation.params["branches"][index], inputs)


def _scan(graph, equation, *inputs):
    options, program = equation.params, equation.params["jaxpr"]
    jaxpr = getattr(program, "jaxpr", program)

    def number_of_rows(outer, inner):  # versions of JAX name the parts in other ways
        pairs = zip(outer, inner, strict=True)
        return sum(len(a.aval.shape) - len(b.aval.shape) for a, b in pairs)

    total, rows = len(jaxpr.outvars), number_of_rows(equation.invars, jaxpr.invars)
    carries = total - number_of_rows(equation.outvars, jaxpr.outvars)
    first, last = len(inputs) - rows - carries, len(inputs) - rows
    if isinstance(options["length"], int) and total == carries:  # a stack of layers
        state = inputs[first:last]
        for step in range(options["length"])[:: -1 if options["reverse"] else 1]:
            step_inputs = [graph.row(x, step) for x in inputs[last:]]
            state = graph.call(program, [*inputs[:first], *state, *step_inputs])
        return state
    length = graph.add("Squeeze", graph.shape([options["length"]]))
    step, flag, *state = reads = [graph.new() for _ in range(2 + carries)]
    with graph.into([]) as nodes:
        index = length - step - 1 if options["reverse"] else step
        step_inputs = [graph.row(x, index) for x in inputs[last:]]
        results = graph.call(program, [*inputs[:first], *state, *step_inputs])
        results = [graph.add("Identity", x) for x in (flag, *results)]
    number, boolean = (jax.ShapeDtypeStruct((), kind) for kind in (int, bool))
    starts, ends = (
        [atom.aval for atom in part]
        for part in (jaxpr.invars[first:last], jaxpr.outvars)
    )
    ends = (reads, (number, boolean, *starts)), (results, (boolean, *ends))
    ends = [[graph.info(x.name, n) for x, n in zip(*end, strict=True)] for end in ends]
    body = graph.helper.make_graph(nodes, "body", *ends)
    state = inputs[first:last]
    outputs = graph.add("Loop", length, np.array(True), *state, count=total, body=body)
    count = carries if options["reverse"] else total
    return outputs[:count] + [_flip(graph, x, [0]) for x in outputs[count:]]


def _threefry(key, word):
    """Writes Threefry-2x32 of a key and 0, word (Salmon et al., SC 2011)."""
    keys = [(key & (-1 << 32)) / (1 << 32) & _WORD, key & _WORD]
    keys.append(keys[0] ^ keys[1] ^ 0x1BD11BDA)
    x, y = keys[0], keys[1] + word & _WORD
    for i in range(5):
        for bits in ((13, 15, 26, 6), (17, 29, 16, 24))[i % 2]:
            x = x + y & _WORD
            y = (y * (1 << bits) | y / (1 << 32 - bits)) & _WORD ^ x
        x, y = x + keys[(i + 1) % 3] & _WORD, y + keys[(i + 2) % 3] + (i + 1) & _WORD
    return x, y


def _fold_in(graph, equation, key, number):
    x, y = _threefry(graph.add("Identity", key), number)
    return x * (1 << 32) | y


def _random_bits(graph, equation, key):
    aval, shape = equation.invars[0].aval, equation.params["shape"]
    is_known = equation.params["bit_width"] == 32 and str(aval.dtype) == "key<fry>"
    _expect(equation, is_known)
    count = graph.add("ReduceProd", graph.shape([*shape, 1]), keepdims=0)
    numbers = graph.add("Reshape", graph.add("Range", 0, count, 1), graph.shape(shape))
    key = graph.along("Unsqueeze", key, len(aval.shape) + np.arange(len(shape)))
    x, y = _threefry(graph.add("Identity", key), numbers)
    return x ^ y


_OPS = "abs add cos div erf exp floor log max min mul neg pow sign sin sqrt sub tanh"
_OPERATORS = {name: name.title() for name in _OPS.split()}
_OPERATORS |= {"eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater"}
_OPERATORS |= {"ge": "GreaterOrEqual", "logistic": "Sigmoid", "ceil": "Ceil"}
_OPERATORS |= {"copy": "Identity", "stop_gradient": "Identity"}


def _same(graph, equation, *inputs):
    return graph.add(_OPERATORS[equation.primitive.name], *inputs)


_REDUCTIONS = ("reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_sum")
_PRIMITIVES: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(_OPERATORS, _same),
    **dict.fromkeys(("and", "not", "or", "xor"), _logic),
    **dict.fromkeys(_REDUCTIONS, _reduce),
    "argmax": lambda g, e, x: g.add("ArgMax", x, axis=e.params["axes"][0], keepdims=0),
    "bitcast_convert_type": _bitcast,
    "broadcast_in_dim": _broadcast,
    "concatenate": lambda g, e, *x: g.add("Concat", *x, axis=e.params["dimension"]),
    "cond": _cond,
    "convert_element_type": lambda g, e, x: g.cast(x, e.params["new_dtype"]),
    "dim_as_value": lambda g, e: g.add("Squeeze", g.shape([e.params["dim"]])),
    "dot_general": _dot,
    "dynamic_slice": _dynamic_slice,
    "erfc": lambda g, e, x: g.add("Sub", 1.0, g.add("Erf", x)),
    "gather": _gather,
    "integer_pow": lambda g, e, x: g.add("Pow", x, float(e.params["y"])),
    "iota": _iota,
    "is_finite": lambda g, e, x: g.add("Less", g.add("Abs", x), math.inf),
    "ne": lambda g, e, x, y: g.add("Not", g.add("Equal", x, y)),
    "pad": _pad,
    "platform_index": _platform_index,
    "random_bits": _random_bits,
    "random_fold_in": _fold_in,
    "random_seed": lambda g, e, seed: int(seed),  # the second word of a key
    "rem": lambda g, e, x, y: g.add("Mod", x, y, fmod=1),
    "reshape": lambda g, e, x: g.add("Reshape", x, g.shape(e.params["new_sizes"])),
    "rev": lambda g, e, x: _flip(g, x, _ints(e.params["dimensions"])),
    "rsqrt": lambda g, e, x: g.add("Reciprocal", g.add("Sqrt", x)),
    "scan": _scan,
    "select_n": _select,
    "shift_right_logical": lambda g, e, x, y: g.add("Div", x, g.add("Pow", 2, y)),
    "slice": _slice,
    "split": _split,
    "square": lambda g, e, x: g.add("Mul", x, x),
    "squeeze": lambda g, e, x: g.along("Squeeze", x, e.params["dimensions"]),
    "stack": _stack,
    "top_k": lambda g, e, x: g.add("TopK", x, [e.params["k"]], count=2),
    "transpose": lambda g, e, x: g.add("Transpose", x, perm=e.params["permutation"]),
    "unstack": _unstack,
}
