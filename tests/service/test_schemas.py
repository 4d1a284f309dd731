"""Response models."""

from dataclasses import replace

from ddsh.service import Settings
from ddsh.service.schemas import MAX_LISTED_LABELS, InfoResponse


def test_only_the_most_frequent_labels_are_listed(site):
    labels = {f"label {number:05d}": 1 + number // 10 for number in range(5000)}
    facts = InfoResponse.create(replace(site.search.info(), labels=labels), Settings())
    assert (facts.n_labels, len(facts.labels)) == (5000, MAX_LISTED_LABELS)
    assert min(facts.labels.values()) >= max(count for name, count in labels.items() if name not in facts.labels)
