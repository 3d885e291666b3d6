// One document: its text part by part, each a memory of its own.
import { useState } from "preact/hooks";
import { call } from "../api/client";
import type { DocumentChunk } from "../api/schema";
import { isAdmin } from "../frame/session";
import { Data } from "../kit/data";
import { Confirm } from "../kit/dialog";
import { bytes, count, several } from "../kit/format";
import { itemPath } from "../kit/item";
import { useLoad } from "../kit/load";
import { address, changeSettings, go, Link, usePlace } from "../kit/router";
import { Button, Facts, Page, Section, ShortId, Show, Time } from "../kit/ui";

const PARTS = 20;

export default function DocumentPage({ id }: { id: string }) {
  const { query } = usePlace();
  const first = Number(query.get("from") ?? 0) || 0;
  const [removing, setRemoving] = useState(false);
  const text = useLoad(["document", id, first], (signal) => call("read_document", { path: { document_id: id }, query: { first, limit: PARTS }, signal }));
  return (
    <Show of={text} lines={10}>
      {({ document, chunks, next_ordinal }) => (
        <Page
          title={<span dir="auto">{document.title || document.name}</span>}
          says={`${bytes(document.bytes)} in ${several(document.chunks, "part")}, revision ${document.revision}, from the source “${document.source}”.`}
          actions={isAdmin() && <Button kind="danger" onClick={() => setRemoving(true)}>Remove…</Button>}
        >
          <div class="split">
            <Section title="Text" aside={first > 0 ? `from part ${first + 1} on` : undefined}>
              {first > 0 && <Button kind="quiet" onClick={() => changeSettings({ from: String(Math.max(0, first - PARTS)) || null })}>Earlier parts</Button>}
              {chunks.map((chunk) => <Part key={chunk.ordinal} chunk={chunk} isWanted={query.get("part") === String(chunk.ordinal)} />)}
              {next_ordinal !== null && <Button onClick={() => changeSettings({ from: String(next_ordinal) })}>Further parts</Button>}
            </Section>
            <aside class="stack">
              <Facts rows={[["name", document.name], ["source", <Link to="/ui/knowledge" settings={{ source: document.source }}>{document.source}</Link>], ["type", document.media_type], ["pages", document.pages], ["characters", count(document.characters)], ["added", <Time at={document.created_at} />], ["changed", <Time at={document.updated_at} />], ["original", document.has_original && isAdmin() && <a href={`/v1/documents/${encodeURIComponent(document.document_id)}/original`} download>download</a>], ["id", <ShortId id={document.document_id} />], ["metadata", Object.keys(document.metadata).length > 0 && <Data value={document.metadata} />]]} />
            </aside>
          </div>
          {removing && (
            <Confirm title="Remove a document" action="Remove" word="remove" danger close={() => setRemoving(false)} run={async () => { await call("delete_document", { path: { document_id: id }, as: {} }); go(address("/ui/knowledge")); }}>
              <p>With it {document.chunks === 1 ? "goes" : "go"} {several(document.chunks, "part")}; nothing cites them any more. This cannot be undone.</p>
            </Confirm>
          )}
        </Page>
      )}
    </Show>
  );
}

function Part({ chunk, isWanted }: { chunk: DocumentChunk; isWanted: boolean }) {
  return (
    <article class={`passage ${isWanted ? "wanted" : ""}`}>
      <p class="item-meta"><Link to={itemPath(chunk.item_id)}>part {chunk.ordinal + 1}</Link>{chunk.heading.length > 0 && <span dir="auto">{chunk.heading.join(" › ")}</span>}{chunk.page && <span>page {chunk.page}</span>}</p>
      <p dir="auto" class="passage-text">{chunk.content}</p>
    </article>
  );
}
