"""Values that formulas make by the hundred."""

from dataclasses import replace

from service.core.lightweight import computed_once, lightweight


@lightweight
class Square:
    side_m: float

    @computed_once
    def area_m2(self) -> float:
        """Its area [m²]."""
        computed.append(self.side_m)
        return self.side_m**2


@lightweight
class Box(Square):
    height_m: float = 1.0

    @computed_once
    def volume_m3(self) -> float:
        """Its volume [m³]."""
        return self.area_m2 * self.height_m


computed: list[float] = []


def test_what_is_computed_once_is_kept_apart_from_fields() -> None:
    computed.clear()
    box = Box(2.0, height_m=3.0)
    # Fields are in slots: the dictionary has nothing but what was asked for.
    assert vars(box) == {}
    assert box.volume_m3 == box.volume_m3 == 12.0
    assert computed == [2.0]
    assert vars(box) == {"area_m2": 4.0, "volume_m3": 12.0}


def test_a_changed_value_computes_anew() -> None:
    box = Box(2.0, height_m=3.0)
    assert box.volume_m3 == 12.0
    assert replace(box, side_m=1.0).volume_m3 == 3.0
    assert box == Box(2.0, 3.0)
    assert hash(box) == hash(Box(2.0, 3.0))
