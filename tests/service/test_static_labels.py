"""Editing in the page, in a real browser: selection, labels, deletion, uploads, undo."""

import re

import numpy as np
import pytest

TOKEN = "a-token-of-24-characters"
REFUSED = "Failed to load resource: the server responded with a status of"


@pytest.fixture
def site(index, serve):
    """A service whose index a test may change with the token."""
    return serve(index, token=TOKEN)


@pytest.fixture
def edited(opened, site):
    """Open the page and allow changes."""

    def open_page(address="", **options):
        page = opened(address, on=site, **options)
        page.get_by_role("button", name="Label and edit images").click()
        page.get_by_label("Token of this service").fill(TOKEN)
        page.get_by_role("button", name="Allow changes").click()
        page.wait_for_selector(".select")
        return page

    return open_page


def says(page, *texts):
    """Wait until the bar shows a message, or one of several."""
    page.wait_for_function("(texts) => texts.includes(document.querySelector('#edit .message').textContent)", arg=texts)


def boxes(page):
    return page.locator(".grid .select")


def shown(page):
    return [int(card.get_attribute("data-id")) for card in page.locator(".card").all()]


def selected(page):
    return [int(card.get_attribute("data-id")) for card in page.locator(".card.is-selected").all()]


def give(page, label):
    page.get_by_label("New label").fill(label)
    page.get_by_role("button", name="Give label").click()


def press_undo(page):
    page.get_by_role("button", name="Undo").click()


def labels(site, ids):
    return [entry.labels for entry in site.search.entries(ids)]


def test_a_read_only_service_offers_no_editing(opened, shared_index, serve):
    page = opened(on=serve(shared_index))
    assert page.locator("#edit-toggle, .select, #edit").count() == 0


def test_a_wrong_token_is_refused_and_asked_for_again(opened, site):
    page = opened(on=site, expected=REFUSED)
    page.get_by_role("button", name="Label and edit images").click()
    assert page.evaluate("scrollY") == 0
    page.get_by_label("Token of this service").fill("wrong")
    page.get_by_role("button", name="Allow changes").click()
    says(page, "The token is wrong.")
    assert page.locator(".select").count() == 0
    page.get_by_label("Token of this service").fill(TOKEN)
    page.keyboard.press("Enter")
    page.wait_for_selector(".select")
    page.reload()
    page.get_by_role("button", name="Label and edit images").click()
    page.wait_for_selector(".select")
    page.get_by_role("button", name="Done").click()
    assert page.locator(".select, .is-selected").count() == 0


def test_images_are_selected_by_click_and_shift(edited):
    page = edited()
    order = shown(page)
    boxes(page).nth(2).click()
    assert selected(page) == [order[2]]
    page.locator(".card").nth(6).click(modifiers=["Shift"])
    assert selected(page) == order[2:7]
    page.locator(".card").nth(4).click(modifiers=["Shift"])
    assert selected(page) == order[2:5], "a range is made shorter, too"
    page.locator(".card").nth(3).click()
    assert selected(page) == [order[2], order[4]]
    boxes(page).nth(9).click()
    page.locator(".card").nth(7).click(modifiers=["Shift"])
    assert selected(page) == [order[2], order[4], *order[7:10]]
    assert page.locator("#edit strong").inner_text() == "5 selected"
    page.get_by_role("button", name="Select all").click()
    assert selected(page) == order
    page.get_by_role("button", name="None").click()
    assert selected(page) == []
    page.locator(".card").first.click()
    page.wait_for_function("(id) => location.hash === `#id=${id}`", arg=order[0])
    page.wait_for_selector(".is-query")
    assert selected(page) == []
    page.wait_for_function("() => document.querySelectorAll('.select').length === 18")


