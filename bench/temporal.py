"""Measure the time expressions against the Recognizers-Text cases, and count hits in everyday chat.

A case counts as a hit when one of the expressions we find overlaps the expected words and denotes one of the
resolved values. Recognizers-Text gives both readings of an open date ("on Friday": the last and the next); we
read with prefer="past", and either of its values counts, because which one is meant is a preference and not
an error. By type:

- date: our interval is that whole day.
- daterange, datetimerange: our start and end equal its start and end; a missing one is an open side. Its
  23:59:59 is our next midnight.
- datetime: our interval starts at its value.
- time, timerange: the same, comparing the time of day only.
- Values it leaves unresolved ("this summer", 30 February) are not counted; durations and sets are no
  intervals.

The chat part prints how often ordinary turns of LoCoMo contain a hit, and with --sample some to look at.
"""

import argparse
import json
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from recordari.recall.rules.temporal.times import TimeExpression, find_times

TYPES = ("date", "daterange", "datetime", "datetimerange", "time", "timerange")
Bounds = tuple[datetime | None, datetime | None]


def main() -> int:
    """Run the measurement and write its figures."""
    arguments = _arguments()
    files = sorted((arguments.data / "temporal").glob("recognizers_datetime*.json"))
    if not files:
        print(f"skipped: no recognizers_datetime*.json under {arguments.data / 'temporal'}")
        return 0
    cases = [case for file in files for case in json.loads(file.read_text(encoding="utf-8"))]
    figures: dict[str, Any] = {"recognizers": _score(cases, show_misses=arguments.misses)}
    figures["speed"] = _speed([case["Input"] for case in cases])
    chat = arguments.data / "locomo" / "locomo10.json"
    if chat.is_file():
        figures["chat"] = _chat(json.loads(chat.read_text(encoding="utf-8")), arguments.sample)
    else:
        print(f"chat part skipped: {chat} is absent")
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    (results / "temporal.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of the data sets")
    parser.add_argument("--misses", action="store_true", help="print every case that is not met")
    parser.add_argument("--sample", type=int, default=0, help="print so many hits in chat turns")
    return parser.parse_args()


def _score(cases: list[dict[str, Any]], *, show_misses: bool) -> dict[str, Any]:
    total: Counter[str] = Counter()
    hits: Counter[str] = Counter()
    spurious = clean = 0
    for case in cases:
        reference = str(case.get("Context", {}).get("ReferenceDateTime", "2019-08-01T00:00:00"))[:19]
        now = datetime.fromisoformat(reference).replace(tzinfo=UTC)
        found = find_times(case["Input"], now=now, zone=UTC, prefer="past")
        if not case["Results"]:
            clean += 1
            spurious += bool(found)
            if found and show_misses:
                print(f"spurious      {case['Input'][:90]!r} -> {[each.text for each in found]}")
        for result in case["Results"]:
            kind = result["TypeName"].split(".")[-1]
            wanted = list(_resolutions(kind, result))
            if kind not in TYPES or not wanted:
                continue
            total[kind] += 1
            near = [each for each in found if _overlaps(each, result)]
            hit = any(_equal(kind, each, bounds) for each in near for bounds in wanted)
            hits[kind] += hit
            if show_misses and not hit:
                ours = [(each.text, str(each.interval.start)[:19], str(each.interval.end)[:19]) for each in near]
                print(f"{kind:13} now {reference} {case['Input'][:80]!r} [{result['Text']}] {ours} {wanted}")
    return _table(total, hits, spurious=spurious, clean=clean)


def _table(total: Counter[str], hits: Counter[str], *, spurious: int, clean: int) -> dict[str, Any]:
    rows = {kind: (hits[kind], total[kind]) for kind in TYPES}
    rows["date + daterange"] = (hits["date"] + hits["daterange"], total["date"] + total["daterange"])
    print(f"{'type':18}{'hits':>6}{'cases':>7}{'exact':>9}")
    for kind, (hit, count) in rows.items():
        print(f"{kind:18}{hit:>6}{count:>7}{hit / max(count, 1):>9.1%}")
    print(f"texts without a time that got one: {spurious} of {clean}\n")
    table = {kind: {"hits": hit, "cases": count, "exact": hit / max(count, 1)} for kind, (hit, count) in rows.items()}
    return table | {"spurious": {"texts": spurious, "of": clean}}


