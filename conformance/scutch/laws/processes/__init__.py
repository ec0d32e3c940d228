"""Laws about several processes that `jax.distributed` has joined."""
