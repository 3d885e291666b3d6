// Knowledge: documents with a search, the sources they come from, and connected databases with a query box and its audit.
import { useRef, useState } from "preact/hooks";
import { addDocument, call } from "../api/client";
import type { ConnectedDatabase, DataAnswer, Document, Source } from "../api/schema";
import { forTenant, isAdmin } from "../frame/session";
import { Lines } from "../kit/data";
import { Confirm } from "../kit/dialog";
import { bytes, count, firstLine, milliseconds, several, words } from "../kit/format";
import { Marked } from "../kit/item";
import { usePages } from "../kit/list";
import { useLoad, useQuiet } from "../kit/load";
import { changeSettings, Link, usePlace } from "../kit/router";
import { DataTable, useAction } from "../kit/table";
import { Tabs } from "../kit/tabs";
import { Badge, Button, Choice, Empty, ErrorBox, Page, Pairs, Section, Show, TextField, Time } from "../kit/ui";

const PATH = "/ui/knowledge";

export function documentPath(id: string): string {
  return `/ui/documents/${id}`;
}

export default function Knowledge() {
  const { query } = usePlace();
  const tab = query.get("tab") ?? "";
  const sources = useLoad(["sources"], (signal) => call("list_sources", { query: { limit: 100 }, signal }));
  const databases = useLoad(["databases"], (signal) => call("list_databases", { signal }));
  const documents = sources.data?.items.reduce((sum, source) => sum + source.documents, 0) ?? 0;
  const says = sources.data && databases.data && `${several(documents, "document")} from ${several(sources.data.items.length, "source")}; ${several(databases.data.length, "database")} connected.`;
  return (
    <Page title="Knowledge" says={says}>
      <Tabs path={PATH} tabs={[["", "Documents"], ["sources", "Sources"], ["databases", "Databases"]]} />
      {tab === "sources" ? <Show of={sources} lines={6}>{(page) => <Sources sources={page.items} reload={sources.reload} />}</Show> : tab === "databases" ? <Show of={databases} lines={6}>{(list) => <Databases databases={list} reload={databases.reload} />}</Show> : <Documents sources={sources.data?.items ?? []} />}
    </Page>
  );
}

function Documents({ sources }: { sources: Source[] }) {
  const { query } = usePlace();
  const source = query.get("source") ?? "";
  const question = useQuiet((query.get("q") ?? "").trim(), 180);
  const pages = usePages<Document>(["documents", source], (cursor, signal) => call("list_documents", { query: { source: source || undefined, limit: 50, cursor }, signal }));
  return (
    <>
      <div class="filters" role="search">
        <div class="field grow"><TextField label="Question" value={query.get("q") ?? ""} placeholder="Search in the documents" onInput={(value) => changeSettings({ q: value }, { replace: true })} /></div>
        <Choice label="Source" value={source} any="all sources" options={sources.filter((each) => each.kind === "documents").map((each): [string, string] => [each.name, each.name])} onChange={(value) => changeSettings({ source: value }, { replace: true })} />
        {isAdmin() && <Upload source={source} done={pages.reload} />}
      </div>
      {question ? <Found question={question} source={source} /> : (
        <>
          {pages.error && <ErrorBox error={pages.error} retry={pages.reload} />}
          {!pages.loading && pages.rows.length === 0 && !pages.error && <Empty title="No document yet." command={forTenant(`recordari document add handbook.pdf`)}>Add a text, Markdown, HTML, PDF, docx, pptx or sheet, or an image with a caption. Answers cite it by document, heading and page.</Empty>}
          {pages.rows.length > 0 && (
            <DataTable<Document>
              label="Documents"
              rows={pages.rows}
              keyOf={(document) => document.document_id}
              columns={[
                { title: "document", cell: (document) => <Link to={documentPath(document.document_id)}><span dir="auto" class="cell-text">{document.title || document.name}</span></Link> },
                { title: "source", cell: (document) => document.source },
                { title: "revision", cell: (document) => document.revision, class: "number" },
                { title: "parts", cell: (document) => count(document.chunks), class: "number" },
                { title: "size", cell: (document) => bytes(document.bytes), class: "number nowrap" },
                { title: "changed", cell: (document) => <Time at={document.updated_at} />, class: "nowrap" },
              ]}
            />
          )}
          {!pages.done && !pages.loading && !pages.error && <Button kind="quiet" onClick={pages.more}>More documents</Button>}
        </>
      )}
    </>
  );
}

