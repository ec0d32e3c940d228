"""The products of matrices in a traced program, and options that change them.

The precision of a product changes no number on a CPU. A law compares it in the traced program:

    assert alike(products(layer, x), products(lambda x: x @ kernel, x))
"""

import jax

from scutch.lawkit.equations import equations

PRECISIONS = (None, "high", "highest", ("high", "highest"))
"""Precisions that a layer may be given."""


def negative_product(*arguments, **options):
    """Multiply as `jax.lax.dot_general` does, and change the sign: a product of the user's own."""
    return -jax.lax.dot_general(*arguments, **options)


def products(function, *arguments):
    """The precision and the dtype of each product that tracing a function records, in order.

    Args:
      function: A function of arrays; it is traced once, and not computed.
      *arguments: Its arguments.

    Returns:
      A pair of texts for each product, also of those in the functions that it calls.
    """
    program = jax.make_jaxpr(function)(*arguments).jaxpr
    return [
        (str(equation.params["precision"]), str(equation.outvars[0].aval.dtype))
        for equation in equations(program)
        if equation.primitive.name == "dot_general"
    ]
