"""The nodes, functions and types of SQL that a read-only statement may have.

Everything is a list of what is allowed. A feature that a parser or a database gains in future is refused until somebody
adds it here, after three questions: does it change anything, does it read anything but its arguments, and can it make a
large result from a small input? Names are sqlglot's classes if it knows a function, else the name as written.
"""

from __future__ import annotations

NODES = frozenset(
    """
    Add Adjacent Alias All Any AtTimeZone Between BitString BitwiseAnd BitwiseLeftShift BitwiseNot BitwiseOr
    BitwiseRightShift BitwiseXor Boolean Bracket ByteString CTE Column ColumnDef Cube DPipe DataType DataTypeParam Distinct
    Div Dot EQ Escape Except ExtendsLeft ExtendsRight Fetch Filter From GT GTE Glob Group GroupingSets Having HavingMax
    HexString ILike Identifier IgnoreNulls In IntDiv Intersect Interval IntervalSpan Is JSONPath JSONPathKey
    JSONPathRoot JSONPathSelector JSONPathSlice JSONPathSubscript JSONPathWildcard JSONKeyValue Join Kwarg LT LTE Lambda
    Lateral Like
    Limit LimitOptions Literal Mod Mul NEQ National Neg Not Null NullSafeEQ NullSafeNEQ Offset Order Ordered Overlaps
    Paren PropertyEQ Qualify RawString RespectNulls Rollup Select SimilarTo Slice Star Sub Subquery Table TableAlias
    TableSample Tuple UnicodeString Union Values Var Where Window WindowSpec With WithinGroup
    """.split()
)

# Parts that are no nodes of their own, or that would let an allowed node do more than it seems to.
PARTS = {
    "Select": frozenset(
        """with_ expressions distinct from_ laterals joins where group having qualify windows order limit offset
        sample""".split()
    ),
    "Union": frozenset("with_ this expression distinct order limit offset by_name side kind".split()),
    "Intersect": frozenset("with_ this expression distinct order limit offset".split()),
    "Except": frozenset("with_ this expression distinct order limit offset".split()),
    "Subquery": frozenset("this alias with_ joins laterals order limit offset sample".split()),
    "Table": frozenset("this alias db joins laterals only ordinality sample".split()),
    "With": frozenset(["expressions", "recursive"]),
    "CTE": frozenset(["this", "alias", "materialized"]),
    "Join": frozenset("this on side kind using method expressions".split()),
    "Lateral": frozenset(["this", "alias", "ordinality"]),
    "Values": frozenset(["expressions", "alias", "order", "limit", "offset"]),
    "TableSample": frozenset("expressions method percent rows size seed".split()),
    "ColumnDef": frozenset(["this", "kind"]),
}

# Hints to a planner change no answer: they are left out of what runs.
DROPPED_PARTS = {
    "Select": ("hint", "operation_modifiers"),
    "Table": ("hints", "indexed"),
}

