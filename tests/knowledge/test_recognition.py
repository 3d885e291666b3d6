"""Scans and pictures of text, read by text recognition where it is installed."""

from __future__ import annotations

import io
import os
import shutil
import struct
import zlib
from typing import Any
from uuid import uuid4

import pytest
from tests.pdf_writer import written

from recordari import Memory
from recordari.errors import InvalidInput
from recordari.knowledge.reader import PDF, ExtractedDocument, Extractor, ReadingLimits

pdfium = pytest.importorskip("pypdfium2", reason="the extra `ocr` is not installed")
LETTER = "The boiler in the cellar\nis serviced every autumn."


@pytest.fixture(autouse=True)
def tesseract() -> None:
    """The program; the tests are skipped where there is none, except in CI, where that is a failure."""
    if shutil.which("tesseract") is None:
        reason = "there is no tesseract here (tests/setup-system installs it)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


def drawn(text: str) -> Any:
    """A page with this text as a bitmap."""
    return pdfium.PdfDocument(written([text]))[0].render(scale=3, grayscale=True)


def scan(*texts: str) -> bytes:
    """A PDF whose pages are pictures and nothing else."""
    document = pdfium.PdfDocument.new()
    for text in texts:
        page, picture = document.new_page(595, 842), pdfium.PdfImage.new(document)
        picture.set_bitmap(drawn(text))
        picture.set_matrix(pdfium.PdfMatrix().scale(595, 842))
        page.insert_obj(picture)
        page.gen_content()
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def png(text: str) -> bytes:
    grey = drawn(text).to_numpy()
    height, width = grey.shape[:2]
    rows = b"".join(b"\0" + row.tobytes() for row in grey)
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    )
    framed = (
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(framed)


async def read(data: bytes, media_type: str) -> ExtractedDocument:
    return await Extractor().extract(data, media_type, tenant_id=uuid4(), limits=ReadingLimits())


async def test_the_pages_of_a_scan_are_read() -> None:
    found = await read(scan(LETTER, "The keys hang behind the door."), PDF)
    assert found.pages == 2
    text = {block.page: " ".join(block.text.split()) for block in found.blocks}
    assert "boiler in the cellar is serviced every autumn" in text[1]
    assert "keys hang behind the door" in text[2]


async def test_a_page_that_has_text_is_not_recognised_again() -> None:
    found = await read(written(["Plain text of page one."]), PDF)
    assert [block.text for block in found.blocks] == ["Plain text of page one."]


async def test_a_picture_of_text_needs_no_caption_and_keeps_the_one_it_has(memory: Memory) -> None:
    added = await memory.add_document("letter.png", png(LETTER), metadata={"caption": "A letter from the landlord"})
    assert added.document.chunks == 1
    answer = await memory.search_knowledge("When is the boiler serviced?")
    (item,) = answer.items
    assert "landlord" in item.content and "every autumn" in item.content
    await memory.add_document("second.png", png("The lift stops at nine."))
    with pytest.raises(InvalidInput, match="caption"):
        await memory.add_document("empty.png", png(""))
