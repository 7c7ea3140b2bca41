"""An environment goes on from where it was, to the bit; and what it says of an episode's end is true."""

import json
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from adalin.executors import execute
from adalin.rl import _environment
from adalin.rl._environment import Environment, Transition, check_environment, is_mujoco, simulator_version
from adalin.runs import Session, read_run
from notes import Notes
from rl.tiny_sac import define_all

gymnasium = pytest.importorskip("gymnasium", reason="the rl extra is not installed")
pytest.importorskip("mujoco", reason="the rl extra is not installed")

MUJOCO = ["Hopper-v4", "HalfCheetah-v4", "Ant-v4"]
Step = tuple[bytes, float, bool, bool, bytes, int, int, float]


class Strange(gymnasium.Env[Any, Any]):
    """Actions without bounds, or observations that are images."""

    dtype = np.float32

    def __init__(self, **spaces: Any) -> None:
        bound, self.seen = spaces.get("bound", 1), spaces.get("seen", (3,))
        self.observation_space = gymnasium.spaces.Box(-1, 1, self.seen)
        self.action_space = gymnasium.spaces.Box(-bound, bound, (2,), self.dtype)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros(self.seen, np.float32), {}


def random_actions(env: Environment, seed: int = 0) -> Iterator[Any]:
    low, high = (bound.numpy() for bound in env.bounds)
    rng = np.random.default_rng(seed)
    while True:
        yield (low + rng.random(low.shape, dtype=np.float32) * (high - low)).astype(np.float32)


def play(env: Environment, actions: Iterator[Any], count: int) -> list[Step]:
    """All that can be seen of so many steps, over the ends of episodes."""
    seen = []
    for _ in range(count):
        before, action = env.observation.tobytes(), next(actions)
        after = env.step(action)
        ended = env.steps, env.episode_return
        what = after.reward, after.terminated, after.over, after.next_observation.tobytes()
        seen.append((before, *what, env.episode, *ended))
        if after.over:
            env.start(env.episode + 1)
    return seen


def save(env: Environment) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """As a checkpoint keeps it."""
    state = json.loads(json.dumps(env.state()))
    return state, {name: value.clone() for name, value in env.simulator_state().items()}


# The step after which it is saved, in the middle of an episode, and how many come then, to beyond the episode's end.
MOMENTS = [
    *(("Hopper-v4", start, 120) for start in (1, 37, 50)),
    *(("HalfCheetah-v4", start, 1_060 - start) for start in (1, 970)),
    *(("Ant-v4", start, 1_060 - start) for start in (1, 970)),
    *(("Pendulum-v1", start, 220) for start in (0, 1, 130, 333)),
]


@pytest.mark.parametrize(("name", "start", "count"), MOMENTS)
def test_a_restored_environment_goes_on_to_the_bit(name: str, start: int, count: int) -> None:
    env = Environment(name, 3, "train")
    actions = random_actions(env)
    play(env, actions, start)
    saved = save(env)
    to_come = [next(actions) for _ in range(count)]
    expected = play(env, iter(to_come), count)

    other = Environment(name, 3, "train")
    play(other, random_actions(other, seed=1), 20)
    other.restore(*saved)
    assert other.state() == saved[0]
    found = play(other, iter(to_come), count)
    assert found == expected
    assert len({number for *_, number, _, _ in found}) > 1, "an episode ended on the way"


@pytest.mark.parametrize("name", MUJOCO)
def test_a_restored_environment_needs_all_of_its_state(name: str) -> None:
    env = Environment(name, 3, "train")
    actions = random_actions(env)
    play(env, actions, 15)
    state, tensors = save(env)
    to_come = [next(actions) for _ in range(10)]

    def continued(state: dict[str, Any], tensors: dict[str, Tensor]) -> list[Step]:
        other = Environment(name, 3, "train")
        other.restore(state, tensors)
        return play(other, iter(to_come), 10)

    expected = play(env, iter(to_come), 10)
    assert continued(state, tensors) == expected
    assert tensors
    for piece, value in tensors.items():
        # Others have rewards of joints only, and the centres of bodies count for Humanoid.
        is_needed = (name == "Ant-v4" or "xpos" not in piece) and "xipos" not in piece
        assert (continued(state, {**tensors, piece: value + 0.1}) != expected) is is_needed, piece
    for change in ({"episode": 7}, {"steps": 0}, {"episode_return": 0.0}):
        assert continued(state | change, tensors) != expected, change


