"""What is known by name."""

import re

import pytest

from adalin._registry import Registry, UnknownNameError


def test_what_is_registered_is_found_in_its_order() -> None:
    colours = Registry("colour", {"red": 1})
    assert colours.register("green", 2) == 2
    assert colours.get("green") == 2
    assert list(colours) == ["red", "green"]
    assert ("green" in colours, "blue" in colours, None in colours, len(colours)) == (True, False, False, 2)


@pytest.mark.parametrize(
    ("plugins", "hint"), [(False, ""), (True, "; if a plugin brings it, name that with --plugin")], ids=str
)
def test_an_unknown_name_is_told_with_what_is_close(plugins: bool, hint: str) -> None:
    colours = Registry("colour", {"red": 1, "green": 2}, plugins=plugins)
    expected = re.escape(f"unknown colour 'gren' (did you mean 'green'?); known: red, green{hint}")
    with pytest.raises(UnknownNameError, match=f"^{expected}$"):
        colours.get("gren")


def test_a_name_stands_for_one_thing() -> None:
    colours = Registry("colour", {"red": 1})
    shapes = Registry("shape", {"red": 3}, beside=colours)  # what is there from the start may be in both
    shapes.register("round", 4)
    with pytest.raises(ValueError, match=r"^a colour named 'red' is registered already$"):
        colours.register("red", 2)
    with pytest.raises(ValueError, match=r"^a shape named 'round' is registered already$"):
        colours.register("round", 2)
    colours.register("blue", 2)
    with pytest.raises(ValueError, match=r"^a colour named 'blue' is registered already$"):
        shapes.register("blue", 5)


def test_what_was_registered_temporarily_is_forgotten_and_versions_tell_entries_apart() -> None:
    colours = Registry("colour", {"red": 1})
    versions = [colours.version]
    with colours.temporarily():
        colours.register("blue", 2)
        versions.append(colours.version)
    assert list(colours) == ["red"]
    assert colours.version == versions[0]
    colours.register("blue", 3)
    assert len({*versions, colours.version}) == 3


def test_the_listing_follows_and_cannot_be_written_to() -> None:
    colours: Registry[int] = Registry("colour")
    listing = colours.listing()
    colours.register("red", 1)
    assert dict(listing) == {"red": 1}
    with pytest.raises(TypeError):
        listing["blue"] = 2  # type: ignore[index]
