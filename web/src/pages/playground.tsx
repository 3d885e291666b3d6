import { Page } from "../kit/ui";

export default function Stub() {
  return <Page title="playground">{null}</Page>;
}
