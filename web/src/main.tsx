import { render } from "preact";
import { Frame } from "./frame/frame";
import { begin, session } from "./frame/session";
import { SignIn } from "./frame/signin";
import { useStore } from "./kit/store";
import { ErrorBox } from "./kit/ui";

function App() {
  const now = useStore(session);
  if (now.state === "in") return <Frame session={now} key={now.me.tenant_id + now.me.actor} />;
  if (now.state === "out") return <SignIn error={now.error} />;
  if (now.state === "away") return <main class="sign-in"><ErrorBox error={now.error} retry={() => void begin()} /></main>;
  return null;
}

const root = document.getElementById("app");
if (root) render(<App />, root);
void begin();
