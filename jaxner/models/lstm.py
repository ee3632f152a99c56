"""Bidirectional LSTM encoders, built on the kernel of `models.recurrence`.

Shape letters: `T` tokens, `D` input features, `N` state size of a cell, `K` units (a
unit is a pair of cells, one per direction), `H` output features. The gates of a cell
are on an axis of size four, in the kernel's order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxner.fields import Depth, OneOf, Rate, Real, Size, check_fields
from jaxner.models import layers
from jaxner.models.recurrence import CANDIDATE, FORGET, Carry, lstm_scan

POOLS = ("concat", "mean")
INPUT_MASKS = ("unit", "shared")
STREAMS = {"sentence": "dropout", "batch": "shared"}
INITIALIZERS = ("glorot", "glorot_fused", "kaiming", "normal", "torch")
Initializer = Annotated[str, OneOf(INITIALIZERS)]


class BiLSTM(nn.Module):
    """A bidirectional LSTM of one or more units and layers.

    Attributes:
        hidden_dim: State size of one unit in one direction.
        num_units: Independent units that read the same input (Žukov-Gregorič et al.,
            2018).
        num_layers: Number of stacked layers.
        cross: Whether a cell above the first layer reads both directions of the layer
            below (Cross-BiLSTM), or only its own, so that the two never mix
            (Baseline-BiLSTM of Li, Fu and Ma, 2020).
        pool: How outputs of units combine: "concat" or "mean".
        input_dropout: Dropout rate on the inputs of every layer.
        state_dropout: Dropout rate on the state h of a cell.
        output_dropout: Dropout rate on the outputs of the last layer. All three masks
            are constant over time and separate for each cell (Gal and Ghahramani,
            2016).
        input_mask: "unit": each cell has its own input mask; "shared": one for all
            cells of a layer. With several units and separate masks, almost every input
            reaches some unit.
        dropout_scope: "sentence": each sentence has its own masks, from the stream
            "dropout"; "batch": all sentences share masks from the stream "shared",
            whose key must be the same for all of them.
        initializer: "glorot", for each gate separately; "glorot_fused", for all gates
            and for the input and state matrices as one (TensorFlow); "kaiming";
            "normal", which is N(0, 1); "torch", U(±1/√N), PyTorch's default except for
            the biases.
        forget_bias: Initial bias of the forget gates; the other biases start at zero.
    """

    hidden_dim: Size = 200
    num_units: Size = 1
    num_layers: Depth = 1
    cross: bool = True
    pool: Annotated[str, OneOf(POOLS)] = "concat"
    input_dropout: Rate = 0.0
    state_dropout: Rate = 0.0
    output_dropout: Rate = 0.0
    input_mask: Annotated[str, OneOf(INPUT_MASKS)] = "unit"
    dropout_scope: Annotated[str, OneOf(STREAMS)] = "sentence"
    initializer: Initializer = "glorot"
    forget_bias: Real = 1.0

    receptive_field = None  # all tokens decide every label

    def __post_init__(self):
        check_fields(self)
        super().__post_init__()

    @nn.compact
    def __call__(
        self, x: Float[Array, " T D"], mask: Bool[Array, " T"], *, train: bool
    ) -> tuple[Float[Array, " T H"], dict[str, Array]]:
        """Returns the features of each token, zero under padding, and no intermediates.

        The features of all forward cells come first, then those of all backward cells.
        """

        def drop(rate, x, is_shared=False):
            """Multiplies by one mask for all tokens, per cell or for all cells."""
            if not (train and rate):
                return x
            key = self.make_rng(STREAMS[self.dropout_scope])
            shape = (*((1, 1) if is_shared else (2, self.num_units)), x.shape[3])
            kept = jax.random.bernoulli(key, 1 - rate, shape)
            return x * jnp.where(kept, 1 / (1 - rate), 0.0)[None]

        size = self.hidden_dim
        x = x[:, None, None]
        for layer in range(1, self.num_layers + 1):
            if self.cross and layer > 1:
                x = jnp.concatenate([x[:, 0:1], x[:, 1:2]], axis=3)
            x = drop(self.input_dropout, x, self.input_mask == "shared")
            kernels_and_bias = Cells(
                size,
                self.num_units,
                self.initializer,
                self.forget_bias,
                name=f"layer{layer}",
            )(x.shape[3])
            ones = jnp.ones((1, 2, self.num_units, size), x.dtype)
            state_mask = drop(self.state_dropout, ones)[0]
            x, _ = bilstm(x, mask, *kernels_and_bias, state_mask)
        x = drop(self.output_dropout, x)
        if self.pool == "mean":
            x = jnp.mean(x, axis=2, keepdims=True)
        return x.reshape(len(mask), 2 * x.shape[2] * size), {}

    def candidate_kernels(
        self, params: Mapping[str, Any]
    ) -> list[Float[Array, "K N N"]]:
        """Returns the recurrent kernels of the cell candidates.

        Args:
            params: Parameters of this module.

        Returns:
            For each layer and direction, the kernels of its units, from state to
            candidate.

        Example:
            >>> import jax, jax.numpy as jnp
            >>> x, mask = jnp.zeros((3, 5)), jnp.ones(3, bool)
            >>> encoder = BiLSTM(hidden_dim=4, num_units=2)
            >>> weights = encoder.init(jax.random.key(0), x, mask, train=False)
            >>> kernels = encoder.candidate_kernels(weights["params"])
            >>> [kernel.shape for kernel in kernels]
            [(2, 4, 4), (2, 4, 4)]

        References:
            Žukov-Gregorič, Bachrach and Coope, "Named Entity Recognition with Parallel
            Recurrent Neural Networks", ACL 2018: the W_c of the orthogonality penalty.
        """
        names = [f"layer{number}" for number in range(1, self.num_layers + 1)]
        return candidates(params, names)


class Cells(nn.Module):
    """The parameters of one layer, of all its units in both directions.

    Attributes:
        hidden_dim: State size of a cell.
        num_units: Units; see `BiLSTM`, as for the next two.
        initializer: How kernels are drawn.
        forget_bias: Initial bias of the forget gates.
        num_directions: Cells of a unit.
    """

    hidden_dim: int
    num_units: int = 1
    initializer: str = "glorot"
    forget_bias: float = 1.0
    num_directions: int = 2

    @nn.compact
    def __call__(self, dim: int):
        """Returns input kernel (`dim` input features), recurrent kernel and bias."""
        cells, size = (self.num_directions, self.num_units), self.hidden_dim

        def kernel(name, fan_in):
            if self.initializer == "normal":
                init = nn.initializers.normal(1.0)
            else:
                fans = {
                    "glorot": fan_in + size,
                    "glorot_fused": dim + size + 4 * size,
                    "kaiming": fan_in,
                    "torch": 6 * size,
                }
                init = layers.symmetric_uniform((6 / fans[self.initializer]) ** 0.5)
            return self.param(name, init, (*cells, fan_in, 4, size))

        def bias_init(key, shape):
            del key
            return jnp.zeros(shape).at[:, :, FORGET].set(self.forget_bias)

        bias = self.param("bias", bias_init, (*cells, 4, size))
        return kernel("input", dim), kernel("recurrent", size), bias


def candidates(
    params: Mapping[str, Any], names: Iterable[str]
) -> list[Float[Array, "K N N"]]:
    """Returns the candidates' recurrent kernels of some `Cells`, by direction.

    Args:
        params: Parameters of the module that holds the cells.
        names: Names of the cells.
    """
    return [
        direction[:, :, CANDIDATE]
        for name in names
        for direction in params[name]["recurrent"]
    ]


def bilstm(
    x: Float[Array, "T _ _ D"],
    mask: Bool[Array, " T"],
    input_kernel: Float[Array, "2 K D 4 N"],
    kernel: Float[Array, "2 K N 4 N"],
    bias: Float[Array, "2 K 4 N"],
    state_mask: Float[Array, "2 K N"],
    carry: Carry | None = None,
) -> tuple[Float[Array, "T 2 K N"], Carry]:
    """Runs one layer over a sentence in both directions.

    Backward cells read the padded array from its end; they keep their carry until they
    reach the sentence.

    Args:
        x: The input of each cell; an axis of size 1 is shared by both directions, or by
            all units.
        mask: True at the tokens.
        input_kernel: Input to gates, as `Cells` returns it.
        kernel: State to gates.
        bias: Bias of the gates.
        state_mask: See `lstm_scan`.
        carry: Initial carry, `[2, K, N]`; None for zeros.

    Returns:
        The outputs, zero under padding, and the final carry: of forward cells after the
        last token, of backward cells after the first.
    """
    units, size = state_mask.shape[1:]
    if carry is None:
        kind = jnp.result_type(x, input_kernel, bias, kernel, state_mask)
        zero = jnp.zeros((2, units, size), kind)
        zero, *_ = layers.vary_alike(zero, x, input_kernel, kernel, bias, state_mask)
        # The memory sums over the sentence: in bfloat16, small additions would vanish.
        carry = Carry(zero, zero.astype(jnp.promote_types(kind, jnp.float32)))
    weights = (  # the gates side by side
        input_kernel.reshape(*input_kernel.shape[:3], 4 * size),
        bias.reshape(2, units, 4 * size),
        kernel.reshape(2, units, size, 4 * size),
    )
    states, ends = [], []
    for side, order in enumerate((1, -1)):
        given = x[::order, side % x.shape[1]]
        is_shared = given.shape[1] == 1
        axes = (0, None if is_shared else 1, 0, 0, 0, None, 0)
        found, end = jax.vmap(lstm_scan, axes, (1, 0))(
            Carry(carry.state[side], carry.memory[side]),
            given[:, 0] if is_shared else given,
            *(array[side] for array in weights),
            mask[::order],
            state_mask[side],
        )
        states.append(found[::order])
        ends.append(end)
    return jnp.stack(states, axis=1), jax.tree.map(lambda *x: jnp.stack(x), *ends)
