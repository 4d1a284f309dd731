"""The pages: their files over HTTP, and both pages in a real browser."""

import base64
import re
from dataclasses import replace

import numpy as np
import pytest

PATIENCE = 60_000
SIZES = {"desktop": 1280, "phone": 400}
REFUSED = "Failed to load resource: the server responded with a status of"
FILE_EVENT = """([kind, data, name]) => {
    const bytes = Uint8Array.from(atob(data), (each) => each.charCodeAt(0));
    const carried = new DataTransfer();
    carried.items.add(new File([bytes], name, {type: "image/png"}));
    const options = {bubbles: true, cancelable: true};
    const event = kind === "paste"
        ? new ClipboardEvent(kind, {...options, clipboardData: carried})
        : new DragEvent(kind, {...options, dataTransfer: carried});
    document.body.dispatchEvent(event);
}"""
CONTRASTS = """() => {
    const linear = (part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    const light = (text) => {
        const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map((part) => linear(part / 255));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const style = (name) => getComputedStyle(document.querySelector(name));
    const ground = light(style("body").backgroundColor);
    const card = light(style(".card").backgroundColor);
    return {
        facts: contrast(light(style("#statistics dt").color), ground),
        status: contrast(light(style("#status").color), ground),
        link: contrast(light(style("footer a").color), ground),
        label: contrast(light(style(".card-heading b").color), card),
        name: contrast(light(style(".name").color), card),
        bits: contrast(light(style(".distance").color), card),
        badge: contrast(light(style(".badge").color), light(style(".badge").backgroundColor)),
        button: contrast(light(style("#choose").color), light(style("#choose").backgroundColor)),
        dark: ground < 0.2,
    };
}"""


def test_the_pages_load_nothing_from_other_hosts(site):
    for page in ("/", "/docs"):
        text = site.get(page).body.decode()
        files = re.findall(r'(?:src|href)="(static/[^"]+)"', text)
        assert len(files) > 2
        for file in files:
            assert site.get(f"/{file}").status == 200
        assert "http" not in re.sub(r"<!doctype html>", "", text)
        assert re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son\w+=", text) is None


def test_static_files_are_revalidated(site):
    for path in ("/", "/docs", "/static/page.css"):
        assert site.get(path).headers["cache-control"] == "no-cache"
    again = site.ask("GET", "/static/page.css", headers={"If-None-Match": site.get("/static/page.css").headers["etag"]})
    assert again.status == 304


def rests(page):
    """Wait until no request is pending."""
    page.wait_for_selector("#results[aria-busy=false]")


def title(page, text):
    """Wait until the results have this title."""
    page.wait_for_function("(text) => document.getElementById('title').textContent === text", arg=text)
    rests(page)


def distances(page):
    return [int(text.split()[0]) for text in page.locator(".distance").all_inner_texts()]


def choose(page, data, name="own.png"):
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name=re.compile("Choose an")).click()
    chooser.value.set_files({"name": name, "mimeType": "image/png", "buffer": data})


def test_the_start_page_shows_statistics_and_samples(opened, site):
    page = opened()
    facts = page.locator("#statistics").inner_text().split()
    assert [word for word in facts if word.isdigit()] == ["18", "16", "36", str(site.search.info().n_codes)]
    assert page.locator("#title").inner_text() == "Images of the index"
    assert page.locator(".card").count() == 18
    assert page.locator(".card img").first.evaluate("(image) => image.decode().then(() => image.naturalWidth)") == 16


def test_every_control_of_the_start_page_changes_what_is_shown(opened):
    page = opened()
    shown = page.locator("#controls select:visible, #controls input:visible")
    assert [each.get_attribute("id") for each in shown.all()] == ["label", "text"]
    page.get_by_label("Label", exact=True).select_option("red")
    page.wait_for_function("() => location.hash.includes('label=red')")
    rests(page)
    assert page.locator(".card b").all_inner_texts() == ["red"] * 6
    page.get_by_label("Words").fill("4.png")
    page.get_by_label("Words").press("Enter")
    page.wait_for_function("() => location.hash.includes('text=4.png')")
    rests(page)
    assert page.locator(".card").count() == 1
    page.get_by_label("Words").fill("nothing like it")
    page.get_by_label("Words").press("Enter")
    title(page, "No images")
    assert page.locator("#status").inner_text() == "No image with the label red with “nothing like it” is in the index."


