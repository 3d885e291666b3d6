// The search box: recalls while you type. Enter opens Memories with the question, Shift-Enter the playground.
import { useEffect, useRef, useState } from "preact/hooks";
import { call } from "../api/client";
import { inOneLine, itemPath, itemSettings, Marked } from "../kit/item";
import { useKeys } from "../kit/keys";
import { useLoad, useQuiet } from "../kit/load";
import { address, go, usePlace } from "../kit/router";
import { KindLabel } from "../kit/ui";

export function Search() {
  const { path } = usePlace();
  const box = useRef<HTMLInputElement>(null);
  const [text, setText] = useState("");
  const [open, setOpen] = useState(false);
  const [chosen, setChosen] = useState(-1);
  const question = useQuiet(text.trim());
  const found = useLoad(open && question ? ["search", question] : null, (signal) => call("recall", { body: { query: question, top_k: 7 }, signal }));
  const focus = () => box.current?.select();
  useKeys([
    { key: "/", what: "search", run: focus },
    { key: "mod+k", what: "search", run: focus },
  ]);
  useEffect(() => {
    setOpen(false);
    setChosen(-1);
  }, [path]);
  const items = open ? (found.data?.items ?? []) : [];
  const press = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      setChosen((index) => Math.max(-1, Math.min(items.length - 1, index + (event.key === "ArrowDown" ? 1 : -1))));
    } else if (event.key === "Escape") {
      setOpen(false);
      box.current?.blur();
    } else if (event.key === "Enter" && text.trim()) {
      event.preventDefault();
      const item = items[chosen];
      setOpen(false);
      box.current?.blur();
      if (item) go(address(itemPath(item.id), itemSettings(item, question)));
      else go(address(event.shiftKey ? "/ui/playground" : "/ui/memories", { q: text.trim() }));
    }
  };
  return (
    <div class="search" role="search">
      <input ref={box} type="search" value={text} placeholder="Search or ask…" aria-label="Search memory" spellcheck={false} autocomplete="off" onInput={(event) => { setText(event.currentTarget.value); setOpen(true); setChosen(-1); }} onFocus={() => setOpen(true)} onBlur={() => setTimeout(() => setOpen(false), 150)} onKeyDown={press} />
      <kbd>⌘K</kbd>
      {open && question && (
        <div class="search-found">
          {items.map((item, index) => (
            <a key={item.id} class={index === chosen ? "chosen" : ""} href={address(itemPath(item.id), itemSettings(item, question))} onMouseDown={(event) => { event.preventDefault(); setOpen(false); go(address(itemPath(item.id), itemSettings(item, question))); }}>
              <span dir="auto"><Marked text={inOneLine(item.content, 120)} question={question} /></span>
              <KindLabel kind={item.source_kind} />
            </a>
          ))}
          <div class="search-foot">
            {found.error ? found.error.detail : found.data && items.length === 0 ? "Nothing found." : ""}
            <span><kbd>Enter</kbd> all memories</span>
            <span><kbd>Shift Enter</kbd> playground</span>
          </div>
        </div>
      )}
    </div>
  );
}