@pytest.mark.parametrize("name", ["Humanoid-v4", "Walker2d-v4", "Swimmer-v4", "Reacher-v4", "Hopper-v5", "Ant-v5"])
def test_other_environments_of_mujoco_are_restored_to_the_bit(name: str) -> None:
    env = Environment(name, 0, "train")
    actions = random_actions(env)
    play(env, actions, 7)
    saved = save(env)
    to_come = [next(actions) for _ in range(5)]
    other = Environment(name, 0, "train")
    other.restore(*saved)
    assert play(other, iter(to_come), 5) == play(env, iter(to_come), 5)


def test_bounds_of_actions_are_those_of_the_environment_in_single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    low, high = Environment("Pendulum-v1", 0, "train").bounds
    assert (low.tolist(), high.tolist()) == ([-2.0], [2.0])
    monkeypatch.setattr(Strange, "dtype", np.float64)
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    gymnasium.register("Strange-v0", lambda **options: Strange(bound=3), disable_env_checker=True)
    for bound, expected in zip(Environment("Strange-v0", 0, "train").bounds, (-3.0, 3.0), strict=True):
        assert bound.dtype == torch.float32
        assert bound.tolist() == [expected, expected]


def test_the_time_limit_counts_the_steps_before_a_restore() -> None:
    env = Environment("HalfCheetah-v4", 0, "train")
    actions = random_actions(env)
    play(env, actions, 990)
    other = Environment("HalfCheetah-v4", 0, "train")
    other.restore(*save(env))
    ends = [other.step(next(actions)).over for _ in range(10)]
    assert ends == [False] * 9 + [True]


def test_episodes_are_given_by_seed_purpose_and_number() -> None:
    def first(seed: int, purpose: str, episode: int) -> bytes:
        env = Environment("Hopper-v4", seed, purpose)
        env.start(episode)
        return env.observation.tobytes()

    assert first(0, "train", 5) == first(0, "train", 5)
    others = [first(1, "train", 5), first(0, "eval", 5), first(0, "train", 6)]
    assert len({first(0, "train", 5), *others}) == 4


# ends


def episode(name: str) -> list[Transition]:
    env = Environment(name, 0, "train")
    transitions = []
    for action in random_actions(env):
        transitions.append(env.step(action))
        if transitions[-1].over:
            assert len(transitions) == env.steps
            assert env.episode_return == pytest.approx(sum(one.reward for one in transitions))
            return transitions
    raise AssertionError


def test_an_episode_that_is_cut_off_does_not_terminate() -> None:
    *rest, last = episode("Pendulum-v1")
    assert len(rest) == 199
    assert not any(one.over or one.terminated for one in rest)
    assert last.over
    assert not last.terminated


def test_an_episode_that_fails_terminates() -> None:
    *rest, last = episode("Hopper-v4")
    assert len(rest) < 200
    assert not any(one.over or one.terminated for one in rest)
    assert last.over
    assert last.terminated


@pytest.mark.parametrize("name", ["Pendulum-v1", "Hopper-v4"])
def test_the_last_observation_of_an_episode_is_not_the_first_of_the_next(name: str) -> None:
    env = Environment(name, 0, "train")
    for action in random_actions(env):
        after = env.step(action)
        if after.over:
            break
    last = after.next_observation.copy()
    assert env.observation is after.next_observation
    env.start(1)
    assert (after.next_observation == last).all()
    assert not (env.observation == last).any()


@pytest.mark.filterwarnings("ignore:.*is out of date:DeprecationWarning:gymnasium")
@pytest.mark.parametrize("name", ["Pendulum-v1", "Hopper-v4"])
def test_rewards_and_observations_are_the_simulators_own(name: str) -> None:
    env = Environment(name, 0, "train")
    plain = gymnasium.make(name)
    seed = _environment.derive(0, "train", 0) % 2**32
    observation, _ = plain.reset(seed=seed)
    assert (env.observation == observation).all()
    for action in random_actions(env):
        after = env.step(action)
        observation, reward, terminated, truncated, _ = plain.step(action)
        assert (after.next_observation == observation).all()
        assert (after.reward, after.terminated, after.over) == (float(reward), terminated, terminated or truncated)
        if after.over:
            break