function Upload({ source, done }: { source: string; done: () => void }) {
  const box = useRef<HTMLInputElement>(null);
  const { run, error, busy } = useAction();
  const send = (file: File) => run(() => addDocument(file, source || undefined).then(done));
  return (
    <div class="field">
      <input ref={box} type="file" hidden aria-label="A document to add" onChange={(event) => { const file = event.currentTarget.files?.[0]; if (file) void send(file); event.currentTarget.value = ""; }} />
      <Button disabled={busy} onClick={() => box.current?.click()}>{busy ? "Adding…" : "Add a document"}</Button>
      {error && <ErrorBox error={error} />}
    </div>
  );
}

function Found({ question, source }: { question: string; source: string }) {
  const body = { query: question, top_k: 10, source: source || undefined };
  const found = useLoad(["knowledge", body], (signal) => call("search_knowledge", { body, signal }));
  return (
    <Show of={found} lines={6}>
      {(answer) => answer.items.length === 0 ? <Empty title="No document answers this." /> : (
        <div class="rows" role="list" aria-label="Passages found">
          {answer.items.map((item) => (
            <article class="passage" role="listitem" key={item.id}>
              <p dir="auto"><Marked text={firstLine(item.content, 700)} question={question} /></p>
              <p class="item-meta">{item.citation && <Link to={documentPath(item.citation.document_id)} settings={{ from: String(Math.max(0, item.citation.ordinal - 2)), part: String(item.citation.ordinal) }}>{item.citation.title || item.citation.document}</Link>}{item.citation?.heading.length ? <span>{item.citation.heading.join(" › ")}</span> : null}{item.citation?.page && <span>page {item.citation.page}</span>}<span>score {item.score.toFixed(2)}</span></p>
            </article>
          ))}
        </div>
      )}
    </Show>
  );
}

function Sources({ sources, reload }: { sources: Source[]; reload: () => void }) {
  const { run, error, busy } = useAction();
  const [removing, setRemoving] = useState<Source>();
  const map = useLoad(["knowledge-map"], (signal) => call("knowledge_map", { signal }));
  return (
    <>
      {error && <ErrorBox error={error} />}
      {sources.length === 0 ? <Empty title="No source yet." command={forTenant(`recordari source add handbook --description 'How we work'`)}>A source names where documents come from, or what a tool can look up.</Empty> : (
        <DataTable<Source>
          label="Sources"
          rows={sources}
          keyOf={(source) => source.source_id}
          columns={[
            { title: "source", cell: (source) => source.kind === "documents" ? <Link to={PATH} settings={{ source: source.name }}>{source.name}</Link> : source.name },
            { title: "kind", cell: (source) => <Badge>{source.kind}</Badge> },
            { title: "description", cell: (source) => <span dir="auto" class="cell-text">{source.description}</span> },
            { title: "documents", cell: (source) => count(source.documents), class: "number" },
            { title: "parts", cell: (source) => count(source.chunks), class: "number" },
            { title: "changed", cell: (source) => <Time at={source.updated_at} />, class: "nowrap" },
            ...(isAdmin() ? [{ title: "", cell: (source: Source) => <span class="actions">{source.sync && <Button disabled={busy} onClick={() => run(() => call("start_sync", { path: { source_id: source.source_id }, as: {} }).then(reload))}>Sync</Button>}<Button kind="danger" onClick={() => setRemoving(source)}>Remove…</Button></span>, class: "right" }] : []),
          ]}
        />
      )}
      <Section title="Knowledge map" aside="what a context tells an agent"><Show of={map}>{(shown) => shown.text ? <Lines text={shown.text} /> : <p class="muted">Empty.</p>}</Show></Section>
      {removing && (
        <Confirm title="Remove a source" action="Remove" word="remove" danger close={() => setRemoving(undefined)} run={() => call("remove_source", { path: { source_id: removing.source_id }, as: {} }).then(reload)}>
          <p>With “{removing.name}” {removing.documents === 1 ? "goes" : "go"} {several(removing.documents, "document")} and {several(removing.chunks, "part")}. This cannot be undone.</p>
        </Confirm>
      )}
    </>
  );
}

