// How figures, sizes and times are written.
const whole = new Intl.NumberFormat("en");
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });

export function count(value: number): string {
  return whole.format(value);
}

/** "1 memory", "2 memories". */
export function several(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

export function bytes(value: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let step = 0;
  while (value >= 1000 && step < units.length - 1) {
    value /= 1000;
    step += 1;
  }
  return `${step ? value.toFixed(value < 10 ? 1 : 0) : value} ${units[step]}`;
}

export function milliseconds(value: number): string {
  if (value < 10) return `${value.toFixed(1)} ms`;
  if (value < 1000) return `${Math.round(value)} ms`;
  if (value < 60_000) return `${(value / 1000).toFixed(1)} s`;
  return `${Math.floor(value / 60_000)} min ${Math.round((value % 60_000) / 1000)} s`;
}

export function share(value: number): string {
  return `${Math.round(value * 100)} %`;
}

const STEPS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["year", 31_557_600],
  ["month", 2_629_800],
  ["week", 604_800],
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
];

export function ago(moment: string | Date, now = Date.now()): string {
  const seconds = (new Date(moment).getTime() - now) / 1000;
  for (const [unit, length] of STEPS) if (Math.abs(seconds) >= length) return relative.format(Math.trunc(seconds / length), unit);
  return "just now";
}

export function exactly(moment: string | Date): string {
  return exact.format(new Date(moment));
}

export function onDay(moment: string | Date): string {
  return day.format(new Date(moment));
}

/** "chat_message" as "chat message". */
export function words(name: string): string {
  return name.replaceAll("_", " ");
}

/** The name of a kind of personal data: "us_ssn" as "US SSN". */
export function dataName(kind: string): string {
  return words(kind).replace(/\b(iban|us|ssn|mac|ip|id)\b/g, (letters) => letters.toUpperCase());
}

const ARMS: Record<string, string> = { text: "words", vector: "meaning", entity: "names" };

/** How recall came upon a memory: "words and meaning". */
export function foundBy(arms: string[]): string {
  return `found by ${arms.map(armName).join(", ")}`;
}

/** A way of searching: "vector" as "meaning". */
export function armName(arm: string): string {
  return ARMS[arm] ?? words(arm);
}

const RULES: Record<string, string> = { other_object: "another value", given_up: "given up", prefers_it_no_more: "no longer preferred" };

/** Why the judge ended a fact: "changed work", "another value". */
export function ruleName(rule: string): string {
  return RULES[rule] ?? words(rule).replace(/^other /, "another ");
}

const WEEK = 7 * 86_400_000;

/** What the judge ended in the last seven days; where a person edited a fact, no judge did. */
export function ofThisWeek<R extends { at: string; rule: string }>(rulings: R[]): R[] {
  return rulings.filter((ruling) => ruling.rule !== "edited" && Date.now() - new Date(ruling.at).getTime() < WEEK);
}

/** The beginning of a text in one line, for a row. */
export function firstLine(text: string, most = 300): string {
  const line = text.slice(0, 2 * most).trim().replace(/^- /, "").replace(/\s*\n\s*(?:- )?/g, " · ");
  return line.length > most ? `${line.slice(0, most)}…` : line;
}
