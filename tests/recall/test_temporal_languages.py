"""Time expressions of other languages: one grammar, a table per language."""

from datetime import UTC, datetime, timedelta

import pytest

from recordari.recall.rules.temporal.times import Interval, find_times, question_interval

NOW = datetime(2025, 9, 11, 15, tzinfo=UTC)  # a Thursday


def moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text).replace(tzinfo=UTC) if text else None


@pytest.mark.parametrize(
    ("question", "start", "end"),
    [
        ("Was haben wir vor zwei Tagen beschlossen?", "2025-09-09", "2025-09-10"),
        ("Wer kommt übermorgen zu Besuch?", "2025-09-13", "2025-09-14"),
        ("Welche Rechnungen kamen im Juli 2024?", "2024-07-01", "2024-08-01"),
        ("Was lief letztes Jahr schief?", "2024-01-01", "2025-01-01"),
        ("Was steht nächste Woche an?", "2025-09-15", "2025-09-22"),
        ("Was habe ich am Montag gegessen?", "2025-09-08", "2025-09-09"),
        ("Was ist zwischen dem 3. und dem 7. Juni passiert?", "2025-06-03", "2025-06-08"),
        ("Was war am 24. Dezember 2024?", "2024-12-24", "2024-12-25"),
        ("Wie viele Kunden haben wir im zweiten Quartal 2025 gewonnen?", "2025-04-01", "2025-07-01"),
        ("Was hatten wir bis zum 5. August erledigt?", None, "2025-08-06"),
        ("Wer hat letztes Wochenende gearbeitet?", "2025-09-06", "2025-09-08"),
        ("Qu'ai-je mangé lundi ?", "2025-09-08", "2025-09-09"),
        ("Qu'avons-nous vendu la semaine dernière ?", "2025-09-01", "2025-09-08"),
        ("Quels clients ont appelé vendredi dernier ?", "2025-09-05", "2025-09-06"),
        ("Que s'est-il passé depuis le 1er juillet ?", "2025-07-01", None),
        ("Combien avons-nous dépensé au deuxième trimestre 2025 ?", "2025-04-01", "2025-07-01"),
        ("Qui doit venir après-demain ?", "2025-09-13", "2025-09-14"),
        ("Quelles pannes ces trois derniers jours ?", "2025-09-08", "2025-09-12"),
        ("Qu'est-ce qui a été livré en mars 2024 ?", "2024-03-01", "2024-04-01"),
        ("Qu'avons-nous décidé avant le 15 août ?", None, "2025-08-15"),
        ("Qu'a dit Paul cette semaine ?", "2025-09-08", "2025-09-15"),
        ("¿Qué compré anteayer?", "2025-09-09", "2025-09-10"),
        ("¿Qué pasó el lunes pasado?", "2025-09-08", "2025-09-09"),
        ("¿Qué decidimos en marzo de 2024?", "2024-03-01", "2024-04-01"),
        ("¿Qué gasté en los últimos siete días?", "2025-09-04", "2025-09-12"),
        ("¿Qué ha cambiado desde el 3 de junio?", "2025-06-03", None),
        ("¿Quién vino esta semana?", "2025-09-08", "2025-09-15"),
        ("¿Qué haremos el mes que viene?", "2025-10-01", "2025-11-01"),
        ("¿Qué vendimos en el primer trimestre de 2025?", "2025-01-01", "2025-04-01"),
        ("O que fizemos anteontem?", "2025-09-09", "2025-09-10"),
        ("O que aconteceu no mês passado?", "2025-08-01", "2025-09-01"),
        ("O que decidimos há três dias?", "2025-09-08", "2025-09-09"),
        ("Quem ligou na segunda-feira passada?", "2025-09-08", "2025-09-09"),
        ("O que mudou desde 3 de junho?", "2025-06-03", None),
        ("Quantos clientes chegaram nos últimos 10 dias?", "2025-09-01", "2025-09-12"),
        ("Que vendas tivemos no segundo trimestre de 2025?", "2025-04-01", "2025-07-01"),
        ("O que vou fazer na próxima semana?", "2025-09-15", "2025-09-22"),
        ("O que combinamos dois dias atrás?", "2025-09-09", "2025-09-10"),
        ("Cosa abbiamo deciso il mese scorso?", "2025-08-01", "2025-09-01"),
        ("Chi è venuto l'altro ieri?", "2025-09-09", "2025-09-10"),
        ("Cosa ho speso negli ultimi sette giorni?", "2025-09-04", "2025-09-12"),
        ("Che riunioni ci sono la prossima settimana?", "2025-09-15", "2025-09-22"),
        ("Cosa è successo lunedì scorso?", "2025-09-08", "2025-09-09"),
        ("Cosa abbiamo fatto nell'estate del 2024?", "2024-06-01", "2024-09-01"),
        ("Cosa abbiamo venduto a marzo 2024?", "2024-03-01", "2024-04-01"),
        ("Che cosa è cambiato dal 3 giugno?", "2025-06-03", None),
        ("Cosa ha detto Anna prima del 15 agosto?", None, "2025-08-15"),
        ("Wat hebben we drie dagen geleden besloten?", "2025-09-08", "2025-09-09"),
        ("Wat is er sinds 3 juni veranderd?", "2025-06-03", None),
        ("Wie belde er vorige week?", "2025-09-01", "2025-09-08"),
        ("Wat hebben we in maart 2024 verkocht?", "2024-03-01", "2024-04-01"),
        ("Wie werkte er afgelopen weekend?", "2025-09-06", "2025-09-08"),
        ("Wat zijn de plannen voor volgende week?", "2025-09-15", "2025-09-22"),
        ("Wat staat er voor morgen op de agenda?", "2025-09-12", "2025-09-13"),
        ("Wat staat er volgende maand gepland?", "2025-10-01", "2025-11-01"),
        ("Wat deed ik afgelopen maandag?", "2025-09-08", "2025-09-09"),
        ("Wat spraken we af tussen 3 en 7 juni?", "2025-06-03", "2025-06-08"),
        ("前天谁来了？", "2025-09-09", "2025-09-10"),
        ("三天前我们决定了什么？", "2025-09-08", "2025-09-09"),
        ("2024年3月卖了多少？", "2024-03-01", "2024-04-01"),
        ("过去一周有什么问题？", "2025-09-04", "2025-09-12"),
        ("上周末你去哪里了？", "2025-09-06", "2025-09-08"),
        ("6月3日之前签了什么？", None, "2025-06-03"),
        ("7月以来有什么变化？", "2025-07-01", None),
        ("2025年第二季度的销售额？", "2025-04-01", "2025-07-01"),
        ("去年夏天我们去了哪里？", "2024-06-01", "2024-09-01"),
        ("八月十五日的会议谁参加了？", "2025-08-15", "2025-08-16"),
        ("先月の電気代はいくらでしたか？", "2025-08-01", "2025-09-01"),
        ("昨日何を食べましたか？", "2025-09-10", "2025-09-11"),
        ("先週の金曜日に誰が来ましたか？", "2025-09-05", "2025-09-06"),
        ("過去7日間のエラーは？", "2025-09-04", "2025-09-12"),
        ("6月3日までに何を終えましたか？", None, "2025-06-04"),
        ("7月から何が変わりましたか？", "2025-07-01", None),
        ("昨年の夏はどこに行きましたか？", "2024-06-01", "2024-09-01"),
        ("来週の予定は何ですか？", "2025-09-15", "2025-09-22"),
    ],
)
def test_a_question_in_another_language_asks_for_the_time_it_names(
    question: str, start: str | None, end: str | None
) -> None:
    assert question_interval(question, now=NOW, zone=UTC) == Interval(start=moment(start), end=moment(end))


