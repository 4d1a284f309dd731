"""The map of all images, in a real browser."""

import pytest

COLOURS = """() => {
    const canvas = document.getElementById("canvas");
    const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    let drawn = 0;
    for (let place = 3; place < data.length; place += 4) drawn += data[place] > 0;
    return drawn;
}"""


@pytest.fixture
def mapped(browser, serve, calibrated_index):
    """Open the map; the test fails if the browser logs a message."""
    complaints, pages = [], []
    site = serve(calibrated_index)

    def open_map(width=1280, scheme="light"):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        pages.append(page)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"{site.url}map")
        page.wait_for_selector("#map[aria-busy=false]")
        page.wait_for_function(f"() => ({COLOURS})() > 0")
        return page, site

    yield open_map
    for page in pages:
        page.close()
    assert complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_all_images_are_drawn_and_the_labels_are_named(mapped, width, scheme):
    page, _ = mapped(width, scheme)
    assert page.locator("#status").inner_text() == "All 180 images of the index."
    assert page.locator("#legend .chip").all_inner_texts() == ["blue (60)", "green (60)", "red (60)"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(COLOURS) > 180


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_point_has_the_colour_of_its_label_in_the_legend(mapped, scheme):
    page, _ = mapped(scheme=scheme)
    for label in ("blue", "green", "red"):
        page.get_by_role("button", name=label).click()
        page.wait_for_function(f"() => document.querySelector('[aria-pressed=true]').textContent.startsWith('{label}')")
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        drawn, named = page.evaluate(
            """() => {
                const { width, height } = document.getElementById("canvas");
                const { data } = document.getElementById("canvas").getContext("2d").getImageData(0, 0, width, height);
                const colours = new Set();
                for (let at = 0; at < data.length; at += 4) {
                    if (data[at + 3]) colours.add(data.slice(at, at + 3).join());
                }
                const dot = document.querySelector("[aria-pressed=true] .dot");
                return [[...colours], getComputedStyle(dot).backgroundColor.match(/\\d+/g).map(Number)];
            }"""
        )
        assert drawn
        for colour in drawn:
            assert [int(byte) for byte in colour.split(",")] == pytest.approx(named, abs=3)


def test_a_label_can_be_shown_alone(mapped):
    page, _ = mapped()
    every = page.evaluate(COLOURS)
    page.get_by_role("button", name="red").click()
    page.wait_for_function(f"(every) => ({COLOURS})() < every", arg=every)
    page.get_by_role("button", name="red").click()
    page.wait_for_function(f"(every) => ({COLOURS})() === every", arg=every)


def test_the_keyboard_goes_from_image_to_image_zooms_and_searches(mapped):
    page, site = mapped()
    page.locator("#canvas").focus()
    page.keyboard.press("ArrowRight")
    first = page.locator("#canvas").get_attribute("data-id")
    page.wait_for_selector("#point:visible")
    page.keyboard.press("ArrowRight")
    second = page.locator("#canvas").get_attribute("data-id")
    assert first != second
    assert f"image {second}" in page.locator("#canvas").get_attribute("aria-label")
    page.keyboard.press("+")
    assert float(page.locator("#canvas").get_attribute("data-zoom")) > 1
    page.keyboard.press("0")
    assert float(page.locator("#canvas").get_attribute("data-zoom")) == 1
    page.keyboard.press("Enter")
    page.wait_for_url(f"{site.url}#id={second}")
    page.wait_for_selector(f".card.is-query[data-id='{second}']")
    page.wait_for_selector("#results[aria-busy=false]")


def test_the_mouse_zooms_moves_and_searches(mapped):
    page, site = mapped()
    page.locator("#canvas").focus()
    page.keyboard.press("ArrowRight")
    target = page.evaluate(
        """() => {
            const box = document.getElementById("canvas").getBoundingClientRect();
            return [box.left + box.width / 2, box.top + box.height / 2];
        }"""
    )
    page.mouse.move(*target)
    page.mouse.wheel(0, -800)
    page.wait_for_function("() => Number(document.getElementById('canvas').dataset.zoom) > 2")
    page.mouse.down()
    page.mouse.move(target[0] + 120, target[1] + 60, steps=4)
    page.mouse.up()
    assert "#id=" not in page.url, "a drag is no click"
    page.get_by_role("button", name="All").click()
    found = site.get("/points").json
    x, y = found["x"][0], found["y"][0]
    place = page.evaluate(
        """([x, y]) => {
            const box = document.getElementById("canvas").getBoundingClientRect();
            const side = Math.min(box.width, box.height) - 32;
            return [box.left + box.width / 2 + (x - 0.5) * side, box.top + box.height / 2 - (y - 0.5) * side];
        }""",
        [x, y],
    )
    page.mouse.move(*place)
    ring = page.locator("#ring").bounding_box()
    assert [ring["x"] + ring["width"] / 2, ring["y"] + ring["height"] / 2] == pytest.approx(place, abs=15)
    page.mouse.move(target[0], 0)
    assert page.locator("#ring").is_hidden()
    page.mouse.click(*place)
    page.wait_for_url(f"{site.url}#id=*")
    page.wait_for_selector("#results[aria-busy=false]")


def test_of_very_many_images_a_sample_is_said_to_be_shown(mapped):
    page, site = mapped()
    page.route("**/points", lambda route: route.fulfill(json=site.get("/points").json | {"n_images": 1_000_000}))
    page.reload()
    page.wait_for_selector("#map[aria-busy=false]")
    assert page.locator("#status").inner_text() == "A random sample of 180 images of 1,000,000."
