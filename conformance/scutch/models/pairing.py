"""Which array of one model is which array of another: found by path, shape and name.

    paired(first, second, [PathMap.of("layer_*=layers/*")]).pairs["layer_0/kernel"]

Paths are compared without case, underscores and the plural: `Layers_0/kernel` is `layer/0/kernel`.
Where several arrays could be meant, none is chosen.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from scutch.implementation import SetupError

_WORD = re.compile(r"\d+|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_]+")


@dataclass(frozen=True)
class Array:
    """An array of a model, as far as another one is looked for.

    Args:
      section: Parameters, or other variables; only arrays of one section are paired.
      path: Where it stands in the model.
      shape: Its shape.
      dtype: Its dtype, as text.
      places: For each mesh shape, its spec as text, and the decisions that led there.
    """

    section: str
    path: str
    shape: tuple[int, ...]
    dtype: str
    places: Mapping[str, tuple[str, str]]

    @property
    def text(self) -> str:
        """Dtype and shape."""
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class PathMap:
    """A path, or the beginning of one, in both models, as the owner gives it.

    Args:
      old: In the first model; `*` stands for any characters but a slash.
      new: In the second model; its `*`s take the matches of the `*`s in `old`, in order.
    """

    old: str
    new: str

    @classmethod
    def of(cls, text: str) -> "PathMap":
        """A map from `OLD=NEW`.

        Raises:
          SetupError: The text has another form, or there are more `*` in NEW than in OLD.
        """
        old, equals, new = text.partition("=")
        if not (equals and old and new) or old.count("*") < new.count("*"):
            raise SetupError(
                f"--map {text}",
                "expected OLD=NEW, such as layer_*=layers/*, with no more * in NEW than in OLD",
            )
        return cls(old.strip("/"), new.strip("/"))

    def moved(self, path: str) -> str | None:
        """The path in the second model; None if the map does not fit the path."""
        begin = "([^/]*)".join(map(re.escape, self.old.split("*")))
        found = re.match(f"{begin}(?=/|$)", path)
        if found is None:
            return None
        parts = iter(found.groups())
        return re.sub(r"\*", lambda star: next(parts), self.new) + path[found.end() :]


@dataclass(frozen=True)
class Paired:
    """The arrays of two models.

    Args:
      pairs: From the path in the first to the path in the second.
      first_only: Arrays of the first model without a partner.
      second_only: The same of the second.
    """

    pairs: Mapping[str, str]
    first_only: tuple[Array, ...]
    second_only: tuple[Array, ...]


def paired(first: Sequence[Array], second: Sequence[Array], maps: Iterable[PathMap] = ()) -> Paired:
    """Pair the arrays of two models: by the owner's maps, by path, by words, by shape and name.

    Args:
      first: Of one model.
      second: Of the other.
      maps: The owner's maps; the first map that fits a path counts.

    Returns:
      The pairs, and the arrays of either model that are in no pair.

    Raises:
      SetupError: A map fits no array of the first model, or leads to none of the second.
    """
    pairs = dict(_told(first, second, maps))
    for same in (_path, _words):
        _pair_equal(first, second, pairs, same)
    while found := list(_likeliest(*_left(first, second, pairs))):
        pairs.update(found)
    left, right = _left(first, second, pairs)
    return Paired(pairs, tuple(left), tuple(right))


def _told(
    first: Sequence[Array], second: Sequence[Array], maps: Iterable[PathMap]
) -> Iterator[tuple[str, str]]:
    """The pairs that the owner's maps name."""
    there, taken = {array.path for array in second}, set()
    for one in maps:
        about = {array.path: new for array in first if (new := one.moved(array.path)) is not None}
        subject = f"--map {one.old}={one.new}"
        if not about:
            shown = ", ".join(array.path for array in first[:5])
            raise SetupError(subject, f"no path of the first model begins so; it has {shown}, …")
        for old, new in about.items():
            if new not in there:
                near = sorted(there, key=lambda path: -_alike(path, new))[:3]
                raise SetupError(
                    subject,
                    f"{old} would be {new}, which the second model lacks; it has {', '.join(near)}",
                )
            if old not in taken:
                taken.add(old)
                yield old, new


def _left(
    first: Sequence[Array], second: Sequence[Array], pairs: Mapping[str, str]
) -> tuple[list[Array], list[Array]]:
    """The arrays of both models that are in no pair."""
    taken = set(pairs.values())
    return (
        [array for array in first if array.path not in pairs],
        [array for array in second if array.path not in taken],
    )


def _path(array: Array) -> object:
    return (array.section, array.path)


def _words(array: Array) -> object:
    return (array.section, array.shape, tuple(words(array.path)))


def _pair_equal(
    first: Sequence[Array],
    second: Sequence[Array],
    pairs: dict[str, str],
    same: Callable[[Array], object],
) -> None:
    """Add the pairs whose arrays are alone in being the same in some respect."""
    left, right = _left(first, second, pairs)
    groups: dict[object, tuple[list[str], list[str]]] = {}
    for side, arrays in enumerate((left, right)):
        for array in arrays:
            groups.setdefault(same(array), ([], []))[side].append(array.path)
    pairs.update(
        (ours[0], theirs[0]) for ours, theirs in groups.values() if len(ours) == len(theirs) == 1
    )


def _likeliest(left: Sequence[Array], right: Sequence[Array]) -> Iterator[tuple[str, str]]:
    """Pairs of one shape and one last word, each of whose paths is the other's only likeliest."""
    groups: dict[object, tuple[list[str], list[str]]] = {}
    for side, arrays in enumerate((left, right)):
        for array in arrays:
            key = (array.section, array.shape, words(array.path)[-1:])
            groups.setdefault(str(key), ([], []))[side].append(array.path)
    for ours, theirs in groups.values():
        forth = {path: _only_likeliest(path, theirs) for path in ours}
        back = {path: _only_likeliest(path, ours) for path in theirs}
        yield from ((old, new) for old, new in forth.items() if new and back[new] == old)


def _only_likeliest(path: str, others: Sequence[str]) -> str | None:
    """The path that is most like another; None where two are equally alike."""
    scores = sorted(((_alike(path, other), other) for other in others), reverse=True)
    if not scores or (len(scores) > 1 and scores[0][0] == scores[1][0]):
        return None
    return scores[0][1]


def _alike(one: str, other: str) -> float:
    """How alike two paths are, from 0 to 1, whichever comes first."""
    first, second = sorted((words(one), words(other)))
    return SequenceMatcher(None, first, second, autojunk=False).ratio()


def words(path: str) -> list[str]:
    """The words of a path, small, without the plural.

    >>> words("Layers_0/RMSNorm/scale"), words("layers/0/rms_norm/scale")
    (['layer', '0', 'rms', 'norm', 'scale'], ['layer', '0', 'rms', 'norm', 'scale'])
    """
    found = (word.lower() for word in _WORD.findall(path))
    return [word[:-1] if len(word) > 4 and word[-1] == "s" != word[-2] else word for word in found]
