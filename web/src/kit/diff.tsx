// What changed between two texts, word by word.
import "./diff.css";

const MOST = 400; // words of each; beyond it the texts are shown whole

function words(text: string): string[] {
  return text.split(/(\s+)/).filter((part) => part !== "");
}

/** The words that both have, in order, as pairs of places: the longest common run. */
function common(one: string[], other: string[]): [number, number][] {
  const table = Array.from({ length: one.length + 1 }, () => new Uint16Array(other.length + 1));
  for (let i = one.length - 1; i >= 0; i--)
    for (let j = other.length - 1; j >= 0; j--)
      table[i]![j] = one[i] === other[j] ? table[i + 1]![j + 1]! + 1 : Math.max(table[i + 1]![j]!, table[i]![j + 1]!);
  const pairs: [number, number][] = [];
  for (let i = 0, j = 0; i < one.length && j < other.length; ) {
    if (one[i] === other[j]) pairs.push([i++, j++]);
    else if (table[i + 1]![j]! >= table[i]![j + 1]!) i++;
    else j++;
  }
  return pairs;
}

export function Diff({ before, after }: { before: string; after: string }) {
  const [one, other] = [words(before), words(after)];
  if (one.length > MOST || other.length > MOST) return <div class="diff" dir="auto"><del>{before}</del>{"\n"}<ins>{after}</ins></div>;
  const parts: preact.JSX.Element[] = [];
  let [i, j] = [0, 0];
  for (const [a, b] of [...common(one, other), [one.length, other.length] as [number, number]]) {
    const [gone, come] = [one.slice(i, a).join(""), other.slice(j, b).join("")];
    if (gone) parts.push(<del key={`d${i}`}>{gone}</del>);
    if (come) parts.push(<ins key={`i${j}`}>{come}</ins>);
    if (a < one.length) parts.push(<span key={`s${a}`}>{one[a]}</span>);
    [i, j] = [a + 1, b + 1];
  }
  return <div class="diff" dir="auto">{parts}</div>;
}
