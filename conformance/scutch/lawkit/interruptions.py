"""The exception by which a law interrupts the code that it judges.

A law raises an `Interruption` inside a context, or inside a function that is transformed, and then
checks that the implementation has restored its state. No implementation raises this exception, so a
law that catches one knows that it came from the law:

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
