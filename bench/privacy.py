"""Measure the sanitiser: personal data and secrets of two sets, clean lines it touches, and its speed.

On `safety/pii*.jsonl` the set's own `score_pii.py` counts: a span is found when four fifths of its characters are covered;
optional spans do not count; a clean line is hit when anything in it is. On `pii/presidio_synth*.json` spans are counted in
the same way, for the types we look for; names, places, organisations, ages and bare dates are not among them.
Everyday chat (LoCoMo), where hardly anything should be found, gives the cost of a turn. The lines of `fresh_lines.py` need
no data.
"""

import argparse
import importlib.util
import json
import re
import statistics
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from fresh_lines import SETS
from recordari.privacy.rules.masking import PrivacyPolicy, find, sanitise

# Types of the presidio set and ours.
TYPES = {
    "CREDIT_CARD": "credit_card",
    "EMAIL_ADDRESS": "email",
    "IBAN_CODE": "iban",
    "IP_ADDRESS": "ip_address",
    "PHONE_NUMBER": "phone",
    "STREET_ADDRESS": "street_address",
    "US_DRIVER_LICENSE": "national_id",
    "US_SSN": "us_ssn",
}
KEPT_BY_DEFAULT = {"STREET_ADDRESS"}
KEPT_TYPES = {"street_address", "birth_date"}
COVERED = 0.8


def main() -> int:
    """Run the measurement and write its figures."""
    arguments = _arguments()
    figures: dict[str, Any] = {}
    scorer = arguments.data / "safety" / "score_pii.py"
    files = sorted((arguments.data / "safety").glob("pii*.jsonl"))
    if scorer.is_file() and files:
        figures["safety"] = _safety(scorer, files, show_misses=arguments.misses)
    else:
        print(f"skipped: no score_pii.py with pii*.jsonl under {arguments.data / 'safety'}")
    files = sorted((arguments.data / "pii").glob("presidio_synth*.json"))
    if files:
        figures["presidio"] = _presidio(files, show_misses=arguments.misses)
    else:
        print(f"skipped: no presidio_synth*.json under {arguments.data / 'pii'}")
    chat = arguments.data / "locomo" / "locomo10.json"
    if chat.is_file():
        figures["chat"] = _chat(chat)
    else:
        print(f"skipped: {chat} is absent")
    figures["fresh"] = {name: _fresh(name, *lines, show_misses=arguments.misses) for name, lines in SETS.items()}
    if figures:
        results = Path(__file__).parent / "results"
        results.mkdir(exist_ok=True)
        (results / "privacy.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of the data sets")
    parser.add_argument("--misses", action="store_true", help="print every span that is missed and every false one")
    return parser.parse_args()


def _safety(scorer: Path, files: list[Path], *, show_misses: bool) -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location("score_pii", scorer)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rows = [row for file in files for row in module.load(file)]
    found, false, missed = module.score(
        lambda text: [(each.start, each.end, each.type.upper()) for each in find(text)], rows
    )
    print(f"\nsafety: {len(rows)} lines")
    for data_type, recall in found["recall"].items():
        print(f"  {data_type:16} {recall:>8}")
    print(f"  mandatory spans  {found['total']:>8}   of the right type: {found['typed']}")
    print(f"  clean lines hit  {found['neg_lines_hit']:>8}   false findings anywhere: {found['fp']}")
    if show_misses:
        print(*(f"  missed {each}" for each in missed), *(f"  false {each}" for each in false), sep="\n")
    return dict(found)


def _presidio(files: list[Path], *, show_misses: bool) -> dict[str, Any]:
    rows = [row for file in files for row in json.loads(file.read_text(encoding="utf-8"))]
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    false: Counter[str] = Counter()
    for row in rows:
        text = row["full_text"]
        found = find(text)
        covered = {index for each in found for index in range(each.start, each.end)}
        for span in row["spans"]:
            if span["entity_type"] not in TYPES:
                continue
            places = range(span["start_position"], span["end_position"])
            hit = sum(index in covered for index in places) >= COVERED * len(places)
            counts[span["entity_type"]][0] += hit
            counts[span["entity_type"]][1] += 1
            if show_misses and not hit and span["entity_type"] not in KEPT_BY_DEFAULT:
                print(f"  missed {span['entity_type']}: {text[max(0, places.start - 40) : places.stop]!r}")
        for each in found:
            if not any(s["start_position"] < each.end and s["end_position"] > each.start for s in row["spans"]):
                false[str(each.type)] += 1
    print(f"\npresidio: {len(rows)} texts")
    for data_type, (hits, total) in sorted(counts.items()):
        kept = "   (kept by default)" if data_type in KEPT_BY_DEFAULT else ""
        print(f"  {data_type:18} {hits:>4}/{total:<4} {hits / total:.3f}{kept}")
    masked = [pair for data_type, pair in counts.items() if data_type not in KEPT_BY_DEFAULT]
    hits, total = sum(pair[0] for pair in masked), sum(pair[1] for pair in masked)
    print(
        f"  {'all that is masked':18} {hits:>4}/{total:<4} {hits / total:.3f}   false findings: {sum(false.values())}"
    )
    return {"recall": {name: f"{hits}/{total}" for name, (hits, total) in sorted(counts.items())}, "false": dict(false)}


def _fresh(name: str, marked: list[tuple[str, str]], clean: list[str], *, show_misses: bool) -> dict[str, Any]:
    found = total = 0
    for data_type, line in marked:
        text, spans = line.replace("«", "").replace("»", ""), _marked_spans(line)
        covered = {index for each in find(text) if each.type not in KEPT_TYPES for index in range(each.start, each.end)}
        for start, end in spans:
            hit = sum(index in covered for index in range(start, end)) >= COVERED * (end - start)
            found, total = found + hit, total + 1
            if show_misses and not hit:
                print(f"  missed {data_type}: {text!r}")
    touched = [text for text in clean if any(each.type not in KEPT_TYPES for each in find(text))]
    if show_misses and touched:
        print(*(f"  false {text!r}" for text in touched), sep="\n")
    print(f"fresh lines, {name} set: {found}/{total} {found / total:.3f}, clean lines hit {len(touched)}/{len(clean)}")
    return {"found": f"{found}/{total}", "clean_hit": f"{len(touched)}/{len(clean)}"}


def _marked_spans(line: str) -> list[tuple[int, int]]:
    """Where the marked parts stand once the marks are gone."""
    spans = [match.span() for match in re.finditer("«[^»]*»", line)]
    return [(start - 2 * number, end - 2 * number - 2) for number, (start, end) in enumerate(spans)]


def _chat(file: Path) -> dict[str, Any]:
    turns = [
        turn["text"]
        for conversation in json.loads(file.read_text(encoding="utf-8"))
        for session in conversation["conversation"].values()
        if isinstance(session, list)
        for turn in session
    ]
    policy = PrivacyPolicy()
    seconds, touched = [], 0
    for turn in turns:
        start = time.perf_counter()
        cleaned = sanitise(turn, policy=policy)
        seconds.append(time.perf_counter() - start)
        touched += bool(cleaned.counts)
    p50, p99 = statistics.median(seconds) * 1000, statistics.quantiles(seconds, n=100)[98] * 1000
    print(f"\nchat: {len(turns)} turns, {touched} touched; a turn takes p50 {p50:.3f} ms, p99 {p99:.3f} ms")
    return {"turns": len(turns), "touched": touched, "p50_ms": round(p50, 4), "p99_ms": round(p99, 4)}


if __name__ == "__main__":
    raise SystemExit(main())
