// Made from the REST routes by `make routes`; do not edit.


export type Nothing = Record<string, never>;

export type Action = "mask" | "drop" | "keep";

export interface ActiveDay {
  day: string;
  new: Record<string, number>;
}

export interface Activity {
  days: Array<ActiveDay>;
  recall: RecallSpeed | null;
}

export interface Added {
  session_id: string;
  messages: Array<Remembered>;
  window: WindowState;
}

export interface AddedDocument {
  document: Document;
  was_new: boolean;
  changed: boolean;
  chunks_added: number;
  chunks_kept: number;
  chunks_ended: number;
  masked: Record<string, number>;
}

export interface Agent {
  agent_id: string;
  display_name: string | null;
  core: string;
  characteristics: string;
  model: string | null;
  window_tokens: number;
  version: number;
  created_at: string;
  updated_at: string;
}

export interface AgentChange {
  display_name?: string | null;
  core?: string;
  characteristics?: string;
  model?: string | null;
  window_tokens?: number;
  template?: string | null;
}

export interface AgentPage {
  items: Array<Agent>;
  next_cursor: string | null;
}

export interface ApiKey {
  key_id: string;
  name: string;
  role: Role;
  user_id: string | null;
  users: Array<string> | null;
  agent_id: string | null;
  created_at: string;
  expires_at: string | null;
  revoked_at: string | null;
}

export interface ApiKeyPage {
  items: Array<ApiKey>;
  next_cursor: string | null;
}

export interface AskRequestBody {
  question: string;
  source_kinds?: Array<Kind> | null;
  scope?: AskedScope;
  since?: string | null;
  until?: string | null;
  as_of?: string | null;
  min_confidence?: number;
}

export interface AskedAnswer {
  answer: string | null;
  quotes: Array<Quote>;
  confidence: number;
  writer: string;
  count: number | null;
  degraded: boolean;
  hint: string | null;
}

export type AskedScope = "session" | "user" | "agent" | "tenant" | "history" | "any";

export interface AuditEntry {
  audit_id: string;
  at: string;
  actor: string;
  action: string;
  subject_kind: string;
  subject_id: string;
  reason: string | null;
  details: Record<string, unknown>;
}

export interface AuditEntryPage {
  items: Array<AuditEntry>;
  next_cursor: string | null;
}

export interface BatchShown {
  items: Array<Remembered>;
}

export interface ChatMessage {
  role: MessageRole;
  content: string;
}

export interface Check {
  name: string;
  state: State;
  found: string;
  advice: string;
}

export interface Choice {
  choice_id: string;
  workflow: Workflow;
  sample: number;
  candidates: number;
  chosen_at: string;
}

export interface ChoiceRequest {
  agent_type: string;
  task_type: string;
  seed?: number | string | null;
}

export interface Citation {
  document_id: string;
  document: string;
  title: string;
  source_id: string;
  source: string;
  revision: number;
  ordinal: number;
  heading: Array<string>;
  page: number | null;
  first: number;
  past: number;
}

export type CloseReason = "asked" | "idle";

export interface ConfidenceShown {
  confidence: number;
}

export interface ConnectedDatabase {
  database_id: string;
  name: string;
  description: string;
  engine: Engine;
  tables: Record<string, Array<string> | null>;
  schema: Array<Record<string, unknown>>;
  warnings: Array<string>;
  refreshed_at: string | null;
  created_at: string;
  updated_at: string;
}

export interface Consolidated {
  session_id: string;
  patterns: Array<string>;
  superseded: number;
  archived: number;
  withdrawn: number;
  summaries: number;
  work: string | null;
  facts: number;
  was_new: boolean;
}

export interface Context {
  profile: string;
  budget: number;
  tokens: number;
  left: number;
  epoch: number;
  degraded: boolean;
  sections: Array<ContextSection>;
  text: string | null;
  messages: Array<ChatMessage> | null;
  trace: Record<string, unknown> | null;
}

export interface ContextRequestBody {
  question?: string | null;
  profile?: string | null;
  budget?: number | null;
  project?: string | null;
  render?: Rendering;
  as_of?: string | null;
  known_at?: string | null;
  iterate?: Iteration;
  enable_rerank?: boolean;
  explain?: boolean;
}

export interface ContextSection {
  name: SectionName;
  layer: Layer;
  budget: number;
  items: Array<SectionItem>;
}

export interface Copied {
  items: number;
  workflows: number;
}

export interface CopyRequest {
  template: string;
}

export interface DataAnswer {
  database: string;
  sql: string;
  columns: Array<string>;
  rows: Array<Array<unknown>>;
  truncated: boolean;
  written_by: string;
  attempts: number;
  seconds: number;
}

export type DataType = "secret" | "credit_card" | "iban" | "crypto_wallet" | "us_ssn" | "national_id" | "mac_address" | "ip_address" | "email" | "phone" | "birth_date" | "street_address";

export interface DatabaseChange {
  name?: string | null;
  description?: string | null;
  dsn?: string | null;
  tables?: Record<string, Array<string> | null> | Array<string> | null;
}

export interface DatabaseRequest {
  name: string;
  description?: string;
  dsn: string;
  tables: Record<string, Array<string> | null> | Array<string>;
}

export interface DeadLetter {
  kind: DeadLetterKind;
  number: number;
  name: string;
  attempts: number;
  last_error: string | null;
  failed_at: string | null;
  ref: string | null;
  dead_letter_id: string;
}

export type DeadLetterKind = "job" | "outbox";

export interface DeadLetterPage {
  items: Array<DeadLetter>;
  next_cursor: string | null;
}

export type DecayOutcome = "keep" | "archive" | "anonymize" | "purge";

export interface DecayResult {
  examined: number;
  archived: number;
  promoted: number;
  reviews: number;
}

export interface DecisionRequest {
  reason?: string | null;
}

export interface DelegationRequest {
  value: unknown;
}

export interface DeletedAgent {
  items: number;
  sessions: number;
}

export interface Document {
  document_id: string;
  source_id: string;
  source: string;
  name: string;
  title: string;
  media_type: string;
  revision: number;
  bytes: number;
  characters: number;
  chunks: number;
  pages: number | null;
  metadata: Record<string, unknown>;
  has_original: boolean;
  created_at: string;
  updated_at: string;
}

export interface DocumentChunk {
  ordinal: number;
  item_id: string;
  heading: Array<string>;
  page: number | null;
  first: number;
  past: number;
  content: string;
}

export interface DocumentPage {
  items: Array<Document>;
  next_cursor: string | null;
}

export interface DocumentText {
  document: Document;
  chunks: Array<DocumentChunk>;
  next_ordinal: number | null;
}

export interface EditRequest {
  content: string;
  reason?: string | null;
}

export type Engine = "postgres" | "mysql" | "sqlite" | "duckdb";

export interface EntityGraph {
  nodes: Array<EntityNode>;
  links: Array<EntityLink>;
  looked_at: number;
}

export type EntityKind = "person" | "name" | "email" | "identifier" | "term";

export interface EntityLink {
  one_id: string;
  other_id: string;
  items: number;
  item_ids: Array<string>;
}

export interface EntityNode {
  entity_id: string;
  kind: EntityKind;
  name: string;
  items: number;
}

export interface Entry {
  entry_id: string;
  scope: Scope;
  owner_id: string;
  namespace: Array<string>;
  key: string;
  value: Record<string, unknown>;
  version: number;
  item_id: string | null;
  created_at: string;
  updated_at: string;
  expires_at: string | null;
}

export interface EntryRequest {
  namespace: Array<string>;
  key: string;
  value: Record<string, unknown>;
  scope?: Scope | null;
  index?: Array<string> | boolean | null;
  ttl_seconds?: number | null;
  if_version?: number | null;
}

export interface EntrySearch {
  prefix?: Array<string>;
  query?: string | null;
  filter?: Record<string, unknown> | null;
  scope?: Scope | null;
  limit?: number;
  offset?: number;
  refresh?: boolean;
}

export interface EpisodeRequest {
  content: string;
  run_id?: string | null;
  session_id?: string | null;
  episode_id?: string | null;
  scope?: Scope | null;
  event_time?: string | null;
  metadata?: Record<string, unknown> | null;
}

