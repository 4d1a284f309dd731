"""From image files to similar images: fit a model, index a folder, search it.

Made-up photos stand in for yours. For real photos give the model a backbone, such as
``ddsh.Model(ddsh.DDSH(32), ddsh.Backbone("efficientnet-lite0", image_size=112, n_frozen=6))``.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image

import ddsh

rng = np.random.default_rng(0)
with TemporaryDirectory() as name:
    folder = Path(name)
    for channel, colour in enumerate(("red", "green", "blue")):
        (folder / "photos" / colour).mkdir(parents=True)
        for number in range(20):
            pixels = rng.integers(0, 120, (24, 24, 3), np.uint8)
            pixels[..., channel] += 100
            Image.fromarray(pixels).save(folder / "photos" / colour / f"{number}.png")

    photos = ddsh.load(folder / "photos")
    model = ddsh.Model(ddsh.SDH(16, n_anchors=30)).fit(photos.images, photos.labels)
    model.save(folder / "model")

    files = sorted((folder / "photos").rglob("*.png"))
    with ddsh.ImageSearch.create(folder / "index", folder / "model") as search:
        report = search.add(files, labels=[file.parent.name for file in files])
        print(len(report.added), "images indexed")
        for hit in search.query(folder / "photos" / "red" / "0.png", k=5):
            print(hit.distance, hit.labels, Path(hit.path).name)