def test_an_upload_shows_results_with_distance_label_and_differing_bits(opened, site, photo):
    page = opened()
    choose(page, photo)
    title(page, "Most similar images")
    hits = site.search.query(photo, k=48)
    assert distances(page) == [hit.distance for hit in hits]
    assert page.locator(".card b").all_inner_texts() == [hit.labels[0] for hit in hits]
    shapes = [path.get_attribute("d") for path in page.locator(".card .flipped").all()]
    assert [shape.count("M") for shape in shapes] == [hit.distance for hit in hits]
    cells = [path.get_attribute("d") for path in page.locator(".card").first.locator(".strip path").all()]
    assert sum(shape.count("M") for shape in cells) == 16
    told = page.locator("#status").inner_text()
    assert re.fullmatch(r"18 of 18 images, distance \d+ to \d+ bits, found in [\d.,]+ m?s\.", told)
    assert page.locator("#preview").get_attribute("src").startswith("blob:")
    assert page.locator("#query-name").inner_text() == "own.png"
    assert page.locator("#query-strip .strip").count() == 1


@pytest.mark.parametrize("kind", ["paste", "drop"])
def test_an_image_can_be_pasted_and_dropped(opened, photo, kind):
    page = opened()
    if kind == "drop":
        page.evaluate(FILE_EVENT, ["dragover", base64.b64encode(photo).decode(), "own.png"])
        assert page.locator("body.dragging").count() == 1
    page.evaluate(FILE_EVENT, [kind, base64.b64encode(photo).decode(), "own.png"])
    title(page, "Most similar images")
    assert page.locator("#query-name").inner_text() == "own.png"
    assert page.locator("body.dragging").count() == 0


def test_a_click_searches_from_a_result_and_the_back_button_returns(opened, photo):
    page = opened()
    choose(page, photo)
    title(page, "Most similar images")
    first = page.locator(".card").first
    number = first.get_attribute("data-id")
    before = page.locator("#status").inner_text().split(", found")[0]
    first.click()
    page.wait_for_function("(id) => location.hash === `#id=${id}`", arg=number)
    page.wait_for_selector(f".card.is-query[data-id='{number}']")
    rests(page)
    assert page.locator("#preview").get_attribute("src") == f"images/{number}"
    assert page.locator("#original").get_attribute("href") == f"images/{number}"
    assert distances(page)[0] >= 0
    page.go_back()
    page.wait_for_function("() => location.hash.startsWith('#query=')")
    page.wait_for_function("() => document.getElementById('preview').src.startsWith('blob:')")
    rests(page)
    assert page.locator("#status").inner_text().split(", found")[0] == before
    page.go_back()
    title(page, "Images of the index")
    page.go_forward()
    title(page, "Most similar images")


def test_the_url_alone_restores_a_search(opened, site):
    number = site.search.ids()[3]
    page = opened(f"#id={number}&radius=14&label=green&text=3.png")
    assert page.locator(".card").count() == 1
    assert set(page.locator(".card b").all_inner_texts()) == {"green"}
    assert page.get_by_label("Words").input_value() == "3.png"
    assert page.locator("#radius-shown").inner_text() == "up to 14 bits"
    assert page.locator("#label-chips").inner_text() == "green ×"
    assert not page.get_by_label("Order by").is_visible(), "there are label bits only"
    assert page.title() == "blue – ddsh"


