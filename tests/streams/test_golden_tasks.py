"""A benchmark's id stands for its tasks to the bit: who changes what one gives, gives it a new version."""

import hashlib

import pytest

from adalin.streams import Task, benchmarks, get_benchmark
from synthetic_data import synthetic

GOLDEN: dict[str, dict[tuple[int, int], str]] = {
    "permuted-mnist-v1": {
        (3, 0): "664200260714fc2df8272b1c35f4136939923b667946d61f30b56ad90ca2d62c",
        (3, 3): "d227a579eae959d6fdbbddc98e2c54a4087417bc421f1215b88ef7ef9ebf7af4",
        (4, 0): "92641e468189e05afc8c8e4d02979c946978f0f91f371aa71e51cc1b064cdb60",
        (4, 3): "1ef26f456f384854c76aff4dc838d06d8f3e05c1d3380ea79f6d46987ef1e608",
    },
    "random-label-mnist-v1": {
        (3, 0): "321baf541734aad1c018f25d18c90b75d84e539844082f0af9a65590bfa40ff5",
        (3, 3): "4e4699c30ef980e95a3617dce37c09fcdaa56ffb6592f65d4c39d9a76f2b5daf",
        (4, 0): "35d5f7d19456302e8cd1a54cf2bb031db09655a3f4cd56e200617e1c84a01968",
        (4, 3): "87c99640f658ec8d498b54ed8b0f354c7583fc1df41b72233a8e30b59426c17b",
    },
    "random-label-cifar10-v1": {
        (3, 0): "e6bd69ef07e89d3043910f191b4da2ea37298599c212a393f5af8bab36abb483",
        (3, 3): "f8616860ac507c0beb83e99ab04b3e4e53c59fa7f7ff6ba0e582866dbacc23d5",
        (4, 0): "fd78fcd32a5f0b3e79893c106d747eef1cb385dba1d88c447e6942ad918fae60",
        (4, 3): "6a9c164a08a5f82ad0d4e0a1e67a3a9bf78960d471298fd0d6713f82143f0b9f",
    },
    "shuffled-label-cifar10-v1": {
        (3, 0): "103fc6ac5c59f20e855896a0230cd9998069545f2eff3b1d5c85c3e5176e7f8c",
        (3, 3): "19593e8b0355e1f785eccd920ff2a3e1070e152af1c6a5f661553b3aa31e2c84",
        (4, 0): "112e9a7bf3cf3c1611a6f977aaf014e7828ddf0a156b5dc087f370707ba919cc",
        (4, 3): "df27d8079a18be678d306d557a45e7bcbc12b18b39859fc8e726935c0369e0ea",
    },
    "class-split-cifar100-v1": {
        (3, 0): "3b2baa33c4b35f6794a7eaf7cfd2ed0826266101b9b9cc50dd32d1101a4556dd",
        (3, 3): "9859d71fc4fb517d43a21d49329be430c7febc135c55c30c09280cdb0f3237c2",
        (4, 0): "46d1f36564caa598f75394da2c690ba18e5aa0a85a37414367767c103a289592",
        (4, 3): "29a2164980cd38d305274b595bdce95d10937eb8767e2fbfdc59842d010866a8",
    },
    "class-incremental-cifar100-v1": {
        (3, 0): "bcc4970a15d0a3e84453c481142993e0847f0f09447d16b9960345d4ba7e07f9",
        (3, 3): "db9c1efade3ddb217a9e90f123b51c97af2edb689ca97cf2ffd4eff70526d4c8",
        (4, 0): "f416c9f69fe2d00dbd4c9c13991fc095dc9088ddc53846ed7fac6d1d36e61f82",
        (4, 3): "d42faf0b6f8934da7b7fc7c9cd8154d9f655f16e86b772021c29c3d21dd04843",
    },
}
"""By id, then by (seed, task)."""


def digest(task: Task) -> str:
    parts = [task.floats(task.inputs), task.labels]
    if task.test is not None:
        inputs, labels = task.test()
        parts += [task.floats(inputs), labels]
    result = hashlib.sha256()
    for part in parts:
        result.update(f"{part.dtype} {tuple(part.shape)} ".encode())
        result.update(part.contiguous().numpy().tobytes())
    return result.hexdigest()


def test_every_benchmark_has_golden_tasks() -> None:
    assert set(benchmarks()) == set(GOLDEN)


@pytest.mark.parametrize(("seed", "task"), [(3, 0), (3, 3), (4, 0), (4, 3)])
@pytest.mark.parametrize("benchmark", GOLDEN)
def test_a_task_is_the_same_to_the_bit_as_ever(benchmark: str, seed: int, task: int) -> None:
    entry = get_benchmark(benchmark)
    stream = entry.stream(synthetic(entry.dataset or ""), seed=seed, images=15, scaling="unit")
    assert digest(stream.task(task)) == GOLDEN[benchmark][seed, task]