export interface Erasure {
  erasure_id: string;
  user_id: string | null;
  requested_at: string;
  items: number;
  sessions: number;
  finished_at: string | null;
}

export interface ErasurePage {
  items: Array<Erasure>;
  next_cursor: string | null;
}

export interface ErasureRequest {
  user_id: string;
}

export interface Event {
  position: number;
  at: string;
  type: EventType;
  subject_id: string;
  kind: string | null;
}

export interface EventPage {
  items: Array<Event>;
  next_cursor: string | null;
}

export type EventType = "item.created" | "item.changed" | "item.superseded" | "item.invalidated" | "item.restored" | "item.archived" | "item.forgotten" | "item.removed" | "user.erased";

export interface EvidenceSource {
  item_id: string;
  event_time: string;
  session_id: string | null;
}

export interface FactRequest {
  content: string;
  scope?: Scope;
  subject?: string | null;
  predicate?: string | null;
  object?: string | null;
  category?: string | null;
  event_time?: string | null;
  metadata?: Record<string, unknown>;
}

export interface FeedbackRequest {
  opinion: Opinion;
  reason?: string | null;
}

export interface FieldError {
  field: string;
  message: string;
}

export interface Fold {
  summary_id: string;
  first: number;
  last: number;
}

export interface Forecast {
  tier: Tier;
  is_pinned: boolean;
  accesses: number;
  last_at: string | null;
  importance: number;
  retention: Array<number>;
  archive_at: string | null;
}

export interface ForgetRequest {
  reason?: string | null;
  dry_run?: boolean;
}

export interface Forgotten {
  item_ids: Array<string>;
  reembedded: Array<string>;
  summaries_renewed: number;
}

export interface FoundEntry {
  entry_id: string;
  scope: Scope;
  owner_id: string;
  namespace: Array<string>;
  key: string;
  value: Record<string, unknown>;
  version: number;
  item_id: string | null;
  created_at: string;
  updated_at: string;
  expires_at: string | null;
  score: number | null;
}

export interface Guarded {
  source_id: string;
  texts: number;
}

export interface Health {
  status: string;
}

export interface Hold {
  item_id: string;
  action_id: string;
  created_at: string;
}

export interface HoldResult {
  was_new: boolean;
}

export interface Identity {
  tenant_id: string;
  user_id: string | null;
  agent_id: string | null;
  session_id: string | null;
  run_id: string | null;
  role: Role;
  users: Array<string> | null;
  actor: string;
}

export interface ImportSummary {
  read: number;
  new: number;
  existing: number;
}

export interface Imported {
  written: Record<string, number>;
  known_items: number;
  forgotten_items: number;
}

export interface Item {
  item_id: string;
  kind: Kind;
  scope: Scope;
  tier: Tier;
  user_id: string | null;
  agent_id: string | null;
  session_id: string | null;
  run_id: string | null;
  source_ref: string;
  content: string;
  speaker: string | null;
  trust: Trust;
  event_time: string;
  created_at: string;
  valid_at: string;
  invalid_at: string | null;
  superseded_by: string | null;
  subject: string | null;
  predicate: string | null;
  object: string | null;
  confidence: number | null;
  category: string | null;
  payload_key: string | null;
  metadata: Record<string, unknown>;
  shared_from: string | null;
  retired_at: string | null;
  archived_at: string | null;
}

export interface ItemBatch {
  items: Array<ItemRequest>;
}

export interface ItemPage {
  items: Array<Item>;
  next_cursor: string | null;
}

export interface ItemRequest {
  content: string;
  kind?: Kind;
  scope?: Scope | null;
  tier?: Tier | null;
  source_ref?: string | null;
  speaker?: string | null;
  event_time?: string | null;
  session_id?: string | null;
  trust?: Trust | null;
  subject?: string | null;
  predicate?: string | null;
  object?: string | null;
  confidence?: number | null;
  category?: string | null;
  metadata?: Record<string, unknown>;
}

export type ItemState = "live" | "superseded" | "invalid" | "archived" | "any";

export interface ItemUse {
  user_id: string | null;
  agent_id: string | null;
  session_id: string | null;
  via: Via;
  last_at: string;
}

export type Iteration = "auto" | "never" | "always";

export interface JobCounts {
  jobs: Record<string, number>;
  outbox_pending: Record<string, number>;
  outbox_parked: Record<string, number>;
}

export interface JobRecord {
  job_id: number;
  job: string;
  status: JobStatus;
  attempts: number;
  scheduled_at: string | null;
  last_at: string | null;
  args: Record<string, unknown>;
  last_error: string | null;
}

export interface JobRecordPage {
  items: Array<JobRecord>;
  next_cursor: string | null;
}

export interface JobRequest {
  job: string;
}

export type JobStatus = "todo" | "doing" | "succeeded" | "failed" | "cancelled" | "aborted";

export interface KeyRequest {
  name: string;
  role?: Role;
  user_id?: string | null;
  users?: Array<string> | null;
  agent_id?: string | null;
  expires_at?: string | null;
}

export type Kind = "chat_message" | "tool_output" | "session_summary" | "episode" | "fact" | "procedure" | "entry" | "document_chunk";

export interface KnowledgeRequest {
  query: string;
  top_k?: number;
  source?: string | null;
  enable_rerank?: boolean;
  since?: string | null;
  until?: string | null;
  as_of?: string | null;
  known_at?: string | null;
  explain?: boolean;
}

export type Layer = "core" | "characteristics" | "shared" | "delegated" | "working" | "long_term";

export type LinkStatus = "offered" | "accepted" | "declined";

export interface MapShown {
  text: string;
}

export interface Membership {
  organisation: string;
  joined_at: string;
}

export interface Message {
  item_id: string;
  position: number;
  role: MessageRole;
  speaker: string | null;
  content: string;
  tokens: number;
  scope: Scope;
  event_time: string;
  payload_key: string | null;
  message_id: string | null;
  summary_id: string | null;
  trust: Trust;
  kind: Kind;
  metadata: Record<string, unknown>;
}

export interface MessagePage {
  items: Array<Message>;
  next_cursor: string | null;
}

export interface MessageRequest {
  content: string;
  role?: MessageRole;
  message_id?: string | null;
  speaker?: string | null;
  event_time?: string | null;
  metadata?: Record<string, unknown> | null;
  trust?: Trust | null;
}

export type MessageRole = "user" | "assistant" | "tool" | "system";

export interface MessagesRequest {
  messages: Array<MessageRequest>;
  scope?: Scope | null;
  prompt_tokens?: number | null;
}

export interface NamespaceSearch {
  prefix?: Array<string>;
  suffix?: Array<string>;
  max_depth?: number | null;
  scope?: Scope | null;
  limit?: number;
  offset?: number;
}

export interface NewKey {
  key_id: string;
  name: string;
  role: Role;
  user_id: string | null;
  users: Array<string> | null;
  agent_id: string | null;
  created_at: string;
  expires_at: string | null;
  revoked_at: string | null;
  key: string;
}

export interface NewSource {
  name: string;
  kind?: SourceKind;
  description?: string;
  tool?: string | null;
}

export interface NewWebhook {
  webhook: Webhook;
  secret: string;
}

export type NoteKind = "decision" | "action_item" | "tool_result" | "note";

export interface NoteRequest {
  content: string;
  kind?: NoteKind;
  importance?: number;
}

export interface Opened {
  session: Session;
  was_new: boolean;
}

export type Opinion = "useful" | "wrong";

export interface OtherCounts {
  vectors: number;
  payloads: number;
  payload_bytes: number;
  open_sessions: number;
  closed_sessions: number;
  runs: number;
  holds: number;
}

export interface Outcome {
  outcome_id: string;
  workflow_id: string;
  choice_id: string | null;
  score: number;
  rewarded_at: string;
}

export interface OutcomePage {
  items: Array<Outcome>;
  next_cursor: string | null;
}

export type OwnerKind = "run" | "session";

export interface Passage {
  ordinal: number;
  start: number;
  past: number;
  content: string;
}

