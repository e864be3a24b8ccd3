"""How many patches and tokens an image becomes."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, sqrt

from service.core.architecture.model import ImageGrid

#: A square is not begun for less of a side than this [-].
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class ImageView:
    """An image as a tower sees it.

    ``patches`` of all squares, which attend to each other in ``parts`` apart; the language model
    reads ``tokens`` [-].
    """

    patches: float
    tokens: float
    parts: float


def image_view(grid: ImageGrid, width_px: int, height_px: int) -> ImageView:
    """What becomes of an image of a size.

    Parameters
    ----------
    grid
        How images are cut.
    width_px, height_px
        Size of the image [px].

    References
    ----------
    Image processors of Hugging Face transformers (https://github.com/huggingface/transformers,
    2024–2026): ``smart_resize`` of Qwen2-VL, ``get_resize_output_image_size`` of Pixtral,
    ``get_best_fit`` of Llama 4, whose choice among supported sizes is taken as the size filled up.
    """
    if grid.unit_px is None:
        return ImageView(float(grid.unit_patches), float(grid.unit_tokens), 1.0)
    width, height = float(width_px), float(height_px)
    if grid.longest_px is not None:
        smaller = max(width, height, grid.longest_px) / grid.longest_px
        width, height = width / smaller, height / smaller
    squares = (width / grid.unit_px, height / grid.unit_px)
    across, down = (
        max(round(side) if grid.nearest else ceil(side - _ROUNDING), 1) for side in squares
    )
    if grid.most_units is not None and across * down > grid.most_units:
        smaller = sqrt(across * down / grid.most_units)
        across, down = (max(floor(side / smaller), 1) for side in (across, down))
        # Of a narrow strip, one side cannot be made smaller.
        across = min(across, grid.most_units // min(down, grid.most_units))
        down = min(down, grid.most_units // across)
    units = across * down
    if grid.overview and units > 1:
        units += 1
    return ImageView(
        patches=float(units * grid.unit_patches),
        tokens=float(units * grid.unit_tokens + down * grid.row_tokens),
        parts=float(units) if grid.apart else 1.0,
    )
