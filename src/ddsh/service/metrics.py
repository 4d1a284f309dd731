"""Numbers for Prometheus."""

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

MEDIA_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """The numbers of one service; two in one process do not share them."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "ddsh_requests", "Requests by route and HTTP status.", ("route", "status"), registry=self._registry
        )
        self._latency = Histogram(
            "ddsh_request_seconds",
            "Time from a request's headers to the end of its answer.",
            ("route",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._images = Gauge("ddsh_images", "Images in the index.", registry=self._registry)

    def saw(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(route, str(status)).inc()
        self._latency.labels(route).observe(seconds)

    def text(self, n_images: int) -> bytes:
        """Return all numbers as Prometheus reads them."""
        self._images.set(n_images)
        return generate_latest(self._registry)
