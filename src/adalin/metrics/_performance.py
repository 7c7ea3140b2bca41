"""How well the network does its task."""

import torch

from adalin.metrics._network_on_data import NetworkOnData, norm
from adalin.metrics._registry import register_metric


@register_metric(
    "online_accuracy",
    "mean batch accuracy before the update",
    paper="Kumar et al. 2023",
    needs={"labels", "online"},
    accuracy=True,
)
def online_accuracy(network: NetworkOnData) -> float | None:
    """The mean over a task's batches of the accuracy on a batch *before* the update with it.

        (1 / B) * sum_b accuracy(theta_b, batch_b)

    Razavi Rohani et al. 2025 plot it for every benchmark and select hyper-parameters by it; that the accuracy is taken
    before the update is the protocol of Kumar et al. 2023. Training counts it, so that it costs nothing here.
    """
    return network.online_accuracy


@register_metric(
    "train_accuracy", "accuracy on the training data at the task's end", needs={"inputs", "labels"}, accuracy=True
)
def train_accuracy(network: NetworkOnData) -> float:
    """Accuracy on the network's training images at the end of the task, in eval mode."""
    return network.accuracy


@register_metric("test_accuracy", "accuracy on the test set at the task's end", needs={"labels", "test"}, accuracy=True)
def test_accuracy(network: NetworkOnData) -> float | None:
    """Accuracy on the task's test set at the end of the task, in eval mode; null for a task without one."""
    return network.test_accuracy


@register_metric(
    "seen_test_accuracy", "the same on classes that have been trained", needs={"labels", "test"}, accuracy=True
)
def seen_test_accuracy(network: NetworkOnData) -> float | None:
    """Accuracy among the classes that the task's training data has, on those of the test images that are of them.

    Only outputs for these classes count; where they are all, it is the test accuracy. Null without a test set.
    """
    if network.labels is None or network.test is None or network.test_logits is None:
        return None
    classes, labels = network.labels.unique().cpu(), network.test[1]
    if len(classes) == network.test_logits.shape[1]:
        return network.test_accuracy
    seen = torch.isin(labels, classes)
    if not seen.any():
        return None
    answers = classes[network.test_logits[seen][:, classes].argmax(1)]
    return (answers == labels[seen]).double().mean().item()


@register_metric("loss", "mean cross-entropy on the training data at the task's end", needs={"inputs", "labels"})
def loss(network: NetworkOnData) -> float:
    """Mean cross-entropy in nats on the network's training images at the end of the task, in eval mode."""
    return network.loss


@register_metric(
    "gradient_norm", "L2 norm of the loss's gradient", paper="Abbas et al. 2023", needs={"labels", "gradient"}
)
def gradient_norm(network: NetworkOnData) -> float:
    """L2 norm of the gradient of the mean cross-entropy over the task's training data.

        || grad_theta (1/N) sum_n CE(f_theta(x_n), y_n) ||

    over all parameters that are trained, alphas too, at the end of the task, in eval mode. A network whose gradient
    vanishes while its loss is high can no longer learn (Abbas et al. 2023, "Loss of Plasticity in Continual Deep RL").
    """
    return norm(network.gradient.values())
