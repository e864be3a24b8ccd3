"""What an engine keeps free beside its share where nobody tells it one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.core.architecture.model import ImageEncoder
from service.core.deployment import Parallelism, ServingSettings, Speculation
from service.core.memory.inference.kept import kept_bytes
from tests.core.memory.inference.test_memory import deployed
from tests.core.memory.memory_models import DEEPSEEK_V3, LLAMA_3_8B, LLAMA_31_70B

MIB = 1024.0**2
OWN = ServingSettings(share_by_engine=True)


@pytest.fixture
def sglang(overheads):
    return overheads.of("sglang@0.5.3")


def test_a_share_that_is_told_is_taken_as_it_is(sglang):
    deployment = deployed(LLAMA_31_70B, Parallelism(tensor=8))
    assert kept_bytes(sglang, deployment, ServingSettings()) == 0.0
    assert kept_bytes(sglang, deployment, OWN) > 0.0


def test_one_accelerator_keeps_what_its_share_says_and_other_engines_nothing(sglang, overheads):
    assert kept_bytes(sglang, deployed(LLAMA_3_8B), OWN) == 0.0
    eight = deployed(LLAMA_31_70B, Parallelism(tensor=8))
    assert kept_bytes(overheads.of("vllm@0.21"), eight, OWN) == 0.0


def test_the_share_of_older_releases_shrinks_with_accelerators(overheads):
    """0.88 of one, 0.87 of two, 0.85 of four, 0.81 of eight and 0.79 of 16 accelerators."""
    older = overheads.of("sglang@overlapped")
    for tensor, share in ((1, 0.88), (2, 0.87), (4, 0.85), (8, 0.81), (16, 0.79)):
        kept = kept_bytes(older, deployed(LLAMA_31_70B, Parallelism(tensor=tensor)), OWN)
        assert kept == pytest.approx((0.88 - share) * 80e9)


def test_more_accelerators_keep_more_each(sglang):
    """1 GiB for eight, of which an eighth is the first's, and 2 MiB for 256 more sequences."""
    two, eight = (deployed(LLAMA_31_70B, Parallelism(tensor=degree)) for degree in (2, 8))
    assert kept_bytes(sglang, two, OWN) == 128 * MIB
    assert kept_bytes(sglang, eight, OWN) == 7 * 128 * MIB + 256 * 2 * MIB
    # With much memory graphs are as large on one accelerator.
    large = deployed(LLAMA_31_70B, Parallelism(tensor=8), memory_bytes=192e9)
    assert kept_bytes(sglang, large, OWN) == 7 * 128 * MIB


def test_copies_that_share_experts_keep_by_far_the_most(sglang):
    shared = deployed(DEEPSEEK_V3, Parallelism(data=8, expert=8))
    divided = deployed(DEEPSEEK_V3, Parallelism(tensor=8))
    more = kept_bytes(sglang, shared, OWN) - kept_bytes(sglang, divided, OWN)
    assert more == 8 * 512 * 4.5 * MIB


def test_drafts_have_graphs_of_their_own(sglang):
    drafting = replace(OWN, speculation=Speculation(3, 0.7))
    assert kept_bytes(sglang, deployed(LLAMA_3_8B), drafting) == 2048 * MIB
    model = replace(drafting, speculation=Speculation(3, 0.7, LLAMA_3_8B))
    assert kept_bytes(sglang, deployed(LLAMA_31_70B), model) == 3 * 2048 * MIB


def test_images_take_a_part_of_the_share_the_larger_their_tower_is(sglang):
    def kept(layers, width):
        encoder = ImageEncoder(width, 4 * width, False, 1024, 256, layers=layers)
        deployment = deployed(LLAMA_3_8B)
        model = replace(deployment.architecture, images=encoder)
        return kept_bytes(sglang, replace(deployment, architecture=model), OWN) / (0.9 * 80e9)

    # A ViT-L as it was made for, one twice as large, and ones beyond what the factor goes to.
    assert kept(24, 1024) == pytest.approx(0.05)
    assert kept(48, 1024) == pytest.approx(1.0 - 0.95 * 0.9)
    assert kept(480, 1024) == pytest.approx(1.0 - 0.95 * 0.8)
