"""The demo's story: ReLU loses plasticity on random labels, the monitor says so, and AdaLin brings it back."""

import numpy as np
import pytest

from adalin.studies import draw_story, tell_story


def test_a_network_loses_plasticity_is_found_out_and_treated_and_learns_again():
    told = []
    story = tell_story((3,), tasks=10, images=400, epochs=60, tell=told.append)
    assert [diagnosis.state for diagnosis in story.before] == ["lost"]
    assert [diagnosis.state for diagnosis in story.after] == ["able"]
    (alone,), (treated,) = story.alone, story.treated
    assert max(alone.accuracies) > 0.8
    assert alone.accuracies[-1] < 0.3
    assert treated.accuracies[-1] > 0.75
    assert treated.accuracies[: story.treated_after] == alone.accuracies[: story.treated_after]
    assert max(treated.dead[story.treated_after :]) == 0 < min(alone.dead[story.treated_after :])
    assert any("adalin.convert(model" in line for line in told), "the verdict says what to try"
    above, below = draw_story(story).axes
    labels = [text.get_text() for text in above.get_legend().get_texts()]
    assert labels == ["ReLU, left alone", "treated with AdaLin"]
    np.testing.assert_array_equal(below.lines[1].get_xdata(), range(story.treated_after + 1, 11))


def test_a_story_is_the_same_every_time():
    first, second = (tell_story((4,), tasks=2, images=32, epochs=2) for _ in range(2))
    assert first.treated[0].accuracies == second.treated[0].accuracies


@pytest.mark.parametrize("wrong", [{"tasks": 0}, {"images": 0}, {"epochs": -1}, {"images": 10**6}])
def test_a_story_without_tasks_or_with_too_many_images_is_refused(wrong):
    with pytest.raises(ValueError, match=r"at least one task|there are 4,000 bundled digits"):
        tell_story((3,), **({"tasks": 1, "images": 10, "epochs": 1} | wrong))