def test_an_index_with_two_codes_can_be_ordered_by_either(opened, serve, pair_index, photo):
    site = serve(pair_index)
    page = opened("#id=3", on=site)
    assert page.locator("#statistics").inner_text().count("144") == 1
    for by in ("both", "label", "look", "both"):
        page.get_by_label("Order by").select_option(by)
        page.wait_for_function("(by) => (location.hash.match(/by=(\\w+)/) ?? [0, 'both'])[1] === by", arg=by)
        title(page, "Most similar images")
        hits = site.search.query(3, k=24, by=by)
        assert [int(card.get_attribute("data-id")) for card in page.locator(".card").all()] == [hit.id for hit in hits]
        shown = page.locator(".distance").all_inner_texts()
        assert shown == [f"{hit.label_distance} + {hit.look_distance} bits" for hit in hits[1:]]
        assert page.locator(".badge").all_inner_texts() == ["this image"]
        unit = "" if by == "both" else " bits"
        assert f"distance 0 to {hits[-1].distance:,}{unit}, found" in page.locator("#status").inner_text()
    page.get_by_label("Radius").fill("100")
    page.get_by_label("Radius").dispatch_event("change")
    page.wait_for_function("() => location.hash.includes('radius=100')")
    rests(page)
    assert page.locator(".card").count() == len(site.search.query(3, k=24, radius=100))
    page.get_by_label("Order by").select_option("look")
    page.wait_for_function("() => location.hash.includes('by=look') && !location.hash.includes('radius')")
    rests(page)
    page = opened("#id=3&by=label", on=site)
    assert page.get_by_label("Order by").input_value() == "label"


def test_an_upload_of_an_indexed_file_finds_it_first(opened, serve, pair_index, photos):
    site = serve(pair_index)
    page = opened(on=site)
    choose(page, (photos / "green" / "4.png").read_bytes())
    title(page, "Most similar images")
    first = page.locator(".card").first
    assert first.get_attribute("data-id") == str(site.search.id_of(photos / "green" / "4.png"))


def test_options_change_the_results_and_the_url(opened, site):
    number = site.search.ids()[0]
    page = opened(f"#id={number}")
    page.get_by_label("Label", exact=True).select_option("red")
    page.wait_for_function("() => location.hash.includes('label=red')")
    rests(page)
    assert set(page.locator(".card b").all_inner_texts()) == {"red"}
    assert page.locator("#status").inner_text().startswith("6 of 18 images with the label red")
    page.get_by_role("button", name="Search without the label red").click()
    page.wait_for_function("() => !location.hash.includes('label')")
    rests(page)
    page.get_by_label("Radius").fill("3")
    page.wait_for_function("() => location.hash.includes('radius=3')")
    rests(page)
    assert page.locator("#radius-shown").inner_text() == "up to 3 bits"
    assert max(distances(page), default=0) <= 3
    page.go_back()
    page.wait_for_function("() => document.getElementById('radius-shown').textContent === 'any'")
    assert page.get_by_label("Radius").input_value() == "16"
    assert "radius" not in page.url


def test_no_results_within_the_radius_are_explained_and_the_nearest_offered(opened, site):
    red = site.search.query(site.search.ids()[0], k=1, label="red")[0].id
    page = opened(f"#id={red}&radius=0&label=blue")
    assert page.locator("#title").inner_text() == "No results"
    assert page.locator("#no-results-reason").inner_text() == "No image with the label blue has the same code."
    assert page.locator("#status").inner_text().startswith("Searched 18 images")
    assert page.locator(".card").count() == 0
    page.get_by_role("button", name="Show the nearest images").click()
    title(page, "Most similar images")
    assert page.locator("#no-results").is_hidden()
    assert page.locator(".card").count() == 6


def test_an_invalid_image_shows_the_reason_and_the_page_stays_usable(opened, photo):
    page = opened(expected=REFUSED)
    choose(page, b"no image at all", "broken.png")
    title(page, "Search failed")
    assert "not a JPEG" in page.get_by_role("alert").inner_text()
    assert page.locator(".card").count() == 0
    assert page.locator("#no-preview").is_visible()
    choose_again(page, photo)
    title(page, "Most similar images")
    assert page.get_by_role("alert").inner_text() == ""


def choose_again(page, data):
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Choose another image").click()
    chooser.value.set_files({"name": "own.png", "mimeType": "image/png", "buffer": data})


def test_a_missing_id_and_an_invalid_query_show_an_error(opened):
    page = opened("#id=12345", expected=REFUSED)
    assert "No image has the id 12345" in page.get_by_role("alert").inner_text()
    page = opened("#query=AAAA", expected=REFUSED)
    assert "search with the image again" in page.get_by_role("alert").inner_text()
    assert page.locator("#no-preview").is_visible()


