/** Text in which backticks mark code. */
export function Coded({ text }: { text: string | null | undefined }) {
  return <>{(text ?? "").split("`").map((part, index) => (index % 2 ? <code key={index}>{part}</code> : part))}</>;
}
