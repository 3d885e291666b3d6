// Webhooks: who is told of changes, and whether that works.
import { useState } from "preact/hooks";
import { call } from "../../api/client";
import type { NewWebhook, Webhook } from "../../api/schema";
import { forTenant } from "../../frame/session";
import { Confirm, Dialog } from "../../kit/dialog";
import { useLoad } from "../../kit/load";
import { DataTable, useAction } from "../../kit/table";
import { Badge, Button, Empty, ErrorBox, Section, Show, TextField, Time } from "../../kit/ui";

export function Webhooks() {
  const webhooks = useLoad(["webhooks"], (signal) => call("list_webhooks", { signal, as: {} }));
  const [url, setUrl] = useState("");
  const [made, setMade] = useState<NewWebhook>();
  const [removing, setRemoving] = useState<Webhook>();
  const { run, error, busy } = useAction();
  const add = (event: Event) => {
    event.preventDefault();
    void run(async () => {
      setMade(await call("create_webhook", { body: { url: url.trim() }, as: {} }));
      setUrl("");
      webhooks.reload();
    });
  };
  const setActive = (webhook: Webhook) => run(() => call("set_webhook_active", { path: { webhook_id: webhook.webhook_id }, body: { is_active: !webhook.is_active }, as: {} }).then(webhooks.reload));
  return (
    <Section title="Webhooks" aside="each change of memory is sent to them, with ids and never with content">
      <form class="filters" onSubmit={add}>
        <div class="field grow"><TextField label="Address" value={url} placeholder="https://example.org/memory-changed" onInput={setUrl} /></div>
        <Button type="submit" disabled={!url.trim() || busy}>Add</Button>
      </form>
      {error && <ErrorBox error={error} />}
      <Show of={webhooks}>
        {(list) => list.length === 0 ? <Empty title="No webhook yet." command={forTenant(`recordari webhooks add https://example.org/memory-changed`)} /> : (
          <DataTable<Webhook>
            label="Webhooks"
            rows={list}
            keyOf={(webhook) => webhook.webhook_id}
            columns={[
              { title: "address", cell: (webhook) => <span class="cell-text">{webhook.url}</span> },
              { title: "state", cell: (webhook) => !webhook.is_active ? <Badge tone="warn">paused</Badge> : webhook.failing_since ? <Badge tone="bad">failing</Badge> : <Badge tone="good">active</Badge> },
              { title: "delivered", cell: (webhook) => <Time at={webhook.delivered_at} />, class: "nowrap" },
              { title: "last error", cell: (webhook) => <span dir="auto" class="cell-text">{webhook.last_error}</span> },
              { title: "", cell: (webhook) => <span class="actions"><Button disabled={busy} onClick={() => setActive(webhook)}>{webhook.is_active ? "Pause" : "Resume"}</Button><Button kind="danger" onClick={() => setRemoving(webhook)}>Remove…</Button></span>, class: "right" },
            ]}
          />
        )}
      </Show>
      {made && (
        <Dialog title="The secret of the webhook" close={() => setMade(undefined)}>
          <p>Check the signature of each delivery with it. It is shown only this once.</p>
          <pre>{made.secret}</pre>
          <div class="dialog-foot"><Button kind="main" onClick={() => setMade(undefined)}>I have it</Button></div>
        </Dialog>
      )}
      {removing && (
        <Confirm title="Remove a webhook" action="Remove" danger close={() => setRemoving(undefined)} run={() => call("delete_webhook", { path: { webhook_id: removing.webhook_id }, as: {} }).then(webhooks.reload)}>
          <p class="cell-text">{removing.url} gets no change any more.</p>
        </Confirm>
      )}
    </Section>
  );
}
