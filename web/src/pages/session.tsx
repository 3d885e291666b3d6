import { Page } from "../kit/ui";

export default function Stub() {
  return <Page title="session">{null}</Page>;
}