def test_a_file_that_is_too_large_is_not_even_sent(png, shared_index, opened, serve):
    small = serve(shared_index, max_upload_bytes=1000)
    page = opened(on=small)
    sent = []
    page.on("request", lambda request: sent.append(request.method))
    choose(page, png(np.random.default_rng(0).integers(0, 255, (40, 40, 3), np.uint8)))
    page.wait_for_selector("[role=alert] span")
    assert "the limit is 1,000 bytes" in page.get_by_role("alert").inner_text()
    assert "POST" not in sent


def test_an_unreachable_service_shows_an_error_and_a_retry_button(shared_index, opened, serve):
    own = serve(shared_index)
    page = opened(on=own, expected="Failed to load resource: net::")
    page.route("**/search?*", lambda route: route.abort())
    page.locator(".card").first.click()
    title(page, "Search failed")
    assert "cannot be reached" in page.get_by_role("alert").inner_text()
    page.unroute("**/search?*")
    page.get_by_role("button", name="Try again").click()
    title(page, "Most similar images")


def test_the_page_is_usable_with_the_keyboard(opened):
    page = opened()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to results"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    while page.evaluate("document.activeElement.className") != "card":
        page.keyboard.press("Tab")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    number = page.evaluate("document.activeElement.dataset.id")
    page.keyboard.press("Enter")
    title(page, "Most similar images")
    assert page.evaluate("document.activeElement.id") == "results"
    page.go_back()
    title(page, "Images of the index")
    page.wait_for_function("(id) => document.activeElement.dataset.id === id", arg=number)
    seen = []
    page.evaluate("document.activeElement.blur(); window.scrollTo(0, 0)")
    page.locator("#home").focus()
    for _ in range(6):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.id"))
    assert seen[:4] == ["map-link", "choose", "label", "text"]


