"""What the vision towers of multimodal models make of the largest image they let through.

Largest images are those of the published image processors (Hugging Face transformers and the
``preprocessor_config.json`` of the models, 2024–2026), as the model's configuration has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from service.core.architecture.config.fields import MAX_LAYERS, Fields
from service.core.architecture.model import ImageEncoder, ImageGrid

#: Reads the vision section.
ImageReader: TypeAlias = Callable[[Fields], ImageEncoder]

_MOST = 100_000
#: Pixels of the largest image of Qwen2.5-VL: 16,384 patches of 28 × 28.
_QWEN25_PIXELS = 16_384 * 28 * 28
#: Pixels of the largest image of Qwen3-VL: 16,384 patches of 32 × 32.
_QWEN3_PIXELS = 16_384 * 32 * 32
#: Pixels of the largest image of GLM-4.1V and its followers, counted once for each of two frames.
_GLM_PIXELS = 28 * 28 * 15_000 // 2
#: Pixels of the largest image of MiniMax-M3.
_MINIMAX_PIXELS = 451_584
#: Patches of the largest image of Kimi K2.5, and of one side of it.
_KIMI_PATCHES, _KIMI_SIDE = 16_384, 512
#: Tiles beside the overview that InternVL divides an image into, and the patches it joins.
_INTERN_TILES, _INTERN_JOINED = 12, 4
#: Slices beside the overview that MiniCPM-V divides an image into, their sides, and their tokens.
_MINICPM_SLICES, _MINICPM_SIDE, _MINICPM_TOKENS = 9, 448, 64
#: Tokens that Gemma 3 makes of an image, however large.
_GEMMA3_TOKENS = 256
#: Tokens of an image in Gemma 4 unless its processor is told otherwise.
_GEMMA4_TOKENS = 280
#: Tiles beside the overview that Llama 4 divides an image into, and the patches it shuffles to one.
_LLAMA4_TILES, _LLAMA4_SHUFFLED = 16, 4
#: Layers of Llama 3.2 Vision's tower whose outputs are kept, and what its rows are padded to.
_MLLAMA_KEPT, _MLLAMA_PADDING = 5, 8


def _encoder(
    fields: Fields,
    patches: int,
    tokens: int,
    *,
    gated: bool = False,
    kept: int = 0,
    cross: bool = False,
    grid: ImageGrid | None = None,
    layers: str = "num_hidden_layers",
) -> ImageEncoder:
    return ImageEncoder(
        width=fields.size("hidden_size"),
        intermediate_size=fields.size("intermediate_size"),
        gated=gated,
        most_patches=patches,
        most_tokens=tokens,
        kept_layers=kept,
        cross_attended=cross,
        layers=fields.size(layers, MAX_LAYERS),
        grid=grid,
    )


def _side(fields: Fields) -> int:
    """Patches along one side of a square image [-]."""
    return max(fields.size("image_size", _MOST) // fields.size("patch_size", _MOST), 1)


def _of_pixels(pixels: int, *, gated: bool, layers: str = "depth") -> ImageReader:
    def read(fields: Fields) -> ImageEncoder:
        patch, merged = fields.size("patch_size", _MOST), fields.size("spatial_merge_size", 64)
        patches = max(pixels // patch**2, 1)
        most = max(patches // merged**2, 1)
        grid = ImageGrid(patch * merged, merged**2, 1, most_units=most, nearest=True)
        encoder = _encoder(fields, patches, most, gated=gated, grid=grid, layers=layers)
        window = fields.optional_size("window_size", _MOST)
        if window is None:
            return encoder
        full = fields.indices("fullatt_block_indexes", encoder.layers) or frozenset()
        return replace(
            encoder,
            windowed_layers=encoder.layers - len(full),
            window_patches=max(window // patch, 1) ** 2,
        )

    return read


def _gemma3(fields: Fields) -> ImageEncoder:
    patches = _side(fields) ** 2
    grid = ImageGrid(None, patches, _GEMMA3_TOKENS)
    return _encoder(fields, patches, _GEMMA3_TOKENS, grid=grid)


def _gemma4(fields: Fields) -> ImageEncoder:
    tokens = fields.optional_size("default_output_length") or _GEMMA4_TOKENS
    patches = tokens * fields.size("pooling_kernel_size", 64) ** 2
    # Images are made as large as that many tokens allow.
    grid = ImageGrid(None, patches, tokens)
    return _encoder(fields, patches, tokens, gated=True, grid=grid)


def _whole(fields: Fields) -> ImageEncoder:
    """Towers that see any image at one size, each patch of which is a token."""
    patches = _side(fields) ** 2
    return _encoder(fields, patches, patches, grid=ImageGrid(None, patches, patches))


def _llava(fields: Fields) -> ImageEncoder:
    if fields.text("model_type") != "pixtral":
        return _whole(fields)
    # Pixtral 12B, whose patches are not merged.
    side, patch = _side(fields), fields.size("patch_size", _MOST)
    longest = fields.size("image_size", _MOST)
    grid = ImageGrid(patch, 1, 1, longest_px=longest, row_tokens=1)
    return _encoder(fields, side**2, side * (side + 1), gated=True, grid=grid)


def _kimi(fields: Fields) -> ImageEncoder:
    patch = fields.size("patch_size", _MOST)
    tokens = _KIMI_PATCHES // 4
    grid = ImageGrid(2 * patch, 4, 1, most_units=tokens, longest_px=_KIMI_SIDE * patch)
    return _encoder(fields, _KIMI_PATCHES, tokens, grid=grid)


def _intern(fields: Fields) -> ImageEncoder:
    # Which tiles an image gets depends on the ratio of its sides, so that there is no grid.
    tile = _side(fields) ** 2
    tiles = _INTERN_TILES + 1
    return _encoder(fields, (tile + 1) * tiles, max(tile // _INTERN_JOINED, 1) * tiles)


def _minicpm(fields: Fields) -> ImageEncoder:
    # Which slices an image gets depends on the ratio of its sides, so that there is no grid.
    slices = _MINICPM_SLICES + 1
    patches = (_MINICPM_SIDE // fields.size("patch_size", _MOST)) ** 2
    return _encoder(fields, max(patches, 1) * slices, _MINICPM_TOKENS * slices)


def _pixtral(fields: Fields) -> ImageEncoder:
    side, patch = _side(fields), fields.size("patch_size", _MOST)
    # Each row of tokens ends with one that says so.
    grid = ImageGrid(2 * patch, 4, 1, longest_px=fields.size("image_size", _MOST), row_tokens=1)
    return _encoder(fields, side**2, max((side // 2) ** 2, 1), gated=True, grid=grid)


def _llama4(fields: Fields) -> ImageEncoder:
    tile = _side(fields) ** 2
    patches = (tile + 1) * (_LLAMA4_TILES + 1)
    grid = ImageGrid(
        fields.size("image_size", _MOST),
        tile + 1,
        max(tile // _LLAMA4_SHUFFLED, 1),
        most_units=_LLAMA4_TILES,
        overview=True,
        apart=True,
    )
    return _encoder(fields, patches, max(patches // _LLAMA4_SHUFFLED, 1), grid=grid)


def _mllama(fields: Fields) -> ImageEncoder:
    tile = _side(fields) ** 2 + 1
    padded = -(-tile // _MLLAMA_PADDING) * _MLLAMA_PADDING
    tiles = fields.size("max_num_tiles", 1000)
    return _encoder(fields, padded * tiles, tile * tiles, kept=_MLLAMA_KEPT, cross=True)


#: How towers see images, by the ``model_type`` of the whole.
IMAGES: Mapping[str, ImageReader] = {
    "gemma3": _gemma3,
    "gemma4": _gemma4,
    "mistral3": _pixtral,
    "mistral_large4": _pixtral,
    "qwen2_5_vl": _of_pixels(_QWEN25_PIXELS, gated=True),
    "qwen3_vl": _of_pixels(_QWEN3_PIXELS, gated=False),
    "qwen3_vl_moe": _of_pixels(_QWEN3_PIXELS, gated=False),
    "qwen3_5": _of_pixels(_QWEN3_PIXELS, gated=False),
    "qwen3_5_moe": _of_pixels(_QWEN3_PIXELS, gated=False),
    "qwen2_vl": _of_pixels(_QWEN25_PIXELS, gated=False),
    "qwen2_5_omni": _of_pixels(_QWEN25_PIXELS, gated=True),
    "qwen2_5_omni_thinker": _of_pixels(_QWEN25_PIXELS, gated=True),
    "glm4v": _of_pixels(_GLM_PIXELS, gated=True),
    "glm4v_moe": _of_pixels(_GLM_PIXELS, gated=True),
    "glm46v": _of_pixels(_GLM_PIXELS, gated=True),
    "minimax_m3_vl": _of_pixels(_MINIMAX_PIXELS, gated=False, layers="num_hidden_layers"),
    "kimi_k25": _kimi,
    "llava": _llava,
    "paligemma": _whole,
    "internvl": _intern,
    "internvl_chat": _intern,
    "minicpmv": _minicpm,
    "minicpmo": _minicpm,
    "llama4": _llama4,
    "mllama": _mllama,
}