# what is refused


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["Hopper-v4", "HalfCheetah-v4", "Pendulum-v1"])
def test_nothing_is_said_of_environments_that_can_be_used(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Not even to a file, as MuJoCo does with what it thinks of gymnasium's models."""
    monkeypatch.chdir(tmp_path)
    check_environment(name)
    Environment(name, 0, "train").close()
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("CartPole-v1", "SAC needs bounded continuous actions, which CartPole-v1 has not: Discrete(2)"),
        ("FrozenLake-v1", "SAC needs bounded continuous actions, which FrozenLake-v1 has not: Discrete(4)"),
        ("Hoper-v4", "there is no environment 'Hoper-v4': "),
        ("Hopper-v99", "there is no environment 'Hopper-v99': "),
        ("Hopper", "there is no environment 'Hopper': "),
        ("no such thing", "there is no environment 'no such thing': "),
        ("Hopper-v2", "Hopper-v2 cannot be used: "),
    ],
)
def test_an_environment_that_cannot_be_used_is_told_of_in_one_line(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]*$") as error:
        define_all(name, ["adalin"], [0])
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("spaces", "message"),
    [
        ({"bound": np.inf}, r"^SAC needs bounded continuous actions, which Strange-v0 has not: Box[^\n]*$"),
        (
            {"seen": (8, 8, 3)},
            r"^SAC here needs observations that are vectors, which those of Strange-v0 are not: [^\n]*$",
        ),
    ],
)
def test_spaces_that_do_not_fit_are_told_of_in_one_line(
    spaces: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    gymnasium.register("Strange-v0", lambda **options: Strange(**spaces), disable_env_checker=True)
    with pytest.raises(ValueError, match=message):
        define_all("Strange-v0", ["adalin"], [0])


class Endless(Strange):
    """Neither ends nor has a time limit."""

    def step(self, action: Any) -> Any:
        return np.zeros(self.seen, np.float32), 1.0, False, False, {}


def test_an_episode_that_would_never_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    monkeypatch.setattr(_environment, "LONGEST_EPISODE", 7)
    gymnasium.register("Endless-v0", lambda **options: Endless(), disable_env_checker=True)
    environment = Environment("Endless-v0", 0, "eval")
    ends = [environment.step(np.zeros(2, np.float32)) for _ in range(7)]
    assert [(one.over, one.terminated) for one in ends] == [(False, False)] * 6 + [(True, False)]


def without(missing: str) -> Callable[[str], Any]:
    def look(name: str) -> Any:
        if name == missing:
            raise ModuleNotFoundError(f"No module named {name!r}")
        return import_module(name)

    return look


@pytest.mark.parametrize(
    ("missing", "name"), [("gymnasium", "Hopper-v4"), ("gymnasium", "Pendulum-v1"), ("mujoco", "Hopper-v4")]
)
def test_what_is_not_installed_is_told_of_with_how_to_install_it(
    missing: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_environment, "import_module", without(missing))
    for ask in (check_environment, lambda name: define_all(name, ["adalin"], [0])):
        with pytest.raises(ValueError, match=r"^SAC needs ") as error:
            ask(name)
        assert str(error.value) == f"SAC needs {missing}: pip install 'adalin[rl]'"


def test_pendulum_does_not_need_mujoco(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_environment, "import_module", without("mujoco"))
    assert not is_mujoco("Pendulum-v1")
    check_environment("Pendulum-v1")


# versions


@pytest.fixture
def _fresh_versions() -> Iterator[None]:
    simulator_version.cache_clear()
    yield
    simulator_version.cache_clear()


def folder(name: str) -> Path:
    (run,) = define_all(name, ["adalin"], [0])
    return run.folder


@pytest.mark.usefixtures("_fresh_versions")
@pytest.mark.parametrize(
    ("name", "changed", "matters"),
    [
        ("Hopper-v4", "mujoco", True),
        ("Hopper-v4", "gymnasium", True),
        ("Pendulum-v1", "gymnasium", True),
        ("Pendulum-v1", "mujoco", False),
        ("Hopper-v4", "pygame", False),
    ],
)
def test_runs_with_another_simulator_are_other_runs(
    name: str, changed: str, matters: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, before = _environment.version, folder(name)
    simulator_version.cache_clear()
    monkeypatch.setattr(_environment, "version", lambda part: "99.0" if part == changed else real(part))
    assert (folder(name) != before) is matters


def test_a_run_knows_its_simulator() -> None:
    (run,) = define_all("Hopper-v4", ["adalin"], [0])
    assert run.settings.simulator == f"gymnasium {gymnasium.__version__}, mujoco {import_module('mujoco').__version__}"
    assert run.config["simulator"] == run.settings.simulator
    one, other = (
        read_run({"benchmark": "sac-Hopper-v4", "method": "adalin", "seed": 0, "tasks": 2, "simulator": simulator})
        for simulator in ("mujoco 3", "mujoco 4")
    )
    assert one.folder != other.folder


def test_a_machine_with_another_simulator_does_not_train_the_run(tmp_path: Path) -> None:
    (run,) = define_all("Pendulum-v1", ["adalin"], [0], steps=10, period=10, learning_starts=5)
    notes = Notes()
    foreign = run.with_settings(simulator="gymnasium 0.1.0")
    execute([foreign], Session(out=tmp_path, emit=notes))
    (message,) = notes.messages("error")
    assert "gymnasium 0.1.0" in message
    assert f"and here is {run.settings.simulator}: install the former" in message
    assert not any(tmp_path.rglob("rows.jsonl"))
