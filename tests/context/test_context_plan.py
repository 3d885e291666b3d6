"""Planning a context, telling questions of several steps, and counting tokens from above: all without I/O."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from recordari.context.rules.context import PROFILES, ROUTER, STABLE, SectionName, Situation, plan
from recordari.core.tokens import prudent_tokens
from recordari.errors import ConfigurationError
from recordari.models.language import make_token_counter
from recordari.recall.rules.steps import is_multi_step, joined, next_questions

NOW = datetime(2026, 5, 11, 9, tzinfo=UTC)


def situation(question: str | None, **more: bool) -> Situation:
    return Situation(
        question=question, now=NOW, zone=UTC, **{"has_agent": True, "has_session": True, "has_run": True, **more}
    )


def test_the_map_and_the_session_are_always_there_and_time_only_when_asked_about() -> None:
    planned = plan(situation("What does Ana drink?"), ROUTER)
    assert {SectionName.KNOWLEDGE_MAP, SectionName.SUMMARY, SectionName.LONG_TERM} <= planned.shares.keys()
    assert planned.left_out[SectionName.TEMPORAL] == "the question has no time in it"
    assert planned.budget == 4_000
    timed = plan(situation("What did Ana drink last week?"), ROUTER)
    assert SectionName.TEMPORAL in timed.shares and timed.interval is not None


def test_what_nobody_is_named_for_is_left_out_with_its_reason() -> None:
    planned = plan(situation(None, has_agent=False, has_session=False, has_run=False), ROUTER)
    assert set(planned.shares) == {
        SectionName.KNOWLEDGE_MAP,
        SectionName.SHARED,
        SectionName.PROFILE,
        SectionName.ANSWERS,
    }
    assert planned.left_out[SectionName.CORE] == "no agent is named"
    assert planned.left_out[SectionName.LONG_TERM] == "there is no question"
    assert planned.left_out.keys() | planned.shares.keys() == set(SectionName)


def test_a_stable_context_does_not_depend_on_the_question() -> None:
    questions = ("What did we do yesterday?", "Who is Ana?", None)
    plans = [plan(situation(question), STABLE) for question in questions]
    assert len({tuple(one.shares) for one in plans}) == 1
    assert not {SectionName.LONG_TERM, SectionName.TEMPORAL, SectionName.SUMMARY} & plans[0].shares.keys()


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda one: one.name)
def test_the_shares_of_what_every_turn_has_leave_room_for_tools(profile) -> None:
    seldom = {
        SectionName.TEMPORAL,
        SectionName.DAILY_LOG,
        SectionName.DELEGATED,
        SectionName.PROFILE,
        SectionName.ANSWERS,
    }
    assert sum(share.tokens for name, share in profile.shares.items() if name not in seldom) <= profile.budget


@pytest.mark.parametrize(
    "question",
    [
        "What animals belong to the person who restored the lighthouse?",
        "Where did Ana meet Tobias and when did they marry?",
        "What do Jon and Gina have in common?",
        "Which company whose founder lives in Bergen sent the invoice?",
        "What is Ana's sister's job?",
        "Did Marta visit Oslo before Antwerp or after Lisbon?",
    ],
)
def test_several_steps_are_told_by_the_form_of_a_question(question: str) -> None:
    assert is_multi_step(question)


@pytest.mark.parametrize(
    "question",
    [
        "What does Ana drink?",
        "What are the names of John's children?",
        "How do I return a parcel?",
        "What did we discuss last week about bread and butter?",
        "Who restored the lighthouse?",
        "Summarise the meeting with Tobias and Marta.",
    ],
)
def test_one_step_stays_one_step(question: str) -> None:
    assert not is_multi_step(question)


def test_the_next_step_is_asked_with_what_the_first_brought() -> None:
    found = [("The lighthouse was restored by Ingrid Holm.", NOW)]
    (asked,) = next_questions("What animals belong to the person who restored the lighthouse?", found)
    assert asked.endswith("Ingrid Holm")
    assert next_questions("Where did Ana go and when did Bo leave?", found) == ["Where did Ana go", "when did Bo leave"]
    assert len(next_questions("What do Jon and Gina have in common?", found)) == 2
    assert next_questions("What belongs to the person who left?", [("nobody knows", NOW)]) == []


def test_later_rounds_add_and_displace_nothing() -> None:
    assert joined([1, 2, 3, 4], [[9, 1, 8], [7]], kept=2, more=2) == [1, 2, 9, 7, 3, 4]
    assert joined([1, 2], [], kept=2, more=3) == [1, 2]


def test_a_section_has_more_room_and_more_items_in_a_larger_budget_and_less_room_in_a_smaller_one() -> None:
    usual, large, small = (plan(situation("Who?"), ROUTER, budget=budget).shares for budget in (4_000, 16_000, 1_000))
    name = SectionName.LONG_TERM
    assert (usual[name].tokens, large[name].tokens, small[name].tokens) == (800, 3_200, 200)
    assert (usual[name].most, large[name].most, small[name].most) == (5, 20, 5)


# Real sentences in several languages; what current vocabularies count is asked of them, not written down.
SENTENCES = {
    "english": "The meeting was moved to Thursday because the delivery from Rotterdam has not arrived yet.",
    "german": "Die Besprechung wurde auf Donnerstag verschoben, weil die Lieferung noch nicht eingetroffen ist.",
    "french": "La réunion a été repoussée à jeudi parce que la livraison n'est pas encore arrivée.",
    "polish": "Spotkanie zostało przełożone na czwartek, ponieważ dostawa jeszcze nie dotarła.",
    "finnish": "Kokous siirrettiin torstaille, koska toimitus Rotterdamista ei ole vielä saapunut.",
    "turkish": "Toplantı perşembe gününe ertelendi çünkü sevkiyat henüz ulaşmadı.",
    "russian": "Совещание перенесли на четверг, потому что груз из Роттердама ещё не прибыл.",
    "greek": "Η συνάντηση αναβλήθηκε για την Πέμπτη, επειδή η παράδοση δεν έφτασε ακόμη.",
    "arabic": "تأجل الاجتماع إلى يوم الخميس لأن الشحنة القادمة من روتردام لم تصل بعد.",
    "hebrew": "הפגישה נדחתה ליום חמישי מפני שהמשלוח מרוטרדם עדיין לא הגיע.",
    "hindi": "बैठक गुरुवार तक टाल दी गई क्योंकि माल अभी तक नहीं पहुँचा है।",
    "thai": "การประชุมถูกเลื่อนไปเป็นวันพฤหัสบดีเพราะสินค้ายังมาไม่ถึง",
    "chinese": "会议推迟到星期四,因为从鹿特丹发来的货物还没有到达。",
    "japanese": "ロッテルダムからの荷物がまだ届いていないため、会議は木曜日に延期されました。",
    "korean": "화물이 아직 도착하지 않아 회의가 목요일로 연기되었습니다.",
    "swahili": "Mkutano uliahirishwa hadi Alhamisi kwa sababu mizigo bado haijafika.",
    "emoji": "Great 🎉🎉🎉 see you 👩‍👩‍👧‍👦 at 🏖️ on 🗓️ 5️⃣ 💯🔥 😀😃😄",
    "code": "for key, value in sorted(counts.items()):\n    if value >= 10:\n        print(f'{key}: {value:,}')",
    "json": '{"order_id": "A-4711", "total": 1045.50, "items": [{"sku": "X9", "qty": 3}]}',
    "identifiers": "018f6a2e-7c1b-7f3e-9a51-0d5b1f2c3d4e ANCHOR_TOKEN_7a3f9 2026-05-02T14:23:01Z",
}


@pytest.mark.parametrize("vocabulary", ["o200k_base", "mistral_v3", "deepseek_v3"])
@pytest.mark.parametrize("language", SENTENCES)
def test_the_estimate_is_not_below_what_a_model_counts(language: str, vocabulary: str) -> None:
    text = SENTENCES[language]
    exact = make_token_counter(vocabulary)(text)
    assert exact <= prudent_tokens(text) <= 3 * exact


def test_a_text_that_spells_a_control_token_is_counted_as_text() -> None:
    assert make_token_counter("o200k_base")("<|endoftext|>") > 1


def test_an_unknown_vocabulary_is_refused_with_a_way_out() -> None:
    with pytest.raises(ConfigurationError, match="estimate"):
        make_token_counter("nonsense")