export interface PastChoice {
  choice_id: string;
  workflow_id: string;
  agent_id: string | null;
  owned_by: string;
  session_id: string | null;
  run_id: string | null;
  sample: number;
  candidates: number;
  chosen_at: string;
  score: number | null;
}

export interface PastChoicePage {
  items: Array<PastChoice>;
  next_cursor: string | null;
}

export interface PastRuling {
  ruling_id: string;
  at: string;
  rule: string;
  judge: string;
  item_id: string;
  superseded_by: string;
  content: string | null;
  successor: string | null;
  is_undone: boolean;
}

export interface PastRulingPage {
  items: Array<PastRuling>;
  next_cursor: string | null;
}

export interface PinRequest {
  pinned?: boolean;
}

export interface PolicyRequest {
  accept: Array<ProposalKind>;
}

export interface PreviewRequest {
  text: string;
  speaker?: string | null;
  event_time?: string | null;
  agent_id?: string | null;
  learning?: Record<string, unknown> | null;
}

export interface PreviewedFact {
  content: string;
  category: string;
  confidence: number;
  subject: string | null;
  predicate: string | null;
  object: string | null;
  refused: string | null;
  extractor: string;
}

export interface PrivacyPolicy {
  enabled: boolean;
  actions: Record<string, Action>;
}

export interface PrivacyRequest {
  enabled?: boolean;
  default?: Action | null;
  actions?: Record<string, Action>;
}

export interface Problem {
  type: string;
  title: string;
  status: number;
  code: string;
  detail: string;
  instance: string;
  errors: Array<FieldError> | null;
}

export interface Profile {
  content: string;
  facts: number;
  writer: string;
  made_at: string | null;
}

export interface Proposal {
  proposal_id: string;
  kind: ProposalKind;
  status: ProposalStatus;
  rule: string;
  item_ids: Array<string>;
  successor_id: string | null;
  proposed_at: string;
  decided_at: string | null;
  decided_by: string | null;
  reason: string | null;
  explanation: string;
  items: Array<ProposalItem>;
}

export interface ProposalItem {
  item_id: string;
  content: string | null;
  ends: boolean;
  sources: Array<ProposalSource>;
}

export type ProposalKind = "merge" | "retire" | "promote";

export interface ProposalPage {
  items: Array<Proposal>;
  next_cursor: string | null;
}

export interface ProposalPolicy {
  accept: Array<ProposalKind>;
}

export interface ProposalSource {
  item_id: string;
  content: string | null;
  event_time: string;
  session_id: string | null;
}

export type ProposalStatus = "open" | "accepted" | "rejected" | "void" | "undone";

export interface ProtectedSource {
  source_id: string;
  protected_at: string;
  texts: number;
}

export interface Provenance {
  sources: Array<EvidenceSource>;
  led_to: Array<string>;
  trend: Trend;
  useful: number;
  wrong: number;
}

export interface QueryRequest {
  question?: string | null;
  sql?: string | null;
  database?: string | null;
}

export interface QuestionRequest {
  question: string;
  agent?: string | null;
}

export interface Quota {
  items: number | null;
  bytes: number | null;
  writes_per_day: number | null;
}

export interface QuotaUsage {
  quota: Quota;
  usage: Usage;
  shares: Record<string, number>;
  warnings: Array<string>;
}

export interface Quote {
  id: string;
  text: string;
  speaker: string | null;
  event_time: string;
  source_ref: string;
  session_id: string | null;
}

export interface Reapplied {
  tombstones: number;
  items: number;
  users: number;
}

export interface ReasonRequest {
  reason?: string | null;
}

export interface RecallAnswer {
  items: Array<RecalledItem>;
  total: number;
  degraded: boolean;
  rerank_used: boolean;
  confidence: number;
  hint: string | null;
  trace: Record<string, unknown> | null;
}

export interface RecallRequestBody {
  query: string;
  top_k?: number;
  source_kinds?: Array<Kind> | null;
  scope?: AskedScope;
  enable_rerank?: boolean;
  since?: string | null;
  until?: string | null;
  as_of?: string | null;
  known_at?: string | null;
  project?: string | null;
  include_superseded?: boolean;
  min_confidence?: number;
  explain?: boolean;
}

export interface RecallSpeed {
  recalls: number;
  per_minute: number;
  p50_ms: number;
  p95_ms: number;
}

export interface RecalledItem {
  id: string;
  source_kind: Kind;
  source_ref: string;
  content: string;
  event_time: string;
  score: number;
  scope: Scope;
  tier: Tier;
  speaker: string | null;
  trust: Trust;
  session_id: string | null;
  payload_key: string | null;
  valid_at: string;
  invalid_at: string | null;
  archived: boolean;
  metadata: Record<string, unknown>;
  passage: Passage | null;
  citation: Citation | null;
  shared_from: string | null;
  same_as: Array<string>;
  found_by: Array<string>;
}

export interface ReembedRequest {
  model_id?: string | null;
}

export interface Reembedding {
  model_id: string;
  done: number;
  total: number;
  switched: boolean;
}

export interface Remembered {
  id: string;
  was_new: boolean;
  source_ref: string;
  payload_key: string | null;
  masked: Record<string, number>;
}

export type Rendering = "text" | "messages" | "sections";

export interface Replay {
  run: Run;
  turns: Array<Turn>;
  calls: Array<ToolCall>;
}

export interface Replayed {
  replayed: number;
}

export interface Report {
  report_id: string;
  kind: ReportKind;
  day: string;
  body: string;
  figures: Record<string, unknown>;
  warnings: Array<string>;
  created_at: string;
}

export type ReportKind = "daily_brief";

export interface ReportPage {
  items: Array<Report>;
  next_cursor: string | null;
}

export interface ResumedSession {
  session: Session;
  summary: string;
  window: Window;
  notes: Array<SessionNote>;
  carried_over: string;
  carried_over_trust: Trust | null;
  unsummarised: Array<Message>;
  turn_state: TurnState | null;
}

export interface RetentionChange {
  deleted_days?: number;
  superseded_days?: number;
  archived_days?: number | null;
  transient_days?: number;
  batch_size?: number;
  safety_share?: number;
  dry_run?: boolean;
}

export interface RetentionPolicy {
  deleted_days: number;
  superseded_days: number;
  archived_days: number | null;
  transient_days: number;
  batch_size: number;
  safety_share: number;
  dry_run: boolean;
}

export interface ReviewResult {
  examined: number;
  proposed: number;
  accepted: number;
  voided: number;
}

export interface RewardRequest {
  target_id: string;
  score: number;
  outcome_id?: string | null;
}

export interface Rewarded {
  workflow: Workflow;
  outcome_id: string;
  was_new: boolean;
}

export type Role = "agent" | "admin";

export interface Run {
  run_id: string;
  run_ref: string;
  session_id: string;
  user_id: string | null;
  agent_id: string | null;
  status: RunStatus;
  input: Record<string, unknown>;
  output: unknown;
  error: string | null;
  tokens_in: number;
  tokens_out: number;
  cost: string;
  currency: string;
  turns: number;
  calls: number;
  metadata: Record<string, unknown>;
  started_at: string;
  ended_at: string | null;
}

export interface RunEnd {
  output?: unknown;
  usage?: UsageBody | null;
}

export interface RunFailure {
  error: string;
  output?: unknown;
  usage?: UsageBody | null;
}

export interface RunPage {
  items: Array<Run>;
  next_cursor: string | null;
}

export interface RunRequest {
  run_id?: string | null;
  session_id?: string | null;
  input?: Record<string, unknown> | null;
  episodes?: number;
  currency?: string;
  metadata?: Record<string, unknown> | null;
}

export type RunStatus = "running" | "completed" | "failed";

export interface SavedWorkflow {
  workflow: Workflow;
  was_new: boolean;
}

export interface ScheduledJob {
  job: string;
  next_at: string;
  last_at: string | null;
}

export type Scope = "session" | "user" | "agent" | "tenant";

export interface SectionItem {
  ref: string;
  content: string;
  is_cut: boolean;
  kind: string;
  trust: string;
  source_ref: string;
  item_id: string | null;
  when: string | null;
  who: string | null;
  scope: string | null;
  session_id: string | null;
  payload_key: string | null;
  score: number | null;
  tokens: number;
}

