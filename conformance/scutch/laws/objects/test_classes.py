"""Classes of modules that the user defines: OBJ-1o.

The oracle is Python: a call of a class passes its arguments to `__new__` and `__init__`, and the
keywords of a class statement go to the `__init_subclass__` of all bases.
"""

from hypothesis import given
from hypothesis import strategies as st

from scutch.lawkit.domain import not_available
from scutch.lawkit.equality import alike
from scutch.lawkit.marks import reached, requirement

numbers = st.integers(0, 9)
WAYS = ("made", "merged", "cloned")


def _base(nnx, noted):
    """A class of modules that notes the arguments of its `__new__`."""

    class Base(nnx.Module):
        def __new__(cls, *args, **named):
            noted.append(("new", args, named))
            return super().__new__(cls)

    return Base


def _with_init(base, noted):
    """A subclass that notes and keeps the arguments of its `__init__`."""

    class Made(base):
        def __init__(self, *args, **named):
            noted.append(("init", args, named))
            self.given = (*args, *sorted(named.items()))

    return Made


@requirement(
    "objects/definitions/construction-follows-python",
    must_reach=(*WAYS, "new", "init", "by name", "inherited"),
)
@given(
    new=st.booleans(),
    init=st.booleans(),
    inherited=st.booleans(),
    way=st.sampled_from(WAYS),
    args=st.lists(numbers, max_size=2),
    named=st.dictionaries(st.sampled_from("abc"), numbers),
)
def test_a_module_is_constructed_as_python_constructs_it(
    nnx, new, init, inherited, way, args, named
):
    """A call of a class of modules calls `__new__` and `__init__` once each, as Python does.

    Both get the arguments of the call, by position and by name, and both may be inherited. The
    attributes that `__init__` sets survive `split` and `merge`, and `clone`.
    """
    noted = []
    cls = _base(nnx, noted) if new else nnx.Module
    cls = _with_init(cls, noted) if init else type("Made", (cls,), {"__module__": __name__})
    if inherited:
        cls = type("Inherited", (cls,), {"__module__": __name__})
    if not init:
        args, named = [], {}
    said = {"new": new, "init": init, "by name": named and new, "inherited": inherited, way: True}
    reached(*[name for name, is_so in said.items() if is_so])
    module = cls(*args, **named)
    expected = [
        (hook, (*args,), {**named}) for hook, is_there in (("new", new), ("init", init)) if is_there
    ]
    assert alike(noted, expected)
    if way == "merged":
        module = nnx.merge(*nnx.split(module))
    if way == "cloned":
        module = nnx.clone(module)
    assert type(module) is cls
    assert alike(getattr(module, "given", ()), (*args, *sorted(named.items())))


def _mixin(noted):
    """A class that takes one keyword of the class statements of its subclasses."""

    class Mixin:
        def __init_subclass__(cls, *, flag=None, **named):
            super().__init_subclass__(**named)
            noted.append((cls.__name__, flag))

    return Mixin


BASES = ("Module", "Pytree")


@requirement(
    "objects/definitions/construction-follows-python",
    must_reach=(*BASES, "first", "not first", "inherited"),
)
@given(
    base=st.sampled_from((*BASES, "Object")),
    first=st.booleans(),
    inherited=st.booleans(),
    flags=st.tuples(numbers, numbers),
)
def test_keywords_of_a_class_statement_reach_all_bases(nnx, base, first, inherited, flags):
    """A keyword of the class statement of a module reaches the `__init_subclass__` of another base,
    before or after the module's own, and of a base of that class.
    """
    if not hasattr(nnx, base):
        not_available(f"there is no class {base}")
    noted, owner = [], getattr(nnx, base)
    mixin = _mixin(noted)
    bases = (mixin, owner) if first else (owner, mixin)
    made = type("Made", bases, {"__module__": __name__}, flag=flags[0])
    expected = [("Made", flags[0])]
    if inherited:
        made = type("Inherited", (made,), {"__module__": __name__}, flag=flags[1])
        expected.append(("Inherited", flags[1]))
    assert alike(noted, expected)
    assert isinstance(made(), owner)