FUNCTION_NODES = frozenset(
    """
    Abs Acos Acosh AddMonths And AnyValue ApproxDistinct ApproxQuantile ArgMax ArgMin Array ArrayAgg ArrayAll ArrayAny
    ArrayAppend ArrayCompact ArrayConcat ArrayContainedBy ArrayContains ArrayContainsAll ArrayDistinct ArrayExcept
    ArrayFirst ArrayIntersect ArrayLast ArrayMax ArrayMin ArrayOverlaps ArrayPosition ArrayPrepend ArrayRemove
    ArrayReverse ArraySize ArraySlice ArraySort ArraySum ArrayToString ArrayUniqueAgg Ascii Asin Asinh Atan Atan2 Atanh
    Avg Base64DecodeString Base64Encode BitLength BitwiseAndAgg BitwiseCount BitwiseOrAgg BitwiseXorAgg ByteLength Case
    Cast Cbrt Ceil Chr Coalesce Collate Concat ConcatWs Contains Convert ConvertTimezone Corr Cos Cosh Cot Count CountIf
    CovarPop CovarSamp CumeDist CurrentDate CurrentDatetime CurrentTime CurrentTimestamp Date DateAdd DateBin DateDiff
    DateFromParts DateStrToDate DateSub DateToDateStr DateTrunc Datetime DatetimeAdd DatetimeDiff DatetimeSub
    DatetimeTrunc Day DayOfMonth DayOfWeek DayOfWeekIso DayOfYear Dayname Decode Degrees DenseRank Elt Encode EndsWith
    EqualNull Exists Exp Explode ExplodingGenerateSeries Extract Factorial First FirstValue Floor Format FromBase64
    GenerateSeries
    Greatest GroupConcat Grouping GroupingId Hex Hour If Initcap IsInf IsNan JSONArray JSONArrayAgg JSONArrayContains
    JSONBContains JSONBContainsAllTopKeys JSONBContainsAnyTopKeys JSONBContainsTopKey JSONBDeleteAtPath JSONBExists
    JSONBExtract JSONBExtractScalar JSONBObjectAgg JSONBPathExists JSONExists JSONExtract JSONExtractArray
    JSONExtractScalar JSONFormat JSONKeys JSONObject JSONObjectAgg JSONRemove JSONSet JSONStripNulls JSONType
    JSONValueArray JustifyDays JustifyHours JustifyInterval Kurtosis Lag Last LastDay LastValue Lead Least Left Length
    Levenshtein List Ln Localtime Localtimestamp Log LogicalAnd LogicalOr Lower LowerHex MD5 MD5Digest MakeInterval
    MatchAgainst Max Median Min Minute Mode Month Monthname MonthsBetween Normalize NthValue Ntile Nullif NumberToStr Nvl2
    Or Overlay Pad ParseJSON PercentRank PercentileCont PercentileDisc Pi Pow Quantile Quarter Radians Rand Rank
    RegexpCount RegexpExtract RegexpExtractAll RegexpFullMatch RegexpILike RegexpInstr RegexpLike RegexpReplace
    RegexpSplit RegexpSubstr RegrAvgx RegrAvgy RegrCount RegrIntercept RegrR2 RegrSlope RegrSxx RegrSxy RegrSyy Repeat
    Replace Reverse Right Rint Round RowNumber SHA SHA2 SHA2Digest Second Sign Sin Sinh Skewness Soundex Space Split
    SplitPart Sqrt StartsWith Stddev StddevPop StddevSamp StrPosition StrToDate StrToTime StrToUnix String StringToArray
    Struct StructExtract Stuff Substring SubstringIndex Sum Tan Tanh Time TimeAdd TimeDiff TimeFromParts TimeStrToDate
    TimeStrToTime TimeStrToUnix TimeSub TimeToStr TimeToTimeStr TimeToUnix TimeTrunc Timestamp TimestampAdd TimestampDiff
    TimestampFromParts TimestampSub TimestampTrunc ToArray ToBase64 ToChar ToDays ToDouble ToNumber Translate Trim Trunc
    TryCast TsOrDiToDi TsOrDsAdd TsOrDsDiff TsOrDsToDate TsOrDsToDateStr TsOrDsToDatetime TsOrDsToTime TsOrDsToTimestamp
    Typeof Unhex Unicode UnixDate UnixMicros UnixMillis UnixSeconds UnixToStr UnixToTime UnixToTimeStr Unnest Upper UtcDate
    UtcTime UtcTimestamp Variance VariancePop Week WeekOfYear WidthBucket Xor Year YearOfWeek YearOfWeekIso
    """.split()
)