export type SectionName = "core" | "characteristics" | "knowledge_map" | "shared" | "profile" | "answers" | "delegated" | "earlier" | "summary" | "long_term" | "temporal" | "daily_log" | "window";

export interface Session {
  session_id: string;
  session_ref: string;
  root_id: string;
  continues: string | null;
  user_id: string | null;
  agent_id: string | null;
  status: SessionStatus;
  close_reason: CloseReason | null;
  idle_seconds: number;
  notes_seconds: number;
  window_share: number;
  metadata: Record<string, unknown>;
  opened_at: string;
  active_at: string;
  closed_at: string | null;
  messages: number;
  window_from: number;
  window_tokens: number;
  epoch: number;
  epoch_from: number | null;
  epoch_to: number | null;
  prompt_tokens: number | null;
  summary: string;
  summary_id: string | null;
  summarised_to: number;
  folded_to: number;
  summary_trust: Trust;
  folds: Array<Fold>;
  tail_before: number;
  tail_moves: number;
}

export interface SessionNote {
  note_id: string;
  kind: NoteKind;
  content: string;
  importance: number;
  item_id: string | null;
  created_at: string;
}

export interface SessionNotePage {
  items: Array<SessionNote>;
  next_cursor: string | null;
}

export interface SessionPage {
  items: Array<Session>;
  next_cursor: string | null;
}

export interface SessionRequest {
  session_id?: string | null;
  idle_seconds?: number | null;
  metadata?: Record<string, unknown> | null;
}

export type SessionStatus = "open" | "closed";

export interface SettingInForce {
  name: string;
  value: unknown;
  is_default: boolean;
  description: string;
}

export interface Share {
  item_id: string;
  to_tenant_id: string;
  tenant: string;
  shared_by: string;
  shared_at: string;
}

export interface ShareLink {
  from_tenant_id: string;
  tenant: string;
  status: LinkStatus;
  offered_at: string;
  decided_at: string | null;
  items: number;
}

export interface SharePage {
  items: Array<Share>;
  next_cursor: string | null;
}

export interface ShareRequest {
  item_ids: Array<string>;
  tenants: Array<string>;
}

export interface Shared {
  item_id: string;
  tenant: string;
  was_new: boolean;
  delivered: boolean;
}

export interface Source {
  source_id: string;
  name: string;
  kind: SourceKind;
  description: string;
  tool: string | null;
  documents: number;
  chunks: number;
  sync: Record<string, unknown> | null;
  created_at: string;
  updated_at: string;
}

export interface SourceChange {
  name?: string | null;
  description?: string | null;
  tool?: string | null;
}

export type SourceKind = "documents" | "database" | "api" | "mcp";

export interface SourcePage {
  items: Array<Source>;
  next_cursor: string | null;
}

export interface StandingAnswer {
  name: string;
  question: string;
  user_id: string;
  content: string;
  sources: Array<string>;
  writer: string;
  made_at: string | null;
}

export interface StandingQuestion {
  name: string;
  question: string;
  agent_id: string | null;
  changed_at: string;
}

export interface StandingQuestionPage {
  items: Array<StandingQuestion>;
  next_cursor: string | null;
}

export interface Started {
  job: string;
  job_id: number | null;
}

export interface StartedTurn {
  run: Run;
  turn: Turn;
  episodes: Array<Item>;
  was_new: boolean;
}

export type State = "ok" | "warn" | "fail";

export interface StateEntry {
  key: string;
  value: unknown;
  version: number;
  updated_at: string;
  expires_at: string | null;
}

export interface StateRequest {
  value: unknown;
  ttl_seconds?: number | null;
  if_version?: number | null;
}

export interface Stats {
  items: number;
  by_state: Record<string, number>;
  by_kind: Record<string, number>;
  by_tier: Record<string, number>;
  by_layer: Record<string, number>;
  by_scope: Record<string, number>;
  pinned: number;
  content_bytes: number;
  others: OtherCounts;
  pending_embeddings: number;
  embedding_model: string | null;
  reembedding: Reembedding | null;
  waiting: Record<string, number>;
  dead_letters: number;
  quota: QuotaUsage;
}

export interface Sweep {
  dry_run: boolean;
  counts: Record<string, number>;
  item_ids: Record<string, Array<string>>;
}

export interface SweepRequest {
  dry_run?: boolean | null;
  force?: boolean;
}

export interface SyncStarted {
  job_id: number | null;
}

export interface Tenant {
  tenant_id: string;
  name: string;
  language: string;
  plan: string;
  settings: Record<string, unknown>;
  created_at: string;
}

export interface TenantChange {
  language?: string | null;
  settings?: Record<string, unknown> | null;
}

export type Tier = "run" | "session" | "recent" | "persistent";

export interface ToolCall {
  number: number;
  call_id: string | null;
  turn: number;
  name: string;
  arguments: string;
  result_id: string | null;
  result_key: string | null;
  result_bytes: number | null;
  error: string | null;
  latency_ms: number | null;
  started_at: string;
  result_type: string | null;
  result: unknown;
}

export interface ToolCallRequest {
  name: string;
  arguments: string | Record<string, unknown> | Array<unknown>;
  result?: unknown;
  result_type?: string | null;
  call_id?: string | null;
  number?: number | null;
  error?: string | null;
  latency_ms?: number | null;
  started_at?: string | null;
  useful?: boolean;
}

export interface ToolCallsRequest {
  calls: Array<ToolCallRequest>;
}

export interface ToolOutput {
  key: string;
  content: string;
  start: number;
  total_bytes: number;
  is_whole: boolean;
  next_start: number | null;
  media_type: string;
}

export type Trend = "new" | "strengthening" | "stable" | "weakening" | "stale";

export type Trust = "user" | "agent" | "tool" | "document" | "external";

export interface Turn {
  number: number;
  status: RunStatus;
  episodes: Array<string>;
  prompt_tokens: number | null;
  tokens_in: number;
  tokens_out: number;
  cost: string;
  error: string | null;
  started_at: string;
  ended_at: string | null;
}

export interface TurnEnd {
  usage?: UsageBody | null;
  prompt_tokens?: number | null;
  state?: Record<string, unknown> | null;
  error?: string | null;
}

export interface TurnRequest {
  episodes?: number;
}

export interface TurnState {
  session_id: string;
  run_id: string;
  number: number;
  status: RunStatus;
  data: Record<string, unknown>;
  created_at: string;
  updated_at: string;
}

export interface Usage {
  items: number;
  bytes: number;
  writes: number;
  day: string;
}

export interface UsageBody {
  tokens_in?: number;
  tokens_out?: number;
  cost?: number | string;
}

export interface UsageRequest {
  prompt_tokens: number;
}

export interface User {
  user_id: string;
  display_name: string | null;
  time_zone: string;
  created_at: string;
}

export interface UserChange {
  display_name?: string | null;
  time_zone?: string | null;
}

export interface UserPage {
  items: Array<User>;
  next_cursor: string | null;
}

export interface Version {
  version: string;
}

export type Via = "recall" | "context" | "search";

export interface Webhook {
  webhook_id: string;
  url: string;
  types: Array<EventType>;
  is_active: boolean;
  position: number;
  failing_since: string | null;
  failures: number;
  last_error: string | null;
  delivered_at: string | null;
  created_at: string;
}

export interface WebhookChange {
  is_active: boolean;
}

export interface WebhookRequest {
  url: string;
  types?: Array<EventType>;
}

export interface Window {
  state: WindowState;
  messages: Array<Message>;
  active: Array<Message>;
}

export interface WindowState {
  session_id: string;
  first: number;
  tokens: number;
  limit: number;
  epoch: number;
  compressed: boolean;
  hint: string | null;
  folds: Array<Fold>;
}

export interface Withdrawn {
  tenants: number;
}

export interface Workflow {
  workflow_id: string;
  agent_type: string;
  task_type: string;
  name: string;
  version: number;
  spec: Record<string, unknown>;
  alpha: number;
  beta: number;
  rewards: number;
  valid_at: string;
  invalid_at: string | null;
  superseded_by: string | null;
}

