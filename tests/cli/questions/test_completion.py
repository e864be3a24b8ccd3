"""What shells are offered."""

from __future__ import annotations

import os
import subprocess
import sys

from service.cli.questions.completion import (
    complete_accelerator,
    complete_engine,
    complete_model,
    complete_platform,
    complete_region,
)
from service.settings import INSTALLATION


def test_ids_and_aliases_are_offered():
    assert "h100-sxm" in complete_accelerator("h1")
    assert "nvidia-h100-sxm-80gb" in complete_accelerator("nvidia-h1")
    assert "meta-llama/Llama-3.1-70B" in complete_model("meta-")
    assert complete_model("llama-3.1-70")
    assert complete_region("aws/eu-n") == ["aws/eu-north-1"]
    assert complete_engine("vl") == ["vllm"]
    assert complete_platform("nvidia-dgx-h") == ["nvidia-dgx-h100"]


def test_every_offer_is_known(packaged_snapshot):
    for collection, complete in (
        ("accelerators", complete_accelerator),
        ("models", complete_model),
        ("regions", complete_region),
        ("engines", complete_engine),
    ):
        for first in "abcdefghijklmnopqrstuvwxyz":
            for offered in complete(first):
                packaged_snapshot.find(collection, offered)


def test_the_command_speaks_to_shells():
    asked = {
        "_HEADROOM_COMPLETE": "complete_bash",
        "COMP_WORDS": "headroom estimate -r aws/eu-n",
        "COMP_CWORD": "3",
    }
    finished = subprocess.run(
        [sys.executable, "-m", "service.cli"],
        cwd=INSTALLATION,
        env=os.environ | asked,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.stdout.split() == ["aws/eu-north-1"], finished.stderr
