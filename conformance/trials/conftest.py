"""The judge is tried on as many devices as it judges on."""

from scutch.profiles import prepare_devices

prepare_devices()
