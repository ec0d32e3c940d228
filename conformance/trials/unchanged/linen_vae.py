"""A variational autoencoder with submodules from `setup`, as in Flax's VAE example."""

import jax
import jax.numpy as jnp
from flax import linen as nn


class Encoder(nn.Module):
    latents: int

    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Dense(8, name="fc1")(x))
        return nn.Dense(self.latents, name="mean")(x), nn.Dense(self.latents, name="logvar")(x)


class VAE(nn.Module):
    latents: int = 2

    def setup(self):
        self.encoder = Encoder(self.latents)
        self.decoder = nn.Sequential([nn.Dense(8), nn.relu, nn.Dense(6)])

    def __call__(self, x, z_rng):
        mean, logvar = self.encoder(x)
        z = mean + jnp.exp(0.5 * logvar) * jax.random.normal(z_rng, logvar.shape)
        return self.decoder(z), mean, logvar

    def generate(self, z):
        return nn.sigmoid(self.decoder(z))


key = jax.random.key(0)
params = VAE().init(key, jnp.ones((3, 6)), key)
print(VAE().apply(params, jnp.ones((1, 2)), method=VAE.generate).shape)