_POSTGRES = """
    abbrev acosd age array_agg array_append array_cat array_dims array_fill array_length array_lower array_ndims
    array_position array_positions array_prepend array_remove array_replace array_reverse array_sample array_shuffle
    array_sort array_to_json array_to_string array_upper ascii asind atan2d atand bit_and bit_count bit_length bit_or
    bit_xor bool_and bool_or broadcast btrim cardinality casefold cbrt ceil ceiling char_length character_length chr
    clock_timestamp concat concat_ws convert_from convert_to corr cosd cotd covar_pop covar_samp cume_dist date
    date_add date_bin date_part daitch_mokotoff date_subtract date_trunc daterange decode degrees dense_rank
    difference dmetaphone dmetaphone_alt div encode erf erfc every exp extract factorial family first_value floor
    format gamma gcd gen_random_uuid generate_series generate_subscripts get_bit get_byte grouping host hostmask
    inet_merge inet_same_family initcap int4range int8range int4multirange int8multirange isempty isfinite json_agg
    json_array json_array_elements json_array_elements_text json_array_length json_build_array json_build_object
    json_each json_each_text json_extract_path json_extract_path_text json_object json_object_agg json_object_keys
    json_scalar json_strip_nulls json_to_record json_to_recordset json_typeof jsonb_agg jsonb_array_elements
    jsonb_array_elements_text jsonb_array_length jsonb_build_array jsonb_build_object jsonb_each jsonb_each_text
    jsonb_extract_path jsonb_extract_path_text jsonb_insert jsonb_object jsonb_object_agg jsonb_object_keys
    jsonb_path_exists jsonb_path_match jsonb_path_query jsonb_path_query_array jsonb_path_query_first jsonb_pretty
    jsonb_set jsonb_strip_nulls jsonb_to_record jsonb_to_recordset jsonb_typeof justify_days justify_hours
    justify_interval lag last_value lcm lead levenshtein levenshtein_less_equal left length ln localtime
    localtimestamp log log10 lower lower_inc lower_inf lpad ltrim make_date make_interval make_time make_timestamp
    make_timestamptz masklen md5 metaphone min_scale mod mode multirange netmask network normalize now nth_value ntile
    num_nonnulls num_nulls nummultirange numnode numrange octet_length overlay parse_ident percent_rank
    percentile_cont percentile_disc phraseto_tsquery pi plainto_tsquery position power quote_ident quote_literal
    quote_nullable radians random random_normal range_agg range_intersect_agg range_merge rank regexp_count
    regexp_instr regexp_like regexp_match regexp_matches regexp_replace regexp_split_to_array regexp_split_to_table
    regexp_substr regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy repeat
    replace reverse right round row row_number row_to_json rpad rtrim scale set_masklen setweight sha224 sha256 sha384
    sha512 show_trgm sign similarity sind soundex split_part sqrt starts_with statement_timestamp stddev stddev_pop
    stddev_samp strict_word_similarity string_agg string_to_array string_to_table strip strpos substr substring sum
    tand text timeofday timezone to_ascii to_char to_date to_hex to_json to_jsonb to_number to_timestamp to_tsquery
    to_tsvector transaction_timestamp translate trim_array trim_scale trunc ts_delete ts_filter ts_headline ts_rank
    ts_rank_cd tsmultirange tsquery_phrase tsrange tstzmultirange tstzrange tsvector_to_array unaccent
    unicode_assigned unistr unnest upper upper_inc upper_inf uuid_extract_timestamp uuid_extract_version var_pop
    var_samp variance websearch_to_tsquery width_bucket word_similarity
"""
_MYSQL = """
    addtime any_value bin bit_and bit_count bit_length bit_or bit_xor ceiling char char_length character_length conv
    convert_tz crc32 curdate curtime date datediff date_format dayname dayofmonth dayofweek dayofyear elt export_set field
    find_in_set format from_days from_unixtime get_format hex inet_aton inet_ntoa inet6_aton inet6_ntoa insert interval
    isnull json_array json_array_length json_arrayagg json_contains json_contains_path json_depth json_extract json_exists
    json_keys json_length json_merge_patch json_merge_preserve json_object json_objectagg json_overlaps json_pretty
    json_query json_quote json_search json_type json_unquote json_valid json_value last_day locate log10 log2 lpad
    ltrim make_set makedate maketime microsecond mid minute mod month monthname natural_sort_key now nvl nvl2
    octet_length sysdate
    ord period_add period_diff position quarter quote regexp_instr regexp_like regexp_replace regexp_substr rpad rtrim
    sec_to_time sha sha1 sha2 soundex space std stddev_pop stddev_samp strcmp str_to_date subdate subtime
    substring_index time timediff time_format timestampadd timestampdiff time_to_sec to_base64 to_days to_seconds
    truncate unhex unix_timestamp utc_date utc_time utc_timestamp uuid var_pop var_samp week weekday weekofyear
    yearweek
"""
_SQLITE = """
    acos acosh asin asinh atan atan2 atanh ceil ceiling char concat concat_ws cos cosh date datetime degrees exp
    format glob group_concat hex ifnull iif instr json json_array json_array_length json_each json_error_position
    json_extract json_group_array json_group_object json_insert json_object json_patch json_pretty json_quote json_remove
    json_replace json_set json_tree json_type json_valid julianday like likelihood likely ln log log10 log2 ltrim mod
    nullif octet_length percentile pi pow power printf quote radians random replace round rtrim sign sin sinh soundex
    sqrt strftime string_agg substr substring tan tanh time timediff total trim trunc typeof unhex unicode unistr
    unixepoch unlikely generate_series
"""
_DUCKDB = """
    age any_value apply approx_count_distinct approx_quantile arg_max arg_min array_agg array_length array_slice bar
    bin bit_count bool_and bool_or century contains count_star damerau_levenshtein date_add date_diff date_part
    date_sub date_trunc datediff datepart datetrunc dayname dayofmonth dayofweek dayofyear decade editdist3 ends_with
    entropy epoch epoch_ms epoch_ns epoch_us era even favg fdiv first flatten fmod format formatReadableSize fsum gcd
    generate_series generate_subscripts hamming hash histogram isfinite isinf isnan isodow isoyear jaccard
    jaro_similarity jaro_winkler_similarity json json_array json_array_length json_contains json_each json_extract
    json_extract_path json_extract_path_text json_extract_string json_group_array json_group_object json_keys
    json_object json_quote json_tree json_type json_valid json_value kurtosis last lcm left length_grapheme
    levenshtein list list_aggregate list_any_value list_append list_avg list_concat list_contains list_count
    list_distinct list_element list_extract list_filter list_has list_has_all list_has_any list_indexof list_intersect
    list_max list_median list_min list_mode list_pack list_position list_prepend list_reverse list_reverse_sort
    list_slice list_sort list_sum list_transform list_unique list_value list_zip ltrim mad make_date make_time
    make_timestamp map map_contains map_entries map_extract map_from_entries map_keys map_values max_by md5 median
    microsecond millennium millisecond min_by mismatches mode monthname nanosecond nfc_normalize ord parse_filename
    percent_rank product quantile quantile_cont quantile_disc quarter range regexp_extract regexp_extract_all
    regexp_full_match regexp_matches regexp_replace regexp_split_to_array regexp_split_to_table reverse row row_number
    rtrim sem sha256 signbit skewness split_part starts_with str_split str_split_regex strftime string_agg
    string_split string_to_array strip_accents strlen strptime struct_extract struct_insert struct_pack substr
    substring suffix time_bucket timezone timezone_hour timezone_minute to_centuries to_days to_decades to_hours
    to_json to_microseconds to_milliseconds to_minutes to_months to_seconds to_timestamp to_weeks to_years today
    translate trim trunc try_strptime typeof unicode unnest uuid weekday weekofyear xor yearweek
"""
FUNCTION_NAMES = {
    "postgres": frozenset(_POSTGRES.split()),
    "mysql": frozenset(_MYSQL.split()),
    "sqlite": frozenset(_SQLITE.split()),
    "duckdb": frozenset(name.lower() for name in _DUCKDB.split()),
}

