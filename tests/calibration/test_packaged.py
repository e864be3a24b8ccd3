"""The packaged constants are what the packaged measurements give; a fit to all of them."""

from __future__ import annotations

from service.calibration.command import calibration
from service.settings import INSTALLATION


def test_packaged_constants_are_what_packaged_measurements_give() -> None:
    said: list[str] = []
    assert calibration(INSTALLATION / "hardware_catalog", write=False, note=said.append) == []
    assert any(line.startswith("speed/hardware/nvidia-hopper: ") for line in said)
    assert any(line.startswith("power/hbm/nvidia-hopper: ") for line in said)
