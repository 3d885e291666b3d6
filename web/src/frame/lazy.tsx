// Pages are loaded when they are first opened.
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { asApiError } from "../kit/load";
import { ErrorBox, Page, Skeleton } from "../kit/ui";

export type Params = Record<string, string>;
export type PageComponent = ComponentType<Params>;

export interface Lazy {
  loaded: PageComponent | undefined;
  load: () => Promise<PageComponent>;
}

export function lazy(load: () => Promise<{ default: ComponentType<never> }>): Lazy {
  const made: Lazy = {
    loaded: undefined,
    load: async () => {
      made.loaded = (await load()).default as unknown as PageComponent;
      return made.loaded;
    },
  };
  return made;
}

export function Suspense({ of, props }: { of: Lazy; props: Params }) {
  const [, renew] = useState(0);
  const [error, setError] = useState<unknown>();
  useEffect(() => {
    if (!of.loaded) of.load().then(() => renew((count) => count + 1), setError);
  }, [of]);
  if (error) return <ErrorBox error={asApiError(error)} retry={() => location.reload()} />;
  const Loaded = of.loaded;
  return Loaded ? <Loaded {...props} /> : <Page title=" "><Skeleton lines={6} /></Page>;
}
