"""Each option of JAX is refused if it changes the meaning of laws, or is known to be harmless."""

import os
import re
import subprocess
import sys
from types import SimpleNamespace

import jax
import pytest
from scutch.implementation import SetupError
from scutch.judging import settings
from scutch.judging.settings import SETTINGS, check_settings

HARMLESS = {
    "caches": "jax_.*(cache|pgle|share_).*",
    "messages": "jax_.*(log|traceback|frames|verbose|dump|pprint|explain|source_|url_|warn_).*",
    "export": "jax_(export|serialization|bcoo|include).*|jax2tf_.*",
    "kernels": "jax_(mosaic|pallas|ragged_dot|use_(magma|rgv3|hlo)|threefry_gpu).*",
    "other jobs": "jax_(cross_host|cpu_get|distributed|force_dcn|mtls|debug_leaked|check_proxy).*",
    "platforms": ".*(platform|visible_devices|backend|mock|pjrt|cpu_(coll|enable)|num_cpu).*",
    "failures of jobs": "jax_enable_(preemption|recoverability).*|.*unsafe_xla_runtime.*",
    "how programs are compiled": "jax_(compiler|disable_most|embedded|exec_time|memory_fitting|"
    "optimization_level|xla_profile|use_(shardy|cpp|emit)|sort_devices|default_matmul|"
    "captured_constants|enable_(memories|checks)|high_dynamic|allow_f16|accurate_erf).*",
    "how JAX traces": "jax_(custom_(jvp|vjp)3|vjp3|scan3|remat|refs_to_pins|mutable_array|softmax|"
    "use_(direct|simplified)|enable_(custom_vjp_by|empty)|varying_axes|raise_on_pp).*|check_.*",
    "other programs of JAX's": "jax_(eager_pmap|pmap|safer_randint|threefry_part|random_seed).*",
}
"""Options that change no verdict, by their subject. The reference was judged with several."""


def config(**options):
    """JAX with these options."""
    return SimpleNamespace(config=SimpleNamespace(**options))


@pytest.mark.parametrize("name", SETTINGS)
def test_an_option_with_another_value_is_refused_by_name(monkeypatch, name):
    monkeypatch.setattr(settings, "jax", config(**{name: "disallow"}))
    with pytest.raises(SetupError, match=f"JAX has {name} = 'disallow': laws are written for") as e:
        check_settings()
    assert f"the environment variable {name.upper()} to be left out" in str(e.value)
    with pytest.raises(SetupError, match=f"mine sets {name}"):
        check_settings("mine")


@pytest.mark.parametrize(("name", "accepted"), SETTINGS.items(), ids=SETTINGS)
def test_an_option_with_an_accepted_value_is_not(monkeypatch, name, accepted):
    for value in accepted:
        monkeypatch.setattr(settings, "jax", config(**{name: value}))
        check_settings()


def test_the_options_of_this_jax_have_accepted_values():
    assert jax.config.values
    check_settings()


def test_every_option_of_this_jax_is_refused_or_known_to_be_harmless():
    patterns = "|".join(HARMLESS.values())
    harmless = {name for name in jax.config.values if re.fullmatch(patterns, name)}
    assert harmless & SETTINGS.keys() == set()
    assert set(jax.config.values) - harmless - SETTINGS.keys() == set()


def test_an_option_in_the_environment_ends_the_command():
    environment = {**os.environ, "JAX_TRANSFER_GUARD": "disallow"}
    command = [sys.executable, "-P", "-m", "scutch", "run", "-p", "no:cacheprovider"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert "JAX has jax_transfer_guard = 'disallow': laws are written for none" in done.stderr
