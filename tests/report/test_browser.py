"""The page in a real browser: chromium as Debian packs it, or another that is on the path."""

import pytest

from ddsh.report import write_report

SIZES = {"desk": 1280, "phone": 400}


@pytest.fixture
def opened(browser):
    """Open a page, and fail at the end if the browser had anything to complain about."""
    complaints, pages = [], []

    def open_page(path, width=1280, scheme="light", **options):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme, **options)
        pages.append(page)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: request.url.startswith(("file:", "data:")) or complaints.append(request.url))
        page.on("dialog", lambda dialog: complaints.append(dialog.message) or dialog.dismiss())
        page.goto(path.as_uri())
        return page

    yield open_page
    for page in pages:
        page.close()
    assert complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", SIZES.values(), ids=SIZES)
def test_tables_and_figures_are_seen_and_nothing_sticks_out(opened, full_report, width, scheme):
    page = opened(full_report.page, width, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("article > details[open]").count() == page.locator("article > details").count()
    assert page.locator("table.map").is_visible()
    pictures = page.locator(".panels svg")
    assert pictures.count() == 23
    for place in range(pictures.count()):
        box = pictures.nth(place).bounding_box()
        assert box["width"] >= 220
        assert box["x"] + box["width"] <= width
    hit = page.locator(".hits .tile").first.bounding_box()
    assert (hit["width"], hit["height"]) == ((40, 40) if width > 640 else (36, 36))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out_from_the_ground_in_both_schemes(opened, full_report, scheme):
    page = opened(full_report.page, scheme=scheme)
    contrasts = page.evaluate(
        """() => {
            const linear = (part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
            const light = (text) => {
                const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map((part) => linear(part / 255));
                return 0.2126 * r + 0.7152 * g + 0.0722 * b;
            };
            const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
            const ground = light(getComputedStyle(document.querySelector("article")).backgroundColor);
            const seen = (name, property) =>
                contrast(light(getComputedStyle(document.querySelector(name))[property]), ground);
            return {
                axes: seen(".panels svg text", "fill"),
                table: seen("table.map td", "color"),
                notes: seen("summary + p", "color"),
                difference: seen(".difference.below", "color"),
                dark: ground < 0.2,
            };
        }"""
    )
    assert contrasts.pop("dark") == (scheme == "dark")
    assert min(contrasts.values()) >= 4.5


def test_pointing_at_a_mark_says_what_it_shows_and_dims_the_others(opened, full_report):
    page = opened(full_report.page)
    chart = page.locator("svg[aria-label^='MAP by code length, ours']")
    chart.scroll_into_view_if_needed()
    box = chart.locator("[data-series='0'] use[data-tip]").first.bounding_box()
    assert page.locator("#tip").is_hidden()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert page.locator("#tip").inner_text() == "DDSH, 12 bits: MAP 0.7220 ± 0.0141"
    assert "dim" in chart.locator("[data-series='1']").first.get_attribute("class")
    assert "dim" not in chart.locator("g[data-series='0']").first.get_attribute("class")
    page.mouse.move(2, 2)
    assert page.locator("#tip").is_hidden()
    assert page.locator(".dim").count() == 0


def test_pressing_a_name_keeps_the_others_dimmed_until_it_is_pressed_again(opened, full_report):
    page = opened(full_report.page)
    chart = page.locator(".chart").nth(1)
    name = chart.get_by_role("button", name="DSH", exact=True)
    name.press("Enter")
    assert name.get_attribute("aria-pressed") == "true"
    n_dimmed = chart.locator(".dim").count()
    assert n_dimmed > 0
    name.press("Enter")
    assert (name.get_attribute("aria-pressed"), chart.locator(".dim").count()) == ("false", 0)


def test_wrong_images_have_a_red_box_and_a_cross(opened, full_report):
    page = opened(full_report.page)
    style = "(tile) => [getComputedStyle(tile).outlineStyle, getComputedStyle(tile, '::after').content]"
    assert page.locator(".tile.wrong").first.evaluate(style) == ["solid", '"×"']
    assert page.locator(".tile:not(.wrong)").first.evaluate(style)[0] == "none"


def test_the_page_can_be_read_without_scripts(opened, full_report):
    page = opened(full_report.page, java_script_enabled=False)
    assert page.locator("table.map").is_visible()
    assert page.locator(".panels svg title", has_text="DDSH, 12 bits: MAP 0.7220").count() == 1


def test_hostile_names_run_no_script(opened, put, read, tmp_path, new_content):
    name = "</style></title><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    content = new_content() | {"label": name, "experiment": name, "backbone": {"name": name}, "commit": name}
    put(content, "a.json")
    page = opened(write_report(read()[0], tmp_path / "report", formats=()).page)
    assert page.title() == "ddsh report"
    assert page.locator("h2").inner_text() == name[:120]


def test_sheets_of_folded_case_studies_are_loaded_on_demand(opened, put, read, tmp_path, new_content):
    for number, name in enumerate(("map-cifar10", "second")):
        put(new_content(experiment=name), f"{number}.json")
    page = opened(write_report(read()[0], tmp_path / "report", formats=()).page)
    assert page.locator("[id='map-cifar10:case-study'] > details").get_attribute("open") is not None
    with page.expect_request("**/images/second-case-study-1.jpg", timeout=10_000):
        page.locator("[id='second:case-study'] > details > summary").click()