def test_images_are_selected_labelled_and_deleted_with_the_keyboard(edited, site):
    page = edited()
    order = shown(page)
    page.locator(".card").nth(1).focus()
    page.keyboard.press("Space")
    assert selected(page) == [order[1]]
    for _ in range(2):
        page.keyboard.press("Shift+ArrowRight")
    assert selected(page) == order[1:4]
    page.keyboard.press("Shift+ArrowLeft")
    assert selected(page) == order[1:3]
    assert page.evaluate("document.activeElement.dataset.id") == str(order[2])
    columns = page.evaluate("getComputedStyle(document.getElementById('grid')).gridTemplateColumns.split(' ').length")
    page.keyboard.press("Shift+ArrowDown")
    assert selected(page) == order[1 : 3 + columns]
    page.keyboard.press("Escape")
    assert selected(page) == []
    page.keyboard.press("Space")
    page.keyboard.press("l")
    page.keyboard.type("key")
    page.keyboard.press("Enter")
    says(page, "Label key given to 1 image.")
    target = order[2 + columns]
    assert "key" in site.search.entry(target).labels
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.dataset.id") == str(target)
    page.keyboard.press("Delete")
    says(page, "1 image deleted.")
    assert page.evaluate("document.activeElement.className") == "card", "the focus is not lost"
    page.keyboard.press("Control+z")
    says(page, "Undone: 1 image deleted.")
    page.keyboard.press("Control+z")
    says(page, "Undone: Label key given to 1 image.")
    assert "key" not in site.search.entry(target).labels
    page.keyboard.press("Control+a")
    assert selected(page) == order


def test_labels_are_given_taken_and_undone(edited, site):
    page = edited("#id=1")
    order = shown(page)
    assert order[0] == 1
    before = labels(site, order[:3])
    boxes(page).nth(0).click()
    page.locator(".card").nth(2).click(modifiers=["Shift"])
    give(page, "  sea shore ")
    says(page, "Label sea shore given to 3 images.")
    assert labels(site, order[:3]) == [tuple(sorted((*each, "sea shore"))) for each in before]
    assert page.locator(".card b").first.inner_text() == "blue, sea shore"
    page.wait_for_function("() => document.querySelectorAll('#known-labels option').length === 4")
    assert page.locator("#query-label").inner_text() == "blue, sea shore"
    assert page.locator("#label option[value='sea shore']").inner_text() == "sea shore (3)"
    page.locator(".card").nth(3).click()
    chip = page.get_by_role("button", name="Take the label sea shore from 3 images")
    assert chip.inner_text() == "sea shore (3 of 4) ×"
    chip.click()
    says(page, "Label sea shore taken from 3 images.")
    assert labels(site, order[:3]) == before
    press_undo(page)
    says(page, "Undone: Label sea shore taken from 3 images.")
    assert "sea shore" not in labels(site, order[:4])[3]
    press_undo(page)
    says(page, "Undone: Label sea shore given to 3 images.")
    assert labels(site, order[:3]) == before
    assert page.locator(".card b").first.inner_text() == "blue"
    assert page.get_by_role("button", name="Undo").is_disabled()


def test_two_people_can_edit_the_same_images(edited, site):
    page = edited("#id=1")
    order = shown(page)
    boxes(page).nth(0).click()
    page.locator(".card").nth(2).click(modifiers=["Shift"])
    give(page, "mine")
    says(page, "Label mine given to 3 images.")
    site.search.remove([order[1]])
    from ddsh.search import LabelChange

    site.search.change_labels(LabelChange((order[2],), add=("theirs",)))
    press_undo(page)
    says(page, "Undone: Label mine given to 3 images.")
    assert site.search.entry(order[2]).labels == tuple(sorted({*site.search.entry(order[2]).labels, "theirs"}))
    give(page, "again")
    says(page, "Label again given to 2 images. 1 image had been deleted by someone else.")
    assert order[1] not in shown(page)
    assert "theirs" in page.locator(".card").nth(1).inner_text()


