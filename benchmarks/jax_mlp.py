"""The paper's perceptron in JAX: an epoch is one compiled program, of one run or of several at once."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.nn.initializers import he_uniform

WIDTHS = (100, 100, 10)
OPTIMIZERS = {"SGD": partial(optax.sgd, 1e-2), "Adam": partial(optax.adam, 1e-3)}
FORMS = ("one run", "vmap over 8", "lax.map over 8")
Parameters = list[dict[str, Any]]


def runs_of(form: str) -> int:
    return 1 if form == "one run" else 8


def epoch(form: str, images: Any, *, batch: int, optimizer: str) -> Callable[[], object]:
    """An epoch of AdaLin on ReLU (that is PReLU) on random labels, with its own order of the images in each run."""
    runs, pixels, moves = runs_of(form), jnp.asarray(images), OPTIMIZERS[optimizer]()
    count = len(images) // batch * batch
    labels = jax.random.randint(jax.random.key(1), (runs, len(images)), 0, WIDTHS[-1])

    def step(carried: Any, rows: Any, own_labels: Any) -> tuple[Any, Any]:
        parameters, memory = carried
        x, y = pixels[rows], own_labels[rows]
        (_, logits), grads = jax.value_and_grad(_loss, has_aux=True)(parameters, x, y)
        changes, memory = moves.update(grads, memory, parameters)
        return (optax.apply_updates(parameters, changes), memory), (logits.argmax(-1) == y).sum()

    def train(carried: Any, order: Any, own_labels: Any) -> tuple[Any, Any]:
        batches = order[:count].reshape(-1, batch)
        carried, correct = jax.lax.scan(lambda so_far, rows: step(so_far, rows, own_labels), carried, batches)
        return carried, correct.sum()

    def one_after_the_other(*own: Any) -> Any:
        return jax.lax.map(lambda each: train(*each), own)

    program = jax.jit(one_after_the_other if form == "lax.map over 8" else jax.vmap(train), donate_argnums=0)
    parameters = jax.vmap(partial(_parameters, images.shape[1]))(jax.random.split(jax.random.key(0), runs))
    carried, rng = (parameters, jax.vmap(moves.init)(parameters)), np.random.default_rng(0)

    def run() -> None:
        nonlocal carried
        orders = np.stack([rng.permutation(len(images)) for _ in range(runs)])
        carried, correct = program(carried, jnp.asarray(orders), labels)
        jax.block_until_ready(correct)

    return run


def _parameters(inputs: int, key: Any) -> Parameters:
    layers = []
    for width, own in zip(WIDTHS, jax.random.split(key, len(WIDTHS)), strict=True):
        weight = he_uniform()(own, (inputs, width))
        layers.append({"weight": weight, "bias": jnp.zeros(width), "alpha": jnp.full(width, 0.5)})
        inputs = width
    del layers[-1]["alpha"]
    return layers


def _loss(parameters: Parameters, x: Any, y: Any) -> tuple[Any, Any]:
    for layer in parameters:
        x = x @ layer["weight"] + layer["bias"]
        if "alpha" in layer:
            x = jnp.where(x > 0, x, layer["alpha"] * x)
    return optax.softmax_cross_entropy_with_integer_labels(x, y).mean(), x
