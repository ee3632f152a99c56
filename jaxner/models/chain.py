"""Composed encoders: one on top of another, and a layer per token.

Shape letters: `T` tokens, `D` input features, `H` features.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxner.fields import Real, Size, check_fields
from jaxner.models import layers


class Chain(nn.Module):
    """An encoder on top of another encoder.

    Attributes:
        first: Reads the representation. If it has stages, `then` reads each of them.
        then: Reads the features of `first`.
    """

    first: nn.Module
    then: nn.Module

    @property
    def receptive_field(self) -> int | None:
        """Number of tokens that decide one label; None for all tokens."""
        first: int | None = getattr(self.first, "receptive_field", None)
        then: int | None = getattr(self.then, "receptive_field", None)
        return None if first is None or then is None else first + then - 1

    @property
    def num_stages(self) -> int:
        """Number of stages: those of `then` for each stage of `first`."""
        return getattr(self.first, "num_stages", 1) * getattr(
            self.then, "num_stages", 1
        )

    def __call__(
        self, x: Float[Array, " T D"], mask: Bool[Array, " T"], *, train: bool
    ):
        """Returns the features of each token, and both encoders' intermediates."""
        features, out = self.first(x, mask, train=train)
        if not isinstance(features, tuple):
            features, more = self.then(features, mask, train=train)
            return features, {**out, **more}
        stages, more = [], {}
        for stage in features:
            features, more = self.then(stage, mask, train=train)
            stages += features if isinstance(features, tuple) else [features]
        return tuple(stages), {**out, **more}

    def candidate_kernels(
        self, params: Mapping[str, Any]
    ) -> list[Float[Array, "K N N"]]:
        """Returns the kernels of both encoders; see `chain.candidate_kernels`."""
        return [
            *candidate_kernels(self.first, params.get("first", {})),
            *candidate_kernels(self.then, params.get("then", {})),
        ]


def candidate_kernels(
    encoder: nn.Module, params: Mapping[str, Any]
) -> list[Float[Array, "K N N"]]:
    """Returns the recurrent kernels of an encoder's cell candidates.

    Args:
        encoder: Any encoder; one with such kernels has a method `candidate_kernels`, as
            `BiLSTM` does.
        params: Parameters of the encoder.

    Returns:
        Kernels of the units that read the same input, for each layer and direction;
        empty if the encoder has no such method.
    """
    find = getattr(encoder, "candidate_kernels", None)
    return [] if find is None else find(params)


class Identity(nn.Module):
    """An encoder that returns its input, so that the head reads the representation.

    For representations that include the context, such as `bert`.
    """

    receptive_field = 1

    def __call__(
        self, x: Float[Array, " T D"], mask: Bool[Array, " T"], *, train: bool
    ) -> tuple[Float[Array, " T D"], dict[str, Array]]:
        """Returns the features unchanged, and no intermediates."""
        del mask, train
        return x, {}


class Projection(nn.Module):
    """A dense layer applied to each token.

    Attributes:
        hidden_dim: Number of output features.
        activation: One of `layers.ACTIVATIONS`.
        bias: Initial bias.
        initializer: How the kernel is drawn, one of `layers.KERNELS`.
    """

    hidden_dim: Size = 100
    activation: layers.Activation = "tanh"
    bias: Real = 0.0
    initializer: layers.Kernel = "glorot"

    receptive_field = 1

    def __post_init__(self):
        check_fields(self)
        super().__post_init__()

    @nn.compact
    def __call__(
        self, x: Float[Array, " T D"], mask: Bool[Array, " T"], *, train: bool
    ) -> tuple[Float[Array, " T H"], dict[str, Array]]:
        """Returns the features of each token; zero under padding."""
        del train
        dense = nn.Dense(
            self.hidden_dim,
            kernel_init=layers.KERNELS[self.initializer](1),
            bias_init=nn.initializers.constant(self.bias),
            name="dense",
        )
        x = layers.ACTIVATIONS[self.activation](dense(x))
        return jnp.where(mask[:, None], x, 0.0), {}
