import { Page } from "../kit/ui";

export default function Stub() {
  return <Page title="item">{null}</Page>;
}
