"""Data-parallel training under torchrun: mini-batches are shared."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, distributed, nn
from torch.distributed.nn.functional import all_reduce

__all__ = ["add_gradients", "gather_gradients", "gather_rows", "joined", "my_share", "share_bytes", "world"]


@contextmanager
def joined(n_processes: int, local_rank: int) -> Iterator[None]:
    """Join the process group of torchrun, if there are several processes."""
    if n_processes == 1:
        yield
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank)
    distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield
    finally:
        distributed.destroy_process_group()


def world() -> tuple[int, int]:
    """Return the rank of this process and the number of processes, (0, 1) for one."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def my_share(rows: NDArray[Any]) -> NDArray[Any]:
    """Return this process's share of the rows of a mini-batch."""
    rank, size = world()
    return rows[rank::size]


def add_gradients(model: nn.Module) -> None:
    """Sum the gradients of all processes, in one message."""
    if world()[1] == 1:
        return
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
    distributed.all_reduce(flat)
    parts = torch.split(flat, [gradient.numel() for gradient in gradients])
    for gradient, part in zip(gradients, parts, strict=True):
        gradient.copy_(part.view_as(gradient))


def share_bytes(data: bytes | None) -> bytes | None:
    """Return what the first process has, on all processes; only its own argument counts."""
    rank, size = world()
    if size == 1:
        return data
    device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    length = torch.tensor([-1 if data is None else len(data)], device=device)
    distributed.broadcast(length, 0)
    if int(length) < 0:
        return None
    content = torch.zeros(int(length), dtype=torch.uint8)
    if rank == 0 and data:
        content.numpy()[:] = memoryview(data)
    content = content.to(device)
    distributed.broadcast(content, 0)
    return content.cpu().numpy().tobytes()


def gather_gradients(mine: Tensor, n_rows: int) -> Tensor:
    """Return the outputs of the whole mini-batch, with gradients to all processes."""
    rank, size = world()
    if size == 1:
        return mine
    rows = mine.new_zeros((n_rows, *mine.shape[1:]))
    rows[rank::size] = mine
    whole: Tensor = all_reduce(rows)  # type: ignore[no-untyped-call]
    return whole


def gather_rows(mine: Tensor, n_rows: int) -> Tensor:
    """Return the outputs of the whole mini-batch, without gradients."""
    rank, size = world()
    if size == 1:
        return mine
    rows = mine.new_zeros((n_rows, *mine.shape[1:]))
    rows[rank::size] = mine
    distributed.all_reduce(rows)
    return rows