def test_results_are_announced_and_all_controls_have_names(opened, photo):
    page = opened()
    choose(page, photo)
    title(page, "Most similar images")
    assert page.locator("#status").get_attribute("aria-live") == "polite"
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("a, button, input:not([type=file]), select")]
            .filter((each) => each.checkVisibility())
            .filter((each) => !(each.textContent.trim() || each.labels?.length))
            .map((each) => each.outerHTML)"""
    )
    assert nameless == []
    assert page.locator("img:not([alt])").count() == 0
    assert page.get_by_role("link", name=re.compile("^red")).count() > 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", SIZES.values(), ids=SIZES)
def test_nothing_overflows_and_the_contrast_is_sufficient(opened, site, width, scheme):
    page = opened(f"#id={site.search.ids()[0]}", width, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator(".card").first.bounding_box()["width"] >= 90
    contrasts = page.evaluate(CONTRASTS)
    assert contrasts.pop("dark") == (scheme == "dark")
    assert min(contrasts.values()) >= 4.5, contrasts
    for name in ("#choose", "#text", "#label"):
        assert page.locator(name).bounding_box()["height"] >= 43


def test_results_show_per_cent_and_less_similar_ones_come_after_a_click(opened, serve, calibrated_index):
    site = serve(calibrated_index)
    hits = site.search.query(5, k=200)
    n_similar = sum(hit.similarity >= 50 for hit in hits)
    assert 48 < n_similar < 100
    page = opened("#id=5", on=site)
    assert page.locator(".badge").all_inner_texts() == ["this image"]
    page.locator("#more").scroll_into_view_if_needed()
    page.wait_for_selector("#apart:visible")
    assert page.locator(".card").count() == n_similar
    shown = [f"{hit.similarity:.0f} %" for hit in hits[1:n_similar]]
    assert page.locator(".similarity").all_inner_texts() == shown
    assert page.locator("#apart-reason").inner_text() == "All other images are less than 50 % similar."
    page.get_by_role("button", name="Show less similar images").click()
    page.wait_for_function("(n) => document.querySelectorAll('.card').length > n", arg=n_similar)
    assert page.locator(".separator").inner_text() == "Less than 50 % similar"
    assert page.locator("#apart").is_hidden()
    assert page.evaluate("document.activeElement.dataset.id") == str(hits[n_similar].id)


def test_the_similarity_that_is_asked_for_can_be_changed(opened, serve, calibrated_index):
    page = opened("#id=5", on=serve(calibrated_index))
    assert page.locator("#least-shown").inner_text() == "50 % or more"
    assert page.locator("#radius-row").is_hidden()
    page.get_by_label("Similarity").fill("0")
    page.wait_for_function("() => location.hash.includes('least=0')")
    rests(page)
    assert page.locator("#least-shown").inner_text() == "any"
    assert page.locator("#apart").is_hidden()


def test_an_image_unlike_all_others_is_said_to_be_so(opened, serve, calibrated_index, photo):
    site = serve(calibrated_index)
    query = site.search.query(photo, k=1).query
    strange = replace(query, code=bytes(byte ^ 0x0F for byte in query.code), familiarity=-1.0).to_text()
    page = opened(f"#query={strange}", on=site)
    assert page.locator("#title").inner_text() == "Nothing similar"
    assert page.locator("#apart-reason").inner_text() == "Nothing here is like this image: the nearest is 0 % similar."
    assert page.locator(".card").count() == 0
    page.get_by_role("button", name="Show the nearest images", exact=True).click()
    page.wait_for_selector(".card")
    assert set(page.locator(".similarity").all_inner_texts()) == {"0 %"}


def test_more_results_come_when_the_end_is_in_view(opened, serve, calibrated_index):
    site = serve(calibrated_index)
    page = opened("#id=5&least=0", on=site)
    for _ in range(20):
        page.mouse.wheel(0, 4000)
        if page.locator(".card").count() == 180:
            break
        page.wait_for_timeout(300)
    shown = [int(card.get_attribute("data-id")) for card in page.locator(".card").all()]
    assert shown == [hit.id for hit in site.search.query(5, k=200)]
    assert page.locator("#status").inner_text().startswith("180 of 180 images")
    assert page.locator("#show-more").is_hidden()


def test_arrow_keys_move_between_results(opened, site):
    page = opened(f"#id={site.search.ids()[0]}")
    page.locator("#results").focus()
    page.keyboard.press("ArrowRight")
    cards = [card.get_attribute("data-id") for card in page.locator(".card").all()]

    def focused():
        return page.evaluate("document.activeElement.dataset.id")

    assert focused() == cards[0]
    page.keyboard.press("ArrowRight")
    assert focused() == cards[1]
    page.keyboard.press("ArrowDown")
    below = page.evaluate("document.activeElement.parentElement.offsetTop")
    assert below > page.evaluate("document.querySelector('.card').parentElement.offsetTop")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    assert focused() == cards[0]
    page.keyboard.press("ArrowLeft")
    assert focused() == cards[0]


def test_a_search_with_an_upload_survives_a_reload(opened, site, photo):
    page = opened()
    choose(page, photo)
    title(page, "Most similar images")
    before = [card.get_attribute("data-id") for card in page.locator(".card").all()]
    sent = []
    page.on("request", lambda request: sent.append(request.method))
    page.reload()
    title(page, "Most similar images")
    assert [card.get_attribute("data-id") for card in page.locator(".card").all()] == before
    assert page.locator("#query-name").inner_text() == "own.png"
    assert page.locator("#preview").evaluate("(image) => image.decode().then(() => image.naturalWidth)") == 16
    assert "POST" not in sent, "the image is not sent again"
    page.get_by_label("Label", exact=True).select_option("red")
    page.wait_for_function("() => location.hash.includes('label=red')")
    rests(page)
    assert page.locator(".card").count() == 6
    assert "POST" not in sent


def test_labels_and_words_filter_the_results(opened, site):
    page = opened(f"#id={site.search.ids()[0]}")
    for label in ("red", "blue"):
        page.get_by_label("Label", exact=True).select_option(label)
        page.wait_for_function("(label) => location.hash.includes(`label=${label}`)", arg=label)
        rests(page)
    assert set(page.locator(".card b").all_inner_texts()) == {"red", "blue"}
    assert page.locator("#status").inner_text().startswith("12 of 18 images with the labels red or blue")
    page.get_by_label("all of them").check()
    page.wait_for_function("() => location.hash.includes('all_labels=true')")
    title(page, "No results")
    assert page.locator("#no-results-reason").inner_text() == "No image with the labels red and blue is in the index."
    page.get_by_label("all of them").uncheck()
    page.get_by_label("Words").fill("4.PNG")
    page.get_by_label("Words").press("Enter")
    page.wait_for_function("() => location.hash.includes('text=4.PNG')")
    title(page, "Most similar images")
    assert page.locator(".card").count() == 2
    assert set(page.locator(".name").all_inner_texts()) == {"4.png"}


def test_words_typed_while_another_option_is_applied_are_kept(opened, site):
    page = opened(f"#id={site.search.ids()[0]}&label=red&label=blue&all_labels=true")
    page.get_by_label("Words").focus()
    click, write = "document.getElementById('all-labels').click()", "document.execCommand('insertText', false, '4.PNG')"
    page.evaluate(f"() => {{ {click}; {write}; }}")
    page.wait_for_function("() => !location.hash.includes('all_labels')")
    title(page, "Most similar images")
    assert page.get_by_label("Words").input_value() == "4.PNG"
    page.get_by_label("Words").press("Enter")
    page.wait_for_function("() => document.getElementById('text').defaultValue === '4.PNG'")
    rests(page)
    assert set(page.locator(".name").all_inner_texts()) == {"4.png"}
    page.go_back()
    page.wait_for_function("() => document.getElementById('text').value === ''")


def test_two_options_changed_at_once_are_both_applied(opened, site):
    page = opened(f"#id={site.search.ids()[0]}&label=red&label=blue")
    page.evaluate("() => { for (const chip of document.querySelectorAll('.chip')) chip.click(); }")
    page.wait_for_function("() => !location.hash.includes('label')")
    rests(page)
    assert page.locator(".card").count() == 18


def test_hostile_names_and_labels_run_no_script(index, opened, serve, photo):
    label = "<img src=x onerror=\"document.title='owned'\">"
    own = serve(index)
    number = own.search.add([photo], labels=[label]).added[0]
    page = opened(f"#id={number}", on=own)
    assert page.locator(".is-query b").inner_text() == label
    assert page.locator("#query-label").inner_text() == label
    page.get_by_label("Label", exact=True).select_option(label)
    page.wait_for_function("() => location.hash.includes('label')")
    rests(page)
    assert page.title() == f"{label} – ddsh"


def test_an_unreadable_file_shows_a_message_in_its_place(index, opened, serve, photo):
    own = serve(index)
    number = own.search.add([photo]).added[0]
    next((index / "images").iterdir()).unlink()
    page = opened(f"#id={number}", on=own, expected=REFUSED)
    page.wait_for_selector(".unreadable")
    assert page.locator(".unreadable").inner_text() == "File cannot be read"


def test_an_empty_index_says_how_to_add_images(index, opened, serve):
    own = serve(index)
    own.search.remove(own.search.ids())
    page = opened(on=own)
    assert page.locator("#title").inner_text() == "This index is empty"
    assert "ddsh index add" in page.locator("#status").inner_text()


def test_long_codes_are_drawn_in_several_rows(opened, site):
    page = opened()
    rows = page.evaluate(
        """async () => {
            const { codeStrip } = await import("./static/components.js");
            return [16, 64, 65, 1024].map((n) => codeStrip("1".repeat(n)).getAttribute("viewBox"));
        }"""
    )
    assert rows == ["0 0 16 4", "0 0 64 4", "0 0 33 8", "0 0 64 64"]


@pytest.mark.parametrize("width", SIZES.values(), ids=SIZES)
def test_the_api_documentation_shows_every_endpoint(browser, site, width):
    page = browser.new_page(viewport={"width": width, "height": 900})
    complaints = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"{site.url}docs")
    page.wait_for_selector("details:nth-of-type(14)")
    for summary in page.locator("summary").all():
        summary.click()
    assert page.locator("pre").first.inner_text() == f"curl '{site.url}search?id=17'"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert "hits[].distance" in page.locator("details").first.inner_text()
    page.close()
    assert complaints == []
