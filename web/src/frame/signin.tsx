// Sign in with a key or a JWT. It is sent once and exchanged for a cookie that scripts cannot read.
import { useState } from "preact/hooks";
import type { ApiError } from "../api/client";
import { asApiError } from "../kit/load";
import { Button, ErrorBox } from "../kit/ui";
import { enter } from "./session";

export function SignIn({ error: before }: { error?: ApiError }) {
  const [credential, setCredential] = useState("");
  const [failure, setFailure] = useState<ApiError>();
  const error = failure ?? before;
  const [busy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await enter(credential);
    } catch (refusal) {
      setFailure(asApiError(refusal));
      setBusy(false);
    }
    setCredential("");
  };
  return (
    <main class="sign-in">
      <form onSubmit={submit}>
        <h1>
          <span class="logo">◆</span> Recordari
        </h1>
        <p class="muted">Sign in with an API key, or with the JWT of your identity provider. It is exchanged for a cookie and not stored in this browser.</p>
        <label class="field">
          <span>Key or JWT</span>
          <input type="password" value={credential} autoFocus autocomplete="off" placeholder="rcd_…" onInput={(event) => setCredential(event.currentTarget.value)} />
        </label>
        {error && (error.code === "unauthenticated" ? <div class="error">This key or token is not valid. Check that you copied all of it.</div> : <ErrorBox error={error} />)}
        <Button kind="main" type="submit" disabled={!credential || busy}>
          Sign in
        </Button>
        <p class="muted small">
          On the machine of the server, <code>recordari sign-in</code> prints an address that signs you in once.
        </p>
      </form>
    </main>
  );
}
