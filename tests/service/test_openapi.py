"""The OpenAPI description: schemathesis sends what it allows and what it forbids, and checks every answer."""

import shutil

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from ddsh import ImageSearch
from ddsh.service import Settings, create_app

TOKEN = "a-token-of-24-characters"


@pytest.fixture(scope="module")
def api(tmp_path_factory, shared_index):
    folder = shutil.copytree(shared_index, tmp_path_factory.mktemp("openapi") / "index")
    with ImageSearch.open(folder) as search:
        app = create_app(search, Settings(token=TOKEN, max_pixels=10_000))
        yield schemathesis.openapi.from_asgi("/openapi.json", app)
        app.state.service.close()


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.filterwarnings("ignore")  # of schemathesis about its own dependencies
def test_every_answer_is_as_described(api, mode):
    """A schema cannot say which bytes are an image or which labels exist, so valid data may be refused with 422."""
    failures, n_tested = [], 0
    for operation in (result.ok() for result in api.get_all_operations()):

        @settings(max_examples=6, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy(generation_mode=mode))
        def answer(case):
            case.call_and_validate(
                headers={"Authorization": f"Bearer {TOKEN}"}, excluded_checks=[positive_data_acceptance]
            )

        try:
            answer()
            n_tested += 1
        except Unsatisfiable:  # without parameters, nothing can be invalid
            assert mode == GenerationMode.NEGATIVE
        except Exception as error:
            failures.append(f"{operation.label}: {error}")
    assert failures == []
    assert n_tested >= 10
