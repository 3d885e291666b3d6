"""Reading files: every format, and files made to do harm."""

from __future__ import annotations

import asyncio
import io
import zipfile
from collections.abc import Mapping
from uuid import uuid4

import pypdf
import pytest
from tests.pdf_writer import written

from recordari.errors import InvalidInput
from recordari.knowledge.reader import (
    CSV,
    DOCX,
    HTML,
    ODS,
    PDF,
    PPTX,
    XLS,
    XLSX,
    Extractor,
    ReadingLimits,
    decoded,
    media_type_of,
)
from recordari.knowledge.rules.chunks import Block, BlockKind, chunked

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
P = (
    'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
)
S = (
    'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
)
RELS = "http://schemas.openxmlformats.org/package/2006/relationships"


def packed(members: Mapping[str, str | bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in members.items():
            archive.writestr(name, body)
    return out.getvalue()


def relation(target: str, kind: str = "") -> str:
    return f'<Relationships xmlns="{RELS}"><Relationship Id="r1" Type="{kind}" Target="{target}"/></Relationships>'


def workbook(rows: str, **more: str) -> bytes:
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    whole = f'<Relationship Id="r1" Type="{office}/officeDocument" Target="xl/workbook.xml"/>'
    parts = {
        "_rels/.rels": f'<Relationships xmlns="{RELS}">{whole}</Relationships>',
        "xl/workbook.xml": f'<workbook {S}><sheets><sheet name="Plan" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": relation("worksheets/s.xml", f"{office}/worksheet"),
        "xl/worksheets/s.xml": f"<worksheet {S}><sheetData>{rows}</sheetData></worksheet>",
    }
    return packed({**parts, **{f"xl/{name}.xml": body for name, body in more.items()}})


def docx(body: str) -> bytes:
    styles = f'<w:styles {W}><w:style w:styleId="Ueberschrift1"><w:name w:val="heading 1"/></w:style></w:styles>'
    return packed(
        {"word/document.xml": f"<w:document {W}><w:body>{body}</w:body></w:document>", "word/styles.xml": styles}
    )


async def read(data: bytes, media_type: str, **limits: int) -> list[Block]:
    found = await Extractor().extract(
        data, media_type, tenant_id=uuid4(), limits=ReadingLimits(**{"seconds": 60, **limits})
    )
    return list(found.blocks)


async def test_word_headings_lists_and_tables_are_read() -> None:
    blocks = await read(
        docx(
            '<w:p><w:pPr><w:pStyle w:val="Ueberschrift1"/></w:pPr><w:r><w:t>Leave</w:t></w:r></w:p>'
            "<w:p><w:r><w:t>Ask </w:t></w:r><w:r><w:t>early.</w:t></w:r></w:p>"
            "<w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>by mail</w:t></w:r></w:p>"
            "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>days</w:t></w:r></w:p></w:tc>"
            "<w:tc><w:p><w:r><w:t>30</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"
        ),
        DOCX,
    )
    assert [(block.kind, block.text) for block in blocks] == [
        (BlockKind.HEADING, "Leave"),
        (BlockKind.PARAGRAPH, "Ask early."),
        (BlockKind.LIST, "- by mail"),
        (BlockKind.TABLE, "days | 30"),
    ]


async def test_slides_and_sheets_are_read_in_order() -> None:
    slide = (
        f'<p:sld {P}><p:cSld><p:spTree><p:sp><p:nvSpPr><p:nvPr><p:ph type="title"/></p:nvPr></p:nvSpPr><p:txBody>'
        "<a:p><a:r><a:t>Plan</a:t></a:r></a:p></p:txBody></p:sp><p:sp><p:nvSpPr><p:nvPr/></p:nvSpPr><p:txBody>"
        "<a:p><a:r><a:t>Ship in May</a:t></a:r></a:p></p:txBody></p:sp></p:spTree></p:cSld></p:sld>"
    )
    slides = packed(
        {
            "ppt/presentation.xml": f'<p:presentation {P}><p:sldIdLst><p:sldId r:id="r1"/></p:sldIdLst></p:presentation>',
            "ppt/_rels/presentation.xml.rels": relation("slides/s.xml"),
            "ppt/slides/s.xml": slide,
            "ppt/slides/_rels/s.xml.rels": relation("../notesSlides/n.xml"),
            "ppt/notesSlides/n.xml": (
                f'<p:notes {P}><p:cSld><p:spTree><p:sp><p:nvSpPr><p:nvPr><p:ph type="sldNum"/></p:nvPr></p:nvSpPr><p:txBody>'
                "<a:p><a:r><a:t>7</a:t></a:r></a:p></p:txBody></p:sp><p:sp><p:nvSpPr><p:nvPr><p:ph type="
                '"body"/></p:nvPr></p:nvSpPr><p:txBody><a:p><a:r><a:t>Thank the crew</a:t></a:r></a:p></p:txBody></p:sp>'
                "</p:spTree></p:cSld></p:notes>"
            ),
        }
    )
    told = [("Plan", 1), ("Ship in May", 1), ("Thank the crew", 1)]
    assert [(block.text, block.page) for block in await read(slides, PPTX)] == told
    row = '<row><c t="s"><v>0</v></c><c><v>2.5</v></c></row>'
    book = workbook(row, sharedStrings=f"<sst {S}><si><t>bolt</t></si></sst>")
    assert [block.text for block in await read(book, XLSX)] == ["Plan", "bolt | 2.5"]


async def test_days_times_and_numbers_of_a_sheet_are_read_as_a_person_writes_them() -> None:
    formats = '<cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="22"/></cellXfs>'
    book = workbook(
        '<row r="1"><c r="A1" t="inlineStr"><is><t>launch</t></is></c><c r="B1" s="1"><v>46249</v></c>'
        '<c r="C1" s="2"><v>46249.4375</v></c></row>'
        '<row r="3"><c r="A3"><v>3</v></c><c r="C3" t="b"><v>1</v></c></row>',
        styles=f"<styleSheet {S}>{formats}</styleSheet>",
    )
    (name, table) = await read(book, XLSX)
    assert (name.text, table.text) == ("Plan", "launch | 2026-08-15 | 2026-08-15 10:30\n3 |  | true")


async def test_an_open_document_sheet_is_read() -> None:
    names = " ".join(
        f'xmlns:{short}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
        for short, name in (("office", "office"), ("table", "table"), ("text", "text"))
    )
    cell = '<table:table-cell office:value-type="{}" office:{}="{}"><text:p>{}</text:p></table:table-cell>'
    row = cell.format("string", "string-value", "tea", "tea") + cell.format("date", "date-value", "2026-05-04", "4/5")
    body = f'<table:table table:name="Shop"><table:table-row>{row}</table:table-row></table:table>'
    content = (
        f"<office:document-content {names}><office:body><office:spreadsheet>{body}</office:spreadsheet></office:body>"
        "</office:document-content>"
    )
    manifest = '<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"/>'
    data = packed({"mimetype": ODS, "META-INF/manifest.xml": manifest, "content.xml": content})
    assert media_type_of("blob", data) == ODS
    assert [block.text for block in await read(data, ODS)] == ["Shop", "tea | 2026-05-04"]


async def test_html_without_menus_and_what_is_hidden() -> None:
    page = (
        "<nav><ul><li>Home</li></ul></nav><p hidden>one<p>Seen <span style='color: red; display: none'>two</span>here"
        '<div aria-hidden="true">three <div>four</div></div><p title="a hidden gem">Shown</p><input hidden><p>Last</p>'
    )
    assert [block.text for block in await read(page.encode(), HTML)] == ["Seen here", "Shown", "Last"]


async def test_rows_of_a_csv_file_carry_the_names_of_its_columns() -> None:
    rows = "\n".join(f'{number};"bolt; size {number}";{number * 3}' for number in range(400))
    blocks = await read(f"part;name;price\n{rows}\n".encode(), CSV)
    assert [block.kind for block in blocks] == [BlockKind.TABLE]
    assert blocks[0].text.startswith("part | name | price\n0 | bolt; size 0 | 0\n")
    chunks = chunked(blocks)
    assert len(chunks) > 3 and all("part | name | price" in chunk.heading for chunk in chunks[1:])


async def test_html_shows_what_a_browser_shows() -> None:
    page = (
        "<html><head><title>x</title><style>p{}</style></head><body><h2>Hours</h2><p>Open\n daily<br>from 8</p>"
        "<script>alert('no')</script><ul><li>Mon</li><li>Tue</li></ul>"
        "<table><tr><th>day</th><th>to</th></tr><tr><td>Mon</td><td>17</td></tr></table>"
        "<pre>a\n  b</pre></body></html>"
    )
    assert [(block.kind, block.text) for block in await read(page.encode(), HTML)] == [
        (BlockKind.HEADING, "Hours"),
        (BlockKind.PARAGRAPH, "Open daily\nfrom 8"),
        (BlockKind.LIST, "- Mon\n- Tue"),
        (BlockKind.TABLE, "day | to\nMon | 17"),
        (BlockKind.CODE, "a\n  b"),
    ]


def encrypted_pdf() -> bytes:
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(written(["secret"])))
    writer.encrypt("password", algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


BILLION = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>'


@pytest.mark.parametrize(
    ("data", "media_type", "reason"),
    [
        (b"%PDF-1.7 and nothing else", PDF, "damaged"),
        (encrypted_pdf(), PDF, "encrypted"),
        (written(["page"])[:300], PDF, "damaged"),
        (b"PK\x03\x04 not an archive", DOCX, "damaged or encrypted"),
        (packed({"hello.txt": "x"}), DOCX, "lacks a part"),
        (packed({"word/document.xml": f"{BILLION}<w:document {W}/>"}), DOCX, "entities"),
        (packed({"word/document.xml": b"<" + b" " * (450 * 2**20)}), DOCX, "unpacks to more|too much memory"),
        (packed({"hello.txt": "x"}), XLSX, "damaged"),
        (
            workbook('<row r="1048576"><c r="XFD1048576"><v>1</v></c></row><row r="1"><c r="A1"><v>1</v></c></row>'),
            XLSX,
            "read",
        ),
        (b"\xd0\xcf\x11\xe0 no workbook", XLS, "damaged"),
    ],
    ids=[
        "broken pdf",
        "encrypted pdf",
        "cut pdf",
        "no archive",
        "other archive",
        "entities",
        "zip bomb",
        "no book",
        "wide book",
        "no old book",
    ],
)
async def test_a_hostile_or_broken_file_is_refused_with_a_reason(data: bytes, media_type: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        await read(data, media_type)


async def test_a_file_that_takes_too_long_is_stopped_and_its_process_with_it() -> None:
    deep = b"<div>x" * 2_000_000
    with pytest.raises(InvalidInput, match=r"not read within|damaged|memory"):
        await Extractor().extract(deep, HTML, tenant_id=uuid4(), limits=ReadingLimits(seconds=0.2))
    with pytest.raises(InvalidInput, match=r"memory|damaged"):
        await read(b"<p>" + b"x" * 60_000_000, HTML, megabytes=128)
    assert len(asyncio.all_tasks()) == 1


# Each took minutes or hours when the time to read it grew with the square or the cube of its size.
MANY = 200_000
HOSTILE_PAGES = {
    "open tags": "<a ",
    "open values": "<a b='",
    "unquoted values": "<a b=",
    "open closing tags": "</a ",
    "open comments": "<!--",
    "closed too late": "<!-- --",
    "declarations": "<!x",
    "instructions": "<?x",
    "scripts": "<script></scrip",
    "titles": "<title>",
    "titles closed wrongly": "<title></titl ",
    "hidden parts": "<svg><math>",
    "tables": "<table><tr><td>x",
    "references": "&#",
    "less than": "<",
}


@pytest.mark.parametrize("part", HOSTILE_PAGES.values(), ids=HOSTILE_PAGES.keys())
async def test_a_page_is_read_in_time_that_grows_with_its_size(part: str) -> None:
    blocks = await read(f"<p>before</p>{part * MANY}".encode(), HTML)
    assert blocks[0].text == "before"


async def test_a_number_of_a_character_may_have_any_length() -> None:
    blocks = await read(f"<p>a&#{'9' * MANY};b&#x{'f' * MANY};c &#0065;&amp;</p>".encode(), HTML)
    assert [block.text for block in blocks] == ["a\ufffdb\ufffdc A&"]


async def test_quotes_end_a_value_as_they_do_in_a_browser() -> None:
    page = """<p title="a > b">one</p><p title='<p>'>two<p data=it's>three</p><img alt="x"/>four < five <!-->six"""
    assert [block.text for block in await read(page.encode(), HTML)] == ["one", "two", "three", "four < five six"]


PARAGRAPH = "<w:p><w:r><w:t>x</w:t></w:r></w:p>"


def nested(element: str, times: int, inside: str) -> str:
    """An element inside itself; several names make one level of several elements."""
    names = element.split()
    opened = "".join(f"<w:{name}>" for name in names)
    closed = "".join(f"</w:{name}>" for name in reversed(names))
    return opened * times + inside + closed * times


@pytest.mark.parametrize("element", ["tbl tr tc", "sdt sdtContent", "p r", "tbl", "tr", "p"])
async def test_a_word_file_is_read_in_time_that_grows_with_its_size(element: str) -> None:
    body = "<w:p><w:r><w:t>before</w:t></w:r></w:p>" + nested(element, 60, PARAGRAPH * 200) * 100
    blocks = await read(docx(body), DOCX)
    assert blocks[0].text == "before"
    said = sum(block.text.count("x") for block in blocks)
    assert said <= 200 * 100, "no paragraph is read twice"


@pytest.mark.parametrize("element", ["tbl tr tc", "sdt sdtContent", "p r"])
async def test_a_file_of_a_few_bytes_that_is_nested_without_end_is_refused(element: str) -> None:
    with pytest.raises(InvalidInput, match="nested deeper"):
        await read(docx(nested(element, 20_000, PARAGRAPH)), DOCX)


async def test_a_table_in_a_table_is_read_once() -> None:
    def table(*cells: str) -> str:
        return "<w:tbl><w:tr>" + "".join(f"<w:tc>{cell}</w:tc>" for cell in cells) + "</w:tr></w:tbl>"

    def say(text: str) -> str:
        return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"

    blocks = await read(docx(table(say("a"), say("b") + table(say("c"), say("d")))), DOCX)
    assert [block.text for block in blocks] == ["a | b c d"]


async def test_slides_that_are_nested_are_read_once_and_such_sheets_refused() -> None:
    shapes = "<p:sp>" * 80 + "<a:p><a:r><a:t>x</a:t></a:r></a:p>" * 2_000 + "</p:sp>" * 80
    slides = packed(
        {
            "ppt/presentation.xml": f'<p:presentation {P}><p:sldIdLst><p:sldId r:id="r1"/></p:sldIdLst></p:presentation>',
            "ppt/_rels/presentation.xml.rels": relation("slides/s.xml"),
            "ppt/slides/s.xml": f"<p:sld {P}>{shapes * 20}</p:sld>",
        }
    )
    assert sum(block.text.count("x") for block in await read(slides, PPTX)) == 2_000 * 20
    rows = "<row>" * 80 + "<c><v>7</v></c>" * 2_000 + "</row>" * 80
    with pytest.raises(InvalidInput, match="cells"):
        await read(workbook(rows * 20), XLSX)


@pytest.mark.parametrize(
    "document",
    [
        f"<!-- {'x' * 5_000} -->{BILLION}<w:document {W}/>".encode(),
        f'<?xml version="1.0" encoding="utf-16"?>{BILLION}<w:document {W}/>'.encode("utf-16"),
        f'<w:document {W} xmlns:q="{"u" * 400_000}"><w:body>{"<q:a/>" * 200_000}</w:body></w:document>'.encode(),
    ],
    ids=["entities after a comment", "entities in another encoding", "long namespace"],
)
async def test_declarations_that_multiply_a_file_are_refused_wherever_they_stand(document: bytes) -> None:
    with pytest.raises(InvalidInput, match="declares entities or namespaces"):
        await read(packed({"word/document.xml": document}), DOCX)


async def test_a_file_that_takes_long_holds_up_only_its_own_tenant() -> None:
    extractor, slow, other = Extractor(), uuid4(), uuid4()
    limits = ReadingLimits(seconds=600)
    many = [
        asyncio.create_task(extractor.extract(b"<p>slow" * 3_000_000, HTML, tenant_id=slow, limits=limits))
        for _ in range(4)
    ]
    try:
        await asyncio.sleep(0)
        found = await extractor.extract(b"<p>quick", HTML, tenant_id=other, limits=limits)
        assert [block.text for block in found.blocks] == ["quick"]
        assert not any(task.done() for task in many[1:]), "the other files of the slow tenant still wait"
    finally:
        for task in many:
            task.cancel()
        await asyncio.gather(*many, return_exceptions=True)


def test_a_type_is_told_by_what_is_said_then_the_name_then_the_bytes() -> None:
    assert media_type_of("a.md", b"x", "application/pdf; x=1") == PDF
    assert media_type_of("a.docx", b"x", "application/octet-stream") == DOCX
    assert media_type_of("blob", b"%PDF-1.4") == PDF
    assert media_type_of("blob", packed({"xl/workbook.xml": "x"})) == XLSX
    assert media_type_of("notes", b"hello") == "text/plain"
    for name, data, given in (
        ("a.doc", b"\xd0\xcf\x11\xe0", None),
        ("a.gif", b"\x00\x01", None),
        ("a", b"", "image/tiff"),
    ):
        with pytest.raises(InvalidInput):
            media_type_of(name, data, given)


def test_text_is_decoded_as_it_says_or_refused() -> None:
    assert decoded("größer".encode("latin-1"), "text/plain; charset=latin-1") == "größer"
    assert decoded("größer".encode("utf-16")) == "größer"
    assert decoded(b"\xef\xbb\xbfplain") == "plain"
    for data, given in ((b"\xff\xff", None), (b"a", "text/plain; charset=nonsense"), (b"a", "text/plain; charset=hex")):
        with pytest.raises(InvalidInput):
            decoded(data, given)