export interface WorkflowPage {
  items: Array<Workflow>;
  next_cursor: string | null;
}

export interface WorkflowRequest {
  agent_type: string;
  task_type: string;
  name: string;
  spec: Record<string, unknown>;
  alpha?: number | null;
  beta?: number | null;
  expected_version?: number | null;
}

export interface Operations {
  accept_proposal: { path: { proposal_id: string }; query: Nothing; body: DecisionRequest; answer: Proposal };
  accept_share_link: { path: { tenant: string }; query: Nothing; body: undefined; answer: ShareLink };
  active_workflows: { path: Nothing; query: { agent_type: string; task_type: string }; body: undefined; answer: Array<Workflow> };
  add_database: { path: Nothing; query: Nothing; body: DatabaseRequest; answer: ConnectedDatabase };
  add_document: { path: Nothing; query: { name?: string | null; source?: string | null; title?: string | null }; body: unknown; answer: AddedDocument };
  add_messages: { path: { session_id: string }; query: Nothing; body: MessagesRequest; answer: Added };
  add_note: { path: { session_id: string }; query: Nothing; body: NoteRequest; answer: SessionNote };
  add_source: { path: Nothing; query: Nothing; body: NewSource; answer: Source };
  agent_profile: { path: { agent_id: string }; query: Nothing; body: undefined; answer: Profile };
  append_episode: { path: Nothing; query: Nothing; body: EpisodeRequest; answer: Remembered };
  ask: { path: Nothing; query: Nothing; body: AskRequestBody; answer: AskedAnswer };
  choose: { path: Nothing; query: Nothing; body: ChoiceRequest; answer: Choice };
  close_session: { path: { session_id: string }; query: Nothing; body: undefined; answer: Session };
  complete_run: { path: { run_id: string }; query: Nothing; body: RunEnd; answer: Run };
  consolidate_session: { path: { session_id: string }; query: Nothing; body: undefined; answer: Consolidated };
  copy_memories: { path: { agent_id: string }; query: Nothing; body: CopyRequest; answer: Copied };
  create_key: { path: Nothing; query: Nothing; body: KeyRequest; answer: NewKey };
  create_webhook: { path: Nothing; query: Nothing; body: WebhookRequest; answer: NewWebhook };
  decay: { path: Nothing; query: Nothing; body: undefined; answer: DecayResult };
  decline_share_link: { path: { tenant: string }; query: Nothing; body: undefined; answer: ShareLink };
  delegate: { path: { run_id: string; name: string }; query: Nothing; body: DelegationRequest; answer: StateEntry };
  delegated: { path: { run_id: string }; query: Nothing; body: undefined; answer: Record<string, unknown> };
  delete_agent: { path: { agent_id: string }; query: { memories?: boolean }; body: undefined; answer: DeletedAgent };
  delete_document: { path: { document_id: string }; query: Nothing; body: undefined; answer: undefined };
  delete_entry: { path: Nothing; query: { namespace: Array<string>; key: string; scope?: Scope | null; if_version?: number | null }; body: undefined; answer: undefined };
  delete_note: { path: { session_id: string; note_id: string }; query: Nothing; body: undefined; answer: undefined };
  delete_question: { path: { name: string }; query: { agent?: string | null }; body: undefined; answer: undefined };
  delete_state: { path: { owner: OwnerKind; owner_id: string; key: string }; query: { if_version?: number | null }; body: undefined; answer: undefined };
  delete_webhook: { path: { webhook_id: string }; query: Nothing; body: undefined; answer: undefined };
  discard_dead_letter: { path: { dead_letter_id: string }; query: Nothing; body: undefined; answer: undefined };
  edit_item: { path: { item_id: string }; query: Nothing; body: EditRequest; answer: Remembered };
  end_turn: { path: { run_id: string }; query: Nothing; body: TurnEnd; answer: Turn };
  enqueue_job: { path: Nothing; query: Nothing; body: JobRequest; answer: Started };
  entity_graph: { path: Nothing; query: { around?: string | null; limit?: number }; body: undefined; answer: EntityGraph };
  entity_items: { path: { entity_id: string }; query: { other_id?: string | null; limit?: number; cursor?: string | null }; body: undefined; answer: ItemPage };
  export: { path: Nothing; query: { user_id?: string | null }; body: undefined; answer: string };
  fail_run: { path: { run_id: string }; query: Nothing; body: RunFailure; answer: Run };
  forget: { path: { item_id: string }; query: Nothing; body: ForgetRequest | null; answer: Forgotten };
  get_agent: { path: { agent_id: string }; query: Nothing; body: undefined; answer: Agent };
  get_context: { path: Nothing; query: Nothing; body: ContextRequestBody; answer: Context };
  get_database: { path: { database_id: string }; query: Nothing; body: undefined; answer: ConnectedDatabase };
  get_document: { path: { document_id: string }; query: Nothing; body: undefined; answer: Document };
  get_entry: { path: Nothing; query: { namespace: Array<string>; key: string; scope?: Scope | null; refresh?: boolean }; body: undefined; answer: Entry };
  get_erasure: { path: { erasure_id: string }; query: Nothing; body: undefined; answer: Erasure };
  get_item: { path: { item_id: string }; query: Nothing; body: undefined; answer: Item };
  get_job: { path: { job_id: number }; query: Nothing; body: undefined; answer: JobRecord };
  get_organisation: { path: Nothing; query: Nothing; body: undefined; answer: Membership };
  get_privacy_policy: { path: Nothing; query: Nothing; body: undefined; answer: PrivacyPolicy };
  get_proposal: { path: { proposal_id: string }; query: Nothing; body: undefined; answer: Proposal };
  get_proposal_policy: { path: Nothing; query: Nothing; body: undefined; answer: ProposalPolicy };
  get_report: { path: { report_id: string }; query: Nothing; body: undefined; answer: Report };
  get_retention_policy: { path: Nothing; query: Nothing; body: undefined; answer: RetentionPolicy };
  get_run: { path: { run_id: string }; query: Nothing; body: undefined; answer: Run };
  get_session: { path: { session_id: string }; query: Nothing; body: undefined; answer: Session };
  get_source: { path: { source_id: string }; query: Nothing; body: undefined; answer: Source };
  get_state: { path: { owner: OwnerKind; owner_id: string; key: string }; query: Nothing; body: undefined; answer: StateEntry };
  get_tenant: { path: Nothing; query: Nothing; body: undefined; answer: Tenant };
  get_turn_state: { path: { session_id: string }; query: Nothing; body: undefined; answer: TurnState };
  get_user: { path: { user_id: string }; query: Nothing; body: undefined; answer: User };
  get_webhook: { path: { webhook_id: string }; query: Nothing; body: undefined; answer: Webhook };
  get_window: { path: { session_id: string }; query: Nothing; body: undefined; answer: Window };
  get_workflow: { path: { workflow_id: string }; query: Nothing; body: undefined; answer: Workflow };
  give_feedback: { path: { item_id: string }; query: Nothing; body: FeedbackRequest; answer: ConfidenceShown };
  health: { path: Nothing; query: Nothing; body: undefined; answer: Health };
  hold: { path: { item_id: string; action_id: string }; query: Nothing; body: undefined; answer: HoldResult };
  import_export: { path: Nothing; query: Nothing; body: string; answer: Imported };
  import_items: { path: Nothing; query: Nothing; body: {
  content: string;
  kind?: Kind;
  scope?: Scope | null;
  tier?: Tier | null;
  source_ref: string;
  speaker?: string | null;
  event_time?: string | null;
  session_id?: string | null;
  trust?: Trust | null;
  subject?: string | null;
  predicate?: string | null;
  object?: string | null;
  confidence?: number | null;
  category?: string | null;
  metadata?: Record<string, unknown>;
}; answer: ImportSummary };
  invalidate_item: { path: { item_id: string }; query: Nothing; body: ReasonRequest | null; answer: undefined };
  item_forecast: { path: { item_id: string }; query: Nothing; body: undefined; answer: Forecast };
  item_history: { path: { item_id: string }; query: Nothing; body: undefined; answer: Array<Item> };
  item_provenance: { path: { item_id: string }; query: Nothing; body: undefined; answer: Provenance };
  item_uses: { path: { item_id: string }; query: Nothing; body: undefined; answer: Array<ItemUse> };
  job_counts: { path: Nothing; query: Nothing; body: undefined; answer: JobCounts };
  job_schedule: { path: Nothing; query: Nothing; body: undefined; answer: Array<ScheduledJob> };
  knowledge_map: { path: Nothing; query: Nothing; body: undefined; answer: MapShown };
  last_episodes: { path: Nothing; query: { limit?: number }; body: undefined; answer: Array<Item> };
  list_agents: { path: Nothing; query: { limit?: number; cursor?: string | null }; body: undefined; answer: AgentPage };
  list_audit: { path: Nothing; query: { subject_kind?: string | null; subject_id?: string | null; actor?: string | null; action?: string | null; since?: string | null; until?: string | null; limit?: number; cursor?: string | null }; body: undefined; answer: AuditEntryPage };
  list_choices: { path: { workflow_id: string }; query: { limit?: number; cursor?: string | null }; body: undefined; answer: PastChoicePage };
  list_databases: { path: Nothing; query: Nothing; body: undefined; answer: Array<ConnectedDatabase> };
  list_dead_letters: { path: Nothing; query: { limit?: number; cursor?: string | null }; body: undefined; answer: DeadLetterPage };
  list_documents: { path: Nothing; query: { limit?: number; cursor?: string | null; source?: string | null }; body: undefined; answer: DocumentPage };
  list_erasures: { path: Nothing; query: { limit?: number; cursor?: string | null }; body: undefined; answer: ErasurePage };
  list_events: { path: Nothing; query: { types?: Array<EventType> | null; after?: number | null; limit?: number; cursor?: string | null }; body: undefined; answer: EventPage };
  list_holds: { path: { item_id: string }; query: Nothing; body: undefined; answer: Array<Hold> };
  list_items: { path: Nothing; query: { kind?: Array<Kind> | null; scope?: Scope | null; category?: string | null; subject?: string | null; trust?: Trust | null; tier?: Tier | null; session_id?: string | null; state?: ItemState; pinned?: boolean; since?: string | null; until?: string | null; as_of?: string | null; known_at?: string | null; limit?: number; cursor?: string | null }; body: undefined; answer: ItemPage };
  list_jobs: { path: Nothing; query: { status?: JobStatus | null; limit?: number; cursor?: string | null }; body: undefined; answer: JobRecordPage };
  list_keys: { path: Nothing; query: Nothing; body: undefined; answer: ApiKeyPage };
  list_messages: { path: { session_id: string }; query: { after?: number; until?: number | null; limit?: number; cursor?: string | null }; body: undefined; answer: MessagePage };
  list_namespaces: { path: Nothing; query: Nothing; body: NamespaceSearch; answer: Array<Array<string>> };
  list_notes: { path: { session_id: string }; query: Nothing; body: undefined; answer: SessionNotePage };
  list_outcomes: { path: { workflow_id: string }; query: { limit?: number; cursor?: string | null }; body: undefined; answer: OutcomePage };
  list_proposals: { path: Nothing; query: { status?: ProposalStatus | null; kind?: ProposalKind | null; limit?: number; cursor?: string | null }; body: undefined; answer: ProposalPage };
  list_protected_sources: { path: Nothing; query: Nothing; body: undefined; answer: Array<ProtectedSource> };
  list_questions: { path: Nothing; query: Nothing; body: undefined; answer: StandingQuestionPage };
  list_reports: { path: Nothing; query: { limit?: number; cursor?: string | null }; body: undefined; answer: ReportPage };
  list_rulings: { path: Nothing; query: { limit?: number; cursor?: string | null }; body: undefined; answer: PastRulingPage };
  list_runs: { path: Nothing; query: { status?: RunStatus | null; agent_id?: string | null; session_id?: string | null; since?: string | null; until?: string | null; limit?: number; cursor?: string | null }; body: undefined; answer: RunPage };
  list_sessions: { path: Nothing; query: { status?: SessionStatus | null; agent_id?: string | null; user_id?: string | null; limit?: number; cursor?: string | null }; body: undefined; answer: SessionPage };
  list_share_links: { path: Nothing; query: Nothing; body: undefined; answer: Array<ShareLink> };
  list_shares: { path: Nothing; query: { limit?: number; cursor?: string | null }; body: undefined; answer: SharePage };
  list_sources: { path: Nothing; query: { limit?: number; cursor?: string | null }; body: undefined; answer: SourcePage };
  list_state: { path: { owner: OwnerKind; owner_id: string }; query: { prefix?: string }; body: undefined; answer: Array<StateEntry> };
  list_users: { path: Nothing; query: { limit?: number; cursor?: string | null }; body: undefined; answer: UserPage };
  list_webhooks: { path: Nothing; query: Nothing; body: undefined; answer: Array<Webhook> };
  list_workflows: { path: Nothing; query: { also_ended?: boolean; limit?: number; cursor?: string | null }; body: undefined; answer: WorkflowPage };
  make_daily_brief: { path: Nothing; query: Nothing; body: undefined; answer: Report };
  memory_activity: { path: Nothing; query: { days?: number }; body: undefined; answer: Activity };
  memory_stats: { path: Nothing; query: Nothing; body: undefined; answer: Stats };
  metrics: { path: Nothing; query: Nothing; body: undefined; answer: unknown };
  open_session: { path: Nothing; query: Nothing; body: SessionRequest; answer: Opened };
  pin_item: { path: { item_id: string }; query: Nothing; body: PinRequest | null; answer: undefined };
  preview_facts: { path: Nothing; query: Nothing; body: PreviewRequest; answer: Array<PreviewedFact> };
  protect_source: { path: { source_id: string }; query: Nothing; body: undefined; answer: Guarded };
  put_entry: { path: Nothing; query: Nothing; body: EntryRequest; answer: Entry };
  query_data: { path: Nothing; query: Nothing; body: QueryRequest; answer: DataAnswer };
  quota_usage: { path: Nothing; query: Nothing; body: undefined; answer: QuotaUsage };
  read_document: { path: { document_id: string }; query: { first?: number; limit?: number }; body: undefined; answer: DocumentText };
  read_original: { path: { document_id: string }; query: Nothing; body: undefined; answer: unknown };
  read_tool_output: { path: { key: string }; query: { start?: number; length?: number | null }; body: undefined; answer: ToolOutput };
  ready: { path: Nothing; query: Nothing; body: undefined; answer: Health };
  reapply_erasures: { path: Nothing; query: Nothing; body: undefined; answer: Reapplied };
  recall: { path: Nothing; query: Nothing; body: RecallRequestBody; answer: RecallAnswer };
  record_tool_calls: { path: { run_id: string }; query: Nothing; body: ToolCallsRequest; answer: Array<ToolCall> };
  refresh_database: { path: { database_id: string }; query: Nothing; body: undefined; answer: ConnectedDatabase };
  reject_proposal: { path: { proposal_id: string }; query: Nothing; body: DecisionRequest; answer: Proposal };
  release: { path: { item_id: string; action_id: string }; query: Nothing; body: undefined; answer: undefined };
  remember: { path: Nothing; query: Nothing; body: ItemRequest; answer: Remembered };
  remember_fact: { path: Nothing; query: Nothing; body: FactRequest; answer: Remembered };
  remember_many: { path: Nothing; query: Nothing; body: ItemBatch; answer: BatchShown };
  remove_database: { path: { database_id: string }; query: Nothing; body: undefined; answer: undefined };
  remove_source: { path: { source_id: string }; query: Nothing; body: undefined; answer: undefined };
  replay_dead_letter: { path: { dead_letter_id: string }; query: Nothing; body: undefined; answer: undefined };
  replay_dead_letters: { path: Nothing; query: Nothing; body: undefined; answer: Replayed };
  replay_run: { path: { run_id: string }; query: { results?: boolean }; body: undefined; answer: Replay };
  report_usage: { path: { session_id: string }; query: Nothing; body: UsageRequest; answer: WindowState };
  restore_item: { path: { item_id: string }; query: Nothing; body: ReasonRequest | null; answer: undefined };
  resume_session: { path: { session_id: string }; query: Nothing; body: undefined; answer: ResumedSession };
  retire_workflow: { path: { workflow_id: string }; query: Nothing; body: DecisionRequest; answer: Workflow };
  review_memory: { path: Nothing; query: Nothing; body: undefined; answer: ReviewResult };
  revoke_key: { path: { key_id: string }; query: Nothing; body: undefined; answer: ApiKey };
  reward: { path: Nothing; query: Nothing; body: RewardRequest; answer: Rewarded };
  save_agent: { path: { agent_id: string }; query: Nothing; body: AgentChange; answer: Agent };
  save_question: { path: { name: string }; query: Nothing; body: QuestionRequest; answer: StandingQuestion };
  save_user: { path: { user_id: string }; query: Nothing; body: UserChange; answer: User };
  save_workflow: { path: Nothing; query: Nothing; body: WorkflowRequest; answer: SavedWorkflow };
  search_entries: { path: Nothing; query: Nothing; body: EntrySearch; answer: Array<FoundEntry> };
  search_knowledge: { path: Nothing; query: Nothing; body: KnowledgeRequest; answer: RecallAnswer };
  server_health: { path: Nothing; query: Nothing; body: undefined; answer: Array<Check> };
  set_privacy_policy: { path: Nothing; query: Nothing; body: PrivacyRequest; answer: PrivacyPolicy };
  set_proposal_policy: { path: Nothing; query: Nothing; body: PolicyRequest; answer: ProposalPolicy };
  set_retention_policy: { path: Nothing; query: Nothing; body: RetentionChange; answer: RetentionPolicy };
  set_state: { path: { owner: OwnerKind; owner_id: string; key: string }; query: Nothing; body: StateRequest; answer: StateEntry };
  set_webhook_active: { path: { webhook_id: string }; query: Nothing; body: WebhookChange; answer: Webhook };
  settings_in_force: { path: Nothing; query: Nothing; body: undefined; answer: Array<SettingInForce> };
  share: { path: Nothing; query: Nothing; body: ShareRequest; answer: Array<Shared> };
  standing_answer: { path: { name: string }; query: { user?: string | null }; body: undefined; answer: StandingAnswer };
  start_erasing_user: { path: Nothing; query: Nothing; body: ErasureRequest; answer: Erasure };
  start_reembed: { path: Nothing; query: Nothing; body: ReembedRequest; answer: Started };
  start_reindex: { path: Nothing; query: Nothing; body: undefined; answer: Started };
  start_run: { path: Nothing; query: Nothing; body: RunRequest; answer: StartedTurn };
  start_sync: { path: { source_id: string }; query: Nothing; body: undefined; answer: SyncStarted };
  start_turn: { path: { run_id: string }; query: Nothing; body: TurnRequest; answer: StartedTurn };
  sweep: { path: Nothing; query: Nothing; body: SweepRequest | null; answer: Sweep };
  undo_proposal: { path: { proposal_id: string }; query: Nothing; body: DecisionRequest; answer: Proposal };
  undo_ruling: { path: { ruling_id: string }; query: Nothing; body: ReasonRequest | null; answer: undefined };
  unprotect_source: { path: { source_id: string }; query: Nothing; body: undefined; answer: undefined };
  update_database: { path: { database_id: string }; query: Nothing; body: DatabaseChange; answer: ConnectedDatabase };
  update_source: { path: { source_id: string }; query: Nothing; body: SourceChange; answer: Source };
  update_tenant: { path: Nothing; query: Nothing; body: TenantChange; answer: Tenant };
  user_profile: { path: { user_id: string }; query: Nothing; body: undefined; answer: Profile };
  version: { path: Nothing; query: Nothing; body: undefined; answer: Version };
  whoami: { path: Nothing; query: Nothing; body: undefined; answer: Identity };
  withdraw: { path: { item_id: string }; query: { tenant?: string | null }; body: undefined; answer: Withdrawn };
  workflow_history: { path: Nothing; query: { agent_type: string; task_type: string; name: string }; body: undefined; answer: Array<Workflow> };
}