@pytest.mark.parametrize(
    "question",
    [
        "Was hat Herr Sommer bestellt?",
        "Welche Tabletten nehme ich jeden Morgen?",
        "Wie alt ist meine Tochter April?",
        "Qui est Martin Mars ?",
        "Combien de jours de congé par an ?",
        "¿Qué dijo Abril sobre la casa?",
        "¿Cuántos meses dura la garantía?",
        "Quantas horas demora o voo?",
        "Quanti giorni di ferie ho all'anno?",
        "Hoeveel vakantiedagen heb ik per jaar?",
        "每天吃几片药？",
        "毎日何錠飲みますか？",
        "月島さんの電話番号は？",
    ],
)
def test_a_name_or_a_habit_is_no_time(question: str) -> None:
    assert question_interval(question, now=NOW, zone=UTC) is None


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("Was hat Lena vor drei Tagen gesagt?", "vor drei Tagen"),
        ("Et la semaine dernière, qui était là ?", "la semaine dernière"),
        ("会议是上个月开的吗？", "上个月"),
        ("What did the team ship last week?", "last week"),
    ],
)
def test_the_words_that_name_the_time_are_those_of_the_question(question: str, words: str) -> None:
    assert [each.text for each in find_times(question, now=NOW, zone=UTC)] == [words]


