"""A small set of our own in the form of each benchmark."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

LOCOMO = [
    {
        "conversation": {
            "speaker_a": "Ilse",
            "speaker_b": "Tom",
            "session_1_date_time": "4:05 pm on 3 March, 2025",
            "session_1": [
                {"speaker": "Ilse", "dia_id": "D1:1", "text": "I bought a kayak from my neighbour on Sunday."},
                {"speaker": "Tom", "dia_id": "D1:2", "text": "Nice! My sister plays the oboe in Ghent."},
            ],
            "session_2_date_time": "9:00 am on 11 April, 2025",
            "session_2": [
                {"speaker": "Ilse", "dia_id": "D2:1", "text": "", "blip_caption": "a red kayak on a lake"},
                {"speaker": "Tom", "dia_id": "D2:2", "text": "We repaired the roof of the barn together."},
            ],
        },
        "qa": [
            {
                "question": "What instrument does Tom's sister play?",
                "answer": "oboe",
                "evidence": ["D1:2"],
                "category": 4,
            },
            {
                "question": "Where is the kayak, and from whom?",
                "answer": "a lake, neighbour",
                "evidence": ["D1:1; D2:1"],
                "category": 1,
            },
            {
                "question": "What did Ilse pay for the violin?",
                "evidence": ["D1:1"],
                "category": 5,
                "adversarial_answer": "nothing",
            },
        ],
    }
]

LONGMEMEVAL: list[dict[str, Any]] = [
    {
        "question_id": "q1",
        "question_type": "knowledge-update",
        "question": "Which gym do I go to now?",
        "question_date": "2025/06/01 (Sun) 10:00",
        "answer": "Atlas on Mill Street",
        "haystack_session_ids": ["s1", "s2"],
        "haystack_dates": ["2025/01/10 (Fri) 08:30", "2025/05/02 (Fri) 19:15"],
        "haystack_sessions": [
            [
                {"role": "user", "content": "I go to the gym Forge near the station.", "has_answer": True},
                {"role": "assistant", "content": "Good for strength training."},
            ],
            [
                {"role": "user", "content": "I changed my gym: now I go to Atlas on Mill Street.", "has_answer": True},
                {"role": "assistant", "content": "\u200b"},
            ],
        ],
    },
    {
        "question_id": "q2_abs",
        "question_type": "single-session-user",
        "question": "What is the name of my parrot?",
        "question_date": "2025/06/01 (Sun) 10:00",
        "answer": "You never mentioned a parrot.",
        "haystack_session_ids": ["s1"],
        "haystack_dates": ["2025/01/10 (Fri) 08:30"],
        "haystack_sessions": [[{"role": "user", "content": "The bread rose well in the new oven."}]],
    },
]

BEAM_CHAT: list[dict[str, Any]] = [
    {
        "batch_number": 1,
        "turns": [
            [
                {
                    "role": "user",
                    "id": 0,
                    "time_anchor": "May-04-2024",
                    "content": "The greenhouse has 40 tomato plants. ->-> 1,1",
                },
                {"role": "assistant", "id": 1, "content": "Water them in the morning."},
            ]
        ],
    },
    {
        "batch_number": 2,
        "turns": [
            [
                {
                    "role": "user",
                    "id": 2,
                    "time_anchor": "July-09-2024",
                    "content": "Now there are 55 tomato plants in the greenhouse.",
                }
            ]
        ],
    },
]
BEAM_QUESTIONS = {
    "abstention": [
        {
            "question": "How large is my boat?",
            "ideal_response": "It is not known.",
            "rubric": ["says that it is not known"],
        }
    ],
    "knowledge_update": [
        {
            "question": "How many tomato plants are in the greenhouse?",
            "answer": "55",
            "source_chat_ids": {"original_info": [0], "updated_info": [2]},
            "rubric": ["should state: 55", "should not state: 40"],
        }
    ],
    "event_ordering": [
        {
            "question": "In which order did I name the numbers of plants?",
            "answer": "40, then 55",
            "source_chat_ids": [0, 2],
            "rubric": ["40 plants", "55 plants"],
        }
    ],
}

LIFEBENCH_PHONE = {
    "sms": [
        {
            "type": "sms",
            "phone_id": 7,
            "datetime": "2025-02-03 18:20:00",
            "contactName": "Nora",
            "message_content": "The pottery class moved to Thursday.",
        }
    ],
    "calendar": [
        {
            "type": "calendar",
            "phone_id": 3,
            "title": "Dentist Dr Abel",
            "start_time": "2025-02-10 09:00:00",
            "datetime": "2025-02-01 10:00:00",
        }
    ],
    "contact": [{"name": "Nora", "phone_id": "1"}],
}
LIFEBENCH_QUESTIONS = [
    {
        "question": "On which day is the pottery class?",
        "answer": "Thursday",
        "score_points": [{"description": "names Thursday", "score": 10}],
        "evidence": [{"type": "sms", "id": "7"}],
        "ask_time": "2025-02",
        "question_type": "Information Extraction",
    },
    {"question": "Which car did she buy?", "answer": "unknown", "ask_time": "2025-02", "question_type": "Unanswerable"},
]


def written(folder: Path) -> dict[str, Path]:
    """Every set as its authors hand it out, by name."""
    locomo, longmemeval = folder / "locomo10.json", folder / "longmemeval_s.json.gz"
    locomo.write_text(json.dumps(LOCOMO))
    longmemeval.write_bytes(gzip.compress(json.dumps(LONGMEMEVAL).encode()))
    chat, person = folder / "beam" / "100K" / "1", folder / "lifebench" / "data_en" / "nora"
    _write(chat / "chat.json", BEAM_CHAT)
    _write(chat / "probing_questions" / "probing_questions.json", BEAM_QUESTIONS)
    _write(person / "QA" / "QA_clean.json", LIFEBENCH_QUESTIONS)
    for kind, rows in LIFEBENCH_PHONE.items():
        _write(person / "phone_data" / f"{kind}.json", rows)
    return {
        "locomo": locomo,
        "longmemeval": longmemeval,
        "beam": folder / "beam",
        "lifebench": folder / "lifebench" / "data_en",
    }


def _write(file: Path, rows: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(rows))