export const OPERATIONS: { [K in keyof Operations]: [string, string] } = {
  accept_proposal: ["POST", "/v1/proposals/{proposal_id}/accept"],
  accept_share_link: ["POST", "/v1/share_links/{tenant}/accept"],
  active_workflows: ["GET", "/v1/workflows/active"],
  add_database: ["POST", "/v1/databases"],
  add_document: ["POST", "/v1/documents"],
  add_messages: ["POST", "/v1/sessions/{session_id}/messages"],
  add_note: ["POST", "/v1/sessions/{session_id}/notes"],
  add_source: ["POST", "/v1/sources"],
  agent_profile: ["GET", "/v1/agents/{agent_id}/profile"],
  append_episode: ["POST", "/v1/episodes"],
  ask: ["POST", "/v1/ask"],
  choose: ["POST", "/v1/workflows/choose"],
  close_session: ["POST", "/v1/sessions/{session_id}/close"],
  complete_run: ["POST", "/v1/runs/{run_id}/complete"],
  consolidate_session: ["POST", "/v1/sessions/{session_id}/consolidate"],
  copy_memories: ["POST", "/v1/agents/{agent_id}/copy"],
  create_key: ["POST", "/v1/keys"],
  create_webhook: ["POST", "/v1/webhooks"],
  decay: ["POST", "/v1/decay"],
  decline_share_link: ["POST", "/v1/share_links/{tenant}/decline"],
  delegate: ["PUT", "/v1/runs/{run_id}/delegated/{name}"],
  delegated: ["GET", "/v1/runs/{run_id}/delegated"],
  delete_agent: ["DELETE", "/v1/agents/{agent_id}"],
  delete_document: ["DELETE", "/v1/documents/{document_id}"],
  delete_entry: ["DELETE", "/v1/entries"],
  delete_note: ["DELETE", "/v1/sessions/{session_id}/notes/{note_id}"],
  delete_question: ["DELETE", "/v1/questions/{name}"],
  delete_state: ["DELETE", "/v1/state/{owner}/{owner_id}/{key}"],
  delete_webhook: ["DELETE", "/v1/webhooks/{webhook_id}"],
  discard_dead_letter: ["DELETE", "/v1/jobs/dead_letters/{dead_letter_id}"],
  edit_item: ["PATCH", "/v1/items/{item_id}"],
  end_turn: ["POST", "/v1/runs/{run_id}/turns/end"],
  enqueue_job: ["POST", "/v1/jobs"],
  entity_graph: ["GET", "/v1/entities"],
  entity_items: ["GET", "/v1/entities/{entity_id}/items"],
  export: ["GET", "/v1/export"],
  fail_run: ["POST", "/v1/runs/{run_id}/fail"],
  forget: ["POST", "/v1/items/{item_id}/forget"],
  get_agent: ["GET", "/v1/agents/{agent_id}"],
  get_context: ["POST", "/v1/context"],
  get_database: ["GET", "/v1/databases/{database_id}"],
  get_document: ["GET", "/v1/documents/{document_id}"],
  get_entry: ["GET", "/v1/entries"],
  get_erasure: ["GET", "/v1/erasures/{erasure_id}"],
  get_item: ["GET", "/v1/items/{item_id}"],
  get_job: ["GET", "/v1/jobs/{job_id}"],
  get_organisation: ["GET", "/v1/shares/organisation"],
  get_privacy_policy: ["GET", "/v1/privacy"],
  get_proposal: ["GET", "/v1/proposals/{proposal_id}"],
  get_proposal_policy: ["GET", "/v1/proposals/policy"],
  get_report: ["GET", "/v1/reports/{report_id}"],
  get_retention_policy: ["GET", "/v1/retention"],
  get_run: ["GET", "/v1/runs/{run_id}"],
  get_session: ["GET", "/v1/sessions/{session_id}"],
  get_source: ["GET", "/v1/sources/{source_id}"],
  get_state: ["GET", "/v1/state/{owner}/{owner_id}/{key}"],
  get_tenant: ["GET", "/v1/tenant"],
  get_turn_state: ["GET", "/v1/sessions/{session_id}/turn_state"],
  get_user: ["GET", "/v1/users/{user_id}"],
  get_webhook: ["GET", "/v1/webhooks/{webhook_id}"],
  get_window: ["GET", "/v1/sessions/{session_id}/window"],
  get_workflow: ["GET", "/v1/workflows/{workflow_id}"],
  give_feedback: ["POST", "/v1/items/{item_id}/feedback"],
  health: ["GET", "/healthz"],
  hold: ["PUT", "/v1/items/{item_id}/holds/{action_id}"],
  import_export: ["POST", "/v1/import_export"],
  import_items: ["POST", "/v1/import"],
  invalidate_item: ["POST", "/v1/items/{item_id}/invalidate"],
  item_forecast: ["GET", "/v1/items/{item_id}/forecast"],
  item_history: ["GET", "/v1/items/{item_id}/history"],
  item_provenance: ["GET", "/v1/items/{item_id}/provenance"],
  item_uses: ["GET", "/v1/items/{item_id}/uses"],
  job_counts: ["GET", "/v1/jobs/counts"],
  job_schedule: ["GET", "/v1/jobs/schedule"],
  knowledge_map: ["GET", "/v1/knowledge/map"],
  last_episodes: ["GET", "/v1/episodes/last"],
  list_agents: ["GET", "/v1/agents"],
  list_audit: ["GET", "/v1/audit"],
  list_choices: ["GET", "/v1/workflows/{workflow_id}/choices"],
  list_databases: ["GET", "/v1/databases"],
  list_dead_letters: ["GET", "/v1/jobs/dead_letters"],
  list_documents: ["GET", "/v1/documents"],
  list_erasures: ["GET", "/v1/erasures"],
  list_events: ["GET", "/v1/events"],
  list_holds: ["GET", "/v1/items/{item_id}/holds"],
  list_items: ["GET", "/v1/items"],
  list_jobs: ["GET", "/v1/jobs"],
  list_keys: ["GET", "/v1/keys"],
  list_messages: ["GET", "/v1/sessions/{session_id}/messages"],
  list_namespaces: ["POST", "/v1/entries/namespaces"],
  list_notes: ["GET", "/v1/sessions/{session_id}/notes"],
  list_outcomes: ["GET", "/v1/workflows/{workflow_id}/outcomes"],
  list_proposals: ["GET", "/v1/proposals"],
  list_protected_sources: ["GET", "/v1/protected_sources"],
  list_questions: ["GET", "/v1/questions"],
  list_reports: ["GET", "/v1/reports"],
  list_rulings: ["GET", "/v1/rulings"],
  list_runs: ["GET", "/v1/runs"],
  list_sessions: ["GET", "/v1/sessions"],
  list_share_links: ["GET", "/v1/share_links"],
  list_shares: ["GET", "/v1/shares"],
  list_sources: ["GET", "/v1/sources"],
  list_state: ["GET", "/v1/state/{owner}/{owner_id}"],
  list_users: ["GET", "/v1/users"],
  list_webhooks: ["GET", "/v1/webhooks"],
  list_workflows: ["GET", "/v1/workflows"],
  make_daily_brief: ["POST", "/v1/reports/daily_brief"],
  memory_activity: ["GET", "/v1/stats/activity"],
  memory_stats: ["GET", "/v1/stats"],
  metrics: ["GET", "/metrics"],
  open_session: ["POST", "/v1/sessions"],
  pin_item: ["PUT", "/v1/items/{item_id}/pin"],
  preview_facts: ["POST", "/v1/facts/preview"],
  protect_source: ["PUT", "/v1/protected_sources/{source_id}"],
  put_entry: ["PUT", "/v1/entries"],
  query_data: ["POST", "/v1/query_data"],
  quota_usage: ["GET", "/v1/quota"],
  read_document: ["GET", "/v1/documents/{document_id}/text"],
  read_original: ["GET", "/v1/documents/{document_id}/original"],
  read_tool_output: ["GET", "/v1/tool_outputs/{key}"],
  ready: ["GET", "/readyz"],
  reapply_erasures: ["POST", "/v1/erasures/reapply"],
  recall: ["POST", "/v1/recall"],
  record_tool_calls: ["POST", "/v1/runs/{run_id}/tool_calls"],
  refresh_database: ["POST", "/v1/databases/{database_id}/refresh"],
  reject_proposal: ["POST", "/v1/proposals/{proposal_id}/reject"],
  release: ["DELETE", "/v1/items/{item_id}/holds/{action_id}"],
  remember: ["POST", "/v1/items"],
  remember_fact: ["POST", "/v1/remember_fact"],
  remember_many: ["POST", "/v1/items/batch"],
  remove_database: ["DELETE", "/v1/databases/{database_id}"],
  remove_source: ["DELETE", "/v1/sources/{source_id}"],
  replay_dead_letter: ["POST", "/v1/jobs/dead_letters/{dead_letter_id}/replay"],
  replay_dead_letters: ["POST", "/v1/jobs/dead_letters/replay"],
  replay_run: ["GET", "/v1/runs/{run_id}/replay"],
  report_usage: ["POST", "/v1/sessions/{session_id}/usage"],
  restore_item: ["POST", "/v1/items/{item_id}/restore"],
  resume_session: ["GET", "/v1/sessions/{session_id}/resume"],
  retire_workflow: ["POST", "/v1/workflows/{workflow_id}/retire"],
  review_memory: ["POST", "/v1/proposals/review"],
  revoke_key: ["DELETE", "/v1/keys/{key_id}"],
  reward: ["POST", "/v1/workflows/reward"],
  save_agent: ["PUT", "/v1/agents/{agent_id}"],
  save_question: ["PUT", "/v1/questions/{name}"],
  save_user: ["PUT", "/v1/users/{user_id}"],
  save_workflow: ["PUT", "/v1/workflows"],
  search_entries: ["POST", "/v1/entries/search"],
  search_knowledge: ["POST", "/v1/search_knowledge"],
  server_health: ["GET", "/v1/health"],
  set_privacy_policy: ["PUT", "/v1/privacy"],
  set_proposal_policy: ["PUT", "/v1/proposals/policy"],
  set_retention_policy: ["PATCH", "/v1/retention"],
  set_state: ["PUT", "/v1/state/{owner}/{owner_id}/{key}"],
  set_webhook_active: ["PATCH", "/v1/webhooks/{webhook_id}"],
  settings_in_force: ["GET", "/v1/settings"],
  share: ["POST", "/v1/shares"],
  standing_answer: ["GET", "/v1/questions/{name}/answer"],
  start_erasing_user: ["POST", "/v1/erasures"],
  start_reembed: ["POST", "/v1/reembed"],
  start_reindex: ["POST", "/v1/reindex"],
  start_run: ["POST", "/v1/runs"],
  start_sync: ["POST", "/v1/sources/{source_id}/sync"],
  start_turn: ["POST", "/v1/runs/{run_id}/turns"],
  sweep: ["POST", "/v1/retention/sweep"],
  undo_proposal: ["POST", "/v1/proposals/{proposal_id}/undo"],
  undo_ruling: ["POST", "/v1/rulings/{ruling_id}/undo"],
  unprotect_source: ["DELETE", "/v1/protected_sources/{source_id}"],
  update_database: ["PATCH", "/v1/databases/{database_id}"],
  update_source: ["PATCH", "/v1/sources/{source_id}"],
  update_tenant: ["PATCH", "/v1/tenant"],
  user_profile: ["GET", "/v1/users/{user_id}/profile"],
  version: ["GET", "/version"],
  whoami: ["GET", "/v1/whoami"],
  withdraw: ["DELETE", "/v1/shares/{item_id}"],
  workflow_history: ["GET", "/v1/workflows/history"],
};

export const READS: ReadonlySet<string> = new Set(["ask", "get_context", "list_namespaces", "query_data", "recall", "search_entries", "search_knowledge"]);
export const NOT_KEYED: ReadonlySet<string> = new Set(["add_document", "import_export"]);
