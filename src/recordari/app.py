"""The library: `Memory` has every verb, bound to an identity.

A verb is a function of a room that takes the resources and the identity first; here it becomes a method.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Self

from recordari.config import Settings
from recordari.context import assemble, profiles, questions
from recordari.core.identity import Identity, Role, tenant_id_of
from recordari.databases import ask as databases_ask
from recordari.databases import registry
from recordari.entries import entries
from recordari.events import follow, webhooks
from recordari.facts import curate, extract
from recordari.kit.verbs import Bound, verb
from recordari.knowledge import documents, ingest, search, sources, sync
from recordari.learning import consolidate, proposals, workflows
from recordari.lifetime import erase, retain
from recordari.lifetime import forget as lifetime_forget
from recordari.memory import entities, index, items, versions
from recordari.memory import remember as memory_remember
from recordari.operations import reports, server
from recordari.privacy import sanitise
from recordari.recall import accesses
from recordari.recall import ask as recall_ask
from recordari.recall import recall as recall_verbs
from recordari.runner import background_worker
from recordari.sessions import episodes, messages, runs, sessions, state
from recordari.sharing import share as sharing_share
from recordari.tenants import tenants, usage
from recordari.transfer import export as transfer_export
from recordari.transfer import foreign as transfer_foreign
from recordari.transfer import import_export as transfer_import_export
from recordari.wiring import open_resources
from recordari.worker import jobs


class Memory(Bound):
    """The verbs of Recordari, bound to one identity."""

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        *,
        tenant: str = "default",
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        settings: Settings | None = None,
        worker: bool = True,
    ) -> AsyncIterator[Self]:
        """Open the memory of a tenant, starting the embedded database if none is configured.

        Background work runs in this event loop unless `worker` or the setting of that name is false.
        """
        async with AsyncExitStack() as stack:
            resources = await stack.enter_async_context(open_resources(settings or Settings()))
            await tenants.ensure_tenant(resources, tenant)
            identity = Identity(tenant_id=tenant_id_of(tenant), role=Role.ADMIN)
            if worker and resources.settings.worker:
                await stack.enter_async_context(background_worker(resources))
            yield cls(resources, identity.narrowed(user_id=user, agent_id=agent, session_id=session))

    def bound(self, identity: Identity) -> Self:
        """The same memory for another identity."""
        return type(self)(self.resources, identity)

    def acting_as(
        self,
        *,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        run: str | None = None,
    ) -> Self:
        """The same memory for a narrower identity."""
        return self.bound(self.identity.narrowed(user_id=user, agent_id=agent, session_id=session, run_id=run))

    # Memories
    item_history = verb(versions.item_history)
    remember_many = verb(memory_remember.remember_many)
    import_items = verb(memory_remember.import_items)
    get_item = verb(items.get_item)
    read_tool_output = verb(items.read_tool_output)
    entity_graph = verb(entities.entity_graph)
    entity_items = verb(entities.entity_items)
    reindex = verb(index.reindex)
    reembed = verb(index.reembed)
    remember = verb(memory_remember.remember)
    remember_fact = verb(memory_remember.remember_fact)

    # Recall
    recall = verb(recall_verbs.recall)
    ask = verb(recall_ask.ask)
    item_uses = verb(accesses.item_uses)

    # Facts, and corrections by people
    item_provenance = verb(curate.item_provenance)
    edit_item = verb(curate.edit_item)
    invalidate_item = verb(curate.invalidate_item)
    restore_item = verb(curate.restore_item)
    preview_facts = verb(extract.preview_facts)
    list_rulings = verb(curate.list_rulings)
    undo_ruling = verb(curate.undo_ruling)
    pin_item = verb(curate.pin_item)
    give_feedback = verb(curate.give_feedback)
    list_items = verb(curate.list_items)

    # Sessions, messages, runs, episodes and state
    complete_run = verb(runs.complete_run)
    fail_run = verb(runs.fail_run)
    get_run = verb(runs.get_run)
    record_tool_calls = verb(runs.record_tool_calls)
    replay_run = verb(runs.replay_run)
    delegate = verb(state.delegate)
    delegated = verb(state.delegated)
    last_episodes = verb(episodes.last_episodes)
    open_session = verb(sessions.open_session)
    resume_session = verb(sessions.resume_session)
    close_session = verb(sessions.close_session)
    get_session = verb(sessions.get_session)
    get_window = verb(messages.get_window)
    report_usage = verb(messages.report_usage)
    list_notes = verb(sessions.list_notes)
    get_turn_state = verb(runs.get_turn_state)
    append_episode = verb(episodes.append_episode)
    start_run = verb(runs.start_run)
    start_turn = verb(runs.start_turn)
    end_turn = verb(runs.end_turn)
    list_runs = verb(runs.list_runs)
    list_sessions = verb(sessions.list_sessions)
    add_note = verb(sessions.add_note)
    delete_note = verb(sessions.delete_note)
    add_messages = verb(messages.add_messages)
    list_messages = verb(messages.list_messages)
    set_state = verb(state.set_state)
    get_state = verb(state.get_state)
    list_state = verb(state.list_state)
    delete_state = verb(state.delete_state)

    # Context
    profile = verb(profiles.profile)
    save_question = verb(questions.save_question)
    list_questions = verb(questions.list_questions)
    delete_question = verb(questions.delete_question)
    standing_answer = verb(questions.standing_answer)
    get_context = verb(assemble.get_context)

    # Forgetting, retention, erasure
    forget = verb(lifetime_forget.forget)
    hold = verb(lifetime_forget.hold)
    release = verb(lifetime_forget.release)
    list_holds = verb(lifetime_forget.list_holds)
    get_retention_policy = verb(retain.get_retention_policy)
    sweep = verb(retain.sweep)
    decay = verb(retain.decay)
    item_forecast = verb(retain.item_forecast)
    collect_objects = verb(retain.collect_objects)
    erase_user = verb(erase.erase_user)
    start_erasing_user = verb(erase.start_erasing_user)
    get_erasure = verb(erase.get_erasure)
    list_erasures = verb(erase.list_erasures)
    reapply_erasures = verb(erase.reapply_erasures)
    set_retention_policy = verb(retain.set_retention_policy)

    # Workflows and proposals
    retire_workflow = verb(workflows.retire_workflow)
    get_workflow = verb(workflows.get_workflow)
    list_workflows = verb(workflows.list_workflows)
    list_outcomes = verb(workflows.list_outcomes)
    list_choices = verb(workflows.list_choices)
    review_memory = verb(proposals.review_memory)
    get_proposal = verb(proposals.get_proposal)
    accept_proposal = verb(proposals.accept_proposal)
    reject_proposal = verb(proposals.reject_proposal)
    undo_proposal = verb(proposals.undo_proposal)
    get_proposal_policy = verb(proposals.get_proposal_policy)
    set_proposal_policy = verb(proposals.set_proposal_policy)
    consolidate_session = verb(consolidate.consolidate_session)
    list_proposals = verb(proposals.list_proposals)
    save_workflow = verb(workflows.save_workflow)
    choose = verb(workflows.choose)
    reward = verb(workflows.reward)
    active_workflows = verb(workflows.active_workflows)
    workflow_history = verb(workflows.workflow_history)

    # Documents and sources
    knowledge_map = verb(sources.knowledge_map)
    get_document = verb(documents.get_document)
    read_document = verb(documents.read_document)
    read_original = verb(documents.read_original)
    delete_document = verb(documents.delete_document)
    add_source = verb(sources.add_source)
    get_source = verb(sources.get_source)
    list_sources = verb(sources.list_sources)
    remove_source = verb(sync.remove_source)
    start_sync = verb(sync.start_sync)
    sync_source = verb(sync.sync_source)
    search_knowledge = verb(search.search_knowledge)
    add_document = verb(ingest.add_document)
    list_documents = verb(documents.list_documents)
    update_source = verb(sources.update_source)

    # Connected databases
    list_databases = verb(registry.list_databases)
    get_database = verb(registry.get_database)
    refresh_database = verb(registry.refresh_database)
    remove_database = verb(registry.remove_database)
    query_data = verb(databases_ask.query_data)
    add_database = verb(registry.add_database)
    update_database = verb(registry.update_database)

    # Entries
    put_entry = verb(entries.put_entry)
    get_entry = verb(entries.get_entry)
    delete_entry = verb(entries.delete_entry)
    search_entries = verb(entries.search_entries)
    list_namespaces = verb(entries.list_namespaces)

    # Agents, and memories shared by tenants
    save_agent = verb(sharing_share.save_agent)
    copy_memories = verb(sharing_share.copy_memories)
    get_organisation = verb(sharing_share.get_organisation)
    share = verb(sharing_share.share)
    withdraw = verb(sharing_share.withdraw)
    list_share_links = verb(sharing_share.list_share_links)
    accept_share_link = verb(sharing_share.accept_share_link)
    decline_share_link = verb(sharing_share.decline_share_link)
    list_shares = verb(sharing_share.list_shares)

    # Events and webhooks
    follow_events = verb(follow.follow_events)
    create_webhook = verb(webhooks.create_webhook)
    list_webhooks = verb(webhooks.list_webhooks)
    get_webhook = verb(webhooks.get_webhook)
    set_webhook_active = verb(webhooks.set_webhook_active)
    delete_webhook = verb(webhooks.delete_webhook)
    list_events = verb(follow.list_events)

    # Privacy
    protect_source = verb(sanitise.protect_source)
    unprotect_source = verb(sanitise.unprotect_source)
    list_protected_sources = verb(sanitise.list_protected_sources)
    get_privacy_policy = verb(sanitise.get_privacy_policy)
    set_privacy_policy = verb(sanitise.set_privacy_policy)

    # Export and import
    export = verb(transfer_export.export)
    import_export = verb(transfer_import_export.import_export)
    import_foreign = verb(transfer_foreign.import_foreign)

    # Tenants, users, agents, keys
    get_agent = verb(tenants.get_agent)
    list_agents = verb(tenants.list_agents)
    delete_agent = verb(erase.delete_agent)
    quota_usage = verb(usage.quota_usage)
    get_tenant = verb(tenants.get_tenant)
    update_tenant = verb(tenants.update_tenant)
    save_user = verb(tenants.save_user)
    get_user = verb(tenants.get_user)
    list_users = verb(tenants.list_users)
    list_keys = verb(tenants.list_keys)
    revoke_key = verb(tenants.revoke_key)
    list_audit = verb(tenants.list_audit)
    create_key = verb(tenants.create_key)

    # Background work
    list_jobs = verb(jobs.list_jobs)
    get_job = verb(jobs.get_job)
    job_counts = verb(jobs.job_counts)
    list_dead_letters = verb(jobs.list_dead_letters)
    job_schedule = verb(jobs.job_schedule)
    replay_dead_letter = verb(jobs.replay_dead_letter)
    replay_dead_letters = verb(jobs.replay_dead_letters)
    discard_dead_letter = verb(jobs.discard_dead_letter)
    enqueue_job = verb(jobs.enqueue_job)
    start_reindex = verb(jobs.start_reindex)
    start_reembed = verb(jobs.start_reembed)

    # Reports and statistics
    make_daily_brief = verb(reports.make_daily_brief)
    list_reports = verb(reports.list_reports)
    get_report = verb(reports.get_report)
    memory_activity = verb(reports.memory_activity)
    memory_stats = verb(reports.memory_stats)
    server_health = verb(server.server_health)
    settings_in_force = verb(server.settings_in_force)