WEDNESDAY = datetime(2026, 3, 18, 14, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("question", "start", "end"),
    [
        ("Wie viele Pakete gingen vorige Woche raus?", "2026-03-09", "2026-03-16"),
        ("Was hat der Arzt vor drei Wochen gesagt?", "2026-02-25", "2026-02-26"),
        ("Wen haben wir im Oktober eingestellt?", "2025-10-01", "2025-11-01"),
        ("Was ist seit Januar passiert?", "2026-01-01", None),
        ("Welche Termine waren am Dienstag?", "2026-03-17", "2026-03-18"),
        ("Was stand im Bericht vom 12. Februar 2026?", "2026-02-12", "2026-02-13"),
        ("Wie lange dauert ein Ölwechsel?", None, None),
        ("Herr Sommer möchte ein Angebot, welches?", None, None),
        ("Was haben wir vorgestern bestellt?", "2026-03-16", "2026-03-17"),
        ("Welche Rechnungen kamen zwischen dem 2. und dem 9. März?", "2026-03-02", "2026-03-10"),
        ("Qu'est-ce que j'ai acheté avant-hier ?", "2026-03-16", "2026-03-17"),
        ("Quelles factures avons-nous payées en novembre dernier ?", "2025-11-01", "2025-12-01"),
        ("Qu'avons-nous livré il y a dix jours ?", "2026-03-08", "2026-03-09"),
        ("Quels incidents depuis lundi ?", "2026-03-16", None),
        ("Qu'a-t-on décidé l'an dernier ?", "2025-01-01", "2026-01-01"),
        ("Où habite Madame Mars ?", None, None),
        ("Combien de jours faut-il pour livrer ?", None, None),
        ("Qu'est-ce qui était prévu pour le 14 juillet 2025 ?", "2025-07-14", "2025-07-15"),
        ("¿Cuánto gastamos el año pasado?", "2025-01-01", "2026-01-01"),
        ("¿Qué dijo Marta hace dos semanas?", "2026-03-04", "2026-03-05"),
        ("¿Qué pedidos llegaron en diciembre?", "2025-12-01", "2026-01-01"),
        ("¿Quién vino el fin de semana pasado?", "2026-03-14", "2026-03-16"),
        ("¿Qué acordamos antes del 1 de febrero?", None, "2026-02-01"),
        ("¿Cuántas horas tiene el turno de Abril Gómez?", None, None),
        ("¿Qué se firmó el 5 de enero de 2026?", "2026-01-05", "2026-01-06"),
        ("¿Qué hicimos el viernes?", "2026-03-13", "2026-03-14"),
        ("Quem faltou ontem?", "2026-03-17", "2026-03-18"),
        ("O que compramos na semana passada?", "2026-03-09", "2026-03-16"),
        ("Quais contas vencem amanhã?", "2026-03-19", "2026-03-20"),
        ("O que ficou decidido em setembro de 2025?", "2025-09-01", "2025-10-01"),
        ("O que disse a Rita há duas semanas?", "2026-03-04", "2026-03-05"),
        ("Quanto tempo leva a entrega?", None, None),
        ("O que se passou entre 10 e 14 de fevereiro?", "2026-02-10", "2026-02-15"),
        ("Che cosa abbiamo venduto l'anno scorso?", "2025-01-01", "2026-01-01"),
        ("Quali ordini sono arrivati due giorni fa?", "2026-03-16", "2026-03-17"),
        ("Cosa è cambiato da gennaio?", "2026-01-01", None),
        ("Quanti mesi dura il corso?", None, None),
        ("Cosa ha detto il signor Maggio del contratto?", None, None),
        ("Cosa c'era in programma il 2 giugno 2025?", "2025-06-02", "2025-06-03"),
        ("Wie belde er eergisteren?", "2026-03-16", "2026-03-17"),
        ("Wat hebben we vorige maand verkocht?", "2026-02-01", "2026-03-01"),
        ("Wat is er sinds dinsdag veranderd?", "2026-03-17", None),
        ("Wat spraken we drie weken geleden af?", "2026-02-25", "2026-02-26"),
        ("Hoeveel dagen duurt de verzending?", None, None),
        ("Wie werkte er afgelopen weekend?", "2026-03-14", "2026-03-16"),
        ("上个月我们花了多少钱？", "2026-02-01", "2026-03-01"),
        ("前天谁打来电话？", "2026-03-16", "2026-03-17"),
        ("三天前医生说了什么？", "2026-03-15", "2026-03-16"),
        ("去年十二月的会议讨论了什么？", "2025-12-01", "2026-01-01"),
        ("上周五我们定了哪家供应商？", "2026-03-13", "2026-03-14"),
        ("二月十号那天发生了什么？", "2026-02-10", "2026-02-11"),
        ("从一月以来改了什么？", "2026-01-01", None),
        ("这个项目要多少天？", None, None),
        ("今年我们招了几个人？", "2026-01-01", "2027-01-01"),
        ("先週の会議で何を決めましたか？", "2026-03-09", "2026-03-16"),
        ("一昨日誰から電話がありましたか？", "2026-03-16", "2026-03-17"),
        ("三か月前に何を注文しましたか？", "2025-12-18", "2025-12-19"),
        ("昨年の売上はいくらでしたか？", "2025-01-01", "2026-01-01"),
        ("二月十日に何がありましたか？", "2026-02-10", "2026-02-11"),
        ("月曜日に何を食べましたか？", "2026-03-16", "2026-03-17"),
        ("1月以降に何が変わりましたか？", "2026-01-01", None),
        ("納品まで何日かかりますか？", None, None),
        ("来週の予定は？", "2026-03-23", "2026-03-30"),
    ],
)
def test_the_words_of_a_question_denote_a_stretch_of_the_calendar(
    question: str, start: str | None, end: str | None
) -> None:
    asked = question_interval(question, now=WEDNESDAY, zone=UTC)
    if start is None and end is None:
        assert asked is None
        return
    assert asked is not None
    # Vague words are widened: the stretch is inside, and not much smaller.
    first, last = moment(start), moment(end)
    assert (asked.start is None) == (first is None) and (asked.end is None) == (last is None)
    assert not first or not asked.start or asked.start <= first <= asked.start + timedelta(days=16)
    assert not last or not asked.end or last <= asked.end <= last + timedelta(days=16)


