"""Deep methods with a state of their own continue from a checkpoint as if nothing had happened."""

import pytest

from ddsh.backbones import Backbone
from ddsh.methods import get_method
from ddsh.methods.training import Training

NAMES = ["adsh", "bihalf", "cibhash", "dsch", "dsdh", "greedyhash", "hashnet", "nhl", "ninh", "orthohash"]


@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_training_gives_the_same_codes(name, images, tmp_path):
    X, labels = images

    def make():
        training = Training(epochs=3, learning_rate=0.03, batch_size=32, momentum=0.9, checkpoint_seconds=0)
        more = {"n_omega": 60, "n_inner": 2} if name == "adsh" else {}
        return get_method(name)(12, backbone=Backbone("small-grey", image_size=8), training=training, **more)

    class StopError(Exception):
        pass

    def stop(step):
        if step.done == 5:
            raise StopError

    with pytest.raises(StopError):
        make().fit(X, labels, checkpoints=tmp_path, on_step=stop)
    resumed = make().fit(X, labels, checkpoints=tmp_path, resume=True)
    whole = make().fit(X, labels)
    assert resumed.encode(X) == whole.encode(X)
    assert [epoch["loss"] for epoch in resumed.history_] == [epoch["loss"] for epoch in whole.history_]
