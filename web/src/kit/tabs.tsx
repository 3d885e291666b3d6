// Parts of a page, each with an address.
import { useLayoutEffect, useRef } from "preact/hooks";
import { Link, usePlace } from "./router";
import "./tabs.css";

export function Tabs({ path, tabs }: { path: string; tabs: [string, string][] }) {
  const { query } = usePlace();
  const current = query.get("tab") ?? "";
  const element = useRef<HTMLDivElement>(null);
  // On a narrow screen the chosen part may be beyond the edge.
  useLayoutEffect(() => element.current?.querySelector(".current")?.scrollIntoView({ block: "nearest", inline: "nearest" }), [current]);
  return (
    <div class="tabs" ref={element} role="navigation" aria-label="Parts of this page">
      {tabs.map(([name, title]) => (
        <Link key={name} to={path} settings={{ tab: name }} class={name === current ? "current" : ""} aria-current={name === current ? "true" : undefined}>
          {title}
        </Link>
      ))}
    </div>
  );
}
