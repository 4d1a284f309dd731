"""The HTML page of query results."""

from html.parser import HTMLParser

from ddsh.search.page import make_page


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.images, self.text = [], [], ""

    def handle_starttag(self, tag, attrs):
        if tag == "img":
            self.images.append(dict(attrs))
        elif tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def read(page):
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    return reader


def test_a_page_shows_every_hit_with_its_picture(search, photos):
    query = str(photos / "red" / "0.png")
    page = read(make_page({query: search.query(query, k=5)}))
    assert len(page.images) == 6
    assert all(image["src"].startswith("data:image/jpeg;base64,") for image in page.images)
    assert "0 bits differ" in page.text


def test_a_page_says_that_nothing_was_found():
    assert "Nothing was found" in read(make_page({"12": []})).text


def test_names_cannot_break_the_page_and_a_lost_file_is_said_to_be_lost(search, photos):
    path = photos / "red" / "0.png"
    search.add([path], labels=['"><script>alert(1)</script>'])
    hits = search.query(path, k=1, label='"><script>alert(1)</script>')
    path.unlink()
    page = make_page({"<b>": hits})
    assert "<script" not in page
    assert "cannot be read" in read(page).text
