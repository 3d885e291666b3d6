-- The media type of a tool call's result, where it is not plain text: a JSON value, or bytes.
ALTER TABLE tool_calls ADD COLUMN result_type text;
SELECT sample_no_text();