def test_images_are_deleted_and_come_back_in_their_places(edited, site, photo):
    number = site.search.add([photo], labels=["own"]).added[0]
    page = edited(f"#id={number}")
    order = shown(page)
    for place in (0, 1, 5):
        boxes(page).nth(place).click()
    page.get_by_role("button", name="Delete").click()
    says(page, "3 images deleted.")
    assert shown(page) == [*order[2:5], *order[6:]]
    assert len(site.search) == 16
    page.wait_for_function("() => document.getElementById('statistics').textContent.includes('16')")
    press_undo(page)
    says(page, "Undone: 3 images deleted.")
    assert shown(page) == order
    assert selected(page) == [order[0], order[1], order[5]]
    assert len(site.search) == 19
    assert site.search.entry(number).labels == ("own",)
    assert site.get(f"/images/{number}").body == photo
    image = page.locator(".card img").first
    assert image.evaluate("(image) => image.decode().then(() => image.naturalWidth)") == 16


def pictures(png, *shades, side=16):
    files = [png(np.full((side, side, 3), shade, np.uint8)) for shade in shades]
    return [{"name": f"new {number}.png", "mimeType": "image/png", "buffer": data} for number, data in enumerate(files)]


def choose(page, files):
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Add images").click()
    assert chooser.value.is_multiple()
    chooser.value.set_files(files)


def all_sent(page, number):
    """Wait until the first uploads have been sent."""
    sent = "(number) => [...document.querySelectorAll('#uploads li progress')].filter((bar) => bar.value === 1).length"
    page.wait_for_function(f"{sent} === number", arg=number)


def test_several_uploads_show_progress_and_can_be_labelled_and_undone_at_once(edited, site, lock_index, png):
    page = edited(expected=REFUSED)
    broken = {"name": "broken.png", "mimeType": "image/png", "buffer": b"no image"}
    with lock_index(site.search.folder):  # the service cannot add them yet
        choose(page, [*pictures(png, 10, 20, 10), broken])
        all_sent(page, 2)
        assert page.locator("#uploads .tools span").inner_text() == "0 of 4 uploads"
        states = page.locator("#uploads .state").all_inner_texts()
        assert states == ["encoding", "encoding", "waiting", "waiting"], "two at a time"
        assert page.locator("#uploads .tools progress").evaluate("(bar) => bar.value") == 0.5
    says(page, "2 images added, 1 there already, 1 failed.")
    states = page.locator("#uploads .state").all_inner_texts()
    assert sorted(states[:3]) == ["added", "added", "there already"]
    assert "not a JPEG" in states[3]
    assert page.locator("#uploads .tools span").inner_text() == "4 of 4 uploads"
    assert len(site.search) == 20
    assert sorted(selected(page)) == [19, 20]
    assert sorted(shown(page)[:2]) == [19, 20]
    give(page, "new")
    says(page, "Label new given to 2 images.")
    assert labels(site, [19, 20]) == [("new",), ("new",)]
    press_undo(page)
    says(page, "Undone: Label new given to 2 images.")
    press_undo(page)
    says(page, "Undone: 2 images added, 1 there already, 1 failed.")
    assert len(site.search) == 18
    assert set(shown(page)).isdisjoint({19, 20})


def test_uploads_can_be_stopped_and_tried_again(edited, site, lock_index, png):
    page = edited(expected=REFUSED)
    with lock_index(site.search.folder):
        choose(page, pictures(png, 1, 2, 3))
        all_sent(page, 2)
        page.get_by_role("button", name="Stop").click()
        says(page, "0 images added, 3 failed.")
    assert page.locator("#uploads .state").all_inner_texts() == ["Stopped."] * 3
    page.get_by_role("button", name="Try again").click()
    # The service may still add the two that had been sent when they were stopped.
    says(page, "3 images added.", "2 images added, 1 there already.", "1 image added, 2 there already.")
    assert len(site.search) == 21
    page.get_by_role("button", name="Close").click()
    assert page.locator("#uploads").is_hidden()