_COMPARISONS = "+ - * / % = <> != < > <= >= || & | ~ << >> -> ->>"
OPERATORS = {
    "postgres": frozenset(
        f"""{_COMPARISONS} ^ # #> #>> #- @> <@ ? ?| ?& @? @@ && -|- &< &> |/ ||/ ~* !~ !~* ~~ ~~* !~~ !~~* ^@ =>""".split()
    ),
    "mysql": frozenset(f"{_COMPARISONS} ^ <=> && !".split()),
    "sqlite": frozenset(f"{_COMPARISONS} ==".split()),
    "duckdb": frozenset(f"{_COMPARISONS} ^ // ** == @> <@ && ~* !~ !~* ~~ ~~* !~~ !~~* ~~~ ^@ @ =>".split()),
}
"""The operators that the parser reads as the database does. It would take others apart, or for those of another database."""
SIGNS = frozenset("+-~")
"""Operators that may follow another one without a blank, as in `a=-1`."""
OPERATOR_CHARACTERS = frozenset("+-*/<>=~!@#%^&|?")
# PostgreSQL reads all characters as one operator. Only without any of these does a `+` or `-` at its end stand alone.
GLUE = frozenset("~!@#%^&|?")
OPENING_WORDS = frozenset(
    """SELECT WHERE AND OR NOT ON WHEN THEN ELSE CASE BY HAVING IN BETWEEN LIKE ILIKE DISTINCT ALL LIMIT OFFSET L_PAREN
    L_BRACKET COMMA""".split()
)
"""Tokens after which an operator has nothing on its left."""

# How long a text may become is told by one argument of each: it must be a small number, written out.
SIZED_NODES = {"Repeat": "times", "Pad": "expression", "Space": "this"}
SIZED_NAMES = {"lpad": 1, "rpad": 1, "repeat": 1, "space": 0, "array_fill": 1, "bar": 3}
FORMATS = frozenset(["printf", "format"])
MAX_SIZE = 10_000

# Types that look things up by name (`regclass`) or are somebody's own are missing here.
TYPES = frozenset(
    """
    ARRAY BIGINT BINARY BIT BLOB BOOLEAN BPCHAR CHAR DATE DATEMULTIRANGE DATERANGE DATETIME DECIMAL DOUBLE FLOAT INET INT
    INT128 INT4MULTIRANGE INT4RANGE INT8MULTIRANGE INT8RANGE INTERVAL JSON JSONB LIST LONGTEXT MAP MEDIUMINT
    MEDIUMTEXT MONEY NCHAR NULL NUMMULTIRANGE NUMRANGE NVARCHAR SMALLINT STRUCT TEXT TIME TIMESTAMP TIMESTAMPLTZ
    TIMESTAMPNTZ TIMESTAMPTZ TIMESTAMP_MS TIMESTAMP_NS TIMESTAMP_S TIMETZ TINYINT TINYTEXT TSMULTIRANGE TSRANGE
    TSTZMULTIRANGE TSTZRANGE UBIGINT UINT USMALLINT UTINYINT UUID VARBINARY VARCHAR YEAR
    """.split()
)
"""Names of sqlglot's data types that a cast may have."""

# Columns that every PostgreSQL table has besides its own, and what is said about others through them.
SESSION_WORDS = frozenset(
    ["user", "current_user", "session_user", "system_user", "current_role", "current_catalog", "current_schema"]
)
"""Words that look like columns and tell who is connected."""
SYSTEM_COLUMNS = frozenset(["tableoid", "ctid", "xmin", "xmax", "cmin", "cmax"])
