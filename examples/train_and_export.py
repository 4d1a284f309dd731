"""Train DDSH on a few images of the sample, export it to ONNX, and check that the codes are the same.

Needs ``pip install 'ddsh[deep,export]'``. Two epochs on 500 images are for show; they do not reach good scores.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnxruntime

import ddsh

sample = ddsh.load("sample")
rows = ddsh.datasets.get_protocol("sample").split(sample, seed=0).train[:500]
images, labels = sample.images.take(rows), sample.labels.take(rows)

training = ddsh.Training(epochs=2, learning_rate=0.5, final_lr=0.05)
model = ddsh.Model(ddsh.DDSH(16, preset="scratch", training=training), "small-grey")
model.fit(images, labels)
for epoch in model.history:
    print(f"epoch {epoch['epoch']}: loss {epoch['loss']:.4f}")

with TemporaryDirectory() as folder:
    model.export_onnx(Path(folder) / "model.onnx")
    session = onnxruntime.InferenceSession(Path(folder) / "model.onnx")
    outputs, bits = session.run(None, {"pixels": np.stack(list(images))})

same = (bits == model.encode(images).bits()).mean()
print(f"{same:.2%} of the bits agree; largest |output| {np.abs(outputs).max():.2f}")
