"""The service keeps to its OpenAPI description, for requests that fit it and for requests that do not."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    ignored_auth,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

TOKEN = "a-token-of-24-characters"
N_REQUESTS = 12
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
    ignored_auth,
]


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["valid", "invalid"])
@pytest.mark.filterwarnings("ignore")  # of the generator
def test_every_answer_is_one_that_the_description_allows(writable, mode):
    schema = schemathesis.openapi.from_dict(writable.get("/openapi.json").json)
    checks = CHECKS if mode is GenerationMode.POSITIVE else [*CHECKS, negative_data_rejection]
    n_asked = 0
    for result in schema.get_all_operations():
        operation = result.ok()

        @given(operation.as_strategy(generation_mode=mode))
        @settings(
            max_examples=N_REQUESTS,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def ask(case):
            nonlocal n_asked
            n_asked += 1
            headers = {"Authorization": f"Bearer {TOKEN}"}
            case.call_and_validate(base_url=writable.url, headers=headers, checks=checks)

        try:
            ask()
        except Exception as error:
            if type(error).__name__ != "Unsatisfiable":  # a GET without parameters has no invalid form
                raise
    assert n_asked > 100
