"""AdaLin inside the rest of PyTorch: compilers, exporters, function transforms, layouts, precision, processes."""

import copy

import numpy as np
import onnxruntime
import pytest
import safetensors.torch
import torch
import torch.multiprocessing as mp
from torch import nn
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, vmap

from adalin import AdaLin, bases

BASES = ["relu", "tanh", "gelu", "silu", "hardtanh", "elu"]


def bent(x):
    """A base that AdaLin does not know."""
    return (torch.sqrt(x * x + 1) - 1) / 2 + x


def mlp(base="tanh", **options):
    return nn.Sequential(nn.Linear(6, 8), AdaLin(base, 8, **options), nn.Linear(8, 3))


def gradients(model, x):
    return torch.autograd.grad(model(x).square().sum(), list(model.parameters()))


@pytest.mark.parametrize("base", [*BASES, bent])
def test_compiles_into_one_graph(base):
    torch._dynamo.reset()
    model, x = mlp(base), torch.randn(5, 6)
    compiled = torch.compile(model, fullgraph=True)
    torch.testing.assert_close(compiled(x), model(x))
    for mine, theirs in zip(gradients(compiled, x), gradients(model, x), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_the_compiled_backward_keeps_one_tensor_of_the_inputs_size():
    from benchmarks.activations import saved_inputs

    torch._dynamo.reset()
    assert saved_inputs(torch.compile(AdaLin("gelu", 64), fullgraph=True)) == 1


def test_a_lazy_layer_compiles():
    torch._dynamo.reset()
    layer = AdaLin("gelu")
    assert torch.compile(layer, fullgraph=True)(torch.randn(2, 7)).shape == (2, 7)
    assert layer.alpha.shape == (7,)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_autocast_sums_alphas_gradient_in_float32(backend):
    torch._dynamo.reset()
    layer, x, grad_y = AdaLin("tanh", 8), torch.randn(64, 8), torch.randn(64, 8)
    compiled = torch.compile(layer, fullgraph=True, backend=backend)
    with torch.autocast("cpu"):
        y = compiled(x)
    actual, expected = (torch.autograd.grad(output, layer.alpha, grad_y) for output in (y, layer(x)))
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("base", [*BASES, bent])
def test_a_trace_saves_loads_and_trains(base, tmp_path):
    model, x = mlp(base), torch.randn(5, 6)
    torch.jit.save(torch.jit.trace(model, x), tmp_path / "model.pt")
    loaded, other = torch.jit.load(tmp_path / "model.pt"), torch.randn(9, 6)
    torch.testing.assert_close(loaded(other), model(other))
    for mine, theirs in zip(gradients(loaded, other), gradients(model, other), strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("base", bases())
def test_exports_with_a_dynamic_batch(base):
    model, x = mlp(base), torch.randn(5, 6)
    batch = torch.export.Dim("batch", min=2)
    program = torch.export.export(model, (x,), dynamic_shapes=({0: batch},))
    other = torch.randn(9, 6)
    torch.testing.assert_close(program.module()(other), model(other))


def test_a_base_of_ones_own_exports_with_the_batch_it_is_shown():
    model, x = mlp(bent), torch.randn(5, 6)  # torch.func inside torch.export makes the batch a constant
    torch.testing.assert_close(torch.export.export(model, (x,)).module()(x), model(x))


@pytest.mark.filterwarnings("ignore")  # the exporter's own
@pytest.mark.parametrize("base", ["relu", "tanh", "gelu", "silu", "mish", "softplus", "hardswish", "selu"])
def test_onnxruntime_computes_the_same(base, tmp_path):
    model, x = mlp(base).eval(), torch.randn(5, 6)
    path = tmp_path / "model.onnx"
    torch.onnx.export(model, (x,), path, dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (actual,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    np.testing.assert_allclose(actual, model(x).detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("base", [*BASES, bent])
def test_vmap_over_samples_gives_per_sample_gradients(base):
    model, x = mlp(base), torch.randn(5, 6)
    parameters = dict(model.named_parameters())

    def loss(parameters, sample):
        return functional_call(model, parameters, (sample,)).square().sum()

    per_sample = vmap(grad(loss), (None, 0))(parameters, x)
    for i, sample in enumerate(x):
        expected = torch.autograd.grad(model(sample).square().sum(), list(model.parameters()))
        for mine, theirs in zip(per_sample.values(), expected, strict=True):
            torch.testing.assert_close(mine[i], theirs)


@pytest.mark.parametrize("base", [*BASES, bent])
def test_vmap_over_models_trains_an_ensemble(base):
    models = [mlp(base) for _ in range(3)]
    stacked, _ = torch.func.stack_module_state(models)
    x = torch.randn(5, 6)
    outputs = vmap(lambda parameters, x: functional_call(models[0], parameters, (x,)), (0, None))(stacked, x)
    torch.testing.assert_close(outputs, torch.stack([model(x) for model in models]))


@pytest.mark.parametrize("base", [*BASES, bent])
def test_forward_and_reverse_mode_agree(base):
    layer, x = AdaLin(base, 4, dtype=torch.float64), torch.randn(3, 4, dtype=torch.float64)
    torch.testing.assert_close(jacfwd(layer)(x), jacrev(layer)(x))

    def of_alpha(alpha):
        return functional_call(layer, {"alpha": alpha}, (x,))

    torch.testing.assert_close(jacfwd(of_alpha)(layer.alpha.detach()), jacrev(of_alpha)(layer.alpha.detach()))


@pytest.mark.parametrize("base", [*BASES, bent])
def test_batched_gradients_are_those_of_one_after_another(base):
    layer, x, grads = AdaLin(base, 4), torch.randn(3, 4, requires_grad=True), torch.randn(5, 3, 4)
    y = layer(x)

    def backward(grad_y, **options):
        return torch.autograd.grad(y, (x, layer.alpha), grad_y, retain_graph=True, **options)

    expected = [torch.stack(each) for each in zip(*map(backward, grads), strict=True)]
    for actual in (backward(grads, is_grads_batched=True), vmap(backward)(grads)):
        torch.testing.assert_close(actual, tuple(expected))
    jacobian = torch.autograd.functional.jacobian
    torch.testing.assert_close(jacobian(layer, x, vectorize=True), jacobian(layer, x))


@pytest.mark.parametrize("base", [*bases(), bent])
def test_double_backward_is_that_of_a_frozen_gate(base):
    layer = AdaLin(base, 4, dtype=torch.float64)
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    phi = layer.base.phi

    def twice(function):
        first_x, first_alpha = torch.autograd.grad(function(x).square().sum(), (x, layer.alpha), create_graph=True)
        return torch.autograd.grad(first_x.square().sum() + first_alpha.square().sum(), (x, layer.alpha))

    with torch.no_grad():
        g = layer.saturation(x)
    for mine, theirs in zip(twice(layer), twice(lambda x: phi(x) + layer.alpha * x * g), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_hessian_through_func():
    layer, x = AdaLin("tanh", 4, dtype=torch.float64), torch.randn(4, dtype=torch.float64)
    t = torch.tanh(x)
    expected = torch.diag(-2 * t * (1 - t * t))
    torch.testing.assert_close(hessian(lambda x: layer(x).sum())(x), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("base", BASES)
def test_autocast(base, dtype):
    model, x = mlp(base), torch.randn(5, 6)
    with torch.autocast("cpu", dtype=dtype):
        y = model(x)
    assert y.dtype == dtype
    torch.testing.assert_close(y.float(), model(x), rtol=0.05, atol=0.05)
    y.float().sum().backward()
    assert model[1].alpha.grad.dtype == torch.float32
    assert model[1].alpha.grad.isfinite().all()


@pytest.mark.parametrize("base", [*BASES, "sin"])
def test_layouts_do_not_matter(base):
    layer = AdaLin(base, 8)
    x = torch.randn(4, 8, 6, 5)
    grad_y = torch.randn_like(x)
    layouts = {
        "contiguous": x,
        "channels_last": x.contiguous(memory_format=torch.channels_last),
        "transposed": x.transpose(2, 3).contiguous().transpose(2, 3),
        "every other": torch.randn(4, 8, 12, 5)[:, :, ::2].copy_(x),
        "expanded": x[:1].expand(4, 8, 6, 5),
    }
    for name, z in layouts.items():
        z = z.detach().requires_grad_()
        reference = z.detach().clone(memory_format=torch.contiguous_format).requires_grad_()
        expected = torch.autograd.grad(layer(reference), (reference, layer.alpha), grad_y)
        actual = torch.autograd.grad(layer(z), (z, layer.alpha), grad_y)
        torch.testing.assert_close(layer(z), layer(reference), msg=name)
        for mine, theirs in zip(actual, expected, strict=True):
            torch.testing.assert_close(mine, theirs, msg=name)
    assert layer(layouts["channels_last"]).is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("base", [*BASES, bent])
def test_empty_batches(base):
    layer = AdaLin(base, 8)
    x = torch.empty(0, 8, requires_grad=True)
    y = layer(x)
    y.sum().backward()
    assert y.shape == x.grad.shape == (0, 8)
    assert torch.equal(layer.alpha.grad, torch.zeros(8))


def test_state_dict_and_safetensors_round_trips(tmp_path):
    model, twin, x = mlp(), mlp(), torch.randn(5, 6)
    twin.load_state_dict(model.state_dict())
    assert torch.equal(twin(x), model(x))
    safetensors.torch.save_file(model.state_dict(), tmp_path / "model.safetensors")
    lazy = nn.Sequential(nn.Linear(6, 8), AdaLin("tanh"), nn.Linear(8, 3))
    lazy.load_state_dict(safetensors.torch.load_file(tmp_path / "model.safetensors"))
    assert torch.equal(lazy(x), model(x))


def test_deepcopy_is_independent():
    model = mlp()
    twin = copy.deepcopy(model)
    twin[1].alpha.data.add_(1)
    assert not torch.equal(twin[1].alpha, model[1].alpha)


def test_meta_device():
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(6, 8), AdaLin("tanh", 8), AdaLin("gelu"), AdaLin(bent, 8))
    y = model(torch.empty(5, 6, device="meta", requires_grad=True))
    y.sum().backward()
    assert y.is_meta
    assert model[1].alpha.grad.shape == (8,)
    real = model.to_empty(device="cpu")
    real[1].reset_parameters()
    assert 0 <= real[1].alpha.min() <= real[1].alpha.max() <= 1


def _train_in_parallel(rank, world, folder, results):
    torch.set_num_threads(1)
    store = torch.distributed.FileStore(f"{folder}/store", world)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=world)
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(mlp())
    x = torch.randn(8, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(x[rank::world]).square().mean().backward()
        optimizer.step()
    if rank == 0:
        torch.save(model.module.state_dict(), results)
    del model  # its reducer must be gone before the process group is, and no process may leave before the other is done
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def test_distributed_data_parallel_equals_one_process(tmp_path):
    results = tmp_path / "state.pt"
    mp.spawn(_train_in_parallel, (2, str(tmp_path), str(results)), nprocs=2)
    torch.manual_seed(0)
    model = mlp()
    x = torch.randn(8, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    for name, tensor in torch.load(results, weights_only=True).items():
        torch.testing.assert_close(tensor, model.state_dict()[name])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("base", BASES)
def test_cuda_equals_cpu(base):
    model, x = mlp(base), torch.randn(5, 6)
    on_gpu = copy.deepcopy(model).cuda()
    torch.testing.assert_close(on_gpu(x.cuda()).cpu(), model(x))
    for mine, theirs in zip(gradients(on_gpu, x.cuda()), gradients(model, x), strict=True):
        torch.testing.assert_close(mine.cpu(), theirs)
