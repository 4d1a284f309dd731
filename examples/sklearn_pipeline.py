"""Hashing in a scikit-learn pipeline: choose parameters by cross-validated mean average precision."""

import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import ddsh

sample = ddsh.load("sample")
rows = ddsh.datasets.get_protocol("sample").split(sample, seed=0).train[:600]
pixels = np.stack(list(sample.images.take(rows))).reshape(len(rows), -1) / 255.0
labels = sample.labels.take(rows).values

pipeline = make_pipeline(PCA(random_state=0), ddsh.ITQ(16))
search = GridSearchCV(pipeline, {"pca__n_components": [16, 32, 64]}, cv=3)
search.fit(pixels, labels)

print("MAP by number of components:")
for n_components, score in zip([16, 32, 64], search.cv_results_["mean_test_score"], strict=True):
    print(f"{n_components:4d}  {score:.4f}")
print("best:", search.best_params_)
print("bits of the first image:", search.best_estimator_.transform(pixels[:1])[0])
