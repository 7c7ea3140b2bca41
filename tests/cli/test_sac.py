import json
import os
import shutil
from pathlib import Path

import pytest

pytest.importorskip("gymnasium")

TINY = ("--steps", "300", "--period", "100", "--learning-starts", "100", "--eval-episodes", "1", "--batch-size", "16")
RUN = ("run", "sac", "--env", "Pendulum-v1", *TINY, "--seeds", "3", "--workers", "1")


def test_sac_is_trained_resumed_shown_and_reported(adalin):
    code, out, err = adalin(*RUN, "--methods", "baseline", "adalin", "--replay-ratio", "2")
    assert (code, err) == (0, "")
    assert "sac-Pendulum-v1 on gymnasium" in out
    assert "everything was done before" in adalin(*RUN, "--methods", "baseline", "adalin", "--replay-ratio", "2")[1]
    (config, _) = Path("runs").rglob("config.json")
    assert json.loads(config.read_text())["replay_ratio"] == 2
    code, out, _ = adalin("show", "--picture", "returns.png", "--metric", "critic_srank")
    assert (code, Path("returns.png").exists()) == (0, True)
    assert adalin("export", "runs", "sac.parquet")[0] == 0
    assert adalin("show", "sac.parquet")[1].startswith("sac-Pendulum-v1")
    assert adalin("report", "runs")[0] == 0
    page = Path("runs/report/index.html").read_text()
    assert "adalin run sac --env Pendulum-v1 --methods" in page
    assert "--replay-ratio 2" in page
    assert "Episode return, mean over seeds" in page


def test_a_trained_agent_is_drawn(adalin):
    adalin("run", "sac", "--env", "Hopper-v4", *TINY, "--seeds", "3", "--workers", "1", "--methods", "adalin")
    code, out, err = adalin("show", "--render", "agent.png")
    if "cannot draw" in err:
        pytest.skip(err)
    assert (code, Path("agent.png").exists()) == (0, True)
    assert "episode of adalin, seed 3" in out
    adalin("export", "runs", "recorded.parquet")
    shutil.move("runs", "trained")
    assert adalin("import", "recorded.parquet", "--out", "trained/another")[0] == 0
    assert adalin("show", "trained", "--render", "agent.png")[1].endswith("seed 3: agent.png\n"), "the imported is not"
    os.chdir("trained/sac-Hopper-v4")
    assert adalin("show", ".", "--render", "agent.png")[0] == 0


def test_a_plan_of_sac_tells_its_cost(adalin):
    code, out, _ = adalin("plan", *RUN[1:], "--methods", "adalin")
    assert code == 0
    assert out.startswith("1 runs of 3 periods, 300 steps in all")
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("run", "sac"), "sac needs an environment: --env Hopper-v4"),
        (("run", "sac", "--env", "Hoper-v4"), "there is no environment 'Hoper-v4'"),
        (("run", "sac", "--env", "CartPole-v1"), "SAC needs bounded continuous actions, which CartPole-v1 has not"),
        (("run", "sac", "--env", "Pendulum-v1", "--steps", "12"), "steps must be a multiple of 5,000"),
        (("run", "sac", "--env", "Pendulum-v1", "--period", "0"), "period must be a whole number of at least 1, not 0"),
        (
            ("plan", *RUN[1:], "--methods", "adalin", "--q-lr", "1e38", "--policy-lr", "1e38"),
            "adalin diverges at once: there is nothing to plan with",
        ),
        (("run", "sac", "--env", "Pendulum-v1", "--lr", "0.1"), "--lr is for supervised benchmarks, not for sac"),
        (
            ("run", "sac", "--env", "Pendulum-v1", "--compile"),
            "sac is trained on the CPU, as it is: leave out --device",
        ),
        (
            ("run", "sac", "--env", "Pendulum-v1", "--methods", "scratch"),
            "scratch acts when tasks begin or end, and SAC has none",
        ),
        (
            ("run", "sac", "--env", "Pendulum-v1", "--methods", "adamw"),
            "SAC has Adam, not adamw: leave it out of 'adamw'",
        ),
        (("run", "sac", "--env", "Pendulum-v1", "--tau", "2"), "tau must be a number above 0 and at most 1"),
        (
            ("run", "sac", "--env", "Pendulum-v1", "--steps", "5000"),
            "learning-starts must be less than the 5,000 steps, not 5,000: an agent that never learns is no result",
        ),
        (
            ("run", "random-label-mnist", "--replay-ratio", "2"),
            "--replay-ratio is for sac benchmarks, not for random-label-mnist",
        ),
        (("show", "--render", "x.png"), "there is no folder runs"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(adalin, arguments, told):
    code, _, err = adalin(*arguments)
    assert code == 2
    assert err.startswith(f"adalin: {told}")
    assert err.count("\n") == 1
    assert not Path("runs").exists()


def test_without_an_episode_that_ended_there_is_no_picture(adalin):
    brief = [*RUN[:4], "--steps", "50", "--period", "50", "--learning-starts", "20", "--batch-size", "8"]
    code, out, err = adalin(*brief, "--seeds", "3", "--workers", "1", "--methods", "adalin", "--picture", "x.png")
    assert (code, err) == (0, "")
    assert out.endswith("no picture: there is no episode_return yet\n")
