// Parts of a page, each with an address.
import { Link, usePlace } from "./router";
import "./tabs.css";

export function Tabs({ path, tabs }: { path: string; tabs: [string, string][] }) {
  const { query } = usePlace();
  const current = query.get("tab") ?? "";
  return (
    <div class="tabs" role="navigation" aria-label="Parts of this page">
      {tabs.map(([name, title]) => (
        <Link key={name} to={path} settings={{ tab: name }} class={name === current ? "current" : ""} aria-current={name === current ? "true" : undefined}>
          {title}
        </Link>
      ))}
    </div>
  );
}
