"""Time words of Chinese and Japanese, which are written without spaces."""

from typing import Final

from recordari.recall.rules.temporal.language import Language, order

_POSTPOSITIONS: Final = order(
    (r"(?P<span>[acdn~][Uu])B", "span ago"),  # "三天前", "3日前"
    (r"(?P<year>y)(?P<nth>[oO2])(?P<unit>U)", "nth unit of year"),  # "2025年第三季度"
    (r"(?P<year>[LNH]U)(?P<month>[MS])(?![dO])", "month of year"),  # "去年8月"
    (r"(?P<when>(?:D|y?M[dO]|y?M|y|[LNH]?U?W|[LNH]U|R))(?P<bound>[BFIJ])", "bound when"),  # "5月10日之前"
)

CHINESE: Final = Language(
    name="chinese",
    capitals="none",
    order=_POSTPOSITIONS,
    table="""
今天, 今日 = today
昨天, 昨日 = yesterday
明天, 明日 = tomorrow
前天 = the day before yesterday
后天, 後天 = the day after tomorrow
大前天 = three days ago
昨晚 = yesterday evening
今晚 = this evening
今早 = this morning
上周, 上星期, 上个星期, 上礼拜, 上个礼拜, 上週 = last week
这周, 本周, 这星期, 这个星期, 这礼拜, 这个礼拜, 這週, 本週 = this week
下周, 下星期, 下个星期, 下礼拜, 下个礼拜, 下週 = next week
上上周, 上上个星期 = the week before last
上周末, 上个周末 = last weekend
这周末, 这个周末, 本周末 = this weekend
下周末, 下个周末 = next weekend
上个月, 上月, 上個月 = last month
这个月, 本月, 當月, 這個月 = this month
下个月, 下月, 下個月 = next month
上上个月 = the month before last
上个季度, 上季度 = last quarter
这个季度, 本季度 = this quarter
下个季度, 下季度 = next quarter
去年 = last year
今年 = this year
明年 = next year
前年 = the year before last
上半年 = first half of the year
下半年 = second half of the year
最近, 过去, 近, 这, 過去, 最近的, 过去的 = last
未来, 接下来, 接下來 = next
天, 日 = days
周, 星期, 个星期, 礼拜, 个礼拜, 週 = weeks
个月, 個月 = months
年 = years
季度 = quarter
小时, 个小时, 小時, 鐘頭, 钟头 = hours
分钟, 分鐘 = minutes
春天, 春季 = spring
夏天, 夏季 = summer
秋天, 秋季 = autumn
冬天, 冬季 = winter
周末, 週末 = weekend
前, 以前, 之前 = before
后, 以后, 之后, 後, 之後, 以後 = after
以来, 至今, 起, 以來 = since
到, 至 = to
从, 自, 自从, 從 = from
和, 与 = and
几, 数, 幾, 好几 = few
两 = two
每, 每个, 每個 = every
早上, 上午, 早晨 = morning
下午 = afternoon
晚上, 傍晚 = evening
圣诞节 = christmas
""",
)

JAPANESE: Final = Language(
    name="japanese",
    capitals="none",
    order=_POSTPOSITIONS,
    table="""
今日, きょう, 本日 = today
昨日, きのう = yesterday
明日, あした, あす = tomorrow
一昨日, おととい = the day before yesterday
明後日, あさって = the day after tomorrow
昨夜, 昨晩, ゆうべ = yesterday evening
今夜, 今晩 = this evening
今朝, けさ = this morning
先週 = last week
今週 = this week
来週 = next week
先々週 = the week before last
再来週 = the week after next
先週末, 先週の週末 = last weekend
今週末 = this weekend
来週末 = next weekend
先月 = last month
今月 = this month
来月 = next month
先々月 = the month before last
再来月 = the month after next
前四半期 = last quarter
今四半期 = this quarter
去年, 昨年 = last year
今年, 本年 = this year
来年 = next year
一昨年, おととし = the year before last
再来年 = the year after next
上半期 = first half of the year
下半期 = second half of the year
ここ, 過去, 最近, 直近, この, 最近の, 過去の, 直近の = last
今後, これから = next
日, 日間 = days
週間, 週 = weeks
か月, ヶ月, カ月, ヵ月, か月間, ヶ月間, カ月間 = months
年, 年間 = years
四半期 = quarter
時間 = hours
分, 分間 = minutes
春 = spring
夏 = summer
秋 = autumn
冬 = winter
週末 = weekend
前, 以前, より前, の前 = before
後, の後 = after
以来, 以降, から = since
まで = until
と = and
数, 何 = few
毎, 毎週, 毎月, 毎年, 毎日, 年に, 月に, 週に = every
朝, 午前 = morning
午後 = afternoon
夕方, 夜 = evening
クリスマス = christmas
""",
)