def test_accents_may_be_left_out() -> None:
    with_accents, without = "¿Qué decidimos la última semana de marzo?", "Que decidimos la ultima semana de marzo?"
    assert (
        question_interval(with_accents, now=NOW, zone=UTC) == question_interval(without, now=NOW, zone=UTC) is not None
    )


@pytest.mark.parametrize(
    ("question", "start", "end"),
    [
        ("Was habe ich gestern eingekauft?", "2026-08-17", "2026-08-18"),
        ("Welche Gäste kamen am vergangenen Wochenende?", "2026-08-15", "2026-08-17"),
        ("Was stand im März auf der Rechnung?", "2026-03-01", "2026-04-01"),
        ("Wer rief vor vier Tagen an?", "2026-08-14", "2026-08-15"),
        ("Was machen wir übermorgen?", "2026-08-20", "2026-08-21"),
        ("Welche Firma gehört Frau März?", None, None),
        ("Qu'avons-nous dit vendredi dernier ?", "2026-08-14", "2026-08-15"),
        ("Quelles pannes y a-t-il eu le mois dernier ?", "2026-07-01", "2026-08-01"),
        ("Que faisait l'équipe en 2023 ?", "2023-01-01", "2024-01-01"),
        ("Quels rendez-vous ai-je demain ?", "2026-08-19", "2026-08-20"),
        ("Qu'a-t-on décidé avant le 10 août ?", None, "2026-08-10"),
        ("Qui est Monsieur Dimanche ?", None, None),
        ("¿Qué se decidió la semana pasada?", "2026-08-10", "2026-08-17"),
        ("¿Qué gastos hubo en junio?", "2026-06-01", "2026-07-01"),
        ("¿Qué ha pasado desde el lunes?", "2026-08-17", None),
        ("¿Qué visitas tenemos el próximo mes?", "2026-09-01", "2026-10-01"),
        ("¿Dónde vive la señora Enero?", None, None),
        ("Que encomendas chegaram anteontem?", "2026-08-16", "2026-08-17"),
        ("O que aconteceu no mês passado?", "2026-07-01", "2026-08-01"),
        ("Quem veio no sábado passado?", "2026-08-15", "2026-08-16"),
        ("O que combinámos há seis dias?", "2026-08-12", "2026-08-13"),
        ("Que reuniões há amanhã?", "2026-08-19", "2026-08-20"),
        ("O que foi feito em 2022?", "2022-01-01", "2023-01-01"),
        ("Onde fica a Rua 25 de Abril?", None, None),
        ("Cosa abbiamo comprato ieri?", "2026-08-17", "2026-08-18"),
        ("Chi è venuto la settimana scorsa?", "2026-08-10", "2026-08-17"),
        ("Che lavori ci sono stati a maggio?", "2026-05-01", "2026-06-01"),
        ("Cosa è successo tre giorni fa?", "2026-08-15", "2026-08-16"),
        ("Che cosa c'è in programma domani?", "2026-08-19", "2026-08-20"),
        ("Che mestiere fa il signor Sabato?", None, None),
        ("Wat heb ik gisteren besteld?", "2026-08-17", "2026-08-18"),
        ("Wie was er vorige week ziek?", "2026-08-10", "2026-08-17"),
        ("Wat stond er in april op het menu?", "2026-04-01", "2026-05-01"),
        ("Wat is er sinds maandag gebeurd?", "2026-08-17", None),
        ("Welke afspraken heb ik morgen?", "2026-08-19", "2026-08-20"),
        ("Wat is er afgelopen weekend gebeurd?", "2026-08-15", "2026-08-17"),
        ("Waar werkt Jan de Winter?", None, None),
        ("前天谁来了？", "2026-08-16", "2026-08-17"),
        ("上个月花了多少钱？", "2026-07-01", "2026-08-01"),
        ("2023年我们做了什么？", "2023-01-01", "2024-01-01"),
        ("五天前的会议说了什么？", "2026-08-13", "2026-08-14"),
        ("上周五谁迟到了？", "2026-08-14", "2026-08-15"),
        ("小明的生日礼物是什么？", None, None),
        ("昨日は誰と話しましたか？", "2026-08-17", "2026-08-18"),
        ("先週何がありましたか？", "2026-08-10", "2026-08-17"),
        ("三日前に何を食べましたか？", "2026-08-15", "2026-08-16"),
        ("6月の会議の結果は？", "2026-06-01", "2026-07-01"),
        ("明日の予定は？", "2026-08-19", "2026-08-20"),
        ("去年どこに旅行しましたか？", "2025-01-01", "2026-01-01"),
        ("田中さんの趣味は何ですか？", None, None),
    ],
)
def test_questions_that_were_written_after_the_tables(question: str, start: str | None, end: str | None) -> None:
    asked = question_interval(question, now=datetime(2026, 8, 18, 9, tzinfo=UTC), zone=UTC)
    assert asked == (Interval(start=moment(start), end=moment(end)) if start or end else None)