def _resolutions(kind: str, result: dict[str, Any]) -> Iterator[Bounds]:
    for value in (result["Resolution"] or {}).get("values", []):
        if value.get("value") == "not resolved":
            continue
        if "value" in value:
            start = _moment(value["value"])
            yield start, start + timedelta(days=1) if kind == "date" and start else None
        elif "start" in value or "end" in value:
            yield _moment(value.get("start")), _moment(value.get("end"))


def _moment(text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text if "-" in text else f"2000-01-01 {text}")
    except ValueError:  # durations are seconds, sets are not resolved
        return None
    return moment + timedelta(seconds=1) if text.endswith("23:59:59") else moment


def _overlaps(found: TimeExpression, result: dict[str, Any]) -> bool:
    return found.start_index <= int(result["End"]) and found.end_index > int(result["Start"])


def _equal(kind: str, found: TimeExpression, wanted: Bounds) -> bool:
    start, end = (bound and bound.replace(tzinfo=None) for bound in (found.interval.start, found.interval.end))
    match kind:
        case "datetime":
            return start == wanted[0]
        case "time":
            return bool(start and wanted[0] and start.time() == wanted[0].time())
        case "timerange":
            return all((a and a.time()) == (b and b.time()) for a, b in zip((start, end), wanted, strict=True))
        case _:
            return (start, end) == wanted


def _speed(texts: list[str]) -> dict[str, float]:
    now = datetime(2024, 5, 15, 12, tzinfo=UTC)
    took = sorted(_milliseconds(text, now) for text in texts)
    mixed = "last monday from 5 to 6pm, 3 days ago between may and 12/5/2023 at 3 "
    hostile = [(unit * 16384)[:16384] for unit in (mixed, "in may ", "1 ", "3pm ", "twenty five ", "a b ")]
    worst = max(_milliseconds(text, now) for text in hostile)
    figures = {"p50_ms": took[len(took) // 2], "p99_ms": took[len(took) * 99 // 100], "hostile_16k_ms": worst}
    print("  ".join(f"{name} {value:.2f}" for name, value in figures.items()) + "\n")
    return figures


def _milliseconds(text: str, now: datetime) -> float:
    """Processor time of one call, the best of three: other work on the machine should not count."""
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        find_times(text, now=now, zone=UTC)
        best = min(best, time.process_time() - began)
    return best * 1000


def _chat(conversations: list[dict[str, Any]], sample: int) -> dict[str, float]:
    turns = [
        turn["text"]
        for conversation in conversations
        for name, session in conversation["conversation"].items()
        if name.startswith("session_") and isinstance(session, list)
        for turn in session
    ]
    now = datetime(2023, 6, 15, 12, tzinfo=UTC)
    hits: dict[str, list[TimeExpression]] = defaultdict(list)
    for turn in turns:
        hits[turn].extend(find_times(turn, now=now, zone=UTC))
    flat = [(turn, found) for turn, each in hits.items() for found in each]
    print(f"chat: {len(flat)} hits in {len(turns)} turns, {1000 * len(flat) / len(turns):.0f} per 1,000")
    for turn, found in random.Random(7).sample(flat, min(sample, len(flat))):
        left, right = turn[max(0, found.start_index - 40) : found.start_index], turn[found.end_index :][:30]
        start, end = str(found.interval.start)[:16], str(found.interval.end)[:16]
        print(f"  …{left}[[{found.text}]]{right}… {start} {end}")
    return {"turns": len(turns), "hits": len(flat), "per_1000_turns": 1000 * len(flat) / len(turns)}


if __name__ == "__main__":
    sys.exit(main())