function Databases({ databases, reload }: { databases: ConnectedDatabase[]; reload: () => void }) {
  const { run, error, busy } = useAction();
  if (databases.length === 0) return <Empty title="No database is connected." command={forTenant(`echo postgresql://reader@db.example.org/shop | recordari database add shop --table orders`)}>Agents may ask a connected database, in SELECTs over the tables and columns that you allow, and nothing else.</Empty>;
  return (
    <>
      {error && <ErrorBox error={error} />}
      {databases.map((database) => (
        <Section key={database.database_id} title={database.name} aside={<>{database.engine} · read <Time at={database.refreshed_at} />{isAdmin() && <> <Button kind="quiet" disabled={busy} onClick={() => run(() => call("refresh_database", { path: { database_id: database.database_id }, as: {} }).then(reload))}>Read the schema again</Button></>}</>}>
          {database.description && <p dir="auto">{database.description}</p>}
          {database.warnings.map((warning) => <div class="note" key={warning}>{warning}</div>)}
          <p class="muted small">You and your agents may read: {Object.entries(database.tables).map(([table, columns]) => `${table} (${columns ? columns.join(", ") : "all columns"})`).join(" · ")}</p>
          <Ask database={database} />
        </Section>
      ))}
    </>
  );
}

function Ask({ database }: { database: ConnectedDatabase }) {
  const [sql, setSql] = useState("");
  const [answer, setAnswer] = useState<DataAnswer>();
  const { run, error, busy } = useAction();
  const audit = useLoad(isAdmin() ? ["database-audit", database.database_id] : null, (signal) => call("list_audit", { query: { subject_kind: "database", subject_id: database.database_id, limit: 10 }, signal, as: {} }));
  const ask = (event: Event) => {
    event.preventDefault();
    const isSql = /^\s*(select|with|table|values)\b/i.test(sql);
    void run(async () => {
      setAnswer(undefined);
      setAnswer(await call("query_data", { body: { database: database.name, ...(isSql ? { sql } : { question: sql }) } }));
    }).then(audit.reload);
  };
  return (
    <>
      <form class="stack" onSubmit={ask}>
        <label class="field"><span>A question, or one SELECT. Only these tables can be read, nothing can be changed, and each question is kept in the audit.</span><textarea value={sql} spellcheck={false} class="code" placeholder={`SELECT count(*) FROM ${Object.keys(database.tables)[0] ?? "orders"}`} onInput={(event) => setSql(event.currentTarget.value)} /></label>
        <div class="actions"><Button kind="main" type="submit" disabled={busy || !sql.trim()}>{busy ? "Asking…" : "Ask"}</Button></div>
      </form>
      {error && <ErrorBox error={error} />}
      {answer && (
        <>
          <p class="muted small">{several(answer.rows.length, "row")}{answer.truncated ? " (cut)" : ""} after {milliseconds(answer.seconds * 1000)}{answer.written_by === "caller" ? "" : `; the SELECT was written by ${words(answer.written_by)}`}.</p>
          {answer.written_by !== "caller" && <pre>{answer.sql}</pre>}
          <DataTable<[number, unknown[]]> label="Answer" rows={answer.rows.map((row, index): [number, unknown[]] => [index, row])} keyOf={([index]) => index} columns={answer.columns.map((column, place) => ({ title: column, cell: ([, row]) => <span dir="auto" class="cell-text">{row[place] === null ? <span class="muted">null</span> : String(row[place])}</span> }))} />
        </>
      )}
      <Show of={audit} lines={1}>
        {(page) => page.items.length > 0 && (
          <details>
            <summary>{page.items.length === 1 ? "The last entry of the audit" : `The last ${page.items.length} entries of the audit`}</summary>
            <DataTable label="Audit of the database" rows={page.items} keyOf={(entry) => entry.audit_id} columns={[{ title: "when", cell: (entry) => <Time at={entry.at} />, class: "nowrap" }, { title: "action", cell: (entry) => entry.action }, { title: "actor", cell: (entry) => <span class="cell-text">{entry.actor}</span> }, { title: "details", cell: (entry) => <Pairs of={entry.details} /> }]} />
          </details>
        )}
      </Show>
    </>
  );
}
