// Entities: the people, things and places in memory, and the memories that link them.
import { useMemo } from "preact/hooks";
import { call } from "../api/client";
import type { EntityGraph, EntityNode, Item } from "../api/schema";
import { forTenant } from "../frame/session";
import { count, several } from "../kit/format";
import { ItemRow, shownItem } from "../kit/item";
import { usePages } from "../kit/list";
import { useLoad } from "../kit/load";
import { changeSettings, Link, usePlace } from "../kit/router";
import { Button, Choice, Empty, ErrorBox, Page, Section, Show, Skeleton, TextField } from "../kit/ui";
import { Graph, HUES } from "./graph";
import "./entities.css";

const KINDS: Record<EntityNode["kind"], string> = { person: "speaker", name: "name", term: "quoted", identifier: "identifier", email: "e-mail" };

export default function Entities() {
  const { query } = usePlace();
  const around = query.get("around") ?? "";
  const limit = Number(query.get("limit") ?? 100) || 100;
  const graph = useLoad(["entities", around, limit], (signal) => call("entity_graph", { query: { around: around || undefined, limit }, signal }));
  const centre = graph.data?.nodes.find((node) => node.entity_id === around);
  const says = graph.data && (graph.data.nodes.length === 0 ? undefined : `${several(graph.data.nodes.length, "entity", "entities")}${centre ? ` around ${centre.name}` : ""} and ${several(graph.data.links.length, "link")}, in the newest ${several(graph.data.looked_at, "memory", "memories")}.`);
  return (
    <Page title="Entities" says={says}>
      <div class="filters">
        <TextField label="Find" value={query.get("find") ?? ""} placeholder="a name" onInput={(value) => changeSettings({ find: value }, { replace: true })} />
        <Choice label="Kind" value={(query.get("kind") ?? "") as EntityNode["kind"]} any="all" options={(Object.keys(KINDS) as EntityNode["kind"][]).map((kind): [EntityNode["kind"], string] => [kind, KINDS[kind]])} onChange={(kind) => changeSettings({ kind }, { replace: true })} />
        <Choice label="Most" value={String(limit)} options={["50", "100", "300", "1000"]} onChange={(value) => changeSettings({ limit: value }, { replace: true })} />
        {around && <Button onClick={() => changeSettings({ around: null, entity: null, other: null })}>All entities</Button>}
      </div>
      <Show of={graph} lines={10}>
        {(data) => data.nodes.length === 0 ? <Empty title="No names yet." command={forTenant(`recordari remember "Ilse Brandt moved to Bergen" --user ana`)}>Names in memories appear here, joined by the memories that mention both.</Empty> : <Shown graph={data} />}
      </Show>
    </Page>
  );
}

function Shown({ graph }: { graph: EntityGraph }) {
  const { query } = usePlace();
  const chosen = query.get("entity");
  const other = query.get("other");
  const find = (query.get("find") ?? "").trim().toLowerCase();
  const kind = query.get("kind");
  const filtered = useMemo(() => {
    const nodes = graph.nodes.filter((node) => (!kind || node.kind === kind) && (!find || node.name.toLowerCase().includes(find)));
    const ids = new Set(nodes.map((node) => node.entity_id));
    return nodes.length === graph.nodes.length ? graph : { ...graph, nodes, links: graph.links.filter((link) => ids.has(link.one_id) && ids.has(link.other_id)) };
  }, [graph, find, kind]);
  const choose = (id: string | null) => changeSettings({ entity: id, other: null }, { replace: true });
  const names = useMemo(() => new Map(graph.nodes.map((node) => [node.entity_id, node])), [graph]);
  const node = chosen ? names.get(chosen) : undefined;
  return (
    <>
      <div class="split">
        <div class="stack">
          <Graph graph={filtered} chosen={chosen} choose={choose} />
          <div class="entity-key">{(Object.keys(KINDS) as EntityNode["kind"][]).map((each) => <span key={each}><i class={`swatch hue-${HUES[each]}`} />{KINDS[each]}</span>)}<span>larger: in more memories</span></div>
        </div>
        <aside class="stack">{node ? <Neighbours node={node} graph={graph} names={names} choose={choose} /> : <Names nodes={filtered.nodes} choose={choose} />}</aside>
      </div>
      {node && <Memories key={`${chosen} ${other}`} node={node} other={other ? names.get(other) : undefined} />}
    </>
  );
}

function Names({ nodes, choose }: { nodes: EntityNode[]; choose: (id: string) => void }) {
  return (
    <Section title="In most memories" aside={several(nodes.length, "entity", "entities")}>
      <div class="entity-list">
        {nodes.slice(0, 300).map((node) => (
          <button type="button" key={node.entity_id} onClick={() => choose(node.entity_id)}>
            <i class={`swatch hue-${HUES[node.kind]}`} /><span dir="auto">{node.name}</span><span class="muted">{count(node.items)}</span>
          </button>
        ))}
      </div>
    </Section>
  );
}

function Neighbours({ node, graph, names, choose }: { node: EntityNode; graph: EntityGraph; names: Map<string, EntityNode>; choose: (id: string | null) => void }) {
  const { query } = usePlace();
  const links = graph.links.filter((link) => link.one_id === node.entity_id || link.other_id === node.entity_id);
  return (
    <Section title={node.name} aside={<Button kind="quiet" onClick={() => choose(null)}>All</Button>}>
      <p class="muted">{KINDS[node.kind]}, in {several(node.items, "memory", "memories")}. <Link to="/ui/entities" settings={{ around: node.entity_id, entity: node.entity_id }}>Only around it</Link></p>
      <div class="entity-list">
        {links.map((link) => {
          const there = names.get(link.one_id === node.entity_id ? link.other_id : link.one_id);
          return there && (
            <button type="button" key={there.entity_id} class={query.get("other") === there.entity_id ? "chosen" : ""} title="the memories that name both" onClick={() => changeSettings({ other: there.entity_id }, { replace: true })}>
              <i class={`swatch hue-${HUES[there.kind]}`} /><span dir="auto">{there.name}</span><span class="muted">{count(link.items)}</span>
            </button>
          );
        })}
        {links.length === 0 && <p class="muted">Nothing else is named with it.</p>}
      </div>
    </Section>
  );
}

function Memories({ node, other }: { node: EntityNode; other: EntityNode | undefined }) {
  const pages = usePages<Item>(["entity-items", node.entity_id, other?.entity_id], (cursor, signal) => call("entity_items", { path: { entity_id: node.entity_id }, query: { other_id: other?.entity_id, limit: 20, cursor }, signal }));
  return (
    <Section title={other ? `Memories that name ${node.name} and ${other.name}` : `Memories that name ${node.name}`}>
      {pages.error && <ErrorBox error={pages.error} retry={pages.reload} />}
      {pages.loading && pages.rows.length === 0 && <Skeleton lines={4} />}
      <div class="rows">{pages.rows.map((item) => <ItemRow key={item.item_id} item={shownItem(item)} question={[node.name, other?.name].filter(Boolean).join(" ")} />)}</div>
      {!pages.done && !pages.loading && !pages.error && <Button kind="quiet" onClick={pages.more}>Older ones</Button>}
    </Section>
  );
}
