// How the database and the models are, the tenant and its policies, and the settings in force.
import { useState } from "preact/hooks";
import { call } from "../../api/client";
import type { Check, SettingInForce } from "../../api/schema";
import { Bars } from "../../kit/charts";
import { bytes, count, dataName, share, words } from "../../kit/format";
import { Coded } from "../../kit/coded";
import { Data } from "../../kit/data";
import { useLoad } from "../../kit/load";
import { DataTable } from "../../kit/table";
import { Badge, Check as CheckBox, Facts, Section, Show, Time } from "../../kit/ui";

const TONES = { ok: "good", warn: "warn", fail: "bad" } as const;

export function Server() {
  return (
    <>
      <Health />
      <Tenant />
      <Settings />
    </>
  );
}

function Health() {
  const health = useLoad(["health"], (signal) => call("server_health", { signal, as: {} }));
  const version = useLoad(["version"], (signal) => call("version", { signal, as: {} }));
  return (
    <Section title="Health" aside={version.data && `Recordari ${version.data.version}`}>
      <Show of={health} lines={6}>
        {(checks) => (
          <DataTable<Check>
            label="Health"
            rows={checks}
            keyOf={(check) => check.name}
            columns={[
              { title: "part", cell: (check) => check.name, class: "nowrap" },
              { title: "state", cell: (check) => <Badge tone={TONES[check.state]}>{check.state}</Badge> },
              { title: "found", cell: (check) => <span class="cell-text">{check.found}</span> },
              { title: "what to do", cell: (check) => check.advice && <span class="cell-text"><Coded text={check.advice} /></span> },
            ]}
          />
        )}
      </Show>
    </Section>
  );
}

const QUOTAS: Record<string, string> = { items: "memories", bytes: "storage", writes_per_day: "writes a day" };

function Tenant() {
  const tenant = useLoad(["tenant"], (signal) => call("get_tenant", { signal, as: {} }));
  const quota = useLoad(["quota"], (signal) => call("quota_usage", { signal, as: {} }));
  const privacy = useLoad(["privacy"], (signal) => call("get_privacy_policy", { signal, as: {} }));
  const proposals = useLoad(["proposal-policy"], (signal) => call("get_proposal_policy", { signal, as: {} }));
  return (
    <div class="columns">
      <Section title="Tenant" aside="others: recordari tenant list">
        <Show of={tenant}>{(now) => <Facts rows={[["name", now.name], ["language", now.language], ["plan", now.plan], ["since", <Time at={now.created_at} />], ["settings", Object.keys(now.settings).length > 0 ? <Data value={now.settings} /> : <span class="muted">all by default</span>]]} />}</Show>
      </Section>
      <Section title="Plan" aside="how much of it is used">
        <Show of={quota}>
          {(now) => (
            <>
              <Facts rows={[["memories", count(now.usage.items)], ["text and files", bytes(now.usage.bytes)], ["writes today", count(now.usage.writes)]]} />
              {Object.keys(now.shares).length === 0 ? <p class="muted small">No limit is set.</p> : <Bars sorted={false} most={1} values={now.shares} name={(key) => QUOTAS[key] ?? words(key)} shown={share} />}
              {now.warnings.map((warning) => <div class="note" key={warning}>{warning}</div>)}
            </>
          )}
        </Show>
      </Section>
      <Section title="Privacy" aside="before anything is written">
        <Show of={privacy}>{(now) => now.enabled ? <Facts rows={Object.entries(now.actions).map(([name, action]) => [dataName(name), <Badge tone={action === "keep" ? "warn" : "good"}>{action}</Badge>])} /> : <p>Nothing is masked.</p>}</Show>
      </Section>
      <Section title="Proposals" aside="accepted without a person">
        <Show of={proposals}>{(now) => <p>{now.accept.length ? now.accept.join(", ") : "None: each waits for you."}</p>}</Show>
      </Section>
    </div>
  );
}

function Settings() {
  const settings = useLoad(["settings"], (signal) => call("settings_in_force", { signal, as: {} }));
  const [all, setAll] = useState(false);
  return (
    <Section title="Settings in force" aside={settings.data && <CheckBox label="defaults too" checked={all} onChange={setAll} />}>
      <Show of={settings} lines={6}>
        {(list) => {
          const shown = list.filter((setting) => all || !setting.is_default);
          return (
            <>
              <p class="muted small">{count(list.length - list.filter((setting) => setting.is_default).length)} of {count(list.length)} are not at their default. The operator sets them in the environment; secrets, folders and addresses are not shown.</p>
              {shown.length > 0 && (
                <DataTable<SettingInForce>
                  label="Settings"
                  rows={shown}
                  keyOf={(setting) => setting.name}
                  columns={[
                    { title: "setting", cell: (setting) => <code>RECORDARI_{setting.name.toUpperCase()}</code> },
                    { title: "value", cell: (setting) => setting.value === null ? <span class="muted">–</span> : <code class="cell-text">{typeof setting.value === "string" ? setting.value : JSON.stringify(setting.value)}</code> },
                    { title: "meaning", cell: (setting) => <Coded text={setting.description} /> },
                  ]}
                />
              )}
            </>
          );
        }}
      </Show>
    </Section>
  );
}
