"""convert on transformers from small configurations, with random weights."""

import pytest
import torch

from adalin import AdaLin, convert
from adalin.structure import find_units
from small_transformers import SMALL, transformers


@pytest.mark.parametrize("name", ["bert", "gpt2", "vit", "llama", "t5"])
def test_every_hidden_activation_is_converted_and_alpha_zero_keeps_every_bit(name: str) -> None:
    torch.manual_seed(0)
    model, inputs, names = SMALL[name]()
    model.eval()
    with torch.no_grad():
        before = model(**inputs)[0]
    conversion = convert(model, init=0.0)
    left = [name for name, _ in conversion.skipped]  # BERT's pooler, which may bound what it gives
    assert [site.name for site in conversion.sites] == [name for name in names if name not in left]
    assert set(left) <= {"bert.pooler.activation", "model.rotary_emb.sin"}
    with torch.no_grad():
        assert torch.equal(model(**inputs)[0], before)
    model(**inputs)[0].square().sum().backward()
    alphas = [module.alpha for module in model.modules() if isinstance(module, AdaLin)]
    assert len(alphas) == len(conversion.sites) >= 2
    assert all(alpha.grad is not None and alpha.grad.any() for alpha in alphas)


@pytest.mark.parametrize("name", ["bert", "gpt2", "vit", "llama", "t5"])
def test_a_converted_transformer_has_the_units_that_it_had_and_their_alphas(name: str) -> None:
    torch.manual_seed(0)
    model, inputs, _ = SMALL[name]()
    before = {u.name: u for u in find_units(model, **inputs)}
    conversion = convert(model)
    after = {u.name: u for u in find_units(model, **inputs)}
    for site in [site.name for site in conversion.sites]:
        assert (after[site].incoming, after[site].outgoing) == (before[site].incoming, before[site].outgoing)
        assert [edge.parameter for edge in after[site].alphas] == [f"{site}.alpha"]


def test_a_converted_bert_comes_back_from_its_folder_to_the_bit(tmp_path) -> None:
    class AdaLinBert(transformers.BertForSequenceClassification):
        def __init__(self, config) -> None:
            super().__init__(config)
            convert(self)

    model, inputs, _ = SMALL["bert"]()
    model.eval()
    convert(model)
    model.save_pretrained(tmp_path)
    loaded = AdaLinBert.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        assert torch.equal(loaded(**inputs).logits, model(**inputs).logits)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # between peft and transformers
def test_an_adapter_of_peft_saves_the_alphas_that_it_trained(tmp_path) -> None:
    peft = pytest.importorskip("peft")
    torch.manual_seed(0)
    model, inputs, _ = SMALL["bert"]()
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    convert(model, init=0.0)
    kept = ["intermediate_act_fn", "classifier"]
    lora = peft.LoraConfig(r=2, target_modules=["query", "value"], modules_to_save=kept)
    adapted = peft.get_peft_model(model, lora)
    trained = {name for name, parameter in adapted.named_parameters() if parameter.requires_grad}
    assert sum(name.endswith("alpha") for name in trained) == 2
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if name in trained:
                parameter.add_(0.1)
    adapted.save_pretrained(tmp_path)
    fresh, _, _ = SMALL["bert"]()
    fresh.load_state_dict(weights)
    convert(fresh, init=0.0)
    loaded = peft.PeftModel.from_pretrained(fresh, tmp_path).eval()
    with torch.no_grad():
        assert torch.equal(loaded(**inputs).logits, adapted.eval()(**inputs).logits)


def test_the_trainer_decays_alphas_unless_it_is_given_an_optimiser(tmp_path) -> None:
    pytest.importorskip("accelerate")
    from adalin import param_groups

    model, _, _ = SMALL["bert"]()
    names = [site.name for site in convert(model).sites]
    arguments = transformers.TrainingArguments(
        str(tmp_path), max_steps=1, report_to=[], save_strategy="no", disable_tqdm=True, use_cpu=True
    )
    alone = transformers.Trainer(model, arguments)
    assert {f"{name}.alpha" for name in names} <= set(alone.get_decay_parameter_names(model))
    before = [model.get_parameter(f"{name}.alpha").clone() for name in names]
    optimizer = torch.optim.AdamW(param_groups(model, weight_decay=0.1), lr=1e-2)
    data = [{"input_ids": torch.tensor([3, 14, 15, 92]), "labels": torch.tensor(1)}] * 4
    transformers.Trainer(model, arguments, train_dataset=data, optimizers=(optimizer, None)).train()
    decays = {id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    for name, old in zip(names, before, strict=True):
        alpha = model.get_parameter(f"{name}.alpha")
        assert decays[id(alpha)] == 0
        assert not torch.equal(alpha, old)
