// Dialogs. What cannot be undone is confirmed by typing a word.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { ApiError } from "../api/client";
import { asApiError } from "./load";
import { Button, ErrorBox } from "./ui";

export function Dialog({ title, children, close, wide }: { title: string; children: ComponentChildren; close: () => void; wide?: boolean }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    element.current?.showModal();
  }, []);
  return (
    <dialog ref={element} class={wide ? "wide" : ""} aria-label={title} onClose={close} onClick={(event) => event.target === element.current && close()}>
      <div class="dialog-body">
        <h2>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

interface ConfirmProps {
  title: string;
  children?: ComponentChildren;
  /** The word to type; without it a button is enough. */
  word?: string;
  action: string;
  danger?: boolean;
  /** Ask for a reason, which the audit keeps. */
  reason?: boolean;
  run: (reason: string) => Promise<unknown>;
  close: () => void;
}

export function Confirm({ title, children, word, action, danger, reason, run, close }: ConfirmProps) {
  const [typed, setTyped] = useState("");
  const [why, setWhy] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError>();
  const isSure = word === undefined || typed.trim().toLowerCase() === word;
  const submit = async (event: Event) => {
    event.preventDefault();
    if (!isSure || busy) return;
    setBusy(true);
    try {
      await run(why);
      close();
    } catch (failure) {
      setError(asApiError(failure));
      setBusy(false);
    }
  };
  return (
    <Dialog title={title} close={close}>
      <form onSubmit={submit}>
        {children}
        {reason && (
          <label class="field">
            <span>Reason (kept in the audit)</span>
            <input value={why} maxLength={500} onInput={(event) => setWhy(event.currentTarget.value)} />
          </label>
        )}
        {word !== undefined && (
          <label class="field">
            <span>
              Type <strong>{word}</strong> to confirm
            </span>
            <input value={typed} autoFocus autocomplete="off" onInput={(event) => setTyped(event.currentTarget.value)} />
          </label>
        )}
        {error && <ErrorBox error={error} />}
        <div class="dialog-foot">
          <Button kind="quiet" onClick={close}>
            Cancel
          </Button>
          <Button kind={danger ? "danger" : "main"} type="submit" disabled={!isSure || busy}>
            {action}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
