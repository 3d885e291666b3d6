// The API documentation: a page of our own over /openapi.json, apart from the dashboard.
import { render } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { Coded } from "./kit/coded";
import "./docs.css";

interface Schema { [key: string]: unknown; $ref?: string; type?: string; description?: string; enum?: unknown[]; items?: Schema; anyOf?: Schema[]; properties?: Record<string, Schema>; required?: string[]; default?: unknown; examples?: unknown[]; additionalProperties?: Schema | boolean }
interface Parameter { name: string; in: string; required?: boolean; description?: string; schema?: Schema }
interface Operation { operationId: string; summary?: string; description?: string; tags?: string[]; parameters?: Parameter[]; requestBody?: { content: Record<string, { schema: Schema }> }; responses: Record<string, { description?: string; content?: Record<string, { schema?: Schema }> }> }
interface Description { info: { title: string; version: string; summary?: string }; tags: { name: string; description: string }[]; paths: Record<string, Record<string, Operation>>; components: { schemas: Record<string, Schema> } }
interface Entry { method: string; path: string; operation: Operation }

function Docs() {
  const [description, setDescription] = useState<Description>();
  const [failed, setFailed] = useState(false);
  const [wanted, setWanted] = useState("");
  useEffect(() => {
    fetch("/openapi.json").then((answer) => answer.json()).then(setDescription, () => setFailed(true));
  }, []);
  const groups = useMemo(() => grouped(description, wanted), [description, wanted]);
  useEffect(() => {
    if (description && location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
  }, [description]);
  if (failed) return <main class="docs-page"><div class="error">/openapi.json cannot be read.</div></main>;
  if (!description) return <div class="docs"><nav aria-label="Operations"><a href="/" class="docs-brand"><span class="logo">◆</span> Recordari</a></nav><main class="docs-page"><h1>API</h1><div class="skeleton" aria-hidden="true">{Array.from({ length: 8 }, (_, line) => <div key={line} />)}</div></main></div>;
  return (
    <div class="docs">
      <nav aria-label="Operations">
        <a href="/" class="docs-brand"><span class="logo">◆</span> Recordari {description.info.version}</a>
        <input type="search" placeholder="Find an operation" aria-label="Find an operation" value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />
        {groups.map(([tag, entries]) => (
          <details key={tag} open={wanted !== ""}>
            <summary>{tag}</summary>
            {entries.map((entry) => <a key={entry.operation.operationId} href={`#${entry.operation.operationId}`}>{entry.operation.operationId}</a>)}
          </details>
        ))}
      </nav>
      <main class="docs-page">
        <p class="docs-narrow"><a href="/">← Dashboard</a></p>
        <h1>API</h1>
        <p class="says">{description.info.summary} Send <code>Authorization: Bearer &lt;key&gt;</code> with every request. The description for programs is at <a href="/openapi.json">/openapi.json</a>.</p>
        {groups.map(([tag, entries]) => (
          <section key={tag} class="section">
            <header><h2>{tag}</h2><span class="aside">{description.tags.find((each) => each.name === tag)?.description}</span></header>
            {entries.map((entry) => <Shown key={entry.operation.operationId} entry={entry} description={description} />)}
          </section>
        ))}
      </main>
    </div>
  );
}

function grouped(description: Description | undefined, wanted: string): [string, Entry[]][] {
  if (!description) return [];
  const groups = new Map<string, Entry[]>(description.tags.map((tag) => [tag.name, []]));
  for (const [path, methods] of Object.entries(description.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const text = `${operation.operationId} ${path} ${operation.description ?? ""}`.toLowerCase();
      if (text.includes(wanted.toLowerCase())) groups.get(operation.tags?.[0] ?? "health")?.push({ method: method.toUpperCase(), path, operation });
    }
  }
  return [...groups].filter(([, entries]) => entries.length > 0);
}

function Shown({ entry, description }: { entry: Entry; description: Description }) {
  const { method, path, operation } = entry;
  const [open, setOpen] = useState(location.hash === `#${operation.operationId}`);
  const body = Object.values(operation.requestBody?.content ?? {})[0]?.schema;
  const answers = Object.entries(operation.responses).filter(([status]) => status.startsWith("2"));
  const parameters = (operation.parameters ?? []).filter((each) => !each.name.startsWith("Recordari-"));
  return (
    <details class="operation" id={operation.operationId} open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary><code class={`method ${method}`}>{method}</code> <code class="path">{path}</code> <span class="muted"><Coded text={(operation.description ?? operation.summary ?? "").split("\n")[0]} /></span></summary>
      {open && (
        <div class="operation-body">
          {(operation.description ?? "").split("\n").slice(1).join("\n").trim() && <p><Coded text={(operation.description ?? "").split("\n").slice(1).join("\n").trim()} /></p>}
          {parameters.length > 0 && <table><thead><tr><th>parameter</th><th>in</th><th>type</th><th>meaning</th></tr></thead><tbody>{parameters.map((each) => <tr key={each.in + each.name}><td><code>{each.name}</code>{each.required ? " *" : ""}</td><td>{each.in}</td><td><Type schema={each.schema ?? {}} /></td><td>{each.description}</td></tr>)}</tbody></table>}
          {body && <><h3>Body</h3><Model schema={body} description={description} /></>}
          {answers.map(([status, answer]) => <div key={status}><h3>Answer {status}</h3>{Object.values(answer.content ?? {})[0]?.schema ? <Model schema={Object.values(answer.content ?? {})[0]?.schema ?? {}} description={description} /> : <p class="muted">no body</p>}</div>)}
          <h3>Example</h3>
          <pre>{example(entry, body, description)}</pre>
        </div>
      )}
    </details>
  );
}

function resolved(schema: Schema, description: Description): Schema {
  const name = schema.$ref?.split("/").pop();
  return name ? (description.components.schemas[name] ?? {}) : schema;
}

function nameOf(schema: Schema): string {
  if (schema.$ref) return schema.$ref.split("/").pop() ?? "";
  if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(" | ");
  if (schema.anyOf) return schema.anyOf.map(nameOf).join(" | ");
  if (schema.type === "array") return `${nameOf(schema.items ?? {})}[]`;
  return schema.type ?? "any";
}

function Type({ schema }: { schema: Schema }) {
  return <code>{nameOf(schema)}</code>;
}

function Model({ schema, description, depth = 0 }: { schema: Schema; description: Description; depth?: number }) {
  const inner = schema.type === "array" ? (schema.items ?? {}) : (schema.anyOf?.find((each) => each.$ref) ?? schema);
  const whole = resolved(inner, description);
  const fields = Object.entries(whole.properties ?? {});
  if (fields.length === 0) return <p><Type schema={schema} />{whole.enum ? ` = ${nameOf(whole)}` : ""}</p>;
  return (
    <div class="model">
      {depth === 0 && <p class="muted small"><Type schema={schema} /> {whole.description}</p>}
      <table><tbody>
        {fields.map(([name, field]) => (
          <tr key={name}>
            <td><code>{name}</code>{whole.required?.includes(name) ? " *" : ""}</td>
            <td><Type schema={field} /></td>
            <td><Coded text={field.description} />{depth < 2 && hasFields(field, description) && <details><summary>fields</summary><Model schema={field} description={description} depth={depth + 1} /></details>}</td>
          </tr>
        ))}
      </tbody></table>
    </div>
  );
}

function hasFields(schema: Schema, description: Description): boolean {
  const inner = schema.type === "array" ? (schema.items ?? {}) : (schema.anyOf?.find((each) => each.$ref) ?? schema);
  return Boolean(inner.$ref && resolved(inner, description).properties);
}

function example({ method, path }: Entry, body: Schema | undefined, description: Description): string {
  const lines = [`curl -X ${method} ${location.origin}${path}`, `  -H "Authorization: Bearer $KEY"`];
  if (body) {
    const whole = resolved(body.anyOf?.find((each) => each.$ref) ?? body, description);
    lines.push(`  -H "Content-Type: application/json"`, `  -d '${JSON.stringify(whole.examples?.[0] ?? {})}'`);
  }
  return lines.join(" \\\n");
}

const root = document.getElementById("app");
if (root) render(<Docs />, root);
