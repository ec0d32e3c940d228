"""The exception by which a law interrupts what it is judging.

A law raises an `Interruption` inside a context, or inside a function that is transformed, to see
what is left behind. No implementation raises it, so where it arrives, it came from the law:

    assert isinstance(raised(lambda: jitted(module)), Interruption)
"""


class Interruption(Exception):
    """Raised by a law, inside the code that an implementation runs for it.

    Wrong, in a law, because the implementation may raise such an error for reasons of its own:

        def body(module):
            raise ValueError("on purpose")

    Right, because only a law raises it:

        def body(module):
            raise Interruption("on purpose")
    """
