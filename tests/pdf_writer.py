"""A small writer of PDF files for tests: pages of plain lines, with a table of contents where one is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

LINE = 88  # characters that fit across a page


def written(pages: Sequence[str], *, contents: Mapping[str, int] | None = None) -> bytes:
    """A PDF of these pages; `contents` are titles and the page each begins on, counted from 1."""
    entries = list((contents or {}).items())
    first_page, first_entry = 4, 4 + 2 * len(pages)
    catalogue = "<< /Type /Catalog /Pages 2 0 R"
    if entries:
        catalogue += f" /Outlines {first_entry} 0 R"
    kids = " ".join(f"{first_page + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        catalogue + " >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(pages):
        stream = _stream(text)
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /Font << /F1 3 0 R >> >> "
            f"/Contents {first_page + 2 * number + 1} 0 R >>"
        )
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    if entries:
        last = first_entry + len(entries)
        objects.append(f"<< /Type /Outlines /First {first_entry + 1} 0 R /Last {last} 0 R /Count {len(entries)} >>")
        for number, (title, page) in enumerate(entries):
            own = first_entry + 1 + number
            following = f" /Next {own + 1} 0 R" if own < last else ""
            before = f" /Prev {own - 1} 0 R" if number else ""
            objects.append(
                f"<< /Title ({title}) /Parent {first_entry} 0 R{before}{following} "
                f"/Dest [{first_page + 2 * (page - 1)} 0 R /Fit] >>"
            )
    return _file(objects)


def _stream(text: str) -> str:
    lines = []
    for line in text.split("\n"):
        words, held = line.split(" "), ""
        for word in words:
            if len(held) + len(word) > LINE:
                lines.append(held)
                held = ""
            held = f"{held} {word}".strip()
        lines.append(held)
    shown = " T* ".join(f"({_escaped(line)}) Tj" for line in lines)
    return f"BT /F1 10 Tf 12 TL 40 800 Td {shown} ET"


def _escaped(line: str) -> str:
    return line.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")


def _file(objects: Sequence[str]) -> bytes:
    body, offsets = b"%PDF-1.4\n", []
    for number, text in enumerate(objects, start=1):
        offsets.append(len(body))
        body += f"{number} 0 obj\n{text}\nendobj\n".encode("latin-1")
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    trailer = f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(body)}\n%%EOF\n"
    return body + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{trailer}".encode("latin-1")
