"""The training loop of all deep methods."""

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load, save
from torch import Tensor, nn

from ddsh.backbones.frozen import from_channels_last
from ddsh.errors import ArtefactError, Diverged, InvalidInput
from ddsh.methods._batches import Batches
from ddsh.methods._checkpoints import Checkpoint, Checkpoints
from ddsh.methods._distributed import add_gradients, gather_gradients, gather_rows, my_share, share_bytes, world
from ddsh.methods.training import TrainingStep

if TYPE_CHECKING:
    from ddsh.methods._deep import DeepHasher, Rows

__all__ = ["TrainingLoop"]

_LOG = logging.getLogger(__name__)


class TrainingLoop:
    """One training run with its optimiser, clock and checkpoints.

    Parameters
    ----------
    method : DeepHasher
        The method; its network is trained.
    batches : Batches
        The network's input.
    on_step : callable, optional
        Called after each mini-batch.
    on_epoch : callable, optional
        Called with the record of each epoch, which it may extend, while the method can encode images.
    """

    def __init__(
        self,
        method: "DeepHasher",
        batches: Batches,
        on_step: Callable[[TrainingStep], None] | None,
        on_epoch: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self.method, self.batches, self.on_step, self.on_epoch = method, batches, on_step, on_epoch
        self.n_frozen = method._n_frozen()
        self.schedule = method._schedule()
        self.model = method.model_
        self.device = self.model.head.weight.device
        helper = method._helper
        self.trained: nn.Module = self.model if helper is None else nn.ModuleList([self.model, helper.to(self.device)])
        stages = self.model.backbone.stages()
        for stage in stages[: self.n_frozen]:
            stage.requires_grad_(False)
        learning = [parameter for stage in stages[self.n_frozen :] for parameter in stage.parameters()]
        top = list(self.model.head.parameters()) + ([] if helper is None else list(helper.parameters()))
        groups = [{"params": top, "factor": self.schedule.head_factor}]
        if learning:
            groups.insert(0, {"params": learning, "factor": 1.0})
        self.optimiser = torch.optim.SGD(
            groups,
            lr=self.schedule.learning_rate,
            momentum=self.schedule.momentum,
            weight_decay=self.schedule.weight_decay,
        )
        self.history: list[dict[str, Any]] = []
        self.step = 0
        self.epoch_loss = 0.0
        self.started = self.saved = time.monotonic()

    def run(self, checkpoints: Checkpoints | None) -> None:
        """Train from scratch, or continue from the newest checkpoint."""
        newest = checkpoints.latest(share_bytes) if checkpoints else None
        if newest is not None:
            rows, n_done = self._restore(newest)
            self._run_epoch(len(self.history) - 1, rows, n_done, checkpoints)
            self._end_epoch()
        for number in range(len(self.history), self.schedule.epochs):
            rows, objective = self.method._begin_epoch(number)
            rows = self._agree(rows)
            self.epoch_loss = 0.0
            self.history.append({"epoch": number + 1, "objective": objective, "loss": None})
            self._run_epoch(number, rows, 0, checkpoints)
            self._end_epoch()

    def _agree(self, rows: "Rows") -> "Rows":
        """Let all processes use the rows and codes of the first one, whatever the rounding of their machines."""
        if world()[1] == 1:
            return rows
        state = {name: np.ascontiguousarray(array) for name, array in self.method._state().items()}
        data = share_bytes(save(state | {"rows": rows}))
        assert data is not None, "the first process sent it"
        shared = load(data)
        rows = shared.pop("rows")
        self.method._restore(shared)
        return rows

    def _end_epoch(self) -> None:
        if self.on_epoch is not None:
            self.method.history_ = self.history
            self.method._folded = None
            self.on_epoch(self.history[-1])

    def _run_epoch(self, number: int, rows: "Rows", n_done: int, checkpoints: Checkpoints | None) -> None:
        """Train on the mini-batches of an epoch, without the first `n_done`."""
        order = rows[np.argsort(self.method._rng(1, number).random(len(rows)), kind="stable")]
        size = self.schedule.batch_size
        batches = [order[start : start + size] for start in range(0, len(order), size)]
        self.model.train()
        for place, batch in enumerate(batches[n_done:], n_done):
            self.epoch_loss += self._train_batch(number, place, len(batches), batch)
            self.step += 1
            self.history[-1]["loss"] = self.epoch_loss / (place + 1)
            if self.on_step is not None and world()[0] == 0:
                total, finished = len(batches) * self.schedule.epochs, number * len(batches) + place + 1
                per_second = finished / max(time.monotonic() - self.started, 1e-9)
                self.on_step(
                    TrainingStep(
                        done=finished,
                        total=total,
                        epoch=number + 1,
                        epochs=self.schedule.epochs,
                        loss=self.history[-1]["loss"],
                        objective=self.history[-1]["objective"],
                        bits_per_second=per_second * len(rows) / len(batches) * self.method.n_bits,
                        seconds_left=(total - finished) / per_second,
                    )
                )
            is_due = time.monotonic() - self.saved >= self.schedule.checkpoint_seconds
            if checkpoints and (place + 1 == len(batches) or is_due):
                self._save(checkpoints, rows, place + 1)

    def _train_batch(self, number: int, place: int, n_batches: int, batch: "Rows") -> float:
        """Take one step of gradient descent on a mini-batch; return its loss."""
        self.method._progress = (number + place / n_batches) / self.schedule.epochs
        rate = self.schedule.rate(self.method._progress)
        batch = np.tile(batch, self.method.n_views)
        for group in self.optimiser.param_groups:
            group["lr"] = rate * group["factor"]
        mine = my_share(batch)
        inputs = my_share(self.batches.take(batch, self.method._rng(2, number, place)))
        if self.n_frozen:
            outputs = self.model.finish(from_channels_last(inputs).to(self.device), self.n_frozen)
        else:
            outputs = self.model(torch.from_numpy(inputs).to(self.device))
        if self.method.needs_whole_batch:
            loss = self.method._loss(gather_gradients(outputs, len(batch)), batch)
        else:
            loss = self.method._loss(outputs, mine)
        loss = loss * (len(mine) / len(batch))
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        add_gradients(self.trained)
        self.optimiser.step()
        everything = gather_rows(torch.cat([outputs.detach(), loss.detach().expand(len(mine), 1)], 1), len(batch))
        values = everything.cpu().numpy()
        if not np.isfinite(values).all():
            raise Diverged("Training diverged: the loss is no longer finite. Choose a smaller learning rate.")
        self.method._after_batch(batch, values[:, :-1])
        return float(values[: world()[1], -1].sum())

    def _save(self, checkpoints: Checkpoints, rows: "Rows", n_done: int) -> None:
        if world()[0] == 0:
            tensors = {f"model.{name}": tensor.cpu().numpy() for name, tensor in self.model.state_dict().items()}
            for place, parameter in enumerate(self._parameters()):
                momentum = self.optimiser.state.get(parameter, {}).get("momentum_buffer")
                if momentum is not None:
                    tensors[f"momentum.{place}"] = momentum.cpu().numpy()
            if self.method._helper is not None:
                weights = self.method._helper.state_dict()
                tensors |= {f"helper.{name}": tensor.cpu().numpy() for name, tensor in weights.items()}
            tensors |= {f"method.{name}": array for name, array in self.method._state().items()}
            facts = {"history": self.history, "done": n_done, "epoch_loss": self.epoch_loss}
            facts["n_threads"] = torch.get_num_threads()
            try:
                checkpoints.save(Checkpoint(self.step, tensors | {"rows": rows}, facts))
            except ArtefactError as error:  # what was learned is worth more than a place to continue from
                _LOG.warning("%s Training goes on without this checkpoint.", error)
        self.saved = time.monotonic()

    def _restore(self, checkpoint: Checkpoint) -> tuple["Rows", int]:
        """Restore a checkpoint; return the rows of its epoch and the mini-batches done.

        Sums of floats depend on how they are divided among threads, so their number must be the same on a CPU.
        """
        n_threads = checkpoint.facts.get("n_threads")  # not in checkpoints of earlier versions
        on_cpu = next(self.model.parameters()).device.type == "cpu"
        if on_cpu and n_threads not in (None, torch.get_num_threads()):
            raise InvalidInput(
                f"The training began with {n_threads} threads, and there are {torch.get_num_threads()} now, which would"
                f" give other codes; resume it with --threads {n_threads}, or OMP_NUM_THREADS={n_threads}."
            )
        parts: dict[str, dict[str, NDArray[Any]]] = {"model": {}, "helper": {}, "momentum": {}, "method": {}}
        for name, array in checkpoint.tensors.items():
            kind, _, rest = name.partition(".")
            if kind in parts:
                parts[kind][rest] = array
        self.model.load_state_dict({name: torch.from_numpy(array) for name, array in parts["model"].items()})
        if self.method._helper is not None:
            self.method._helper.load_state_dict({name: torch.from_numpy(a) for name, a in parts["helper"].items()})
        parameters = self._parameters()
        for place, array in parts["momentum"].items():
            parameter = parameters[int(place)]
            self.optimiser.state[parameter]["momentum_buffer"] = torch.from_numpy(array).to(parameter).clone()
        self.method._restore(parts["method"])
        self.step = checkpoint.step
        self.history = list(checkpoint.facts["history"])
        self.epoch_loss = float(checkpoint.facts["epoch_loss"])
        return checkpoint.tensors["rows"], int(checkpoint.facts["done"])

    def _parameters(self) -> list[Tensor]:
        return [parameter for group in self.optimiser.param_groups for parameter in group["params"]]
