"""What training changes, in one pytree: step, parameters and the optimizer's state (LIN-7)."""

import dataclasses
from collections.abc import Callable
from typing import Any, Self, dataclass_transform

import jax


def field(*, pytree_node: bool = True, **kwargs: Any) -> Any:
    """A field of a train state; with `pytree_node=False` it is static."""
    return dataclasses.field(metadata={"pytree_node": pytree_node}, **kwargs)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class _Node:
    """Makes a subclass a frozen dataclass and a pytree node."""

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        fields = dataclasses.fields(dataclasses.dataclass(frozen=True, kw_only=True)(cls))  # type: ignore[arg-type]
        static = [each.name for each in fields if not each.metadata.get("pytree_node", True)]
        data = [each.name for each in fields if each.name not in static]

        def flatten(node: Any) -> Any:
            children = [(jax.tree_util.GetAttrKey(name), getattr(node, name)) for name in data]
            return children, tuple(getattr(node, name) for name in static)

        def build(values: Any, children: Any) -> Any:
            node = object.__new__(cls)
            vars(node).update(zip([*static, *data], [*values, *children], strict=True))
            return node

        jax.tree_util.register_pytree_with_keys(cls, flatten, build)


class TrainState(_Node):
    """Parameters, and the state of an optimizer for them. Subclasses add fields of their own.

    The optimizer `tx` is a gradient transformation, as optax has them: `init` and `update`; its
    state is boxed where the parameters are. `tx` is static, and so is `apply_fn`: `model.apply`.
    """

    step: Any
    apply_fn: Callable[..., Any] = field(pytree_node=False)
    params: Any
    tx: Any = field(pytree_node=False)
    opt_state: Any

    @classmethod
    def create(cls, *, apply_fn: Callable[..., Any], params: Any, tx: Any, **fields: Any) -> Self:
        """The state before the first step."""
        state = tx.init(params)
        return cls(step=0, apply_fn=apply_fn, params=params, tx=tx, opt_state=state, **fields)

    def apply_gradients(self, *, grads: Any, **changes: Any) -> Self:
        """The state after one update; `grads` has the structure of `params` (LIN-7)."""
        updates, state = self.tx.update(grads, self.opt_state, self.params)
        params = jax.tree.map(lambda p, update: (p + update).astype(p.dtype), self.params, updates)
        return self.replace(step=self.step + 1, params=params, opt_state=state, **changes)

    def replace(self, **changes: Any) -> Self:
        """The state with other values for some fields."""
        return dataclasses.replace(self, **changes)