def test_a_label_that_all_have_changes_nothing_and_leaves_nothing_to_undo(edited):
    page = edited("#id=1")
    boxes(page).nth(0).click()
    give(page, "blue")
    says(page, "Nothing to change: the labels are so already.")
    assert page.get_by_role("button", name="Undo").is_disabled()


def test_a_file_that_is_too_large_is_not_sent(opened, index, serve, png):
    page = opened(on=serve(index, token=TOKEN, max_upload_bytes=1000))
    page.evaluate("(token) => sessionStorage.setItem('ddsh-token', token)", TOKEN)
    page.get_by_role("button", name="Label and edit images").click()
    noise = png(np.random.default_rng(0).integers(0, 255, (40, 40, 3), np.uint8))
    choose(page, [{"name": "large.png", "mimeType": "image/png", "buffer": noise}])
    says(page, "0 images added, 1 failed.")
    assert "the limit is 1,000 bytes" in page.locator("#uploads .state").inner_text()


def test_a_change_waits_for_another_writer_and_an_error_is_shown(edited, site, lock_index):
    page = edited("#id=1", expected="Failed to load resource")
    boxes(page).nth(0).click()
    with lock_index(site.search.folder), page.expect_response(lambda response: response.status == 503):
        give(page, "patient")
    says(page, "Label patient given to 1 image.")
    page.route("**/items/*", lambda route: route.abort())
    give(page, "lost")
    says(page, "The service cannot be reached.")
    page.unroute("**/items/*")
    press_undo(page)
    says(page, "Undone: Label patient given to 1 image.")


def test_hostile_labels_and_file_names_run_no_script(edited, site, png):
    label = "<img src=x onerror=\"document.title='owned'\">"
    page = edited("#id=1")
    boxes(page).nth(0).click()
    give(page, label)
    says(page, f"Label {label} given to 1 image.")
    assert page.locator(".chip").first.inner_text() == f"{label} ×"
    choose(page, [pictures(png, 77)[0] | {"name": "<b onclick=x>.png"}])
    says(page, "1 image added.")
    assert page.locator("#uploads .file").inner_text() == "<b onclick=x>.png"
    assert "owned" not in page.title()


CONTRASTS = """() => {
    const linear = (part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    const light = (text) => {
        const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map((part) => linear(part / 255));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const style = (name) => getComputedStyle(document.querySelector(name));
    const ground = light(style("#edit").backgroundColor);
    return [".message", "#edit strong", ".chip", "#uploads .file", "#uploads .is-error .state", "#uploads a"]
        .map((name) => contrast(light(style(name).color), ground));
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_the_bar_fits_and_can_be_read(edited, png, width, scheme):
    page = edited("#id=1", width=width, scheme=scheme, expected=REFUSED)
    boxes(page).nth(0).click()
    page.locator(".card").nth(3).click(modifiers=["Shift"])
    give(page, "a rather long label, with a comma, that needs much room in the bar")
    says(page, "Label a rather long label, with a comma, that needs much room in the bar given to 4 images.")
    broken = {"name": "a-long-name-of-a-file-that-is-no-image-at-all.png", "mimeType": "image/png", "buffer": b"no"}
    choose(page, [*pictures(png, 9), broken])
    says(page, "1 image added, 1 failed.")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert min(page.evaluate(CONTRASTS)) >= 4.5
    for button in page.locator("#edit button:visible").all():
        assert button.bounding_box()["height"] >= 43
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("#edit button, #edit input:not([type=file]), .select")]
            .filter((each) => each.checkVisibility())
            .filter((each) => !(each.textContent.trim() || each.labels?.length || each.ariaLabel))
            .map((each) => each.outerHTML)"""
    )
    assert nameless == []
    assert re.fullmatch(r"Select .+\.png", boxes(page).nth(1).get_attribute("aria-label"))
